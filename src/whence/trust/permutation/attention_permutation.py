"""Attention permutation: do predictions change when attention is shuffled? (Jain 2019)

If a model predicts the same whichever part gets its attention, attention cannot explain it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from whence.arrays import Floats, Ints
from whence.capabilities import require
from whence.contract import ALL, Explainable, HasAttentions, attends_by_target
from whence.errors import InputError
from whence.measure import Measure, mean_measure
from whence.randomness import Randomness, uniform_by_content
from whence.trust.bins import Binned, Bins, EqualWidth, binned
from whence.trust.faithfulness.curves import find_divergence
from whence.trust.measures import ATTENTION, MEASURES, MeasureSpec
from whence.trust.perturbation import FullPredictions, check_batch, predict_full
from whence.trust.target_classes import TargetPairs

REPEATS: Final = 100


@dataclass(frozen=True, eq=False)
class AttentionPermutation:
    """What shuffled attention changes in `B` cases, as means over shuffles.

    A case with fewer than two parts has nothing to shuffle: it has NaN except in `confidence`.
    """

    top: Floats
    """`[B]`: |p′ − p| of the item that is most probable with the original attention."""
    target: Floats | None
    """`[B]`: |p′ − p| of the target, if targets were given."""
    moved: Floats
    """`[B]`: the divergence between the distributions over all items."""
    confidence: Floats
    """`[B]`: p of the most probable item."""
    divergence: str
    protocol: str

    def top_measure(self) -> Measure:
        """Return the mean change of the top item's probability."""
        return self._measure(self.top, "|Δ probability| of the top item", 1.0)

    def target_measure(self) -> Measure:
        """Return the mean change of the target's probability."""
        if self.target is None:
            raise InputError("There are no targets; pass them to attention_permutation.")
        return self._measure(self.target, "|Δ probability| of the target", 1.0)

    def divergence_measure(self) -> Measure:
        """Return the mean divergence of all probabilities."""
        most = find_divergence(self.divergence).most
        return self._measure(self.moved, f"{self.divergence} in nats", most)

    def by_confidence(
        self, bins: Bins | None = None, users: Ints | None = None, seed: int = 0
    ) -> Binned:
        """Return the mean change of the top item's probability by its confidence.

        By default there are ten bins of equal width. `users` `[B]` gives the user of each case, if
        some have several.
        """
        protocol = f"|Δ probability| of the top item; {self.protocol}"
        return binned(
            self.top, self.confidence, bins or EqualWidth(10), users, protocol=protocol, seed=seed
        )

    def _measure(self, values: Floats, what: str, most: float) -> Measure:
        known = values[~np.isnan(values)]
        if not len(known):
            raise InputError("No case has two parts between which attention could be shuffled.")
        protocol = f"mean over cases of the {what}; {self.protocol}"
        return mean_measure(known, protocol, "higher is better", (0.0, most))


@torch.no_grad()
def attention_permutation(
    model: Explainable,
    batch: Tensor,
    targets: Tensor | None = None,
    *,
    blocks: Sequence[int] | None = None,
    repeats: int = REPEATS,
    divergence: str = "symmetrised KL",
    seed: int = 0,
    memory: int | None = None,
) -> AttentionPermutation:
    """Shuffle the weights of the last row, which predicts, among a case's parts, `repeats` times.

    The weights keep their values, and a shuffle is the same for all heads, blocks and items.
    Padding and the model's own slots keep their weights, and so do all other rows. `blocks` counts
    from 1; by default all are shuffled, and the others compute their weights from the blocks
    below. If every item has its own weights, they are shuffled alike for all items, which takes as
    long as scoring all items `repeats` times.
    """
    require(model, ("parts", "score", "attentions"), who="attention permutation")
    check_batch(batch)
    _check(batch, targets, repeats)
    between = find_divergence(divergence).between
    stream = Randomness(seed).sequence("explain")
    found = []
    for cases, whole in predict_full(model, batch, memory):
        asked = whole.top[:, :1] if targets is None else _top_and_target(whole, targets[cases])
        changes = _changes(whole, asked, blocks, repeats, between, stream)
        sure = whole.log_p.gather(1, whole.top[:, :1]).exp()
        found.append(torch.column_stack((sure, changes)).cpu())
    confidence, moved, top, *target = torch.cat(found).numpy().T
    return AttentionPermutation(
        top,
        target[0] if target else None,
        moved,
        confidence,
        divergence,
        f"{repeats} shuffles of the last row's attention in {_named(blocks)}",
    )


def _check(batch: Tensor, targets: Tensor | None, repeats: int) -> None:
    check_repeats(repeats)
    if targets is not None and targets.shape != batch.shape[:1]:
        raise InputError(
            f"Targets must be [{len(batch)}], one per case, not {list(targets.shape)}."
        )


def _top_and_target(whole: FullPredictions, targets: Tensor) -> Tensor:
    """Return the top item and the target `[b, 2]`."""
    items = whole.log_p.shape[1]
    if int(targets.min()) < 0 or int(targets.max()) >= items:
        raise InputError(f"Targets must be item numbers from 0 to {items - 1}; some are not.")
    return torch.column_stack((whole.top[:, 0], targets))


