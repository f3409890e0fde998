"""What is measured of a network that predicts skips: accuracies, and what its experts say."""

from __future__ import annotations

from typing import Final

from whence.measure import Measure
from whence.sessions import COLUMNS
from whence.skips import (
    EXPERT_OF,
    EXPERTS,
    Evaluated,
    cause_accuracy,
    cause_seen,
    mean_attributions,
    shares_of_maximum,
)
from whence.skips.attribution import ALL_CAUSES, EVERY_CAUSE, SEEN

FIRST, MEAN = "most selected: ", "mean attribution: "
CAUSED: Final = (
    *(ALL_CAUSES, EVERY_CAUSE, *(cause.word for cause in EXPERT_OF)),
    *(SEEN, f"{SEEN}, mean over causes", *(f"{SEEN}: {cause.word}" for cause in EXPERT_OF)),
)
"""Of a network with experts, where causes are known."""
SELECTED: Final = tuple(f"{what}{name}" for what in (FIRST, MEAN) for name in EXPERTS.names)
"""Of a network with experts, anywhere."""


def all_columns(experts: bool) -> tuple[str, ...]:
    """Of a network with experts or without, where causes are known."""
    return (*COLUMNS, *CAUSED, *SELECTED) if experts else COLUMNS


def selected_columns(experts: bool) -> tuple[str, ...]:
    """What its experts add."""
    return SELECTED if experts else ()


def measures_of(found: Evaluated) -> dict[str, Measure]:
    """All that can be said of it."""
    measures = found.scores.measures()
    attribution = found.attribution
    if attribution is not None:
        if attribution.causes is not None:
            measures |= cause_accuracy(attribution) | cause_seen(attribution)
        firsts, means = shares_of_maximum(attribution), mean_attributions(attribution)
        measures |= {f"{FIRST}{name}": one for name, one in firsts.items()}
        measures |= {f"{MEAN}{name}": one for name, one in means.items()}
    return measures
