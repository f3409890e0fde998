"""Simple models that are counted, not trained: popularity, and what followed the newest item.

A model that does not beat them is not worth its training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from whence.contract import DROPPED, PAD, All
from whence.data.splits import Split
from whence.errors import InputError
from whence.models.base import OwnReason, Recommender
from whence.models.item_pairs import ItemPairs
from whence.models.registry import MODELS, ModelSpec, items_only

POPULAR: Final = "many people {verb} this"
UNPOPULAR: Final = "few people {verb} this"
FOLLOWS: Final = "people who {verb} {item} often {verb} this next"
FOLLOWED: Final = "somebody who {verb} {item} {verb} this next"
OFTEN: Final = 3
"""How often an item must have followed another to say so, and more often than by its popularity."""


@dataclass(frozen=True)
class SimpleConfig:
    """The setting of every simple model."""

    max_len: int = 50
    """How many of a user's newest items the model reads, or a recommendation shows."""

    def __post_init__(self) -> None:
        if self.max_len < 1:
            raise InputError(f"max_len must be at least 1, not {self.max_len}.")

    @property
    def dropout(self) -> float:
        """Nothing is trained, so nothing is dropped."""
        return 0.0


@dataclass(frozen=True)
class PairsConfig(SimpleConfig):
    """The settings of a simple model that stores pairs of items."""

    pairs: int = 0
    """The number of stored pairs of items. Fitting sets it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pairs < 0:
            raise InputError(f"pairs must be at least 0, not {self.pairs}.")


class SimpleModel(Recommender):
    """Scores that are computed from the training events at once."""

    removal = DROPPED
    drops = 0
    config: SimpleConfig

    def parts(self, batch: Tensor) -> Tensor:
        """Return the slots with an item."""
        return batch != PAD

    def score(
        self,
        batch: Tensor,
        targets: Tensor | All,
        *,
        present: Tensor | None = None,
        embedded: Tensor | None = None,
        attention: Sequence[Tensor | None] | None = None,
    ) -> Tensor:
        """Return the scores of the targets for the items that are present."""
        self.require_length(batch)
        return self.score_rest(batch if present is None else batch.where(present, PAD), targets)

    def score_rest(self, batch: Tensor, targets: Tensor | All) -> Tensor:
        """Return `[B, t]` for histories that may have gaps."""
        raise NotImplementedError


def shares(split: Split) -> Tensor:
    """Return the share of each item in the training events, as if each had one event more.

    So no share is 0, and its logarithm is finite.
    """
    counts = split.item_counts().astype(np.float64) + 1
    return torch.from_numpy((counts / counts.sum()).astype(np.float32))


class Popularity(SimpleModel):
    """log p_j: the share of an item in all events. It is the same for every history."""

    share: Tensor

    def __init__(self, config: SimpleConfig, item_count: int, generator: torch.Generator) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("share", torch.ones(item_count))

    def fit_closed(self, split: Split) -> None:
        """Count the events."""
        self.share = shares(split).to(self.share.device)

    def score_rest(self, batch: Tensor, targets: Tensor | All) -> Tensor:
        """Return the logarithms of the shares."""
        if isinstance(targets, All):
            return self.share.log().expand(len(batch), -1)
        return self.share[targets].log()

    def own_reasons(self, batch: Tensor, targets: Tensor) -> list[OwnReason]:
        """Say whether a target has more events than items have on average."""
        return popularity_reasons(self.share, targets)


class LastItem(SimpleModel):
    """log (n_ij + p_j) / (n_i + 1): how often j came right after i, the newest item present.

    n_ij counts how often that was so in training, n_i is the sum over j, and p_j is the share of j
    in all events. So counts decide, and popularity decides between equal ones.
    """

    config: PairsConfig
    share: Tensor
    followed: Tensor
    """`[items]`: n_i."""

    def __init__(self, config: PairsConfig, item_count: int, generator: torch.Generator) -> None:
        super().__init__()
        self.config = config
        self.follows = ItemPairs(item_count, config.pairs)
        self.register_buffer("share", torch.ones(item_count))
        self.register_buffer("followed", torch.zeros(item_count))

    def fit_closed(self, split: Split) -> None:
        """Count the pairs of consecutive events."""
        interactions = split.interactions
        trained = split.trained()
        trained[interactions.offsets[:-1]] = False  # a user's first event follows nothing
        later = np.flatnonzero(trained)
        pair = (interactions.items[later - 1], interactions.items[later])
        shape = (interactions.item_count,) * 2
        follows = sparse.csr_array((np.ones(len(later), np.float32), pair), shape=shape)
        self.follows.fill(follows)
        device = self.share.device
        self.share = shares(split).to(device)
        self.followed = torch.from_numpy(follows.sum(axis=1)).to(device)
        self.config = replace(self.config, pairs=len(self.follows))

    def score_rest(self, batch: Tensor, targets: Tensor | All) -> Tensor:
        """Return the log-probabilities after the newest item; without one, those of popularity."""
        newest = newest_items(batch)[:, None]
        if isinstance(targets, All):
            count = self.follows.sum_rows(newest, torch.ones_like(newest, dtype=torch.float32))
            share = self.share
        else:
            count, share = self.follows.at(newest, targets), self.share[targets]
        total = self.followed[newest.clamp(min=0)] * (newest != PAD)
        return (count + share).log() - total.log1p()

    def own_reasons(self, batch: Tensor, targets: Tensor) -> list[OwnReason]:
        """Name the newest item if the target has followed it."""
        newest = newest_items(batch)
        count = self.follows.at(newest, targets)
        often = (count >= OFTEN) & (count > self.share[targets] * self.followed[newest])
        return [
            OwnReason(FOLLOWS if likely else FOLLOWED, item) if found else popular
            for item, found, likely, popular in zip(
                newest.tolist(),
                (count > 0).tolist(),
                often.tolist(),
                popularity_reasons(self.share, targets),
                strict=True,
            )
        ]


def popularity_reasons(share: Tensor, targets: Tensor) -> list[OwnReason]:
    """Say of each target whether it has more events than items have on average."""
    many = share[targets] * len(share) >= 1
    return [OwnReason(POPULAR if one else UNPOPULAR) for one in many.tolist()]


def newest_items(batch: Tensor) -> Tensor:
    """Return `[B]`: the last item of each history `[B, n]` that may have gaps, or `PAD`."""
    if not batch.shape[1]:
        return batch.new_full((len(batch),), PAD)
    slot = torch.arange(1, batch.shape[1] + 1, device=batch.device)
    return batch.gather(1, ((batch != PAD) * slot).argmax(dim=1)[:, None])[:, 0]


MODELS.add(
    "popularity",
    ModelSpec(
        SimpleConfig,
        items_only(Popularity),
        summary="How often all users chose an item; the same for everybody.",
        closed_form=True,
    ),
    tags=("simple",),
    place=110,
)
MODELS.add(
    "last-item",
    ModelSpec(
        PairsConfig,
        items_only(LastItem),
        summary="How often an item came right after the newest one.",
        closed_form=True,
    ),
    tags=("simple",),
    place=120,
)
