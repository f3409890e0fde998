"""Histories that are trained with some of their items absent, as explainers will ask them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from whence.arrays import Floats
from whence.coalitions import SizeSampler
from whence.contract import PAD
from whence.data.splits import Split
from whence.errors import InputError
from whence.models.tasks import NO_HISTORY, Batch, Cloze, NextItem, Packed
from whence.randomness import CounterRandom, Randomness, bernoulli
from whence.training.negatives import Unseen


class PartDropout:
    """Draws a coalition of the items of some histories: its size by Shapley's kernel, then who."""

    def __init__(
        self, share: float, longest: int, randomness: Sequence[Randomness], device: str
    ) -> None:
        self.share = share
        self.sizes = SizeSampler(longest, device)
        self.chance = CounterRandom([one.key("part_dropout") for one in randomness], device)

    def draw(self, step: Tensor, laid: Laid, items: Tensor) -> Tensor:
        """`[S, T]`: which rows are present in that step; only `items` `[S, T]` can be absent."""
        (turn,) = self.chance.integers(step, range(1), items.shape[1])
        which, size = self.chance.integers(step, range(1, 3), laid.sizes.shape[1])
        counts = laid.count(items)
        chosen = bernoulli(which, self.share)
        present = torch.where(chosen, self.sizes.draw(counts, size), counts)
        return ~items | (laid.rank(turn, items) < present.gather(1, laid.history))


# How histories lie in the rows of a batch.


TURNS = 2**40
"""Among how many turns a row of a history draws its own; two are hardly ever the same."""


@dataclass(frozen=True, eq=False)
class Laid:
    """How the `B` histories of a batch lie one after another in its `T` rows, of `S` seeds each."""

    sizes: Tensor
    """`[S, B]`: how many rows each history has."""
    reach: Tensor
    """`[S, B]`: the row after its last one, which may be beyond all."""
    row: Tensor
    """`[S, T]`: its number."""
    history: Tensor
    """`[S, T]`: whose row it is."""
    real: Tensor
    """`[S, T]`: whether it is anybody's; the rest is filling."""

    def count(self, marked: Tensor) -> Tensor:
        """`[S, B]`: how many of each history's rows are marked `[S, T]`."""
        before = F.pad(marked.cumsum(1), (1, 0))
        rows = marked.shape[1]
        ends, starts = (one.clamp(max=rows) for one in (self.reach, self.reach - self.sizes))
        return before.gather(1, ends) - before.gather(1, starts)

    def rank(self, numbers: Tensor, marked: Tensor) -> Tensor:
        """`[S, T]`: how many of the marked rows of its history have a smaller number `[S, T]`.

        It says nothing of rows that are not marked.
        """
        turn = 2 * self.history + ~marked
        order = (turn * TURNS + numbers % TURNS).argsort(dim=1, stable=True)
        return order.argsort(dim=1) - (self.reach - self.sizes).gather(1, self.history)


