"""What a study can measure of a trained run, by name; each gives one value a seed."""

from __future__ import annotations

from collections import ChainMap

from whence.errors import InputError
from whence.trust.stability.seed_stability import METHODS, TOP, seed_stability
from whence_studies.measurements import (
    attention_map,
    calibration_by_class,
    confidence,
    controls,
    deletion_curves,
    dynamics,
    example,
    expert_evidence,
    explainer_agreement,
    genres,
    map_neighbours,
    negatives_published,
    permutation_by_class,
    stability_by_class,
    true_causes,
)
from whence_studies.measurements.found import AsItComes, Asked, Figure, Found, Measurement
from whence_studies.study import Study


def accuracy(asked: Asked, _how: AsItComes) -> dict[str, Found]:
    """What training measured of every seed, by full ranking and among 100 random items."""
    measured = [metrics.get(asked.held) for metrics in asked.run.metrics.values()]
    if None in measured:
        raise InputError(f"No {asked.held} events are held out to measure accuracy on.")
    first, *_ = found = [one for one in measured if one is not None]
    return {
        column: Found(
            per_seed=tuple(one[column]["value"] for one in found),
            n=first[column]["n"],
            protocol=first[column]["protocol"],
            direction=first[column]["direction"],
        )
        for column in first
    }


def stability(asked: Asked, _how: AsItComes) -> dict[str, Found]:
    """Whether the seeds recommend alike, and for like reasons."""
    found = seed_stability(asked.run.models, asked.split, asked.held)
    return {
        column: Found(tuple(per_seed), over.n, over.protocol, over.direction)
        for column, (per_seed, over) in found.items()
    }


MEASUREMENTS: dict[str, Measurement] = {
    "agreement": explainer_agreement.MEASUREMENT,
    "attention-map": attention_map.MEASUREMENT,
    "class-calibration": calibration_by_class.MEASUREMENT,
    "class-permutation": permutation_by_class.MEASUREMENT,
    "class-stability": stability_by_class.MEASUREMENT,
    "confidence": confidence.MEASUREMENT,
    "controls": controls.MEASUREMENT,
    "deletion": deletion_curves.MEASUREMENT,
    "dynamics": dynamics.MEASUREMENT,
    "evidence": expert_evidence.MEASUREMENT,
    "example": example.MEASUREMENT,
    "genres": genres.MEASUREMENT,
    "maps": map_neighbours.MEASUREMENT,
    "published-negatives": negatives_published.MEASUREMENT,
    "truth": true_causes.MEASUREMENT,
    "accuracy": Measurement(("recall@10 of 101", "recall@10", "NDCG@10", "MRR"), accuracy),
    "stability": Measurement(
        (
            f"top-{TOP} overlap",
            *(f"{method} {what}" for method in METHODS for what in ("KL", "Jaccard distance %")),
        ),
        stability,
    ),
}


def columns_of(study: Study) -> list[str]:
    """What a study shows, each once, that of its figures last."""
    known = [column for one in study.measurements for column in MEASUREMENTS[one].columns]
    drawn = [column for figure in figures_of(study) for column in figure.columns]
    grouped = [column for group in study.groups.values() for column in group]
    return list(dict.fromkeys((*(study.columns or grouped or known), *drawn)))


def figures_of(study: Study) -> list[Figure]:
    """What a study draws beside its tables: curves, then maps, then bars."""
    measured = [MEASUREMENTS[one] for one in study.measurements]
    curves = ChainMap(*(dict(one.curves) for one in measured))
    maps = ChainMap(*(dict(one.maps) for one in measured))
    bars = ChainMap(*(dict(one.bars) for one in measured))
    return [
        *(curves[name] for name in study.curves),
        *(maps[name] for name in study.maps),
        *(bars[name] for name in study.bars),
    ]
