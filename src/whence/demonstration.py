"""`whence demo`: from data to recommendations, reasons and measurements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import torch

from whence.data.datasets import DATASETS
from whence.data.histories import Cases
from whence.data.sources import load
from whence.data.splits import Split, last_two
from whence.errors import InputError
from whence.explainers import EXPLAINERS, able, compare_batch
from whence.explanation import Explanation
from whence.measure import Measure
from whence.picks import Pick, Recommendations
from whence.randomness import Randomness
from whence.ranking import top_unseen
from whence.reasons.of_many import find_all
from whence.reasons.of_run import Options
from whence.recommendation import compare, reason, recommend
from whence.run import Run
from whence.training import train
from whence.training.outcome import Outcome
from whence.trust.agreement.rank_agreement import agreement

PREFERRED: Final = ("ml-latest-small-2016", "world")
EFFORT: Final = "quick"
AGREEMENT_CASES: Final = 100
SHOWN_AMONG, LIST = 100, 10
"""The user who is shown is one of so many, with so many recommendations each."""
MOST_TELLING: Final = ("item", "set", "taste")
"""Which kinds of reasons are best shown in detail."""
SHOWN_METHODS: Final = ("leave-one-out-probability", "rollout")


@dataclass(frozen=True)
class Demonstration:
    """What the demonstration found."""

    data: str
    run: Run
    user: object
    """The raw id of the user."""
    whom: str
    """Why this user, in a sentence."""
    picks: Recommendations
    explained: Pick
    """The recommendation that is explained in detail."""
    explanations: dict[str, Explanation]
    """Explanations of that recommendation, by method."""
    outcome: Outcome
    """What was tried, and how the run compares with the simple models."""
    accuracy: dict[str, Mapping[str, Measure]]
    """Accuracy on the test events, by system and measure; the first system is the run."""
    agreements: dict[tuple[str, str], Measure]


def demonstrate(
    out: Path, data: str | None = None, steps: int | None = None, show_progress: bool = True
) -> Demonstration:
    """Train on the demonstration data, recommend, explain and measure."""
    name = data or default_data()
    interactions = load(name)
    split = last_two(interactions)
    if len(split.held["test"]) == 0:
        raise InputError(
            f"No user in {name} has three events. The demonstration needs at least one who does."
        )
    run = train(
        interactions,
        effort=EFFORT,
        training=None if steps is None else {"steps": steps},
        out=out / "run",
        overwrite=True,
        show_progress=show_progress,
    )
    user, whom = _shown_user(run)
    picks = recommend(run, user=user)
    if not picks.picks:
        raise InputError(f"User {user} in {name} has seen every item. Use data with more items.")
    # The best recommendation whose reason names something, if there is one.
    kinds = [pick.reason.kind for pick in picks.picks]
    told = [name for name in MOST_TELLING if name in kinds]
    explained = picks.picks[kinds.index(told[0]) if told else 0]
    found = reason(run, user=user, item=explained.item)
    explained = replace(explained, reason=found)
    methods = able(run.first, SHOWN_METHODS)
    explanations = compare(run, user=user, item=explained.item, methods=methods)
    outcome = Outcome.of(run)
    assert outcome.comparison is not None
    return Demonstration(
        data=name,
        run=run,
        user=user,
        whom=whom,
        picks=picks,
        explained=explained,
        explanations=explanations,
        outcome=outcome,
        accuracy={outcome.name: outcome.comparison.own.measures(), **outcome.baselines},
        agreements=_agreements(run, split),
    )


def default_data() -> str:
    """Return MovieLens, or a synthetic world if the package with MovieLens is not installed."""
    return next(name for name in PREFERRED if DATASETS[name].available)


def _shown_user(run: Run) -> tuple[object, str]:
    """Return, of users with histories of usual length, the one with the most reasons, and why."""
    data, model = run.interactions, run.whole
    order = np.argsort(np.diff(data.offsets), kind="stable")
    middle = max(0, (len(order) - SHOWN_AMONG) // 2)
    users = order[middle : middle + SHOWN_AMONG]
    cases = Cases(data.items, users, data.offsets[users], data.offsets[users + 1], users)
    items, scores = top_unseen(model, cases, model.config.max_len, LIST)
    unseen = np.isfinite(scores)
    told = find_all(run, cases, items, unseen, LIST, options=Options())
    said = np.array([one.kind not in ("none", "rule") for one in told])
    of = f"{len(users):,} users with histories of usual length"
    if not said.any():
        return data.users["user"][int(users[0])].as_py(), (
            f"Of {of}, this is one. None of their {len(told):,} recommendations has a reason that "
            "is sure."
        )
    most = int(np.bincount(np.nonzero(unseen)[0][said]).argmax())
    return data.users["user"][int(users[most])].as_py(), (
        f"Of {of}, this one has the most reasons. Of their {len(told):,} recommendations, "
        f"{said.sum():,} have a reason that is sure."
    )


def _agreements(run: Run, split: Split) -> dict[tuple[str, str], Measure]:
    """Compare every pair of explainers on a sample of the test histories."""
    cases = split.held["test"]
    drawn = Randomness(0).numpy("explain").permutation(len(cases))[:AGREEMENT_CASES]
    cases = cases[np.sort(drawn)]
    whole = run.whole
    batch = whole.read(cases, whole.config.max_len)
    targets = torch.from_numpy(cases.targets)
    explanations = compare_batch(whole, batch, targets, able(whole, EXPLAINERS))
    return {
        (one, other): agreement(explanations[one], explanations[other])
        for one in explanations
        for other in explanations
    }
