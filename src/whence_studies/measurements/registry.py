"""The measurements by name."""

from __future__ import annotations

from collections import ChainMap

from whence.errors import InputError
from whence.training.lists import RANGES
from whence.trust.stability.seed_stability import METHODS, TOP, seed_stability
from whence_studies.measurements import (
    calibration_by_class,
    default_recommender,
    deletion_curves,
    expert_selections,
    explainer_agreement,
    genre_attention,
    map_neighbours,
    next_item_confidence,
    one_recommendation,
    one_user_attention,
    permutation_by_class,
    published_accuracy,
    randomised_controls,
    seed_ensembles,
    sentences,
    stability_by_class,
    training_dynamics,
    true_causes,
)
from whence_studies.measurements.measurement import (
    Figure,
    MeasuredRun,
    Measurement,
    NoOptions,
    SeedColumn,
)
from whence_studies.study import Study


def accuracy(subject: MeasuredRun, _options: NoOptions) -> dict[str, SeedColumn]:
    """Return the metrics of training: ranks of held-out items, and what the lists are like."""
    measured = [metrics.get(subject.held) for metrics in subject.run.metrics.values()]
    if None in measured:
        raise InputError(f"The split holds out no {subject.held} events to measure accuracy on.")
    first, *_ = found = [one for one in measured if one is not None]
    return {
        column: SeedColumn(
            per_seed=tuple(one[column]["value"] for one in found),
            n=first[column]["n"],
            protocol=first[column]["protocol"],
            direction=first[column]["direction"],
        )
        for column in first
    }


def stability(subject: MeasuredRun, _options: NoOptions) -> dict[str, SeedColumn]:
    """Return how much seeds agree on recommendations and importances."""
    found = seed_stability(subject.run.models, subject.split, subject.held)
    return {
        column: SeedColumn(tuple(per_seed), over.n, over.protocol, over.direction)
        for column, (per_seed, over) in found.items()
    }


MEASUREMENTS: dict[str, Measurement] = {
    "against-simple": default_recommender.MEASUREMENT,
    "agreement": explainer_agreement.MEASUREMENT,
    "attention-map": one_user_attention.MEASUREMENT,
    "class-calibration": calibration_by_class.MEASUREMENT,
    "class-permutation": permutation_by_class.MEASUREMENT,
    "class-stability": stability_by_class.MEASUREMENT,
    "confidence": next_item_confidence.MEASUREMENT,
    "controls": randomised_controls.MEASUREMENT,
    "deletion": deletion_curves.MEASUREMENT,
    "dynamics": training_dynamics.MEASUREMENT,
    "evidence": expert_selections.MEASUREMENT,
    "example": one_recommendation.MEASUREMENT,
    "genres": genre_attention.MEASUREMENT,
    "maps": map_neighbours.MEASUREMENT,
    "sentences": sentences.MEASUREMENT,
    "published-negatives": published_accuracy.MEASUREMENT,
    "quick-agreement": explainer_agreement.QUICK_MEASUREMENT,
    "together": seed_ensembles.MEASUREMENT,
    "truth": true_causes.MEASUREMENT,
    "accuracy": Measurement(("recall@10 of 101", "recall@10", "NDCG@10", "MRR"), accuracy),
    "lists": Measurement(tuple(f"{name}@{TOP}" for name in RANGES), accuracy),
    "stability": Measurement(
        (
            f"top-{TOP} overlap",
            *(f"{method} {what}" for method in METHODS for what in ("KL", "Jaccard distance %")),
        ),
        stability,
    ),
}


def columns_of(study: Study) -> list[str]:
    """Return the columns of a study, each once, those of figures last."""
    known = [column for one in study.measurements for column in MEASUREMENTS[one].columns]
    drawn = [column for figure in figures_of(study) for column in figure.columns]
    grouped = [column for group in study.groups.values() for column in group]
    return list(dict.fromkeys((*(study.columns or grouped or known), *drawn)))


def figures_of(study: Study) -> list[Figure]:
    """Return the figures of a study: curves, then maps, then bars."""
    measured = [MEASUREMENTS[one] for one in study.measurements]
    curves = ChainMap(*(dict(one.curves) for one in measured))
    maps = ChainMap(*(dict(one.maps) for one in measured))
    bars = ChainMap(*(dict(one.bars) for one in measured))
    return [
        *(curves[name] for name in study.curves),
        *(maps[name] for name in study.maps),
        *(bars[name] for name in study.bars),
    ]


def is_over_users(column: str) -> bool:
    """Return whether the interval of a column is over users, not over seeds."""
    return any(one.over_users and column in one.all_columns for one in MEASUREMENTS.values())
