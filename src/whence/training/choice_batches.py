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
"""Items of a tile, at most; the fewer a user has, the narrower it is."""
AHEAD = 64
"""Steps that are drawn at once where a step is recorded and of one user: it draws many numbers."""
BETWEEN_SIZES = 1.25
"""Where every size of a batch is recorded, it is so many times the one below it."""


class Order:
    """Of `N` things, `size` a step; the last step of an epoch has what is left.

    The order of the epoch at hand stays in one place of memory, as a recorded step needs it.
    """

    def __init__(
        self, count: int, size: int, randomness: Sequence[Randomness], device: str = "cpu"
    ) -> None:
        self.count, self.size, self.device = count, size, device
        self.keys = [one.key("batches") for one in randomness]
        self.steps = -(-count // size)
        """Of an epoch."""
        self.epoch = -1
        self.drawn = torch.full(
            (len(self.keys), self.steps * size), count, dtype=torch.int64, device=device
        )
        """`[S, …]`: the things' numbers in their order, and `N` where there is none."""

    def prepare(self, step: int) -> int:
        """The place of that step in its epoch, whose order is drawn if it is a new one."""
        epoch, place = divmod(step, self.steps)
        if epoch != self.epoch:
            # Not kept: its numbers are as many as the things, and come once an epoch.
            chance = CounterRandom(self.keys, self.device)
            turn = torch.tensor(epoch, device=self.device)
            (numbers,) = chance.integers(turn, range(1), self.count)
            self.drawn[:, : self.count] = numbers.argsort(dim=1, stable=True)
            self.epoch = epoch
        return place

    def at(self, step: Tensor) -> Tensor:
        """`[S, size]`: what comes in that step of the epoch at hand; in several `[S · K, size]`."""
        first = (step % self.steps) * self.size
        found = self.drawn[:, first[..., None] + torch.arange(self.size, device=self.device)]
        return found.flatten(0, -2)


class ChoiceBatches:
    """Every training event and its negatives once an epoch, shuffled, `size` questions a step."""

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
            raise InputError("There are no events besides those held out; nothing to train on.")
        sizes = np.diff(split.interactions.offsets)
        users = np.repeat(np.arange(len(sizes)), sizes)[events]
        self.users, self.items, self.outcomes = (
            torch.from_numpy(np.append(numbers, filling)).to(device)  # for the last step's rest
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
        self.order = Order(self.each * len(events), size, randomness, device)
        self.unseen = Unseen.of(split, device)
        self.chance = CounterRandom([one.key("negatives") for one in randomness], device)

    @property
    def steps_per_epoch(self) -> int:
        """Until everything was asked once."""
        return self.order.steps

    def prepare(self, step: int) -> Hashable:
        """Every step has the same size."""
        self.order.prepare(step)
        return None

    def draw(self, step: Tensor) -> ChoiceBatch:
        """The batch `[S, size]` of that step, in the epoch that was begun."""
        question = self.order.at(step)
        event = question // self.each
        users, outcomes = self.users[event], self.outcomes[event]
        (drawn,) = self.chance.integers(step, range(1), question.shape[1])
        unmet = self.unseen.ranked(users, drawn % self.unseen.choices(users))
        met = question % self.each == 0
        return ChoiceBatch(
            users,
            torch.where(met, self.items[event].long(), unmet),
            torch.where(met | (outcomes == NO_QUESTION), outcomes, NOTHING),
            None if self.ratings is None else self.ratings[event],
        )


def outcomes(split: Split, task: Choices) -> npt.NDArray[np.int64]:
    """What came of every event: it was liked, or its rating says that it was not."""
    interactions = split.interactions
    if task.disliked is None:
        return np.full(len(interactions), LIKED)
    if interactions.ratings is None:
        raise InputError(
            "Three classes need ratings, to tell liked from disliked, and these data have none; "
            "say n_classes=2."
        )
    found = np.where(interactions.ratings <= task.disliked, DISLIKED, LIKED)
    if (found == found[:1]).all():
        said = "above" if LIKED in found else "at most"
        raise InputError(
            f"Three classes need liked and disliked events, and all ratings are {said} "
            f"{task.disliked:g}; say another highest rating of what is disliked, or n_classes=2."
        )
    return found


class Tiles(NamedTuple):
    """How many there are: of histories, of questions, and of pairs of both."""

    history: int
    questions: int
    pairs: int


class UserBatches:
    """Every user once an epoch, shuffled, `size` users a step.

    A user with more events than the task's length has the newest of them. With `few_sizes`, a
    batch is filled up to one of few sizes, as recorded graphs need it.
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
            raise InputError("No user has an event besides those held out; nothing to train on.")
        self.counts = np.append((ends - starts)[users], 0)  # and nobody, for the last step's rest
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
        self.order = Order(len(users), size, randomness, device)
        self.unseen = Unseen.of(split, device)
        self.chance = CounterRandom([one.key("negatives") for one in randomness], device)
        self.epoch = -1
        self.ahead = AHEAD if few_sizes and size == 1 else 0
        self.drawn_ahead: UserBatch | None = None
        """`[S, K, …]`: those of the steps at hand, always in the same place of memory."""
        self.block = (-1, -1)
        self.prepare(0)

    @property
    def steps_per_epoch(self) -> int:
        """Until every user was there once."""
        return self.order.steps

    def prepare(self, step: int) -> Hashable:
        """The size of that step's batch; of several seeds the largest."""
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
        """The steps from there on, as large as the largest there can be."""
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
        """Of every step of an epoch; one tile of histories more, which is empty."""
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
            history = history + 1  # a tile that is empty, for pairs that are filling
        return list(zip(history.tolist(), questions.tolist(), pairs.tolist(), strict=True))

    def draw(self, step: Tensor) -> UserBatch:
        """The batch `[S, …]` of that step, which was begun."""
        if self.drawn_ahead is None:
            return self._draw(step, self.tiles)
        number = ((step % self.order.steps) % self.ahead)[None]
        only = torch.zeros_like(self.order.drawn[:, :1])
        history, items, outcome = (
            # The tiles of one user, who is alone, are one tile.
            one[:, :, :count].index_select(1, number).flatten(2)
            for one, count in zip(
                self.drawn_ahead, (self.tiles.history, *[self.tiles.questions] * 2), strict=False
            )
        )
        return UserBatch(history, items, outcome, only, only)

    def _draw(self, step: Tensor, tiles: Tiles) -> UserBatch:
        """Of one step `[S, …]`, or of several `[S · K, …]`, filled up to so many tiles."""
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
        met = place % self.each == 0
        unmet = self._unmet(step, self.users[who].gather(1, owner), place.shape)
        outcome = torch.where(met, self.outcomes[event], NOTHING)
        return UserBatch(
            chosen,
            torch.where(asked, torch.where(met, self.items[event].long(), unmet), PAD),
            torch.where(asked, outcome, NO_QUESTION),
            history_tile,
            question_tile,
        )

    def _places(self, sizes: Tensor, tiles: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
        """`[S, count]` and `[S, count, w]`: a tile's owner, its places, and which there are."""
        owner, number, there = _shared_out(tiles, count)
        place = number[:, :, None] * self.width + torch.arange(self.width, device=self.device)
        return owner, place, there[:, :, None] & (place < sizes.gather(1, owner)[:, :, None])

    def _pairs(self, history: Tensor, questions: Tensor, tiles: Tiles) -> tuple[Tensor, Tensor]:
        """`[S, P]` each: all tiles of a user's history, for each tile of their questions."""
        owner, number, there = _shared_out(history * questions, tiles.pairs)
        own = history.gather(1, owner).clamp(min=1)
        first, first_question = (
            (one.cumsum(1) - one).gather(1, owner) for one in (history, questions)
        )
        empty = tiles.history - 1
        return (
            torch.where(there, first + number % own, empty),
            torch.where(there, first_question + number // own, 0),
        )

    def _unmet(self, step: Tensor, user: Tensor, shape: torch.Size) -> Tensor:
        """`[S, Q, w]`: an item that the user has not met, for every place."""
        (drawn,) = self.chance.integers(step, range(1), shape[1] * shape[2])
        users = user[:, :, None].expand(shape)
        return self.unseen.ranked(users, drawn.view(shape) % self.unseen.choices(users))


def _shared_out(numbers: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """`[S, count]`: whose each is, if everyone has so many in turn, its number, and if it is."""
    reach = numbers.cumsum(1)
    row = torch.arange(count, device=numbers.device).repeat(len(numbers), 1)
    owner = torch.searchsorted(reach, row, right=True)
    there = owner < numbers.shape[1]
    owner = owner.clamp_(max=numbers.shape[1] - 1)
    return owner, row - (reach - numbers).gather(1, owner), there


def _tiles(sizes: Tensor, width: int) -> Tensor:
    """How many tiles hold so many items."""
    return (sizes + width - 1) // width


def _width(mean: float) -> int:
    """Of tiles: about a quarter of what a user has, as a power of two."""
    return int(2 ** min(max(round(math.log2(mean / 4)), 2), math.log2(WIDEST)))


def _rounded_up(sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """To few: 1, 2, …, and from there on each a quarter more than the one below."""
    few = [1]
    while few[-1] < sizes.max():
        few.append(max(few[-1] + 1, math.ceil(BETWEEN_SIZES * few[-1])))
    found: npt.NDArray[np.int64] = np.array(few)[np.searchsorted(few, sizes)]
    return found
