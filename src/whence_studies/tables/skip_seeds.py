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
from whence_studies.records import ValuesBySeed
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
KL_BETWEEN_SEEDS, KL_TO_OTHER_CASES = "KL between seeds, ", "KL relative to other cases, "
KL_TO_RANDOM: Final = "KL relative to random shares, "
"""Column prefixes: KL in nats, relative to other cases, and relative to random shares."""

COMPARED: Final = (
    "one track per session; relative: divided by the KL of the same seeds on randomly paired "
    "sessions with equally many known tracks, or by the KL of random shares"
)
"""Part of the protocol of these columns."""


def kl_columns(methods: Sequence[str]) -> tuple[str, ...]:
    """Return the KL columns of these methods, the last of which is random."""
    return (
        *(f"{what}{name}" for what in (KL_BETWEEN_SEEDS, KL_TO_OTHER_CASES) for name in methods),
        *(f"{KL_TO_RANDOM}{name}" for name in methods[:-1]),
    )


BY_CAUSE: Final = {cause: f"{SAME}, {cause.word}" for cause in EXPERT_OF}
"""Columns over the tracks with a known cause."""
TRACKS: Final = ": tracks"
"""Suffix of a column that holds the number of those tracks."""
BY_GROUPS: Final = (SAME, *RHO.values(), *kl_columns(METHODS))
BY_TRACKS: Final = kl_columns(ATTENTION_METHODS)
NOT_PERCENT: Final = frozenset((*BY_GROUPS, *BY_TRACKS)) - {SAME}
"""Columns that are not shares, and so not in percent."""


def seed_columns(network: NetworkConfig, causes: bool = False) -> tuple[str, ...]:
    """Return the columns of a network, with those by cause if `causes`."""
    by_cause = BY_CAUSE.values() if causes else ()
    experts = (SAME, *by_cause, *BY_GROUPS[1:]) if network.interpretable else ()
    return experts if network.recurrent else (*experts, *BY_TRACKS)


class SeedQuestions(NamedTuple):
    """The same cases for every seed: one track from the second half of each of B sessions."""

    sessions: SessionBatch
    tracks: Ints
    """`[B]`: indices among all upcoming tracks of the sessions."""

    @property
    def known_mask(self) -> Bools:
        """`[B, slots]`: whether a slot of the first half holds a track."""
        return known_tracks(self.sessions)[self.tracks]

    @property
    def causes(self) -> npt.NDArray[np.int8] | None:
        """`[B]`: the cause of each track, as a `Cause`, if known."""
        causes = self.sessions.causes
        return None if causes is None else causes[self.sessions.upcoming_mask][self.tracks]


