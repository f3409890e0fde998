"""Training batches of single questions: an event, or an item that its user has not met."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

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
)
from whence.randomness import CounterRandom, Randomness
from whence.training.negatives import Unseen


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

    def begin(self, step: int) -> int:
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


# ...


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
    def steps_of_an_epoch(self) -> int:
        """Until everything was asked once."""
        return self.order.steps

    def begin(self, step: int) -> Hashable:
        """Every step has the same size."""
        self.order.begin(step)
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
