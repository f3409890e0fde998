"""Hits and NDCG among 100 published items, and accuracy per class, in per cent (Jain 2019)."""

from __future__ import annotations

from typing import Final

from whence.errors import CapabilityError, InputError
from whence.measure import Measure
from whence.training.evaluation import AS_PUBLISHED, TOP
from whence.trust.accuracy.class_accuracy import CLASSES, published_class_accuracy
from whence_studies.measurements.measurement import MeasuredRun, Measurement, NoOptions, SeedColumn

MEASURED: Final = {f"{name} (%)": f"{name}{AS_PUBLISHED}" for name in (f"HR@{TOP}", f"NDCG@{TOP}")}
"""By column: the metric of training."""
OF_CLASSES: Final = {f"accuracy on {name} (%)": name for name in CLASSES}


def published_negatives(subject: MeasuredRun, _options: NoOptions) -> dict[str, SeedColumn]:
    """Return the metrics of training, and the accuracy per class of models with classes."""
    measured = [metrics.get(subject.held, {}) for metrics in subject.run.metrics.values()]
    first = measured[0]
    if any(name not in first for name in MEASURED.values()):
        raise InputError(
            f"The {subject.held} events have no published negatives. Use ml-1m-ncf with "
            "the split last-one."
        )
    hits = {
        column: SeedColumn(
            per_seed=tuple(100 * one[name]["value"] for one in measured),
            n=first[name]["n"],
            protocol=first[name]["protocol"],
            direction=first[name]["direction"],
        )
        for column, name in MEASURED.items()
    }
    return {**hits, **_class_columns(subject)}


def _class_columns(subject: MeasuredRun) -> dict[str, SeedColumn]:
    """Return the accuracy of each class that occurs, or nothing for a model without classes."""
    run = subject.run
    try:
        accuracies = [
            published_class_accuracy(model, subject.split, model.config.max_len, subject.held)
            for model in run.models.values()
        ]
    except CapabilityError:
        return {}
    by_column: dict[str, list[Measure]] = {
        column: [one for seed in accuracies if (one := seed.get(name)) is not None]
        for column, name in OF_CLASSES.items()
    }
    return {
        column: SeedColumn(
            per_seed=tuple(100 * one.value for one in found),
            n=found[0].n,
            protocol=f"{found[0].protocol}; {run.training['protocol']}",
            direction=found[0].direction,
        )
        for column, found in by_column.items()
        if found
    }


MEASUREMENT: Final = Measurement((*MEASURED, *OF_CLASSES), published_negatives)
