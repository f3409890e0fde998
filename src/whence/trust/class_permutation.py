"""Permutation of classes: does shuffled attention matter where a model is sure? (Jain 2019)

The thesis asks DeepICF about one positive and 99 negative items of every user, and finds that
shuffled attention changes the prediction the less the surer it was, right or wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor

from whence.contract import Explainable, require
from whence.explanation import Floats
from whence.measure import Measure
from whence.memory import inputs_at_once, memory_for, row_slices
from whence.randomness import Randomness
from whence.trust.binned import Binned, binned
from whence.trust.bins import Bins, EqualMass, JainBins
from whence.trust.candidates import Candidates, attention_to, classes_of, without_padding
from whence.trust.cases import Bools, mean_over_cases
from whence.trust.class_predictions import LIKED, check_true
from whence.trust.predictions import Ints, check_classes
from whence.trust.shuffles import REPEATS, bytes_of_attention, check_repeats, moved, sources

BYTES_OF_A_SOURCE: Final = 48
"""About what a slot takes up while it is decided where its weight comes from."""


@dataclass(frozen=True, eq=False)
class PermutedClasses:
    """What shuffled attention changes, of `t` targets of `B` histories, all `[B, t]`.

    A history of fewer than two parts has nothing to shuffle, and NaN for its changes.
    """

    change: Floats
    """|p′ − p| of the class that is predicted by the model's own attention, mean over shuffles."""
    median: Floats
    """The same, median over shuffles."""
    confidence: Floats
    """p of that class."""
    predicted: Ints
    true: Ints
    most: Floats
    """The largest share that a part has of the attention to all parts; NaN without parts."""
    classes: int
    protocol: str

    def kinds(self) -> dict[str, Bools]:
        """Which targets are liked and predicted otherwise, the reverse, and all."""
        liked, said = self.true == LIKED, self.predicted == LIKED
        return {
            "false negatives": liked & ~said,
            "false positives": ~liked & said,
            "all": np.ones_like(liked),
        }

    def measure(self, kind: str = "all") -> Measure:
        """The mean change over the targets of a kind."""
        protocol = f"mean over targets, {kind}, of the {self.protocol}"
        changes = self.change[self.kinds()[kind]]
        return mean_over_cases(changes, protocol, "higher is better", (0.0, 1.0))

    def by_confidence(self, bins: Bins | None = None, seed: int = 0) -> dict[str, Binned]:
        """The mean change of each kind by how sure the model was, a tenth wide as in Figure 3.8."""
        bins = bins or JainBins(self.classes)
        return {
            kind: self._binned(self.change, self.confidence, rows, bins, kind, seed)
            for kind, rows in self.kinds().items()
        }

    def by_attention(self, bins: Bins | None = None, seed: int = 0) -> dict[str, Binned]:
        """The median changes by the largest share of attention (Figure 2.15).

        Apart for what is predicted to be liked and not; in ten bins of equally many, as a long
        history has but small shares.
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
        """Of the rows alone, in the bins of all."""
        users = np.repeat(np.arange(len(rows)), rows.shape[1])
        values = np.where(rows, values, np.nan).ravel()
        protocol = f"{self.protocol}; {kind}"
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
) -> PermutedClasses:
    """Shuffle a history's attention to each of its targets `[B, t]`, so many times.

    The weights keep their values, and a shuffle is the same for all targets of a history; padding
    and slots of the model's own keep theirs. `true` `[B, t]` are the targets' classes. About
    `memory` bytes are used at a time, however many targets and shuffles there are.
    """
    require(model, ("parts", "attentions", "classes"), who="attention permutation")
    check_repeats(repeats)
    check_true(targets, true)
    memory = memory or memory_for(batch.device)
    stream = Randomness(seed).sequence("explain")
    pairs, order = Candidates(batch, targets).by_length(model)
    classes = classes_of(model, *pairs.pairs(slice(1))).shape[1]
    check_classes(true, classes)
    found = [
        _changes(model, pairs, rows, repeats, stream, memory)
        for rows in row_slices(len(pairs), _pairs_at_once(model, pairs, repeats, memory))
    ]
    back = order.argsort().cpu()
    columns = torch.cat(found).view(*targets.shape, -1)[back].permute(2, 0, 1).numpy().copy()
    predicted, confidence, most, change, median = columns
    return PermutedClasses(
        change,
        median,
        confidence,
        predicted.astype(np.int64),
        true.cpu().numpy(),
        most,
        classes,
        f"|Δ probability| of the predicted class by {repeats} shuffles of the attention",
    )


def _pairs_at_once(model: Explainable, pairs: Candidates, repeats: int, memory: int) -> int:
    """Those whose own attention, shuffles and changes fit, if each were of another history."""
    batch, targets = pairs.pairs(slice(1))
    shuffles = repeats * (BYTES_OF_A_SOURCE * batch.shape[1] + 8)
    each = shuffles + bytes_of_attention(model.attentions(batch, targets))
    return max(1, min(inputs_at_once(batch.shape[1], memory), memory // each))


def _changes(
    model: Explainable,
    pairs: Candidates,
    rows: slice,
    repeats: int,
    stream: np.random.SeedSequence,
    memory: int,
) -> Tensor:
    """`[r, 5]` of some pairs: class, confidence, largest share, mean and median change."""
    history, targets = pairs.histories(rows), pairs.pairs(rows)[1]
    batch = without_padding(model, pairs.batch[history[0] : history[-1] + 1])  # [u, n]
    history = history - history[0]
    parts = model.parts(batch)
    own = model.attentions(batch[history], targets)
    logits = classes_of(model, batch[history], targets)
    predicted = logits.argmax(dim=1, keepdim=True)
    p = _probability(logits, predicted)

    number = torch.arange(len(batch) * repeats, device=batch.device)
    shuffled = number // repeats
    source = sources(batch[shuffled], parts[shuffled], number % repeats, stream)
    asked = torch.arange(len(targets) * repeats, device=batch.device)
    changes = p.new_empty(len(asked))
    at_once = min(inputs_at_once(batch.shape[1], memory), memory // bytes_of_attention(own))
    for some in row_slices(len(asked), max(1, at_once)):
        pair, repeat = asked[some] // repeats, asked[some] % repeats
        given = [moved(one[pair], source[history[pair] * repeats + repeat]) for one in own]
        altered = classes_of(model, batch[history[pair]], targets[pair], given)
        changes[some] = (_probability(altered, predicted[pair]) - p[pair]).abs()

    to_each = attention_to(own, parts[history])
    most = to_each.amax(dim=1) / to_each.sum(dim=1)
    in_order = changes.view(-1, repeats).sort(dim=1).values
    middle = in_order[:, [(repeats - 1) // 2, repeats // 2]]
    found = torch.stack((in_order.mean(dim=1), middle.mean(dim=1)), dim=1)
    found = found.masked_fill(parts.sum(dim=1)[history, None] < 2, torch.nan)
    return torch.column_stack((predicted, p, most, found)).cpu()


def _probability(logits: Tensor, classes: Tensor) -> Tensor:
    """`[r]`: that of one class `[r, 1]` of each row."""
    return logits.double().softmax(dim=1).gather(1, classes)[:, 0]
