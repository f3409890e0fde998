"""How far the ratings that a model expects are from those that were given."""

from __future__ import annotations

import numpy as np
import torch

from whence.contract import Explainable
from whence.data.histories import Cases, Ints
from whence.data.interactions import Interactions
from whence.memory import questions_at_once, row_slices
from whence.ranking import device_of, questions_of
from whence.training.ranks import Floats


@torch.no_grad()
def rating_errors(
    model: Explainable, interactions: Interactions, cases: Cases, length: int
) -> Floats:
    """|expected − given|, of each case whose next event has a rating."""
    rated = rated_cases(interactions, cases)
    if interactions.ratings is None or not len(rated):
        return np.zeros(0)
    given = interactions.ratings[cases.ends[rated]].astype(np.float64)
    at_once = questions_at_once(length, 1, device_of(model).type == "cuda")
    expected = np.zeros(len(rated))
    for some in row_slices(len(rated), at_once):
        batch, targets = questions_of(model, cases[rated[some]], length)
        expected[some] = model.score(batch, targets[:, None])[:, 0].cpu().numpy()
    return np.abs(expected - given)


def rated_cases(interactions: Interactions, cases: Cases) -> Ints:
    """The places of those whose next event has a rating."""
    if interactions.ratings is None:
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero(np.isfinite(interactions.ratings[cases.ends]))