def _changes(
    whole: FullPredictions,
    asked: Tensor,
    blocks: Sequence[int] | None,
    repeats: int,
    between: Callable[[Tensor, Tensor], Tensor],
    stream: np.random.SeedSequence,
) -> Tensor:
    """Return the mean divergence, and |p′ − p| of the given items `[b, t]`, as `[b, 1 + t]`."""
    batch = whole.batch
    model = whole.model
    assert isinstance(model, HasAttentions)
    by_target = attends_by_target(model)
    own = [] if by_target else _chosen(model.attentions(batch, whole.top[:, 0]), blocks)
    shuffle = torch.arange(len(batch) * repeats, device=batch.device)
    found = whole.log_p.new_empty(len(shuffle), 1 + asked.shape[1], dtype=torch.float64)
    for rows in whole.slices(len(shuffle), bytes_of_attention(own)):
        case = shuffle[rows] // repeats
        source = shuffled_sources(batch[case], whole.parts[case], shuffle[rows] % repeats, stream)
        if own:
            given = [None if one is None else move_weights(one[case], source) for one in own]
            scores = whole.model.score(batch[case], ALL, attention=given)
        else:
            scores = _scores_by_target(whole, case, source, blocks)
        log_q = scores.log_softmax(dim=1)
        log_p = whole.log_p[case]
        now, before = (one.gather(1, asked[case]).exp() for one in (log_q, log_p))
        found[rows] = torch.column_stack((between(log_p, log_q), (now - before).abs()))
    means = found.view(len(batch), repeats, -1).mean(dim=1)
    return means.masked_fill(whole.parts.sum(dim=1, keepdim=True) < 2, torch.nan)


def _scores_by_target(
    whole: FullPredictions, case: Tensor, source: Tensor, blocks: Sequence[int] | None
) -> Tensor:
    """Return every item's score `[R, items]` with its own weights, all shuffled alike."""
    items = torch.arange(whole.log_p.shape[1], device=case.device)
    model = whole.model
    assert isinstance(model, HasAttentions)
    pairs = TargetPairs(whole.batch[case], items.expand(len(case), -1))
    found = []
    for rows in pairs.slices(whole.memory):
        batch, targets = pairs.pairs(rows)
        own = _chosen(model.attentions(batch, targets), blocks)
        places = source[pairs.histories(rows)]
        given = [None if one is None else move_weights(one, places) for one in own]
        found.append(whole.model.score(batch, targets[:, None], attention=given))
    return torch.cat(found).view(len(case), -1)


def _chosen(weights: list[Tensor], blocks: Sequence[int] | None) -> list[Tensor | None]:
    """Return the weights of each block; `None` for blocks that are not shuffled."""
    numbers = range(1, len(weights) + 1)
    chosen = set(numbers if blocks is None else blocks)
    if not chosen or chosen - set(numbers):
        raise InputError(f"blocks must be among 1 to {len(weights)}, not {sorted(chosen)}.")
    return [own if number in chosen else None for number, own in zip(numbers, weights, strict=True)]


def _named(blocks: Sequence[int] | None) -> str:
    return "all blocks" if blocks is None else "block " + " and ".join(map(str, blocks))


COPIES: Final = 3
"""Copies of the attention of a perturbed input that are in memory at a time."""


def check_repeats(repeats: int) -> None:
    """Raise if there are no shuffles."""
    if repeats < 1:
        raise InputError(f"repeats must be at least 1, not {repeats}.")


def shuffled_sources(
    batch: Tensor, parts: Tensor, repeat: Tensor, stream: np.random.SeedSequence
) -> Tensor:
    """Return the slot `[R, n]` that each slot gets its weight from; others than parts keep theirs.

    The stream, the row's parts and the number of the repeat `[R]` determine the shuffle, so it is
    the same for all targets of a history.
    """
    content = torch.column_stack((repeat, batch)).cpu().numpy()
    drawn = uniform_by_content(stream, content, F.pad(parts, (1, 0), value=True).cpu().numpy())
    places = torch.from_numpy(drawn[:, 1:]).to(parts.device).masked_fill(~parts, 1)
    home = (~parts).int().argsort(dim=1, stable=True)  # parts first, each in slot order
    return torch.empty_like(home).scatter(1, home, places.argsort(dim=1, stable=True))


def move_weights(weights: Tensor, source: Tensor) -> Tensor:
    """Return the weights `[R, heads, q, m]` with the last row's shuffled. Overwrites `weights`."""
    slots = source.shape[1]
    last = weights[:, :, -1, :slots]
    weights[:, :, -1, :slots] = last.gather(2, source[:, None].expand_as(last))
    return weights


def bytes_of_attention(own: Sequence[Tensor | None]) -> int:
    """Return about how many bytes the shuffled weights of an input take."""
    return max(1, COPIES * sum(weights[0].nbytes for weights in own if weights is not None))


def _shuffle_measure(measure: Callable[[AttentionPermutation], Measure]) -> Callable[..., Measure]:
    return lambda model, batch: measure(attention_permutation(model, batch))


MEASURES.add(
    "attention-permutation",
    MeasureSpec(
        _shuffle_measure(AttentionPermutation.top_measure),
        "Does the top item's probability change when attention is shuffled?",
        "higher is better",
        (0.0, 1.0),
        lambda small: small.few[:2],
        "Jain (2019)",
        needs=ATTENTION,
    ),
)
MEASURES.add(
    "attention-permutation-divergence",
    MeasureSpec(
        _shuffle_measure(AttentionPermutation.divergence_measure),
        "Do all items' probabilities change when attention is shuffled?",
        "higher is better",
        (0.0, math.inf),
        lambda small: small.few[:2],
        "Jain (2019)",
        needs=ATTENTION,
    ),
)
