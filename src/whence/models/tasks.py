"""What models learn from: the tasks they can be set, and the batches that training draws for them.

A model names its task and works out its own loss on a batch; it does not know how one is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from whence.models.packed import Packed


@dataclass(frozen=True)
class NextItem:
    """After every item: which one came next, and one that did not."""


@dataclass(frozen=True)
class Cloze:
    """Behind every mask: which item it hides."""

    share: float
    """γ, of the items that are masked; of every history at least one is."""
    only_last: float
    """The share of histories in which the last item is masked, and no other."""
    negatives: bool
    """Whether an item that is not hidden there is asked for too."""


@dataclass(frozen=True)
class Choices:
    """Of single events, and of items that the user has not met: what comes of the item?"""

    negatives: int
    """Items that are not met, for every event."""
    disliked: float | None
    """The highest rating that says so of an item; none asks for no ratings."""


@dataclass(frozen=True)
class Ratings(Choices):
    """Of single events alone: how is the item rated?"""

    negatives: int = 0
    disliked: float | None = None


@dataclass(frozen=True)
class WholeUsers(Choices):
    """The same of all events of a user at once, each seen from the user's others."""

    length: int
    """The newest events of a user, which are all that there is of one with more."""


Task = NextItem | Cloze | Choices

LIKED, NOTHING, DISLIKED = range(3)
"""What comes of an item."""
NO_QUESTION = -1
"""Stands where a batch is only filled up."""


class Batch(NamedTuple):
    """Packed histories, and `M` questions about them: which item is right, and which is not.

    In a stack of seeds every tensor has the seeds before its other dimensions.
    """

    inputs: Packed
    positives: Tensor
    """`[M]`: the right items; `PAD` where there is no question."""
    negatives: Tensor | None = None
    """`[M]`: items that are not right, where the task has some."""
    rows: Tensor | None = None
    """`[M]`: the row that each question is about. None says that every row has one: `M = T`."""
    weights: Tensor | None = None
    """`[M]`: how much each question counts, 1 on average over all. None says that all do alike."""

    def of(self, number: int) -> Batch:
        """The batch of one seed of a stack."""
        negatives, rows, weights = (
            None if one is None else one[number]
            for one in (self.negatives, self.rows, self.weights)
        )
        return Batch(self.inputs.of(number), self.positives[number], negatives, rows, weights)

    def weigh(self, losses: Tensor) -> Tensor:
        """`[M]`: the losses of all questions, each as much as it counts."""
        return losses if self.weights is None else losses * self.weights

    @property
    def size(self) -> int:
        """How many rows are computed."""
        return self.inputs.items.numel()


class ChoiceBatch(NamedTuple):
    """`M` questions: what comes of an item, with a user? In a stack `[S, M]`."""

    users: Tensor
    items: Tensor
    outcomes: Tensor
    """`LIKED`, `NOTHING` or `DISLIKED`, and `NO_QUESTION` where there is none."""
    ratings: Tensor | None = None
    """`[M]`: how the user rated the item, where the task asks for that."""

    def of(self, number: int) -> ChoiceBatch:
        """The batch of one seed of a stack."""
        ratings = None if self.ratings is None else self.ratings[number]
        return ChoiceBatch(self.users[number], self.items[number], self.outcomes[number], ratings)

    @property
    def size(self) -> int:
        """How many questions."""
        return self.items.numel()


class UserBatch(NamedTuple):
    """Whole users: what each chose, and questions about it and about what they did not meet.

    Both are laid out in tiles of items of one user. So only a user's last tile is filled up,
    and what looks at every item of a history for every question does it by pairs of tiles.
    """

    history: Tensor
    """`[H, w]`: items that a user chose, and `PAD` as filling; all of the last tile is that."""
    items: Tensor
    """`[Q, w]`: what is asked about."""
    outcomes: Tensor
    """`[Q, w]`: as in `ChoiceBatch`."""
    history_tile: Tensor
    """`[P]`: the first of every pair of tiles that are of the same user."""
    question_tile: Tensor
    """`[P]`: the second of every pair."""

    def of(self, number: int) -> UserBatch:
        """The batch of one seed of a stack."""
        return UserBatch(*(one[number] for one in self))

    @property
    def size(self) -> int:
        """How many questions."""
        return self.items.numel()


AnyBatch = Batch | ChoiceBatch | UserBatch
