"""Collaborative filtering with content that learns ratings: a real number, and no classes.

It is asked about what was rated alone, and its score is the rating it expects. An expert answers
with a mean and with the share of the ratings' variance that it leaves open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from whence.contract import All
from whence.data.interactions import Counts
from whence.data.splits import Split
from whence.errors import InputError
from whence.experts.targets import Real, Target
from whence.models.content_ncf import (
    ContentNCF,
    ContentNCFConfig,
    InterpretableNCF,
    InterpretableNCFConfig,
)
from whence.models.tasks import ChoiceBatch, Ratings


class RatedNCF(ContentNCF):
    """The ordinary network, and what experts need beside theirs."""

    predicts_probabilities = False
    targets: ClassVar[Mapping[int, Target]] = {1: Real()}
    classes = None  # type: ignore[assignment]
    """A rating has no classes."""

    def __init__(
        self, config: ContentNCFConfig, counts: Counts, generator: torch.Generator
    ) -> None:
        super().__init__(config, counts, generator)
        self.task = Ratings()
        self.register_buffer("rating_mean", torch.zeros(()))
        self.register_buffer("rating_spread", torch.ones(()))

    def fit_features(self, split: Split) -> None:
        """And how ratings lie, in whose units it learns."""
        super().fit_features(split)
        mean, spread = _mean_and_spread(split)
        self.get_buffer("rating_mean").fill_(mean)
        self.get_buffer("rating_spread").fill_(spread)

    def outputs(self, rows: Tensor) -> Tensor:
        """`[R, 1]`: the experts' means, mixed by who is selected."""
        answers = self.answers(rows, stop=False)
        return self.target.mix(answers, self._selected(answers))

    def score(
        self,
        batch: Tensor,
        targets: Tensor | All,
        *,
        present: Tensor | None = None,
        embedded: Tensor | None = None,
        attention: Sequence[Tensor | None] | None = None,
    ) -> Tensor:
        """The rating that is expected."""
        away = self._each(batch, targets, present, embedded)[..., 0]
        return self.get_buffer("rating_mean") + self.get_buffer("rating_spread") * away

    def probabilities(self, scores: Tensor) -> Tensor:
        """The share of all ratings that are lower, if they are normal."""
        below: Tensor = torch.special.ndtr(self._away(scores))
        return below

    def _truth(self, batch: ChoiceBatch) -> Tensor:
        """In spreads from the mean."""
        assert batch.ratings is not None
        return self._away(batch.ratings)

    def _away(self, ratings: Tensor) -> Tensor:
        mean, spread = self.get_buffer("rating_mean"), self.get_buffer("rating_spread")
        return (ratings.to(mean.dtype) - mean) / spread


class InterpretableRatedNCF(RatedNCF, InterpretableNCF):
    """Four experts, selected by how little they leave open."""


def content_ncf(config: ContentNCFConfig, counts: Counts, generator: torch.Generator) -> ContentNCF:
    """The ordinary network, of what comes of items or of their ratings."""
    return (RatedNCF if config.predict_ratings else ContentNCF)(config, counts, generator)


def interpretable_ncf(
    config: InterpretableNCFConfig, counts: Counts, generator: torch.Generator
) -> InterpretableNCF:
    """The same with experts."""
    kind = InterpretableRatedNCF if config.predict_ratings else InterpretableNCF
    return kind(config, counts, generator)


def _mean_and_spread(split: Split) -> tuple[float, float]:
    """Of the ratings that are for training."""
    if split.interactions.ratings is None:
        raise InputError(
            "Ratings are to be learned, and these data have none; name their column, or leave "
            "ratings out."
        )
    ratings = split.interactions.ratings[split.trained()].astype(np.float64)
    if not np.isfinite(ratings).all():
        raise InputError("Some ratings are no numbers; fill them in or leave those events out.")
    mean, spread = float(ratings.mean()), float(ratings.std())
    if not spread:
        raise InputError(f"All ratings are {mean:g}; there is nothing to learn of them.")
    return mean, spread
