"""The measures by name, each with what a person must know to read it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from whence.measure import Direction, Measure
from whence.trust.agreement import agreement
from whence.trust.truth import precision_at_cause


@dataclass(frozen=True)
class MeasureSpec:
    """A measure and its declaration."""

    compute: Callable[..., Measure]
    direction: Direction
    range: tuple[float, float]
    question: str
    symmetric: bool = False
    """Whether its two arguments may change places."""


MEASURES: dict[str, MeasureSpec] = {
    "agreement": MeasureSpec(
        agreement, "neither", (-1.0, 1.0), "Do two explainers rank the parts alike?", symmetric=True
    ),
    "precision-at-cause": MeasureSpec(
        precision_at_cause,
        "higher is better",
        (0.0, 1.0),
        "On a world, is the strongest part the true cause?",
    ),
}
