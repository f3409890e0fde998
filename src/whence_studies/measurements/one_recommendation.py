"""Figure 5.1 (Baumhauer 2021): one recommendation and its explanations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from whence.arrays import Floats
from whence.data.histories import Cases
from whence.devices import device_of
from whence.errors import InputError
from whence.explainers import Explainer, compare_batch
from whence.explainers.rollout import Rollout
from whence.explainers.shapley import Shapley
from whence.explainers.signed_rollout import SignedRollout
from whence.models import Recommender
from whence.ranking import score_unseen
from whence.trust.agreement.rank_agreement import spearman
from whence_studies.measurements.measurement import BarPlot, MeasuredRun, Measurement, SeedColumn

NEWEST = 10
SHAPLEY, ROLLOUT, SIGNED = "Shapley value", "rollout", "signed rollout"
POSITIONS = {
    method: {f"{back}": f"{method}, {back} from the end" for back in range(1, NEWEST + 1)}
    for method in (SHAPLEY, ROLLOUT, SIGNED)
}
"""By method and position from the end: the column."""
RANK, AGREEMENT = "rank of the recommendation", "ρ(rollout, |Shapley value|)"


@dataclass(frozen=True)
class ExampleOptions:
    """How many coalitions estimate the Shapley values."""

    coalitions: int = 4_096


def example(subject: MeasuredRun, options: ExampleOptions) -> dict[str, SeedColumn]:
    """Return the importance of the newest items for the first seed's top recommendation.

    The history is the first that fills the model's length, so it is not selected by its result.
    """
    length = subject.run.first.config.max_len
    case = first_full(subject, length)
    target, ranks = _recommended(subject, case, length)
    # In the order of the panels.
    methods: list[Explainer] = [Shapley(coalitions=options.coalitions), Rollout(), SignedRollout()]
    newest = np.stack(
        [_newest(model, case, target, methods, seed) for seed, model in subject.run.models.items()]
    )  # seeds, methods, items
    every = np.ones((len(newest), NEWEST), dtype=bool)
    rho = spearman(np.abs(newest[:, 0]), newest[:, 1], every)
    catalog = subject.run.catalog
    (recommended,) = catalog.labels([target])
    titles = catalog.labels(case.histories(length)[0, ::-1][:NEWEST])
    first = next(iter(subject.run.models))
    words = (
        f"1 {subject.held} event, {subject.split.protocol}: the first user whose history fills the "
        f"model's {length} items; explained is the top recommendation of seed {first}, "
        f"“{recommended}”"
    )
    shown = f"{words}; Shapley values of logits, from {options.coalitions:,} coalitions"

    def found(values: Floats, protocol: str, label: str | None = None) -> SeedColumn:
        return SeedColumn(tuple(values.tolist()), 1, protocol, "neither", label)

    return {
        RANK: found(ranks, f"{words}; its rank among all items the user has not seen", recommended),
        AGREEMENT: found(rho, f"{shown}; Spearman's rho over the {NEWEST} newest items"),
        **{
            column: found(newest[:, method, place], shown, title)
            for method, panel in enumerate(POSITIONS.values())
            for place, (column, title) in enumerate(zip(panel.values(), titles, strict=True))
        },
    }


def first_full(subject: MeasuredRun, length: int) -> Cases:
    """Return the first held-out event, by user, whose history fills the model's length."""
    if length < NEWEST:
        raise InputError(
            f"The example shows {NEWEST} items, but the model reads only {length}: raise max_len."
        )
    every = subject.split.held[subject.held]
    full = np.flatnonzero(every.ends - every.starts >= length)
    if not len(full):
        raise InputError(f"No {subject.held} event has a history of {length} items to show.")
    return every[full[:1]]


def _recommended(subject: MeasuredRun, case: Cases, length: int) -> tuple[int, Floats]:
    """Return the first seed's top unseen item, and its rank for every seed."""
    scores = torch.cat([score_unseen(one, case, length) for one in subject.run.models.values()])
    if not bool(scores[0].isfinite().any()):
        raise InputError(
            "The user of the example has seen every item, so there is none to recommend."
        )
    target = int(scores[0].argmax())
    ranks: Floats = 1.0 + (scores > scores[:, [target]]).sum(dim=1).double().numpy()
    return target, ranks


def _newest(
    model: Recommender, case: Cases, target: int, methods: Sequence[Explainer], seed: int
) -> Floats:
    """Return `[methods, items]`: the importance of the newest items, the newest first."""
    device = device_of(model)
    batch = model.read(case, model.config.max_len).to(device)
    found = compare_batch(model, batch, torch.tensor([target], device=device), methods, seed)
    return np.stack([one.scores[0, ::-1][:NEWEST] for one in found.values()])


MEASUREMENT = Measurement(
    (RANK, AGREEMENT),
    example,
    options=ExampleOptions,
    bars={
        "example": BarPlot(
            title="The ten newest items",
            about=RANK,
            panels=POSITIONS,
            headings=("explained", "position from the end", "item"),
            signed=(SHAPLEY, SIGNED),
        )
    },
)
