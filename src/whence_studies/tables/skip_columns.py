"""The columns measured for a network that predicts skips: accuracy, and what its experts say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from whence.measure import Measure
from whence_studies.sessions import COLUMNS
from whence_studies.skips import (
    EXPERT_OF,
    EXPERTS,
    NetworkConfig,
    SkipEvaluation,
    cause_accuracy,
    cause_seen,
    mean_attributions,
    most_selected_shares,
)
from whence_studies.skips.skip_attribution import ALL_CAUSES, CAUSE_MEAN, SEEN

FIRST, MEAN_SHARE = "most selected: ", "mean attribution: "
AS_PLOTTED: Final = "as plotted: "
"""Prefix of columns with experts selected by |F|, as the paper plots them, instead of F²."""
DATASETS: Final = (ALL_CAUSES, CAUSE_MEAN, *(cause.word for cause in EXPERT_OF))
CAUSE_COLUMNS: Final = (
    *DATASETS,
    *(f"{AS_PLOTTED}{name}" for name in DATASETS),
    *(SEEN, f"{SEEN}, mean over causes", *(f"{SEEN}: {cause.word}" for cause in EXPERT_OF)),
)
"""Columns of a network with experts if causes are known."""
SELECTED: Final = tuple(f"{what}{name}" for what in (FIRST, MEAN_SHARE) for name in EXPERTS.names)
"""Columns of every network with experts."""
TRACK_ALONE: Final = tuple(
    subset.name
    for subset in EXPERTS.subsets
    if {"context", "interaction"}.isdisjoint(subset.groups)
)
"""Experts that see nothing about the listener: S3, S4 and S6."""
BY_TRACK: Final = f"{', '.join(TRACK_ALONE[:-1])} or {TRACK_ALONE[-1]} is selected most"
MOST_SELECTED: Final = "the expert selected most often"
DERIVED: Final[Mapping[str, Callable[[Mapping[str, float]], float]]] = {
    BY_TRACK: lambda found: sum(found[f"{FIRST}{name}"] for name in TRACK_ALONE),
    MOST_SELECTED: lambda found: max(found[f"{FIRST}{name}"] for name in EXPERTS.names),
}
"""Columns computed from the other columns of one seed."""


def all_columns(network: NetworkConfig) -> tuple[str, ...]:
    """Return all columns of a network if causes are known."""
    return (
        (*COLUMNS, *CAUSE_COLUMNS, *selected_columns(network)) if network.interpretable else COLUMNS
    )


def selected_columns(network: NetworkConfig) -> tuple[str, ...]:
    """Return the columns that a network's experts add."""
    return (*SELECTED, *DERIVED) if network.interpretable else ()


def measures_of(found: SkipEvaluation) -> dict[str, Measure]:
    """Return all measures of an evaluation, by column."""
    measures = found.scores.measures()
    if found.attribution is None or found.plotted is None:
        return measures
    if found.attribution.causes is not None:
        measures |= cause_accuracy(found.attribution) | cause_seen(found.attribution)
        named = cause_accuracy(found.plotted)
        measures |= {f"{AS_PLOTTED}{name}": one for name, one in named.items()}
    firsts, means = most_selected_shares(found.attribution), mean_attributions(found.attribution)
    measures |= {f"{FIRST}{name}": one for name, one in firsts.items()}
    measures |= {f"{MEAN_SHARE}{name}": one for name, one in means.items()}
    return measures
