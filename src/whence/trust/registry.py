"""The measures by name, each with what a person must know to read it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from whence.measure import Direction, Measure
from whence.trust.agreement import agreement
from whence.trust.signs import sign_agreement
from whence.trust.stability import (
    MOST_NATS,
    SeedPairs,
    attention_kl,
    jaccard_distance,
    jaccard_index,
    overlap,
)
from whence.trust.truth import precision_at_cause, sign_at_cause


@dataclass(frozen=True)
class MeasureSpec:
    """A measure and its declaration."""

    compute: Callable[..., Measure]
    direction: Direction
    range: tuple[float, float]
    question: str
    symmetric: bool = False
    """Whether its two arguments may change places."""


SEED_MEASURES: dict[str, Callable[..., SeedPairs]] = {
    "attention-kl": attention_kl,
    "jaccard-index": jaccard_index,
    "jaccard-distance": jaccard_distance,
    "overlap": overlap,
}
"""Those that compare seeds, and so have an interval over seeds beside the one over cases."""


def _over_cases(name: str) -> Callable[..., Measure]:
    compute = SEED_MEASURES[name]
    return lambda *given: compute(*given).measure()


MEASURES: dict[str, MeasureSpec] = {
    "agreement": MeasureSpec(
        agreement, "neither", (-1.0, 1.0), "Do two explainers rank the parts alike?", symmetric=True
    ),
    "sign-agreement": MeasureSpec(
        sign_agreement,
        "higher is better",
        (0.0, 1.0),
        "Do parts speak for and against as by a trusted explainer?",
    ),
    "sign-agreement-weighted": MeasureSpec(
        partial(sign_agreement, weighted=True),
        "higher is better",
        (0.0, 1.0),
        "Do they, where the trusted one finds much in them?",
    ),
    "precision-at-cause": MeasureSpec(
        precision_at_cause,
        "higher is better",
        (0.0, 1.0),
        "On a world, is the strongest part the true cause?",
    ),
    "sign-at-cause": MeasureSpec(
        sign_at_cause,
        "higher is better",
        (0.0, 1.0),
        "On a world, does the true cause speak on the right side?",
    ),
    "attention-kl": MeasureSpec(
        _over_cases("attention-kl"),
        "lower is better",
        (0.0, MOST_NATS),
        "Do models of other seeds spread the importance over other parts?",
    ),
    "jaccard-index": MeasureSpec(
        _over_cases("jaccard-index"),
        "higher is better",
        (0.0, 1.0),
        "Do models of other seeds find the same parts most important?",
    ),
    "jaccard-distance": MeasureSpec(
        _over_cases("jaccard-distance"),
        "lower is better",
        (0.0, 100.0),
        "How many per cent of the most important parts change with the seed?",
    ),
    "overlap": MeasureSpec(
        _over_cases("overlap"),
        "higher is better",
        (0.0, 1.0),
        "Do models of other seeds recommend the same items?",
    ),
}
