"""What every trainable recommender is."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor, nn

from whence.contract import Explainable
from whence.models.packed import Packed
from whence.randomness import Drop


class ModelConfig(Protocol):
    """What every model's configuration has."""

    @property
    def length(self) -> int:
        """The longest history the model reads."""

    @property
    def dropout(self) -> float:
        """The share of values dropped in training."""


class Recommender(nn.Module, Explainable):
    """The contract, a configuration, and scores after every item to learn from."""

    config: ModelConfig
    drops: int = 1
    """How often `next_scores` drops, for then all is drawn at once; a wrong number only costs time.
    """

    def next_scores(self, batch: Packed, targets: Tensor, drop: Drop) -> Tensor:
        """`[T, t]`: after every item, the scores of its targets `[T, t]`.

        Seeds train together through `torch.vmap`: so no step in it may depend on a value, or write
        into a tensor that it was not given. Rows may be filling, up to the length of other seeds'
        batches; no statistic over rows may count them.
        """
        raise NotImplementedError
