"""How well the ratings of held-out events are predicted: as numbers, or as classes.

Afchar & Hennequin (2020) leave several classes and real numbers to the future. A predicted rating
is compared with the mean of the item and of all ratings; a class with calling every item liked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch

from whence.arrays import Bools, Floats, Ints
from whence.contract import HasClasses, offers
from whence.data.histories import Cases
from whence.data.splits import Split
from whence.devices import device_of
from whence.errors import InputError
from whence.measure import Direction
from whence.memory import questions_at_once, row_slices
from whence.models import Recommender
from whence.models.tasks import DISLIKED, LIKED
from whence.ranking import batch_and_targets
from whence.training.ranks import rated_cases, rating_errors
from whence.trust.accuracy.class_accuracy import CLASSES, ratings_of, true_class_of_next
from whence_studies.measurements.measurement import MeasuredRun, Measurement, NoOptions, SeedColumn

RMSE: Final = "RMSE of ratings"
OF_ITEM, OF_ALL = f"{RMSE}, mean of the item", f"{RMSE}, mean of all"
RIGHT: Final = "right class of rated items (%)"
TOLD: Final = "liked and disliked told apart (%)"
ALWAYS: Final = "liked among rated items (%)"
"""How often "liked" is right, and so what telling liked from disliked must exceed."""


def held_out_ratings(subject: MeasuredRun, _options: NoOptions) -> dict[str, SeedColumn]:
    """Return the columns of ratings or of classes, whichever the models predict."""
    split, models = subject.split, list(subject.run.models.values())
    every = split.held[subject.held]
    cases = every[rated_cases(split.interactions, every)]
    if not len(cases):
        raise InputError(f"No {subject.held} event has a rating, so none can be compared.")
    events = f"{len(cases):,} {subject.held} events with a rating, {split.protocol}"
    if not models[0].predicts_probabilities:
        return _numbers(models, split, cases, events)
    return _classes(models, split, cases, events) if offers(models[0], "classes") else {}


def _numbers(
    models: Sequence[Recommender], split: Split, cases: Cases, events: str
) -> dict[str, SeedColumn]:
    """Return the root of the mean squared error, and those of two means of training ratings."""
    given = ratings_of(split, cases)
    assert given is not None
    of_items, of_all = mean_ratings(split)
    found = {
        RMSE: [
            root_mean_square(rating_errors(model, split.interactions, cases, model.config.max_len))
            for model in models
        ],
        OF_ITEM: [root_mean_square(of_items[cases.targets] - given)] * len(models),
        OF_ALL: [root_mean_square(of_all - given)] * len(models),
    }
    protocol = f"{events}; in points of it; an item without training ratings has the mean of all"
    return {
        name: _column(values, len(cases), protocol, "lower is better")
        for name, values in found.items()
    }


def mean_ratings(split: Split) -> tuple[Floats, float]:
    """Return the mean training rating of every item, and of all; the latter where there is none."""
    data, there = split.interactions, split.trained()
    assert data.ratings is not None
    ratings, items = data.ratings[there].astype(np.float64), data.items[there]
    counts = np.bincount(items, minlength=data.item_count)
    sums = np.bincount(items, weights=ratings, minlength=data.item_count)
    of_all = float(ratings.mean())
    return np.where(counts > 0, sums / np.maximum(counts, 1), of_all), of_all


def root_mean_square(errors: Floats) -> float:
    """Return the root of the mean of the squares."""
    return float(np.sqrt(np.square(errors).mean()))


def _classes(
    models: Sequence[Recommender], split: Split, cases: Cases, events: str
) -> dict[str, SeedColumn]:
    """Return how often the class of a rated item is right, by the model's own threshold."""
    found: dict[str, list[float]] = {}
    for model in models:
        logits = _logits(model, cases)
        count = logits.shape[1]
        true = true_class_of_next(model, ratings_of(split, cases), len(cases), count)
        found.setdefault(RIGHT, []).append(_per_cent(logits.argmax(axis=1) == true))
        found.setdefault(ALWAYS, []).append(_per_cent(true == LIKED))
        if count == len(CLASSES):
            found.setdefault(TOLD, []).append(_per_cent(_told_apart(logits) == true))
    protocol = f"{events}; most probable of {count} classes"
    return {
        name: _column(values, len(cases), protocol, "higher is better")
        for name, values in found.items()
    }


@torch.no_grad()
def _logits(model: Recommender, cases: Cases) -> Floats:
    """Return `[B, C]`: the logits of the classes of the items that came next."""
    assert isinstance(model, HasClasses)
    length = model.config.max_len
    at_once = questions_at_once(length, 1, device_of(model).type == "cuda")
    pieces = []
    for rows in row_slices(len(cases), at_once):
        batch, targets = batch_and_targets(model, cases[rows], length)
        pieces.append(model.classes(batch, targets[:, None])[:, 0].double().cpu().numpy())
    return np.concatenate(pieces)


def _told_apart(logits: Floats) -> Ints:
    """Return the more probable of liked and disliked, as if the item were known to be rated."""
    return np.where(logits[:, LIKED] >= logits[:, DISLIKED], LIKED, DISLIKED)


def _per_cent(right: Bools) -> float:
    return 100 * float(right.mean())


def _column(values: Sequence[float], n: int, protocol: str, direction: Direction) -> SeedColumn:
    return SeedColumn(tuple(values), n, protocol, direction)


MEASUREMENT: Final = Measurement((RMSE, OF_ITEM, OF_ALL, RIGHT, TOLD, ALWAYS), held_out_ratings)