def draw_questions(files: SessionFiles, tracks: Tracks, count: int) -> SeedQuestions:
    """Draw one track from each of the first `count` sessions."""
    some = islice(batches(files, tracks, BATCH), -(-count // BATCH))
    sessions = concat_batches(list(some))[:count]
    lengths = sessions.upcoming_mask.sum(axis=1)
    drawn = Randomness(0).numpy("evaluation").integers(0, lengths)
    return SeedQuestions(sessions, np.cumsum(lengths) - lengths + drawn)


class SeedExplanations(NamedTuple):
    """What one seed's network says about these tracks."""

    explanations: MethodExplanations
    """By method, over feature groups."""
    chosen: Ints | None
    """`[B]`: the most selected expert."""
    attention: Floats | None
    """`[layers, B, slots]`: attention to the first half."""


def explain_questions(
    network: SequentialModel, questions: SeedQuestions, seed: int
) -> SeedExplanations:
    """Explain the tracks by experts, by the methods compared with them, and by attention."""
    explanations: MethodExplanations = {}
    chosen = attention = None
    if len(network.family) > 1:
        model = explainable_skips(network, questions.sessions)
        batch = model.make_cases(questions.sessions)[questions.tracks]
        skipped = torch.full((len(batch),), SKIP, device=batch.device)
        explanations = compare_batch(model, batch, skipped, METHODS, seed)
        chosen = attribute_skips(network, questions.sessions).first[questions.tracks]
    if isinstance(network, InterpretableTransformer):  # the ordinary one is too, with one expert
        attention = cross_attention(network, questions.sessions)[:, questions.tracks]
    return SeedExplanations(explanations, chosen, attention)


def compare_seeds(explained: Iterable[SeedExplanations], questions: SeedQuestions) -> ValuesBySeed:
    """Return one value per seed and column; comparing seeds needs at least three."""
    every = list(explained)
    explanations = [one.explanations for one in every]
    found: ValuesBySeed = dict(rhos(explanations)) if explanations[0] else {}
    if len(every) < 3:
        return found
    chosen = [one.chosen for one in every if one.chosen is not None]
    if chosen:
        found |= _same_expert(np.stack(chosen), questions.causes)
        found |= _distances(
            sizes_by_method(explanations), explanations[0]["shapley"].parts, questions
        )
    attention = [one.attention for one in every if one.attention is not None]
    if attention:
        found |= _distances(_attention_shares(attention), questions.known_mask, questions)
    return found


def _same_expert(chosen: Ints, causes: npt.NDArray[np.int8] | None) -> ValuesBySeed:
    """Return how often two seeds select the same expert, over all tracks and by cause."""
    found = {SAME: same_choice(chosen).over_seeds()}
    for cause, column in BY_CAUSE.items() if causes is not None else ():
        own = chosen[:, causes == cause]
        if own.size:
            found[column] = same_choice(own).over_seeds()
            found[f"{column}{TRACKS}"] = [float(own.shape[1])] * len(own)
    return found


def _attention_shares(attention: Sequence[Floats]) -> dict[str, Floats]:
    """Return the attention of all seeds by layer, `[S, B, slots]`, and random shares last."""
    drawn = Randomness(0).numpy("explain").random((len(attention), *attention[0].shape[1:]))
    ends = {FIRST_LAYER: 0, LAST_LAYER: -1}
    return {
        **{name: np.stack([one[layer] for one in attention]) for name, layer in ends.items()},
        RANDOM_TRACKS: drawn,
    }


def _distances(sizes: Mapping[str, Floats], parts: Bools, questions: SeedQuestions) -> ValuesBySeed:
    """Return the KL columns of every method, the last of which is random.

    Attention can only be compared between sessions with equally many known tracks. Groups are
    compared in the same way, so that both have the same reference.
    """
    random = list(sizes)[-1]
    drawn = attention_kl(sizes[random], parts)
    found: ValuesBySeed = {}
    for name, own in sizes.items():
        distance = attention_kl(own, parts)
        shuffled = shuffle_cases(own, questions.known_mask, Randomness(0).numpy("evaluation"))
        found[f"{KL_BETWEEN_SEEDS}{name}"] = distance.over_seeds()
        found[f"{KL_TO_OTHER_CASES}{name}"] = ratio_over_seeds(
            distance, attention_kl(shuffled, parts)
        )
        if name != random:
            found[f"{KL_TO_RANDOM}{name}"] = ratio_over_seeds(distance, drawn)
    return found


def shuffle_cases(importances: Floats, having: Bools, rng: np.random.Generator) -> Floats:
    """Shuffle each seed's importances `[S, B, n]` among cases with equal `having` `[B, m]`.

    `having` is what two cases must share to be compared, such as their parts. Two seeds then differ
    as they do on two random cases. If they are not closer on the same case, their explanations say
    nothing about the case: for instance, all attention may go to the newest part. A case without an
    equal keeps its own importances.
    """
    if importances.ndim != 3 or having.ndim != 2 or importances.shape[1] != len(having):
        raise InputError(
            "Importances must have the shape [seeds, cases, slots] and `having` [cases, m], not "
            f"{list(importances.shape)} and {list(having.shape)}."
        )
    kind = np.unique(having, axis=0, return_inverse=True)[1].reshape(-1)
    places = np.argsort(kind, kind="stable")
    found = np.empty_like(importances)
    for own, shuffled in zip(importances, found, strict=True):
        order = rng.permutation(len(kind))
        shuffled[places] = own[order[np.argsort(kind[order], kind="stable")]]
    return found
