"""What a study can measure of a trained run, by name; each gives one value a seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from whence.data.splits import Held, Split
from whence.errors import InputError
from whence.measure import Direction
from whence.run import Run
from whence.trust.seeds import METHODS, TOP, seed_stability


@dataclass(frozen=True)
class Found:
    """One column of a study's table for one run.

    What is measured between seeds comes as jackknife pseudo-values, so that their mean and their
    interval are read like those of any other column.
    """

    per_seed: tuple[float, ...]
    """In the order of the run's seeds."""
    n: int
    """Points a seed."""
    protocol: str
    direction: Direction


@dataclass(frozen=True)
class Measurement:
    """A measurement and the columns it gives, which are known before anything is trained."""

    columns: tuple[str, ...]
    of: Callable[[Run, Split, Held, bool], Mapping[str, Found]]
    """From a run, the split, the part to measure on, and whether to show progress."""


def accuracy(run: Run, split: Split, held: Held, show_progress: bool) -> dict[str, Found]:
    """What training measured of every seed, by full ranking and among 100 random items."""
    measured = [metrics.get(held) for metrics in run.metrics.values()]
    if None in measured:
        raise InputError(f"No {held} events are held out to measure accuracy on.")
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


def stability(run: Run, split: Split, held: Held, show_progress: bool) -> dict[str, Found]:
    """Whether the seeds recommend alike, and for like reasons."""
    return {
        column: Found(tuple(per_seed), over.n, over.protocol, over.direction)
        for column, (per_seed, over) in seed_stability(run.models, split, held).items()
    }


MEASUREMENTS: dict[str, Measurement] = {
    "accuracy": Measurement(("recall@10 of 101", "recall@10", "NDCG@10", "MRR"), accuracy),
    "stability": Measurement(
        (
            f"top-{TOP} overlap",
            *(f"{method} {what}" for method in METHODS for what in ("KL", "Jaccard distance %")),
        ),
        stability,
    ),
}
