"""Attention permutation for predicted classes, by the model's confidence (Jain 2019).

The thesis tests DeepICF on one positive and 99 negative items per user. It finds that shuffled
attention changes a prediction less, the more confident it was, right or wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor

from whence.arrays import Bools, Floats, Ints
from whence.capabilities import require
from whence.contract import Explainable, HasAttentions
from whence.errors import InputError, did_you_mean
from whence.measure import Measure
from whence.memory import inputs_at_once, memory_for, row_slices
from whence.randomness import Randomness
from whence.trust.bins import Binned, Bins, EqualMass, JainBins, binned
from whence.trust.permutation.attention_permutation import (
    REPEATS,
    bytes_of_attention,
    check_repeats,
    move_weights,
    shuffled_sources,
)
from whence.trust.predictions import check_classes
from whence.trust.resampling import mean_over_users
from whence.trust.target_classes import (
    LIKED,
    TargetPairs,
    attention_to_parts,
    check_true,
    pair_classes,
    strip_padding,
)

BYTES_OF_A_SOURCE: Final = 48
"""About what a slot takes while its source is drawn."""


@dataclass(frozen=True, eq=False)
class ClassPermutation:
    """What shuffled attention changes for `t` targets of `B` histories; all arrays are `[B, t]`.

    A history with fewer than two parts has nothing to shuffle: its changes are NaN.
    """

    change: Floats
    """|p′ − p| of the class predicted with the original attention, mean over shuffles."""
    median: Floats
    """The median over shuffles."""
    confidence: Floats
    """The probability of that class."""
    predicted: Ints
    true: Ints
    most: Floats
    """The largest share of the attention that one part gets; NaN without parts."""
    classes: int
    protocol: str

    def kinds(self) -> dict[str, Bools]:
        """Return masks of the false negatives, the false positives and all targets."""
        liked, said = self.true == LIKED, self.predicted == LIKED
        return {
            "false negatives": liked & ~said,
            "false positives": ~liked & said,
            "all": np.ones_like(liked),
        }

    def measure(self, kind: str = "all", seed: int = 0) -> Measure:
        """Return the mean change over the targets of a kind, with an interval over users."""
        kinds = self.kinds()
        if kind not in kinds:
            raise InputError(f"There is no kind '{kind}': {did_you_mean(kind, kinds)}")
        rows = kinds[kind]
        known = rows & ~np.isnan(self.change)
        if not known.any():
            raise InputError(
                f"None of the {rows.sum():,} targets of the kind '{kind}' can be measured."
            )
        user = self.users[known]
        protocol = (
            f"{self.protocol}; {kind}; mean over {len(user):,} cases of "
            f"{len(np.unique(user)):,} users"
        )
        return mean_over_users(self.change[known], user, protocol, seed=seed)

    @property
    def users(self) -> Ints:
        """The user of each target `[B, t]`."""
        return np.broadcast_to(np.arange(len(self.true))[:, None], self.true.shape)

    def by_confidence(self, bins: Bins | None = None, seed: int = 0) -> dict[str, Binned]:
        """Return the mean change of each kind by confidence, by default in tenths (Figure 3.8)."""
        bins = bins or JainBins(self.classes)
        return {
            kind: self._binned(self.change, self.confidence, rows, bins, kind, seed)
            for kind, rows in self.kinds().items()
        }

    def by_attention(self, bins: Bins | None = None, seed: int = 0) -> dict[str, Binned]:
        """Return the median changes by the largest share of attention (Figure 2.15).

        Targets predicted as liked and the others are separate. By default there are ten bins of
        equally many cases, because shares are small in a long history.
        """
        bins = bins or EqualMass(10)
        said = self.predicted == LIKED
        return {
            kind: self._binned(self.median, self.most, rows, bins, kind, seed)
            for kind, rows in (("predicted liked", said), ("predicted otherwise", ~said))
        }

    def _binned(
        self, values: Floats, by: Floats, rows: Bools, bins: Bins, kind: str, seed: int
    ) -> Binned:
        """Return the means over some rows, in the bins of all rows."""
        values = np.where(rows, values, np.nan).ravel()
        protocol = f"{self.protocol}; {kind}"
        users = self.users.ravel()
        return binned(values, by.ravel(), bins, users, protocol=protocol, seed=seed)


@torch.no_grad()
def class_permutation(
    model: Explainable,
    batch: Tensor,
    targets: Tensor,
    true: Tensor,
    *,
    repeats: int = REPEATS,
    seed: int = 0,
    memory: int | None = None,
) -> ClassPermutation:
    """Shuffle a history's attention for each of its targets `[B, t]`, `repeats` times.

    The weights keep their values, and a shuffle is the same for all targets of a history. Padding
    and the model's own slots keep their weights. `true` `[B, t]` are the targets' classes. About
    `memory` bytes are used at a time.
    """
    require(model, ("parts", "attentions", "classes"), who="attention permutation")
    check_repeats(repeats)
    check_true(targets, true)
    memory = memory or memory_for(batch.device)
    stream = Randomness(seed).sequence("explain")
    pairs, order = TargetPairs(batch, targets).by_length(model)
    classes = pair_classes(model, *pairs.pairs(slice(1))).shape[1]
    check_classes(true, classes)
    found = [
        _changes(model, pairs, rows, repeats, stream, memory)
        for rows in row_slices(len(pairs), _pairs_at_once(model, pairs, repeats, memory))
    ]
    back = order.argsort().cpu()
    columns = torch.cat(found).view(*targets.shape, -1)[back].permute(2, 0, 1).numpy().copy()
    predicted, confidence, most, change, median = columns
    return ClassPermutation(
        change,
        median,
        confidence,
        predicted.astype(np.int64),
        true.cpu().numpy(),
        most,
        classes,
        f"|Δ probability| of the predicted class by {repeats} shuffles of the attention",
    )


def _pairs_at_once(model: Explainable, pairs: TargetPairs, repeats: int, memory: int) -> int:
    """Return how many pairs fit into memory, if each has another history."""
    batch, targets = pairs.pairs(slice(1))
    shuffles = repeats * (BYTES_OF_A_SOURCE * batch.shape[1] + 8)
    assert isinstance(model, HasAttentions)
    each = shuffles + bytes_of_attention(model.attentions(batch, targets))
    return max(1, min(inputs_at_once(batch.shape[1], memory), memory // each))


def _changes(
    model: Explainable,
    pairs: TargetPairs,
    rows: slice,
    repeats: int,
    stream: np.random.SeedSequence,
    memory: int,
) -> Tensor:
    """Return class, confidence, largest share, mean and median change of some pairs `[r, 5]`."""
    history, targets = pairs.histories(rows), pairs.pairs(rows)[1]
    batch = strip_padding(model, pairs.batch[history[0] : history[-1] + 1])
    history = history - history[0]
    assert isinstance(model, HasAttentions)
    some = _Pairs(model, batch, history, targets, model.attentions(batch[history], targets))
    logits = pair_classes(model, batch[history], targets)
    predicted = logits.argmax(dim=1)
    p = _probability(logits, predicted)
    changes = (some.shuffled(predicted, repeats, stream, memory) - p[:, None]).abs()
    middle = changes.sort(dim=1).values[:, [(repeats - 1) // 2, repeats // 2]]
    found = torch.stack((changes.mean(dim=1), middle.mean(dim=1)), dim=1)
    parts = model.parts(batch)[history]
    found = found.masked_fill(parts.sum(dim=1, keepdim=True) < 2, torch.nan)
    to_each = attention_to_parts(some.own, parts)
    most = to_each.amax(dim=1) / to_each.sum(dim=1)
    return torch.column_stack((predicted, p, most, found)).cpu()


@dataclass(frozen=True, eq=False)
class _Pairs:
    """`r` pairs of `u` histories, and their attention."""

    model: Explainable
    batch: Tensor
    """`[u, n]`."""
    history: Tensor
    """`[r]`."""
    targets: Tensor
    """`[r]`."""
    own: list[Tensor]
    """`[r, heads, q, m]` per block."""

    def shuffled(
        self, classes: Tensor, repeats: int, stream: np.random.SeedSequence, memory: int
    ) -> Tensor:
        """Return the probability of one class of each pair after every shuffle `[r, repeats]`."""
        source = self._sources(repeats, stream)
        number = torch.arange(len(self.targets) * repeats, device=self.batch.device)
        slots = self.batch.shape[1]
        at_once = min(inputs_at_once(slots, memory), memory // bytes_of_attention(self.own))
        found = []
        for some in row_slices(len(number), max(1, at_once)):
            pair, repeat = number[some] // repeats, number[some] % repeats
            history = self.history[pair]
            given = [move_weights(one[pair], source[history, repeat]) for one in self.own]
            logits = pair_classes(self.model, self.batch[history], self.targets[pair], given)
            found.append(_probability(logits, classes[pair]))
        return torch.cat(found).view(-1, repeats)

    def _sources(self, repeats: int, stream: np.random.SeedSequence) -> Tensor:
        """Return the sources `[u, repeats, n]`, which all targets of a history share."""
        number = torch.arange(len(self.batch) * repeats, device=self.batch.device)
        batch = self.batch[number // repeats]
        found = shuffled_sources(batch, self.model.parts(batch), number % repeats, stream)
        return found.view(len(self.batch), repeats, -1)


def _probability(logits: Tensor, classes: Tensor) -> Tensor:
    """Return the probability of one class `[r]` of each row `[r]`."""
    return logits.double().softmax(dim=1).gather(1, classes[:, None])[:, 0]
