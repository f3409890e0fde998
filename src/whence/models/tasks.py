"""Training tasks, and the batches that training draws for them.

A model names its task and computes its own loss on a batch; it does not know how batches are drawn.
In a stack of seeds, the first dimension of every tensor is the seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor


@dataclass(frozen=True)
class Negatives:
    """The wrong items of a batch. There are none for a loss over all items."""

    unseen: bool = False
    """Whether every question gets one random item that its user has not seen."""
    shared: int = 0
    """The number of random items that all questions share."""
    half_by_count: bool = False
    """Whether half of the shared items are drawn in proportion to their training events.

    The others are drawn uniformly.
    """


NO_NEGATIVES, ONE_UNSEEN = Negatives(), Negatives(unseen=True)


@dataclass(frozen=True)
class NextItem:
    """Predict the item that came next, after every item of a history."""

    negatives: Negatives = ONE_UNSEEN


@dataclass(frozen=True)
class Cloze:
    """Predict the masked items of a history."""

    mask_prob: float
    """γ, the share of items to mask. At least one item of every history is masked."""
    last_mask_prob: float
    """The share of histories in which only the last item is masked."""
    negatives: Negatives = NO_NEGATIVES


@dataclass(frozen=True)
class Choices:
    """Predict the outcome of single events, and of items that the user has not seen."""

    negatives: int
    """Unseen items per event."""
    disliked: float | None
    """The highest rating that means disliked; `None` if ratings are not used."""


@dataclass(frozen=True)
class Ratings(Choices):
    """Predict the rating of single events."""

    negatives: int = 0
    disliked: float | None = None


@dataclass(frozen=True)
class WholeUsers(Choices):
    """Predict the outcomes of all events of a user at once, each from the user's other events."""

    max_len: int
    """How many of a user's newest events count; older ones are left out."""


Task = NextItem | Cloze | Choices

LIKED, NOTHING, DISLIKED = range(3)
"""The outcomes of an item."""
NO_QUESTION = -1
"""The outcome of padding, which has no question."""
NO_HISTORY = -1
"""The history number of rows that fill up the last window."""


class Packed(NamedTuple):
    """`T` rows: the items of several histories one after another, and then padding.

    Without padding between histories, training computes hardly any row in vain.
    """

    items: Tensor
    """`[T]`: item numbers, oldest first in each history, or `PAD`."""
    slots: Tensor
    """`[T]`: the slot the item would have in a padded history, whose last slot is the newest."""
    histories: Tensor
    """`[T]`: the number of the history, ascending, or `NO_HISTORY`."""
    present: Tensor | None = None
    """`[T]`: whether rows may attend to it; `None` if all are present."""

    @property
    def real(self) -> Tensor:
        """`[T]`: the rows that are not padding."""
        return self.histories != NO_HISTORY

    def for_seed(self, number: int) -> Packed:
        """Return the rows of one seed of a stack."""
        items, slots, histories, present = self
        present = None if present is None else present[number]
        return Packed(items[number], slots[number], histories[number], present)


class Batch(NamedTuple):
    """Packed histories, and `M` questions about them."""

    inputs: Packed
    positives: Tensor
    """`[M]`: the right items; `PAD` if there is no question."""
    negatives: Tensor | None = None
    """`[M]`: a wrong item for each question, if the task has them."""
    rows: Tensor | None = None
    """`[M]`: the row of each question; `None` if every row has one, so that `M = T`."""
    weights: Tensor | None = None
    """`[M]`: the weight of each question, 1 on average; `None` if all weights are 1."""
    shared: Tensor | None = None
    """`[K]`: wrong items that all questions share, if the task has them.

    An item can be among them twice, and can be the right item of some questions.
    """
    shared_log_q: Tensor | None = None
    """`[K]`: log q of each shared item, where q is its probability in a draw."""

    def for_seed(self, number: int) -> Batch:
        """Return the batch of one seed of a stack."""
        inputs, positives, *others = self
        return Batch(
            inputs.for_seed(number),
            positives[number],
            *(None if one is None else one[number] for one in others),
        )

    def weigh(self, losses: Tensor) -> Tensor:
        """Multiply the losses `[M]` with the weights of their questions."""
        return losses if self.weights is None else losses * self.weights

    @property
    def size(self) -> int:
        """The number of rows to compute."""
        return self.inputs.items.numel()


class ChoiceBatch(NamedTuple):
    """`M` questions about the outcome of a user and an item."""

    users: Tensor
    items: Tensor
    outcomes: Tensor
    """`LIKED`, `NOTHING`, `DISLIKED` or `NO_QUESTION`."""
    ratings: Tensor | None = None
    """`[M]`: the user's rating of the item, if the task needs it."""

    def for_seed(self, number: int) -> ChoiceBatch:
        """Return the batch of one seed of a stack."""
        ratings = None if self.ratings is None else self.ratings[number]
        return ChoiceBatch(self.users[number], self.items[number], self.outcomes[number], ratings)

    @property
    def size(self) -> int:
        """The number of questions."""
        return self.items.numel()


class UserBatch(NamedTuple):
    """Whole users: the items they chose, and questions about those and about unseen items.

    Both are cut into tiles of items of one user. So only a user's last tile needs padding, and a
    model that compares every item of a history with every question does so by pairs of tiles.
    """

    history: Tensor
    """`[H, w]`: chosen items, or `PAD` as padding; the last tile is all padding."""
    items: Tensor
    """`[Q, w]`: the items of the questions."""
    outcomes: Tensor
    """`[Q, w]`: as in `ChoiceBatch`."""
    history_tile: Tensor
    """`[P]`: the history tile of every pair of tiles of the same user."""
    question_tile: Tensor
    """`[P]`: the question tile of every pair."""

    def for_seed(self, number: int) -> UserBatch:
        """Return the batch of one seed of a stack."""
        return UserBatch(*(one[number] for one in self))

    @property
    def size(self) -> int:
        """The number of questions."""
        return self.items.numel()


AnyBatch = Batch | ChoiceBatch | UserBatch
