"""Do session networks of other seeds use the same inputs, and do Shapley values agree?

A network with experts is compared by feature groups. A Transformer, with experts or without, is
compared by the tracks of the first half that it attends to. Groups are fewer than tracks, so the
distance between seeds is also given relative to two references: the distance of the same seeds on
other cases, and the distance of random shares.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from whence.arrays import Bools, Floats, Ints
from whence.errors import InputError
from whence.experts import InterpretableTransformer, SequentialModel
from whence.explainers import compare_batch
from whence.randomness import Randomness
from whence.trust.stability.seed_pairs import attention_kl, same_choice
from whence_studies.measurements.between_seeds import ratio_over_seeds
from whence_studies.measurements.group_agreement import (
    METHODS,
    RHO,
    SAME,
    MethodExplanations,
    rhos,
    sizes_by_method,
)
from whence_studies.sessions import BATCH, SessionFiles, Tracks
from whence_studies.sessions.session_batches import SessionBatch, batches, concat_batches
from whence_studies.skips import (
    EXPERT_OF,
    SKIP,
    NetworkConfig,
    attribute_skips,
    cross_attention,
    explainable_skips,
    known_tracks,
)

FIRST_LAYER, LAST_LAYER = "attention, first layer", "attention, last layer"
RANDOM_TRACKS: Final = "random tracks"
ATTENTION_METHODS: Final = (FIRST_LAYER, LAST_LAYER, RANDOM_TRACKS)
KL_BETWEEN_SEEDS, KL_TO_OTHER_CASES = "KL between seeds, ", "KL beside other cases, "
KL_TO_RANDOM: Final = "KL beside random shares, "
"""Before the name of a method: in nats, as a share of what the same seeds have on cases paired at
random, and as a share of what shares drawn at random have."""

COMPARED: Final = (
    "a track of each session; beside: divided by the KL of the same seeds on sessions of equally "
    "many known tracks paired at random, or by that of random shares"
)
"""For a protocol."""

ValuesBySeed = dict[str, list[float]]
"""One value a seed."""


def kl_columns(methods: Sequence[str]) -> tuple[str, ...]:
    """Of these methods, the last of which is chance."""
    return (
        *(f"{what}{name}" for what in (KL_BETWEEN_SEEDS, KL_TO_OTHER_CASES) for name in methods),
        *(f"{KL_TO_RANDOM}{name}" for name in methods[:-1]),
    )


BY_CAUSE: Final = {cause: f"{SAME}, {cause.word}" for cause in EXPERT_OF}
"""Of the tracks that a cause decided over, where causes are known."""
TRACKS: Final = ": tracks"
"""Behind the name of such a column: of how many."""
BY_GROUPS: Final = (SAME, *RHO.values(), *kl_columns(METHODS))
BY_TRACKS: Final = kl_columns(ATTENTION_METHODS)
NO_SHARES: Final = frozenset((*BY_GROUPS, *BY_TRACKS)) - {SAME}
"""ValuesBySeed that are not shares of anything, and so not in percent."""


def seed_columns(network: NetworkConfig, causes: bool = False) -> tuple[str, ...]:
    """Those that a network has, with those of known causes or without."""
    by_cause = BY_CAUSE.values() if causes else ()
    experts = (SAME, *by_cause, *BY_GROUPS[1:]) if network.interpretable else ()
    return experts if network.recurrent else (*experts, *BY_TRACKS)


class SeedQuestions(NamedTuple):
    """The same questions for every seed: of each of B sessions one track of the second half."""

    sessions: SessionBatch
    tracks: Ints
    """`[B]`: which of all tracks that are questions about, session after session."""

    @property
    def known_mask(self) -> Bools:
        """`[B, slots]`: where the first half has a track."""
        return known_tracks(self.sessions)[self.tracks]

    @property
    def causes(self) -> npt.NDArray[np.int8] | None:
        """`[B]`: what decided over the track, as a `Cause`, where that is known."""
        causes = self.sessions.causes
        return None if causes is None else causes[self.sessions.upcoming_mask][self.tracks]


def draw_questions(files: SessionFiles, tracks: Tracks, count: int) -> SeedQuestions:
    """The first so many sessions, and of each a track drawn at random."""
    some = islice(batches(files, tracks, BATCH), -(-count // BATCH))
    sessions = concat_batches(list(some))[:count]
    lengths = sessions.upcoming_mask.sum(axis=1)
    drawn = Randomness(0).numpy("evaluation").integers(0, lengths)
    return SeedQuestions(sessions, np.cumsum(lengths) - lengths + drawn)


class SeedExplanations(NamedTuple):
    """What one seed's network says of the tracks questions about, as far as it can."""

    told: MethodExplanations
    """By method, over groups of features."""
    chosen: Ints | None
    """`[B]`: the expert most selected."""
    attention: Floats | None
    """`[layers, B, slots]`: attention to the first half."""


