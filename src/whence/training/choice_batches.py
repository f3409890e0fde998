"""Batches of questions whether a user chose an item: single questions, or all of whole users.

Whole users are laid out in tiles, so that histories of different lengths waste little.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from whence.contract import PAD
from whence.data.splits import Split
from whence.errors import InputError
from whence.models.tasks import (
    DISLIKED,
    LIKED,
    NO_QUESTION,
    NOTHING,
    ChoiceBatch,
    Choices,
    Ratings,
    UserBatch,
    WholeUsers,
)
from whence.randomness import CounterRandom, Randomness
from whence.training.negatives import Unseen

WIDEST = 32
"""The largest number of items of a tile; users with few items have narrower tiles."""
AHEAD = 64
"""Steps that are drawn together if steps are recorded and have one user each."""
BETWEEN_SIZES = 1.25
"""The ratio of one recorded size of a batch to the next smaller one."""


class EpochOrder:
    """A random order of `N` things in every epoch, `size` per step; the last step has the rest.

    The order of the current epoch stays at the same address, as a recorded step requires.
    """

    def __init__(
        self, count: int, size: int, randomness: Sequence[Randomness], device: str = "cpu"
    ) -> None:
        self.count, self.size, self.device = count, size, device
        self.keys = [one.key("batches") for one in randomness]
        self.steps = -(-count // size)
        """The number of steps in an epoch."""
        self.epoch = -1
        self.drawn = torch.full(
            (len(self.keys), self.steps * size), count, dtype=torch.int64, device=device
        )
        """`[S, …]`: the numbers of the things in their order, then `N` as padding."""

    def prepare(self, step: int) -> int:
        """Return the place of a step in its epoch, and draw the order of a new epoch."""
        epoch, place = divmod(step, self.steps)
        if epoch != self.epoch:
            # Freed again: it holds a number for everything, and is needed once per epoch.
            random = CounterRandom(self.keys, self.device)
            number = torch.tensor(epoch, device=self.device)
            (numbers,) = random.integers(number, range(1), self.count)
            self.drawn[:, : self.count] = numbers.argsort(dim=1, stable=True)
            self.epoch = epoch
        return place

    def at(self, step: Tensor) -> Tensor:
        """Return the things of a step of the epoch, `[S, size]`, or of K steps, `[S · K, size]`."""
        first = (step % self.steps) * self.size
        found = self.drawn[:, first[..., None] + torch.arange(self.size, device=self.device)]
        return found.flatten(0, -2)


class ChoiceBatches:
    """Every training event and its negatives once per epoch, shuffled, `size` per step."""

    def __init__(
        self,
        split: Split,
        task: Choices,
        size: int,
        randomness: Sequence[Randomness],
        device: str = "cpu",
    ) -> None:
        events = np.flatnonzero(split.trained())
        if not len(events):
            raise InputError(
                "The split leaves no training events, so there is nothing to train on."
            )
        sizes = np.diff(split.interactions.offsets)
        users = np.repeat(np.arange(len(sizes)), sizes)[events]
        self.users, self.items, self.outcomes = (
            torch.from_numpy(np.append(numbers, filling)).to(device)  # padding of the last step
            for numbers, filling in (
                (users, 0),
                (split.interactions.items[events], 0),
                (outcomes(split, task)[events], NO_QUESTION),
            )
        )
        self.ratings: Tensor | None = None
        if isinstance(task, Ratings):
            assert split.interactions.ratings is not None
            rated = np.append(split.interactions.ratings[events], 0)
            self.ratings = torch.from_numpy(rated).to(device)
        self.each = 1 + task.negatives
        self.order = EpochOrder(self.each * len(events), size, randomness, device)
        self.unseen = Unseen.of(split, device)
        self.random = CounterRandom([one.key("negatives") for one in randomness], device)

    @property
    def steps_per_epoch(self) -> int:
        """The number of steps that ask every question once."""
        return self.order.steps

    def prepare(self, step: int) -> Hashable:
        """Return the same for every step: all have the same shape."""
        self.order.prepare(step)
        return None

    def draw(self, step: Tensor) -> ChoiceBatch:
        """Return the batch `[S, size]` of a step of the prepared epoch."""
        question = self.order.at(step)
        event = question // self.each
        users, outcomes = self.users[event], self.outcomes[event]
        (drawn,) = self.random.integers(step, range(1), question.shape[1])
        unseen = self.unseen.ranked(users, drawn % self.unseen.choices(users))
        seen = question % self.each == 0
        return ChoiceBatch(
            users,
            torch.where(seen, self.items[event].long(), unseen),
            torch.where(seen | (outcomes == NO_QUESTION), outcomes, NOTHING),
            None if self.ratings is None else self.ratings[event],
        )


def outcomes(split: Split, task: Choices) -> npt.NDArray[np.int64]:
    """Return the outcome of every event: liked, or disliked according to its rating."""
    interactions = split.interactions
    if task.disliked is None:
        return np.full(len(interactions), LIKED)
    if interactions.ratings is None:
        raise InputError(
            "Three classes need ratings, to tell liked from disliked items, and these data have "
            "none. Set n_classes=2."
        )
    found = np.where(interactions.ratings <= task.disliked, DISLIKED, LIKED)
    if (found == found[:1]).all():
        said = "above" if LIKED in found else "at most"
        raise InputError(
            f"Three classes need liked and disliked events, but all ratings are {said} "
            f"{task.disliked:g}. Set another dislike_threshold, or n_classes=2."
        )
    return found


class Tiles(NamedTuple):
    """The numbers of tiles of histories, of tiles of questions, and of pairs of both."""

    history: int
    questions: int
    pairs: int


class UserBatches:
    """Every user once per epoch, shuffled, `size` users per step.

    If a user has more events than the task allows, the latest are used. With `few_sizes`, a batch
    is padded to one of few sizes, as recorded steps require.
    """

    def __init__(
        self,
        split: Split,
        task: WholeUsers,
        size: int,
        randomness: Sequence[Randomness],
        device: str = "cpu",
        few_sizes: bool = False,
    ) -> None:
        ends = split.train_ends
        starts = np.maximum(split.interactions.offsets[:-1], ends - task.max_len)
        users = np.flatnonzero(ends > starts)
        if not len(users):
            raise InputError(
                "The split leaves no training events, so there is nothing to train on."
            )
        self.counts = np.append(
            (ends - starts)[users], 0
        )  # and an empty user, as padding of the last step
        self.device, self.few_sizes, self.each = device, few_sizes, 1 + task.negatives
        self.width = _width(self.counts[:-1].mean())
        self.users, self.starts, self.sizes, self.items, self.outcomes = (
            torch.from_numpy(numbers).to(device)
            for numbers in (
                np.append(users, 0),
                np.append(starts[users], 0),
                self.counts,
                split.interactions.items,
                outcomes(split, task),
            )
        )
        self.order = EpochOrder(len(users), size, randomness, device)
        self.unseen = Unseen.of(split, device)
        self.random = CounterRandom([one.key("negatives") for one in randomness], device)
        self.epoch = -1
        self.ahead = AHEAD if few_sizes and size == 1 else 0
        self.drawn_ahead: UserBatch | None = None
        """`[S, K, …]`: the batches of the current steps, always at the same address."""
        self.block = (-1, -1)
        self.prepare(0)

    @property
    def steps_per_epoch(self) -> int:
        """The number of steps that draw every user once."""
        return self.order.steps

    def prepare(self, step: int) -> Hashable:
        """Return the size of the batch of a step, the largest of all seeds."""
        place = self.order.prepare(step)
        if self.order.epoch != self.epoch:
            self.epoch = self.order.epoch
            self.sizes_of_epoch = self._sizes(self.order.drawn.cpu().numpy())
        self.tiles = Tiles(*self.sizes_of_epoch[place])
        if self.ahead and self.block != (self.epoch, place // self.ahead):
            self.block = (self.epoch, place // self.ahead)
            self._draw_ahead(step - place % self.ahead)
        return self.tiles

    def _draw_ahead(self, first: int) -> None:
        """Draw the batches of the next steps in the largest possible size."""
        most = -(-int(self.counts.max()) // self.width)
        most = int(_rounded_up(np.array([most]))[0])
        largest = Tiles(most + 1, self.each * most, 1)
        steps = torch.arange(first, first + self.ahead, device=self.device)
        drawn = self._draw(steps, largest)
        shaped = UserBatch(*(one.unflatten(0, (-1, self.ahead)) for one in drawn))
        if self.drawn_ahead is None:
            self.drawn_ahead = shaped
        else:
            for kept, new in zip(self.drawn_ahead, shaped, strict=True):
                kept.copy_(new)

    def _sizes(self, order: npt.NDArray[np.int64]) -> list[tuple[int, int, int]]:
        """Return the sizes of every step of an epoch, with one empty tile of histories."""
        counts = self.counts[order].reshape(len(order), self.order.steps, -1)
        of_history, of_questions = (-(-one // self.width) for one in (counts, counts * self.each))
        history, questions, pairs = (
            one.sum(axis=2).max(axis=0)
            for one in (of_history, of_questions, of_history * of_questions)
        )
        if self.few_sizes:
            history = _rounded_up(history)
            questions = self.each * history
            alone = counts.shape[2] == 1
            pairs = np.ones_like(history) if alone else _rounded_up(pairs)
        if not self.ahead:
            history = history + 1  # an empty tile for pairs that are padding
        return list(zip(history.tolist(), questions.tolist(), pairs.tolist(), strict=True))

    def draw(self, step: Tensor) -> UserBatch:
        """Return the batch `[S, …]` of the step that was prepared."""
        if self.drawn_ahead is None:
            return self._draw(step, self.tiles)
        number = ((step % self.order.steps) % self.ahead)[None]
        only = torch.zeros_like(self.order.drawn[:, :1])
        history, items, outcome = (
            # The tiles of a single user form one tile.
            one[:, :, :count].index_select(1, number).flatten(2)
            for one, count in zip(
                self.drawn_ahead, (self.tiles.history, *[self.tiles.questions] * 2), strict=False
            )
        )
        return UserBatch(history, items, outcome, only, only)

    def _draw(self, step: Tensor, tiles: Tiles) -> UserBatch:
        """Draw one step `[S, …]`, or K steps `[S · K, …]`, padded to these numbers of tiles."""
        who = self.order.at(step)
        sizes = self.sizes[who]
        history, questions = (_tiles(one, self.width) for one in (sizes, sizes * self.each))
        history_tile, question_tile = self._pairs(history, questions, tiles)
        owner, slot, real = self._places(sizes, history, tiles.history)
        event = self.starts[who].gather(1, owner)[:, :, None] + slot
        chosen = torch.where(real, self.items[torch.where(real, event, 0)].long(), PAD)
        owner, place, asked = self._places(sizes * self.each, questions, tiles.questions)
        event = self.starts[who].gather(1, owner)[:, :, None] + place // self.each
        event = torch.where(asked, event, 0)
        seen = place % self.each == 0
        unseen = self._unseen_items(step, self.users[who].gather(1, owner), place.shape)
        outcome = torch.where(seen, self.outcomes[event], NOTHING)
        return UserBatch(
            chosen,
            torch.where(asked, torch.where(seen, self.items[event].long(), unseen), PAD),
            torch.where(asked, outcome, NO_QUESTION),
            history_tile,
            question_tile,
        )

    def _places(self, sizes: Tensor, tiles: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return owners of tiles `[S, count]`, their places, and which exist `[S, count, w]`."""
        owner, number, there = _owners(tiles, count)
        place = number[:, :, None] * self.width + torch.arange(self.width, device=self.device)
        return owner, place, there[:, :, None] & (place < sizes.gather(1, owner)[:, :, None])

    def _pairs(self, history: Tensor, questions: Tensor, tiles: Tiles) -> tuple[Tensor, Tensor]:
        """Return all pairs of a history tile and a question tile of one user, `[S, P]` each."""
        owner, number, there = _owners(history * questions, tiles.pairs)
        own = history.gather(1, owner).clamp(min=1)
        first, first_question = (
            (one.cumsum(1) - one).gather(1, owner) for one in (history, questions)
        )
        empty = tiles.history - 1
        return (
            torch.where(there, first + number % own, empty),
            torch.where(there, first_question + number // own, 0),
        )

    def _unseen_items(self, step: Tensor, user: Tensor, shape: torch.Size) -> Tensor:
        """Return an item that the user has not seen for every place, `[S, Q, w]`."""
        (drawn,) = self.random.integers(step, range(1), shape[1] * shape[2])
        users = user[:, :, None].expand(shape)
        return self.unseen.ranked(users, drawn.view(shape) % self.unseen.choices(users))


def _owners(numbers: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the owner of each, its number there, and whether it exists, `[S, count]`.

    The first owner has the first `numbers`, the next owner the next, and so on.
    """
    reach = numbers.cumsum(1)
    row = torch.arange(count, device=numbers.device).repeat(len(numbers), 1)
    owner = torch.searchsorted(reach, row, right=True)
    there = owner < numbers.shape[1]
    owner = owner.clamp_(max=numbers.shape[1] - 1)
    return owner, row - (reach - numbers).gather(1, owner), there


def _tiles(sizes: Tensor, width: int) -> Tensor:
    """Return the number of tiles that hold that many items."""
    return (sizes + width - 1) // width


def _width(mean: float) -> int:
    """Return the width of tiles: a power of two near a quarter of what a user has."""
    return int(2 ** min(max(round(math.log2(mean / 4)), 2), math.log2(WIDEST)))


def _rounded_up(sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Round up to few sizes: 1, 2, …, each about a quarter larger than the one before."""
    few = [1]
    while few[-1] < sizes.max():
        few.append(max(few[-1] + 1, math.ceil(BETWEEN_SIZES * few[-1])))
    found: npt.NDArray[np.int64] = np.array(few)[np.searchsorted(few, sizes)]
    return found
