"""The measures by name, each with what a person must know to read it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from whence.measure import Direction, Measure
from whence.trust.agreement import agreement, kendall_agreement
from whence.trust.entropy import importance_entropy
from whence.trust.signs import sign_agreement
from whence.trust.stability import (
    MOST_NATS,
    SeedPairs,
    attention_kl,
    jaccard_distance,
    jaccard_index,
    overlap,
)
from whence.trust.top import top_agreement
from whence.trust.top_heavy import mu_lin_agreement, mu_log_agreement
from whence.trust.truth import precision_at_cause
from whence.trust.values import value_correlation, value_fit


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
    "agreement-signed": MeasureSpec(
        partial(agreement, signed=True),
        "neither",
        (-1.0, 1.0),
        "Do two explainers rank the parts alike, from most in favour to most against?",
        symmetric=True,
    ),
    "agreement-kendall": MeasureSpec(
        kendall_agreement,
        "neither",
        (-1.0, 1.0),
        "How many more pairs of parts do two explainers put in the same order than not?",
        symmetric=True,
    ),
    "agreement-mu-log": MeasureSpec(
        mu_log_agreement,
        "neither",
        (-1.0, 1.0),
        "Do two explainers rank the parts alike, above all the most important?",
        symmetric=True,
    ),
    "agreement-mu-lin": MeasureSpec(
        mu_lin_agreement,
        "neither",
        (-1.0, 1.0),
        "Do they, where the first ranks count still more?",
        symmetric=True,
    ),
    "agreement-top": MeasureSpec(
        top_agreement,
        "neither",
        (0.0, 1.0),
        "Do two explainers name the same three parts as the most important?",
        symmetric=True,
    ),
    "entropy": MeasureSpec(
        importance_entropy,
        "neither",
        (0.0, math.inf),
        "Over how many parts is the importance spread, in bits?",
    ),
    "value-correlation": MeasureSpec(
        value_correlation,
        "higher is better",
        (-1.0, 1.0),
        "Do the importances of the parts present go with the score?",
    ),
    "value-fit": MeasureSpec(
        value_fit,
        "higher is better",
        (-math.inf, 1.0),
        "Do they foretell the score itself?",
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