def places_of(marked: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """`[S, M]`: the first `count` rows that are marked `[S, T]`, and whether there are so many."""
    number = marked.cumsum(1)
    wanted = torch.arange(1, count + 1, device=marked.device).repeat(len(marked), 1)
    found = wanted <= number[:, -1:]
    return torch.where(found, torch.searchsorted(number, wanted), 0), found


# Which items of a batch are hidden behind a mask.


class Masks:
    """Draws each item with a chance of its own, and one at random where none was drawn."""

    def __init__(self, task: Cloze, randomness: Sequence[Randomness], device: str) -> None:
        self.task = task
        self.chance = CounterRandom([one.key("masks") for one in randomness], device)

    def draw(self, step: Tensor, laid: Laid) -> Tensor:
        """`[S, T]`: which rows are masked in that step."""
        (each,) = self.chance.integers(step, range(1), laid.row.shape[1])
        one, kind = self.chance.integers(step, range(1, 3), laid.sizes.shape[1])
        masked = laid.real & bernoulli(each, self.task.mask_prob)
        chosen = laid.reach - 1 - one % laid.sizes
        alone = laid.count(masked) == 0
        if self.task.last_mask_prob:
            only_last = bernoulli(kind, self.task.last_mask_prob)
            masked &= ~only_last.gather(1, laid.history)
            chosen = torch.where(only_last, laid.reach - 1, chosen)
            alone |= only_last
        chosen = torch.where(alone, chosen, -1)
        return masked | (laid.row == chosen.gather(1, laid.history))

    def share_of_counts(self, sizes: Floats) -> Floats:
        """How often a history has 0, 1, … masks, from how often it has 0, 1, … rows."""
        share = np.zeros(len(sizes))
        binomial = np.ones(1)  # of 0, 1, … items when each is masked with the chance γ
        for size, frequency in enumerate(sizes):
            share[: size + 1] += frequency * binomial
            binomial = np.convolve(binomial, (1 - self.task.mask_prob, self.task.mask_prob))
        share *= 1 - self.task.last_mask_prob
        share[1] += share[0] + self.task.last_mask_prob
        share[0] = 0
        return share


# Training batches: windows of histories, with what a model's task asks about them.


NEXT_ITEM = NextItem()
TOO_LARGE = 1e-3
"""How seldom a batch may be larger than the one size, where all must have one size."""


class HistoryBatches:
    """Draws users with replacement, a window of each one's training events, and questions.

    One batch a seed, all at once, as long as the longest; what a seed draws for its own rows is
    what it would draw alone.

    All of it happens on the device, and no step of it depends on the number of users. With
    `one_size`, every batch has the same number of rows and of questions, known in advance, as a
    recorded graph needs it. What is beyond them is left out of that step, which happens less than
    once in a thousand steps.
    """

    def __init__(
        self,
        split: Split,
        length: int,
        size: int,
        randomness: Sequence[Randomness],
        device: str = "cpu",
        one_size: bool = False,
        task: NextItem | Cloze = NEXT_ITEM,
        part_dropout: float = 0.0,
    ) -> None:
        starts, ends = split.interactions.offsets[:-1], split.train_ends
        users = np.flatnonzero(ends - starts >= 2)
        if not len(users):
            raise InputError(
                "No user has two events to learn from besides those held out; there is nothing "
                "to train on."
            )
        self.users, self.starts, self.ends, self.items = (
            torch.from_numpy(numbers).to(device)
            for numbers in (users, starts, ends, split.interactions.items)
        )
        self.weights = _of_mean_one(split, device)
        self.length, self.size, self.device = length, size, device
        self.masks = Masks(task, randomness, device) if isinstance(task, Cloze) else None
        self.ahead = 1 if self.masks is None else 0
        """How many events at the end of a window are only targets."""
        self.slots = length + 1 - self.ahead
        """How many rows a history has at most."""
        self.rows: int | None = None
        self.questions: int | None = None
        if one_size:
            sizes = np.minimum(ends[users] - starts[users] - self.ahead, self.slots)
            share = np.bincount(sizes) / len(sizes)
            self.rows = self._whole_windows(_most(share, size))
            if self.masks is not None:
                self.questions = _most(self.masks.share_of_counts(share), size)
        self.part_dropout = (
            PartDropout(part_dropout, self.slots, randomness, device) if part_dropout else None
        )
        asks_negatives = isinstance(task, NextItem) or task.negatives
        self.unseen = Unseen.of(split, device) if asks_negatives else None
        self.chance, self.chance_of_negatives = (
            CounterRandom([one.key(stream) for one in randomness], device)
            for stream in ("batches", "negatives")
        )

    @property
    def steps_per_epoch(self) -> int:
        """As many as draw as often as there are users."""
        return -(-len(self.users) // self.size)

    def prepare(self, step: int) -> Hashable:
        """Every step has the same size, where that matters."""
        return None

    def draw(self, step: Tensor) -> Batch:
        """The batch `[S, T]` of that step."""
        who, where = self.chance.integers(step, range(2), self.size)
        users = self.users[who % len(self.users)]
        starts, ends = self._windows(users, where)
        laid = self._lay_out(ends - starts - self.ahead)
        behind = torch.where(laid.real, laid.reach.gather(1, laid.history) - laid.row, 1)
        event = ends.gather(1, laid.history) - self.ahead - behind
        inputs = Packed(
            items=torch.where(laid.real, self.items[event], PAD),
            slots=self.slots - behind,
            histories=torch.where(laid.real, laid.history, NO_HISTORY),
        )
        user = users.gather(1, laid.history)
        if self.masks is not None:
            return self._hide(inputs, self.masks.draw(step, laid), step, laid, user, event)
        return Batch(
            inputs._replace(present=self._present(step, laid, laid.real)),
            positives=torch.where(laid.real, self.items[event + 1], PAD),
            negatives=self._negatives(step, user, laid.real),
            weights=None if self.weights is None else self.weights[event + 1],
        )

    def _hide(
        self,
        inputs: Packed,
        masked: Tensor,
        step: Tensor,
        laid: Laid,
        user: Tensor,
        event: Tensor,
    ) -> Batch:
        """What is asked where rows `[S, T]` are masked; what is masked is never absent."""
        rows, found = places_of(masked, self.questions or int(masked.sum(1).max()))
        return Batch(
            inputs._replace(
                items=torch.where(masked, PAD, inputs.items),
                present=self._present(step, laid, laid.real & ~masked),
            ),
            positives=torch.where(found, inputs.items.gather(1, rows), PAD),
            negatives=self._negatives(step, user.gather(1, rows), found),
            rows=rows,
            weights=None if self.weights is None else self.weights[event.gather(1, rows)],
        )

    def _lay_out(self, sizes: Tensor) -> Laid:
        """Histories of these sizes `[S, B]`, one after another."""
        reach = sizes.cumsum(1)
        rows = self.rows or self._whole_windows(int(reach[:, -1].max()))
        row = torch.arange(rows, device=self.device).repeat(len(sizes), 1)
        history = torch.searchsorted(reach, row, right=True)
        real = history < self.size
        return Laid(sizes, reach, row, history.clamp_(max=self.size - 1), real)

    def _present(self, step: Tensor, laid: Laid, items: Tensor) -> Tensor | None:
        """`[S, T]`: which rows are seen, where some of the items are to be absent."""
        return None if self.part_dropout is None else self.part_dropout.draw(step, laid, items)

    def _negatives(self, step: Tensor, user: Tensor, asked: Tensor) -> Tensor | None:
        """`[S, M]`: an item that the user has not met, for every question."""
        if self.unseen is None:
            return None
        (drawn,) = self.chance_of_negatives.integers(step, range(1), user.shape[1])
        negatives = self.unseen.ranked(user, drawn % self.unseen.choices(user))
        return torch.where(asked, negatives, PAD)

    def _whole_windows(self, rows: int) -> int:
        return -(-rows // self.slots) * self.slots

    def _windows(self, users: Tensor, where: Tensor) -> tuple[Tensor, Tensor]:
        """From where to where: length + 1 events, beginning anywhere when a user has more."""
        starts, ends = self.starts[users], self.ends[users]
        spare = (ends - starts - (self.length + 1)).clamp_(min=0)
        ends = ends - where % (spare + 1)
        return torch.maximum(starts, ends - (self.length + 1)), ends


def _of_mean_one(split: Split, device: str) -> Tensor | None:
    """The weights of all events, so that only their ratios matter and no learning rate changes."""
    if split.weights is None:
        return None
    weights = split.weights / split.weights[split.trained()].mean()
    return torch.from_numpy(weights).to(device, torch.float32)


def _most(share: npt.NDArray[np.float64], count: int) -> int:
    """What the sum of so many numbers, drawn by these shares, exceeds seldom: `TOO_LARGE`.

    The sum's distribution is that of the numbers, convolved with itself: a power of its transform.
    """
    largest = count * (len(share) - 1)
    of_sum = np.fft.irfft(np.fft.rfft(share, largest + 1) ** count, largest + 1)
    exceeded = 1 - of_sum.cumsum()
    return int(np.argmax(exceeded < TOO_LARGE))
