"""Collaborative filtering with content that predicts ratings.

Training uses rated events alone, and a score is the expected rating. An expert answers with a mean
and with the share of the ratings' variance that it leaves unexplained.
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
from whence.models.content_features import content_sizes
from whence.models.content_ncf import (
    ContentNCF,
    ContentNCFConfig,
    InterpretableNCF,
    InterpretableNCFConfig,
)
from whence.models.registry import EVENT_TRAINING, MODELS, ModelSpec
from whence.models.tasks import ChoiceBatch, Ratings


class RatedNCF(ContentNCF):
    """The ordinary network; it also holds what the experts need to predict ratings."""

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
        """Store also the mean and deviation of the ratings, to standardize them."""
        super().fit_features(split)
        mean, deviation = _mean_and_deviation(split)
        self.get_buffer("rating_mean").fill_(mean)
        self.get_buffer("rating_spread").fill_(deviation)

    def outputs(self, rows: Tensor) -> Tensor:
        """Return `[R, 1]`: the means of the experts, mixed by their weights."""
        answers = self.answers(rows, detach=False)
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
        """Return the expected rating."""
        standardized = self._each(batch, targets, present, embedded)[..., 0]
        return self.get_buffer("rating_mean") + self.get_buffer("rating_spread") * standardized

    def probabilities(self, scores: Tensor) -> Tensor:
        """Return the share of ratings that are lower, if ratings are normally distributed."""
        below: Tensor = torch.special.ndtr(self._standardized(scores))
        return below

    def _truth(self, batch: ChoiceBatch) -> Tensor:
        """Return the standardized ratings."""
        assert batch.ratings is not None
        return self._standardized(batch.ratings)

    def _standardized(self, ratings: Tensor) -> Tensor:
        mean, deviation = self.get_buffer("rating_mean"), self.get_buffer("rating_spread")
        return (ratings.to(mean.dtype) - mean) / deviation


class InterpretableRatedNCF(RatedNCF, InterpretableNCF):
    """Four experts, weighted by how little they leave unexplained."""


def content_ncf(config: ContentNCFConfig, counts: Counts, generator: torch.Generator) -> ContentNCF:
    """Return the ordinary network, for probabilities or for ratings."""
    return (RatedNCF if config.predict_ratings else ContentNCF)(config, counts, generator)


def interpretable_ncf(
    config: InterpretableNCFConfig, counts: Counts, generator: torch.Generator
) -> InterpretableNCF:
    """Return the network of experts, for probabilities or for ratings."""
    kind = InterpretableRatedNCF if config.predict_ratings else InterpretableNCF
    return kind(config, counts, generator)


def _mean_and_deviation(split: Split) -> tuple[float, float]:
    """Return those of the ratings for training."""
    if split.interactions.ratings is None:
        raise InputError(
            "predict_ratings needs ratings, and these data have none. Name their column, or leave "
            "predict_ratings out."
        )
    ratings = split.interactions.ratings[split.trained()].astype(np.float64)
    if not np.isfinite(ratings).all():
        raise InputError("Some ratings are missing. Fill them in, or leave those events out.")
    mean, deviation = float(ratings.mean()), float(ratings.std())
    if not deviation:
        raise InputError(
            f"All ratings are {mean:g}, so there is nothing to learn. Leave predict_ratings out."
        )
    return mean, deviation


MODELS.add(
    "content-ncf",
    ModelSpec(
        ContentNCFConfig,
        content_ncf,
        summary="NCF that also reads the user's age and the like, and the item's genres and year.",
        training=EVENT_TRAINING,
        known_users_only=True,
        sizes_in_data=content_sizes,
    ),
    place=60,
)
MODELS.add(
    "intrp-ncf",
    ModelSpec(
        InterpretableNCFConfig,
        interpretable_ncf,
        summary="Content NCF built of experts, so that it says which inputs a prediction rests on.",
        training=EVENT_TRAINING,
        known_users_only=True,
        sizes_in_data=content_sizes,
    ),
    aliases=("interpretable-ncf",),
    place=70,
)
