"""Figure 4.7 (Baumhauer 2021): how fast recommendations change as important items are deleted.

The divergence is the paper's symmetrised KL, which it calls Jensen-Shannon. The area under the true
Jensen-Shannon divergence is measured too. New are a greedy oracle, insertion curves, and the number
of deletions until the top recommendations change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from whence.data.histories import Cases
from whence.errors import InputError
from whence.explainers import compare_batch
from whence.models import Recommender
from whence.progress import progress_bar
from whence.ranking import batch_and_targets
from whence.trust.faithfulness.curves import SHARES, Curves, deletion_at
from whence.trust.faithfulness.deletion import Order, deletion_curves, flips
from whence_studies.measurements.explainer_agreement import HALF, PRINTED, PRINTED_DRAWS
from whence_studies.measurements.measurement import LinePlot, MeasuredRun, Measurement, SeedColumn
from whence_studies.measurements.point_sample import draw_full

EXPLAINERS: Final = {
    "α first": "attention-first",
    "α last": "attention-last",
    "α": "rollout",
    "∇": "gradient-norm",
    "|φ|": PRINTED,
    "|φ*|": HALF,
}
ORACLE: Final = "greedy oracle"
ORDERS: Final = {**EXPLAINERS, "random": "random order", ORACLE: ORACLE}
"""By displayed name: the name of the order in the curves."""
CURVE_COLUMNS: Final = {
    "area": "area of {}",
    "JS area": "area of {}, Jensen-Shannon",
    "insertion": "area of {}, insertion",
    "shape": "convexity of {}",
    "top item": "deletions until the top item changes, {}",
    "top ten": "deletions until the top ten change, {}",
}


@dataclass(frozen=True)
class DeletionOptions:
    """How many full-length histories, and how many of the seeds."""

    histories: int = 500
    seeds: int = 10

    def __post_init__(self) -> None:
        if min(self.histories, self.seeds) < 1:
            raise InputError("histories and seeds must be at least 1.")


def _at(order: str, share: float) -> str:
    return f"{order}, {100 * share:.0f} % deleted"


CURVES: Final = {
    "deletion": LinePlot(
        title="Change as the most important items are deleted",
        x="share of the items deleted",
        y="symmetrised KL in nats",
        lines={order: {share: _at(order, share) for share in SHARES} for order in ORDERS},
    )
}


def deletions(subject: MeasuredRun, options: DeletionOptions) -> dict[str, SeedColumn]:
    """Return the columns of every seed's model, on the same histories."""
    models = dict(list(subject.run.models.items())[: options.seeds])
    longest = subject.run.first.config.max_len
    cases = draw_full(subject.split, subject.held, longest, options.histories)
    bar = progress_bar("deleting", len(models), subject.show_progress, transient=True)
    found = [measure_model(model, cases, seed) for seed, model in bar.track(models.items())]
    protocol = (
        f"{len(cases):,} {subject.held} events with full histories, {subject.split.protocol}; "
        "items are hidden from attention one by one, and the distribution over all items is "
        f"compared with that for the full history; {PRINTED_DRAWS}, φ* from 2,048"
    )
    return {
        column: SeedColumn(tuple(one[column] for one in found), len(cases), protocol, "neither")
        for column in found[0]
    }


def measure_model(model: Recommender, cases: Cases, seed: int) -> dict[str, float]:
    """Return the mean of every column over the histories; estimators draw by the model's seed."""
    batch, targets = batch_and_targets(model, cases, model.config.max_len)
    explained = compare_batch(model, batch, targets, list(EXPLAINERS.values()), seed)
    orders: list[Order] = [*explained.values(), "random order", "greedy oracle"]
    curves = deletion_curves(model, batch, orders)
    true = deletion_curves(model, batch, orders[:-1], divergence="Jensen-Shannon")
    inserted = deletion_curves(model, batch, orders[:-1], kind="insertion")
    columns: dict[str, float] = {}
    for shown, name in ORDERS.items():
        columns |= _order_columns(shown, curves[name])
        for kind, others in (("JS area", true), ("insertion", inserted)):
            if name in others:
                columns[CURVE_COLUMNS[kind].format(shown)] = _mean(others[name].area())
    return columns


def _order_columns(shown: str, curves: Curves) -> Mapping[str, float]:
    heights = deletion_at(curves)
    return {
        CURVE_COLUMNS["area"].format(shown): _mean(curves.area()),
        CURVE_COLUMNS["shape"].format(shown): _mean(curves.shape()),
        CURVE_COLUMNS["top item"].format(shown): _mean(flips(curves, 1).steps),
        CURVE_COLUMNS["top ten"].format(shown): _mean(flips(curves, 10).steps),
        **{_at(shown, share): float(height) for share, height in zip(SHARES, heights, strict=True)},
    }


def _mean(values: np.typing.NDArray[np.float64]) -> float:
    return float(np.nanmean(values))


COLUMNS: Final = tuple(
    column.format(order)
    for kind, column in CURVE_COLUMNS.items()
    for order in ORDERS
    if order != ORACLE or kind not in ("JS area", "insertion")
)
MEASUREMENT: Final = Measurement(COLUMNS, deletions, DeletionOptions, CURVES, edition=2)
