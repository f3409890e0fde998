"""Batches of windows of histories, with the questions of the model's task about them."""

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
from whence.training.negatives import SharedDraws, Unseen


class PartDropout:
    """Removes random items from some histories, as explainers do.

    The number of items that stay follows the Shapley kernel, and which ones stay is uniform.
    """

    def __init__(
        self, share: float, longest: int, randomness: Sequence[Randomness], device: str
    ) -> None:
        self.share = share
        self.sizes = SizeSampler(longest, device)
        self.random = CounterRandom([one.key("part_dropout") for one in randomness], device)

    def draw(self, step: Tensor, layout: BatchLayout, items: Tensor) -> Tensor:
        """Return which rows stay in a step, `[S, T]`; only `items` `[S, T]` can be removed."""
        (order,) = self.random.integers(step, range(1), items.shape[1])
        which, size = self.random.integers(step, range(1, 3), layout.sizes.shape[1])
        counts = layout.count(items)
        chosen = bernoulli(which, self.share)
        present = torch.where(chosen, self.sizes.draw(counts, size), counts)
        return ~items | (layout.rank(order, items) < present.gather(1, layout.history))


RANKS = 2**40
"""The random numbers that rank the rows of a history are below it; equal ones are very rare."""


@dataclass(frozen=True, eq=False)
class BatchLayout:
    """How the `B` histories of a batch follow each other in its `T` rows, for each of `S` seeds."""

    sizes: Tensor
    """`[S, B]`: the number of rows of each history."""
    ends: Tensor
    """`[S, B]`: the row after the last one of each history, which can lie outside the batch."""
    row: Tensor
    """`[S, T]`: the number of each row."""
    history: Tensor
    """`[S, T]`: the history that each row belongs to."""
    real: Tensor
    """`[S, T]`: whether the row belongs to a history; the others are padding."""

    def count(self, marked: Tensor) -> Tensor:
        """Return how many rows of each history `[S, B]` are marked `[S, T]`."""
        before = F.pad(marked.cumsum(1), (1, 0))
        rows = marked.shape[1]
        ends, starts = (one.clamp(max=rows) for one in (self.ends, self.ends - self.sizes))
        return before.gather(1, ends) - before.gather(1, starts)

    def rank(self, numbers: Tensor, marked: Tensor) -> Tensor:
        """Return how many marked rows of the same history have a smaller number, `[S, T]`.

        The answer for rows that are not marked has no meaning.
        """
        group = 2 * self.history + ~marked
        order = (group * RANKS + numbers % RANKS).argsort(dim=1, stable=True)
        return order.argsort(dim=1) - (self.ends - self.sizes).gather(1, self.history)


