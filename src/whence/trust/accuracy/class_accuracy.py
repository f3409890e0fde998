"""Accuracy per class: of what was liked, or disliked, or nothing came of, how much is told rightly?

Jain (2019) asks it of one item that came and 99 that did not for each user, of which a model that
always says "nothing" gets 99 % right. So every class is looked at alone.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import torch

from whence.arrays import Bools, Floats, Ints
from whence.capabilities import require
from whence.contract import HasClasses
from whence.data.histories import Cases
from whence.data.published_negatives import published_negatives
from whence.data.splits import HeldOut, Split
from whence.devices import device_of
from whence.errors import CapabilityError, InputError
from whence.measure import Measure, mean_measure
from whence.memory import questions_at_once, row_slices
from whence.models.base import CaseReader
from whence.models.tasks import DISLIKED, LIKED, NOTHING

CLASSES: Final = ("liked", "nothing", "disliked")
"""As a model that offers `classes` numbers them."""
MOST_OF_A_DISLIKED: Final = 2
"""Ratings up to it are of something disliked, where no model says otherwise (Jain 2019)."""


def class_accuracy(
    model: CaseReader,
    cases: Cases,
    negatives: Ints,
    length: int,
    ratings: Floats | None = None,
    seed: int = 0,
) -> dict[str, Measure | None]:
    """By true class the share of items that the model's likeliest class is right about.

    The item that came is liked or, for a model of three classes, disliked by its rating `[B]`; of
    the negatives `[B, r]` nothing came, but for an item among its own, which is not asked about.
    Shares are means over users, of each user's own share; of a class that no user has an item of,
    there is `None`. `length` is how many items of a history the model reads.
    """
    require(model, ("classes",), who="accuracy per class")
    if negatives.ndim != 2 or len(negatives) != len(cases) or not len(cases):
        raise InputError(
            f"Accuracy per class needs negatives for every case, and at least one case, not shape "
            f"{list(negatives.shape)} for {len(cases):,} cases."
        )
    predicted, count = _predicted(model, cases, negatives, length)
    if count not in (2, 3):
        raise CapabilityError(
            f"Classes are liked, nothing and maybe disliked; this model has {count}."
        )
    came = what_came(model, ratings, len(cases), count)
    asked = negatives != cases.targets[:, None]
    told = _share(predicted[:, 1:] == NOTHING, asked)
    right = (predicted[:, 0] == came).astype(np.float64)
    shares = {
        "liked": right[came == LIKED],
        "nothing": told[~np.isnan(told)],
        "disliked": right[came == DISLIKED],
    }
    what = f"likeliest of {count} classes, mean over users"
    return {
        name: mean_measure(shares[name], f"{what} with an item that is '{name}'", seed=seed)
        if len(shares[name])
        else None
        for name in CLASSES[:count]
    }


def published_class_accuracy(
    model: CaseReader, split: Split, length: int, held: HeldOut = "test", seed: int = 0
) -> dict[str, Measure | None]:
    """The same of the test events that He et al. (2017) published 99 negatives for."""
    cases = split.held[held]
    negatives = published_negatives(split.interactions).of(cases)
    return class_accuracy(model, cases, negatives, length, ratings_of(split, cases), seed)


def ratings_of(split: Split, cases: Cases) -> Floats | None:
    """`[B]`: how the items that came were rated, where the data say it."""
    ratings = split.interactions.ratings
    return None if ratings is None else ratings[cases.ends].astype(np.float64)


@torch.no_grad()
def _predicted(model: CaseReader, cases: Cases, negatives: Ints, length: int) -> tuple[Ints, int]:
    """`[B, 1 + r]`: the likeliest class of the item that came and of its negatives, of how many.

    What is no number predicts none of them, which is −1.
    """
    assert isinstance(model, HasClasses)
    device = device_of(model)
    candidates = np.concatenate((cases.targets[:, None], negatives), axis=1)
    at_once = questions_at_once(length, candidates.shape[1], device.type == "cuda")
    found: Ints = np.empty_like(candidates)
    count = 0
    for rows in row_slices(len(cases), at_once):
        batch = model.read(cases[rows], length).to(device)
        logits = model.classes(batch, torch.from_numpy(candidates[rows]).to(device))
        told = torch.where(logits.isnan().any(dim=2), -1, logits.argmax(dim=2))
        found[rows], count = told.cpu().numpy(), logits.shape[2]
    return found, count


def what_came(model: object, ratings: Floats | None, cases: int, classes: int) -> Ints:
    """`[B]`: the true class of the item that came, by the ratings that the model learned from."""
    if classes < len(CLASSES):
        return np.full(cases, LIKED)
    if ratings is None or ratings.shape != (cases,):
        raise InputError(
            "A model of three classes tells liked from disliked, which needs the rating of every "
            "item that came; these data have none."
        )
    learned: float | None = getattr(getattr(model, "task", None), "disliked", None)
    most = MOST_OF_A_DISLIKED if learned is None else learned
    return np.where(ratings <= most, DISLIKED, LIKED)


def _share(right: Bools, asked: Bools) -> Floats:
    """`[B]`: of what was asked; NaN of nothing."""
    counts = asked.sum(axis=1)
    shares: Floats = (right & asked).sum(axis=1) / np.where(counts, counts, np.nan)
    return shares