def explain_questions(
    network: SequentialModel, questions: SeedQuestions, seed: int
) -> SeedExplanations:
    """By its experts and the methods beside them, and by its attention."""
    told: MethodExplanations = {}
    chosen = attention = None
    if len(network.family) > 1:
        model = explainable_skips(network, questions.sessions)
        batch = model.make_cases(questions.sessions)[questions.tracks]
        skipped = torch.full((len(batch),), SKIP, device=batch.device)
        told = compare_batch(model, batch, skipped, METHODS, seed)
        chosen = attribute_skips(network, questions.sessions).first[questions.tracks]
    if isinstance(network, InterpretableTransformer):  # which the ordinary one is, of one expert
        attention = cross_attention(network, questions.sessions)[:, questions.tracks]
    return SeedExplanations(told, chosen, attention)


def compare_seeds(explained: Iterable[SeedExplanations], questions: SeedQuestions) -> ValuesBySeed:
    """One value a seed and column; what two seeds differ in needs three seeds at least."""
    every = list(explained)
    told = [one.told for one in every]
    found: ValuesBySeed = dict(rhos(told)) if told[0] else {}
    if len(every) < 3:
        return found
    chosen = [one.chosen for one in every if one.chosen is not None]
    if chosen:
        found |= _same_expert(np.stack(chosen), questions.causes)
        found |= _distances(sizes_by_method(told), told[0]["shapley"].parts, questions)
    attention = [one.attention for one in every if one.attention is not None]
    if attention:
        found |= _distances(_attention_shares(attention), questions.known_mask, questions)
    return found


def _same_expert(chosen: Ints, causes: npt.NDArray[np.int8] | None) -> ValuesBySeed:
    """How often two seeds select the same expert, of all tracks and by known cause."""
    found = {SAME: same_choice(chosen).over_seeds()}
    for cause, column in BY_CAUSE.items() if causes is not None else ():
        own = chosen[:, causes == cause]
        if own.size:
            found[column] = same_choice(own).over_seeds()
            found[f"{column}{TRACKS}"] = [float(own.shape[1])] * len(own)
    return found


def _attention_shares(attention: Sequence[Floats]) -> dict[str, Floats]:
    """`[S, B, slots]`, with chance last."""
    drawn = Randomness(0).numpy("explain").random((len(attention), *attention[0].shape[1:]))
    ends = {FIRST_LAYER: 0, LAST_LAYER: -1}
    return {
        **{name: np.stack([one[layer] for one in attention]) for name, layer in ends.items()},
        RANDOM_TRACKS: drawn,
    }


def _distances(sizes: Mapping[str, Floats], parts: Bools, questions: SeedQuestions) -> ValuesBySeed:
    """Of every method, the last of which is chance.

    Attention can be compared only among sessions of equally many known tracks; so groups are as
    well, for both to have the same chance.
    """
    chance = list(sizes)[-1]
    drawn = attention_kl(sizes[chance], parts)
    found: ValuesBySeed = {}
    for name, own in sizes.items():
        apart = attention_kl(own, parts)
        dealt = shuffle_cases(own, questions.known_mask, Randomness(0).numpy("evaluation"))
        found[f"{KL_BETWEEN_SEEDS}{name}"] = apart.over_seeds()
        found[f"{KL_TO_OTHER_CASES}{name}"] = ratio_over_seeds(apart, attention_kl(dealt, parts))
        if name != chance:
            found[f"{KL_TO_RANDOM}{name}"] = ratio_over_seeds(apart, drawn)
    return found


# What importances of two seeds would differ by, if they knew nothing of each other's cases.


def shuffle_cases(importances: Floats, having: Bools, rng: np.random.Generator) -> Floats:
    """`[S, B, n]`: each seed's importances dealt anew among cases that have the same, `[B, m]`.

    What cases have are their parts, or what else must be alike for two of them to be compared.

    Between these, two seeds differ as they do on two cases drawn at random. So to be near there
    needs no knowledge of the case, as where all attention goes to the newest part; and who is not
    nearer on the same case says nothing that is of the case. A case that has what no other
    has keeps its own.
    """
    if importances.ndim != 3 or having.ndim != 2 or importances.shape[1] != len(having):
        raise InputError(
            "Importances are [seeds, cases, slots] and what cases have [cases, m], not "
            f"{list(importances.shape)} and {list(having.shape)}."
        )
    kind = np.unique(having, axis=0, return_inverse=True)[1].reshape(-1)
    places = np.argsort(kind, kind="stable")
    found = np.empty_like(importances)
    for own, dealt in zip(importances, found, strict=True):
        order = rng.permutation(len(kind))
        dealt[places] = own[order[np.argsort(kind[order], kind="stable")]]
    return found