def first_marked(marked: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the first `count` rows that are marked, `[S, M]`, and whether they exist."""
    number = marked.cumsum(1)
    wanted = torch.arange(1, count + 1, device=marked.device).repeat(len(marked), 1)
    found = wanted <= number[:, -1:]
    return torch.where(found, torch.searchsorted(number, wanted), 0), found


class MaskDraws:
    """Masks each item with the same probability, and at least one item of every history."""

    def __init__(self, task: Cloze, randomness: Sequence[Randomness], device: str) -> None:
        self.task = task
        self.random = CounterRandom([one.key("masks") for one in randomness], device)

    def draw(self, step: Tensor, layout: BatchLayout) -> Tensor:
        """Return which rows are masked in a step, `[S, T]`."""
        (each,) = self.random.integers(step, range(1), layout.row.shape[1])
        one, kind = self.random.integers(step, range(1, 3), layout.sizes.shape[1])
        masked = layout.real & bernoulli(each, self.task.mask_prob)
        chosen = layout.ends - 1 - one % layout.sizes
        needs_one = layout.count(masked) == 0
        if self.task.last_mask_prob:
            only_last = bernoulli(kind, self.task.last_mask_prob)
            masked &= ~only_last.gather(1, layout.history)
            chosen = torch.where(only_last, layout.ends - 1, chosen)
            needs_one |= only_last
        chosen = torch.where(needs_one, chosen, -1)
        return masked | (layout.row == chosen.gather(1, layout.history))

    def share_of_counts(self, sizes: Floats) -> Floats:
        """Return the frequencies of 0, 1, … masks, given the frequencies of 0, 1, … rows."""
        share = np.zeros(len(sizes))
        binomial = np.ones(1)  # of 0, 1, … masks if each item is masked with probability γ
        for size, frequency in enumerate(sizes):
            share[: size + 1] += frequency * binomial
            binomial = np.convolve(binomial, (1 - self.task.mask_prob, self.task.mask_prob))
        share *= 1 - self.task.last_mask_prob
        share[1] += share[0] + self.task.last_mask_prob
        share[0] = 0
        return share


NEXT_ITEM = NextItem()
TOO_LARGE = 1e-3
"""The probability that a batch exceeds the fixed size, if there is one."""


class HistoryBatches:
    """Draws users with replacement, a window of the training events of each, and questions.

    The batches of all seeds are drawn together, as long as the longest. Each seed draws what it
    would draw alone. All of it happens on the device, and no step depends on the number of users.

    With `one_size`, all batches have the same number of rows and questions, as a recorded step
    requires. What exceeds them is left out, which happens less than once in a thousand steps.
    """

    def __init__(
        self,
        split: Split,
        max_len: int,
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
                "No user has two training events, so there is nothing to train on. Use more data, "
                "a split that holds out less, or --model popularity."
            )
        self.users, self.starts, self.ends, self.items = (
            torch.from_numpy(numbers).to(device)
            for numbers in (users, starts, ends, split.interactions.items)
        )
        self.weights = _scaled_weights(split, device)
        self.max_len, self.size, self.device = max_len, size, device
        self.masks = MaskDraws(task, randomness, device) if isinstance(task, Cloze) else None
        self.ahead = 1 if self.masks is None else 0
        """The number of events at the end of a window that are targets only."""
        self.slots = max_len + 1 - self.ahead
        """The largest number of rows of a history."""
        self.rows: int | None = None
        self.questions: int | None = None
        if one_size:
            sizes = np.minimum(ends[users] - starts[users] - self.ahead, self.slots)
            share = np.bincount(sizes) / len(sizes)
            self.rows = self._whole_windows(_largest_sum(share, size))
            if self.masks is not None:
                self.questions = _largest_sum(self.masks.share_of_counts(share), size)
        self.part_dropout = (
            PartDropout(part_dropout, self.slots, randomness, device) if part_dropout else None
        )
        wanted = task.negatives
        self.unseen = Unseen.of(split, device) if wanted.unseen else None
        self.shared = SharedDraws(split, wanted, device) if wanted.shared else None
        self.random, self.negative_random = (
            CounterRandom([one.key(stream) for one in randomness], device)
            for stream in ("batches", "negatives")
        )

    @property
    def steps_per_epoch(self) -> int:
        """The number of steps that draw as many histories as there are users."""
        return -(-len(self.users) // self.size)

    def prepare(self, step: int) -> Hashable:
        """Return the same for every step: shapes are equal if that matters."""
        return None

    def draw(self, step: Tensor) -> Batch:
        """Return the batch `[S, T]` of a step."""
        who, where = self.random.integers(step, range(2), self.size)
        users = self.users[who % len(self.users)]
        starts, ends = self._windows(users, where)
        layout = self._layout(ends - starts - self.ahead)
        behind = torch.where(layout.real, layout.ends.gather(1, layout.history) - layout.row, 1)
        event = ends.gather(1, layout.history) - self.ahead - behind
        inputs = Packed(
            items=torch.where(layout.real, self.items[event], PAD),
            slots=self.slots - behind,
            histories=torch.where(layout.real, layout.history, NO_HISTORY),
        )
        user = users.gather(1, layout.history)
        if self.masks is not None:
            masked = self.masks.draw(step, layout)
            batch = self._masked_batch(inputs, masked, step, layout, user, event)
        else:
            batch = self._next_items(inputs, step, layout, user, event)
        if self.shared is None:
            return batch
        (drawn,) = self.negative_random.integers(step, range(1), self.shared.count)
        shared, log_q = self.shared.draw(drawn)
        return batch._replace(shared=shared, shared_log_q=log_q)

    def _next_items(
        self, inputs: Packed, step: Tensor, layout: BatchLayout, user: Tensor, event: Tensor
    ) -> Batch:
        """Return the questions about the events after all rows `[S, T]`."""
        return Batch(
            inputs._replace(present=self._present(step, layout, layout.real)),
            positives=torch.where(layout.real, self.items[event + 1], PAD),
            negatives=self._negatives(step, user, layout.real),
            weights=None if self.weights is None else self.weights[event + 1],
        )

    def _masked_batch(
        self,
        inputs: Packed,
        masked: Tensor,
        step: Tensor,
        layout: BatchLayout,
        user: Tensor,
        event: Tensor,
    ) -> Batch:
        """Return the questions about masked rows `[S, T]`; a masked item is never removed."""
        rows, found = first_marked(masked, self.questions or int(masked.sum(1).max()))
        return Batch(
            inputs._replace(
                items=torch.where(masked, PAD, inputs.items),
                present=self._present(step, layout, layout.real & ~masked),
            ),
            positives=torch.where(found, inputs.items.gather(1, rows), PAD),
            negatives=self._negatives(step, user.gather(1, rows), found),
            rows=rows,
            weights=None if self.weights is None else self.weights[event.gather(1, rows)],
        )

    def _layout(self, sizes: Tensor) -> BatchLayout:
        """Lay out histories of these sizes `[S, B]` one after another."""
        ends = sizes.cumsum(1)
        rows = self.rows or self._whole_windows(int(ends[:, -1].max()))
        row = torch.arange(rows, device=self.device).repeat(len(sizes), 1)
        history = torch.searchsorted(ends, row, right=True)
        real = history < self.size
        return BatchLayout(sizes, ends, row, history.clamp_(max=self.size - 1), real)

    def _present(self, step: Tensor, layout: BatchLayout, items: Tensor) -> Tensor | None:
        """Return which rows stay, `[S, T]`, if part dropout removes some."""
        return None if self.part_dropout is None else self.part_dropout.draw(step, layout, items)

    def _negatives(self, step: Tensor, user: Tensor, asked: Tensor) -> Tensor | None:
        """Return an item that the user has not seen for every question, `[S, M]`."""
        if self.unseen is None:
            return None
        (drawn,) = self.negative_random.integers(step, range(1), user.shape[1])
        negatives = self.unseen.ranked(user, drawn % self.unseen.choices(user))
        return torch.where(asked, negatives, PAD)

    def _whole_windows(self, rows: int) -> int:
        return -(-rows // self.slots) * self.slots

    def _windows(self, users: Tensor, where: Tensor) -> tuple[Tensor, Tensor]:
        """Return starts and ends of windows of max_len + 1 events, at random if there are more."""
        starts, ends = self.starts[users], self.ends[users]
        spare = (ends - starts - (self.max_len + 1)).clamp_(min=0)
        ends = ends - where % (spare + 1)
        return torch.maximum(starts, ends - (self.max_len + 1)), ends


def _scaled_weights(split: Split, device: str) -> Tensor | None:
    """Return the weights of all events, scaled to a mean of 1."""
    if split.weights is None:
        return None
    weights = split.weights / split.weights[split.trained()].mean()
    return torch.from_numpy(weights).to(device, torch.float32)


def _largest_sum(share: npt.NDArray[np.float64], count: int) -> int:
    """Return what the sum of `count` random numbers with these frequencies seldom exceeds.

    The distribution of the sum is a convolution: a power of the Fourier transform.
    """
    largest = count * (len(share) - 1)
    of_sum = np.fft.irfft(np.fft.rfft(share, largest + 1) ** count, largest + 1)
    exceeded = 1 - of_sum.cumsum()
    return int(np.argmax(exceeded < TOO_LARGE))
