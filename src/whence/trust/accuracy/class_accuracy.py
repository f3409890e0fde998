"""Accuracy per class: the share of liked, disliked and ignored items that are predicted correctly.

Jain (2019) tests one item that came next and 99 that did not for each user. A model that always
predicts "nothing" gets 99 % of them right, so every class is measured separately.
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
"""The classes in the order of a model that offers `classes`."""
MOST_OF_A_DISLIKED: Final = 2
"""Ratings up to this mean disliked, unless the model says otherwise (Jain 2019)."""


def class_accuracy(
    model: CaseReader,
    cases: Cases,
    negatives: Ints,
    max_len: int,
    ratings: Floats | None = None,
    seed: int = 0,
) -> dict[str, Measure | None]:
    """Return, by true class, the share of items for which the most probable class is correct.

    The next item is liked or, for a model of three classes, disliked by its rating `[B]`. The
    negatives `[B, r]` belong to the class "nothing"; the next item among its own negatives is
    ignored. Shares are means over users of each user's share; a class without items has `None`.
    `max_len` is how many items of a history the model reads.
    """
    require(model, ("classes",), who="accuracy per class")
    if negatives.ndim != 2 or len(negatives) != len(cases) or not len(cases):
        raise InputError(
            "Accuracy per class needs at least one case and negatives [cases, r], not shape "
            f"{list(negatives.shape)} for {len(cases):,} cases."
        )
    predicted, count = _predicted(model, cases, negatives, max_len)
    if count not in (2, 3):
        raise CapabilityError(
            f"Accuracy per class needs 2 classes (liked, nothing) or 3 (and disliked), not {count}."
        )
    came = true_class_of_next(model, ratings, len(cases), count)
    asked = negatives != cases.targets[:, None]
    ignored = _share(predicted[:, 1:] == NOTHING, asked)
    right = (predicted[:, 0] == came).astype(np.float64)
    shares = {
        "liked": right[came == LIKED],
        "nothing": ignored[~np.isnan(ignored)],
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
    model: CaseReader, split: Split, max_len: int, held: HeldOut = "test", seed: int = 0
) -> dict[str, Measure | None]:
    """Return the same for the test events for which He et al. (2017) published 99 negatives."""
    cases = split.held[held]
    negatives = published_negatives(split.interactions).of(cases)
    return class_accuracy(model, cases, negatives, max_len, ratings_of(split, cases), seed)


def ratings_of(split: Split, cases: Cases) -> Floats | None:
    """Return the ratings `[B]` of the items that came next, if the data have ratings."""
    ratings = split.interactions.ratings
    return None if ratings is None else ratings[cases.ends].astype(np.float64)


@torch.no_grad()
def _predicted(model: CaseReader, cases: Cases, negatives: Ints, max_len: int) -> tuple[Ints, int]:
    """Return the most probable class `[B, 1 + r]` of the targets, and the number of classes.

    Logits with NaN predict no class, which is −1.
    """
    assert isinstance(model, HasClasses)
    device = device_of(model)
    candidates = np.concatenate((cases.targets[:, None], negatives), axis=1)
    at_once = questions_at_once(max_len, candidates.shape[1], device.type == "cuda")
    found: Ints = np.empty_like(candidates)
    count = 0
    for rows in row_slices(len(cases), at_once):
        batch = model.read(cases[rows], max_len).to(device)
        logits = model.classes(batch, torch.from_numpy(candidates[rows]).to(device))
        classes = torch.where(logits.isnan().any(dim=2), -1, logits.argmax(dim=2))
        found[rows], count = classes.cpu().numpy(), logits.shape[2]
    return found, count


def true_class_of_next(model: object, ratings: Floats | None, cases: int, classes: int) -> Ints:
    """Return the true class `[B]` of the items that came next, by the model's own threshold."""
    if classes < len(CLASSES):
        return np.full(cases, LIKED)
    if ratings is None or ratings.shape != (cases,):
        raise InputError(
            "A model of three classes needs the rating of every item that came next to tell liked "
            "from disliked; these data have no ratings."
        )
    learned: float | None = getattr(getattr(model, "task", None), "disliked", None)
    most = MOST_OF_A_DISLIKED if learned is None else learned
    return np.where(ratings <= most, DISLIKED, LIKED)


def _share(right: Bools, asked: Bools) -> Floats:
    """Return the share `[B]` of the asked targets that are right; NaN if there are none."""
    counts = asked.sum(axis=1)
    shares: Floats = (right & asked).sum(axis=1) / np.where(counts, counts, np.nan)
    return shares
