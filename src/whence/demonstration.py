"""`whence demo`: the whole thread once, from data to a report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import torch

from whence.data.datasets import DATASETS
from whence.data.interactions import Interactions
from whence.data.sources import load
from whence.data.splits import Split, last_two
from whence.errors import InputError
from whence.explainers import EXPLAINERS, compare_batch
from whence.explanation import Explanation
from whence.measure import Measure
from whence.models.baselines import BASELINES
from whence.picks import Pick, Recommendations
from whence.randomness import Randomness
from whence.recommendation import compare, recommend
from whence.run import Run
from whence.training import Evaluation, PerCase, train
from whence.trust.agreement.rank_agreement import agreement

PREFERRED: Final = ("ml-latest-small-2016", "world")
STEPS: Final = 1_000
AGREEMENT_CASES: Final = 100
SHOWN_METHODS: Final = ("leave-one-out-probability", "rollout")


@dataclass(frozen=True)
class Demonstration:
    """Everything the demonstration found out."""

    data: str
    run: Run
    user: object
    """The raw id of the one recommended to."""
    picks: Recommendations
    explained: Pick
    """The recommendation that is explained further."""
    explanations: dict[str, Explanation]
    """Of that recommendation, by method."""
    accuracy: dict[str, dict[str, Measure]]
    """By system and measure, on the test events."""
    leads: dict[str, dict[str, Measure]]
    """How far the model is ahead of each baseline, user by user."""
    agreements: dict[tuple[str, str], Measure]


def demonstrate(
    out: Path, data: str | None = None, steps: int = STEPS, show_progress: bool = True
) -> Demonstration:
    """Train on the embedded data (or a world, without them), recommend, explain and measure."""
    name = data or default_data()
    interactions = load(name)
    split = last_two(interactions)
    if len(split.held["test"]) == 0:
        raise InputError(f"No user in {name} has the three events that a demonstration needs.")
    run = train(
        interactions,
        training={"steps": steps},
        out=out / "run",
        overwrite=True,
        show_progress=show_progress,
    )
    user = _typical_user(interactions)
    picks = recommend(run, user=user)
    if not picks.picks:
        raise InputError(f"User {user} in {name} has met every item; there is nothing to show.")
    # The best recommendation that rests on something one can name, if there is one.
    explained = next((pick for pick in picks.picks if pick.reason.supports), picks.picks[0])
    explanations = compare(run, user=user, item=explained.item, methods=SHOWN_METHODS)
    cases = _cases(run, split)
    own = cases[run.model]
    return Demonstration(
        data=name,
        run=run,
        user=user,
        picks=picks,
        explained=explained,
        explanations=explanations,
        accuracy={system: found.measures() for system, found in cases.items()},
        leads={
            system: own.lead_over(found) for system, found in cases.items() if system != run.model
        },
        agreements=_agreements(run, split),
    )


def default_data() -> str:
    """The embedded data, or a world where their package is not installed."""
    return next(name for name in PREFERRED if DATASETS[name].available)


def _typical_user(interactions: Interactions) -> object:
    """The raw id of the user whose history is of median length."""
    order = np.argsort(np.diff(interactions.offsets), kind="stable")
    return interactions.users["user"][int(order[len(order) // 2])].as_py()


def _cases(run: Run, split: Split) -> dict[str, PerCase]:
    """The model and the baselines on the same test events."""
    systems = {run.model: run.first, **{name: make(split) for name, make in BASELINES.items()}}
    evaluation = Evaluation(split, "test", run.first.config.max_len)
    return {name: evaluation.of(system) for name, system in systems.items()}


def _agreements(run: Run, split: Split) -> dict[tuple[str, str], Measure]:
    """Every pair of explainers, on histories drawn from the test cases."""
    cases = split.held["test"]
    drawn = Randomness(0).numpy("explain").permutation(len(cases))[:AGREEMENT_CASES]
    cases = cases[np.sort(drawn)]
    batch = run.first.read(cases, run.first.config.max_len)
    explanations = compare_batch(
        run.first, batch, torch.from_numpy(cases.targets), list(EXPLAINERS)
    )
    return {
        (one, other): agreement(explanations[one], explanations[other])
        for one in explanations
        for other in explanations
    }
