"""Resampling: the bootstrap of what is no mean over cases."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from whence.measure import DRAWS_AT_ONCE, RESAMPLES
from whence.memory import row_slices
from whence.trust.predictions import Ints


def resamples_at_once(cases: int) -> Iterator[int]:
    """How many resamples of so many cases fit at a time, until there are `RESAMPLES` of them."""
    slices = row_slices(RESAMPLES, max(1, DRAWS_AT_ONCE // cases))
    return (len(range(RESAMPLES)[some]) for some in slices)


def drawn_counts(cases: int, seed: int) -> Iterator[Ints]:
    """`[r, B]` at a time: how often each case is in each resample, as many drawn as there are."""
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    for count in resamples_at_once(cases):
        drawn = rng.integers(0, cases, (count, cases)) + cases * np.arange(count)[:, None]
        yield np.bincount(drawn.ravel(), minlength=count * cases).reshape(count, cases)
