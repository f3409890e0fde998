"""The default recommender, compared with every simple model on the same held-out events.

The default is what `whence train` recommends with: the seeds together, and the simple models that
get a weight on the validation events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from whence.arrays import Floats
from whence.errors import InputError
from whence.measure import bootstrap_interval
from whence.models import MODELS, Recommender, simple_models
from whence.training.choosing import choose
from whence.training.comparison import MAIN
from whence.training.evaluation import Evaluation
from whence_studies.measurements.measurement import MeasuredRun, Measurement, SeedColumn

DEFAULT, OF_SIMPLE, LEAD = f"{MAIN} of the default", f"{MAIN} of {{}}", "lead over {}"


@dataclass(frozen=True)
class DefaultOptions:
    """How many seeds recommend together."""

    size: int = 5

    def __post_init__(self) -> None:
        if self.size < 1:
            raise InputError(f"size must be at least 1, not {self.size}.")


def against_simple(subject: MeasuredRun, options: DefaultOptions) -> dict[str, SeedColumn]:
    """Return the accuracy of the default and of the simple models, and the leads of the default.

    The seeds of the run are divided into groups; every group is one repetition.
    """
    own = np.stack(
        [
            _values(choose(replace(subject.run, models=models), subject.split).whole, subject)
            for models in _repetitions(subject.run.models, options.size)
        ]
    )
    simple = {name: _values(model, subject) for name, model in simple_models(subject.split).items()}
    size = min(options.size, len(subject.run.models))
    said = (
        f"{own.shape[1]:,} {subject.held} events, {subject.split.protocol}; ranked among itself "
        f"and all items the user has not seen; mean over {_counted(len(own), 'repetition')} of "
        f"{_counted(size, 'seed')}; "
        "bootstrap interval over users"
    )
    columns = {DEFAULT: _column(own, said, size)}
    for name, values in simple.items():
        columns[OF_SIMPLE.format(name)] = _column(np.tile(values, (len(own), 1)), said, size)
        columns[LEAD.format(name)] = _column(own - values, f"{said}, paired", size)
    return columns


def _repetitions(models: Mapping[int, Recommender], size: int) -> list[dict[int, Recommender]]:
    """Return groups of `size` seeds; what is left over is not used, unless it is all there is."""
    seeds = list(models)
    starts = range(0, max(1, len(seeds) - size + 1), size)
    return [{seed: models[seed] for seed in seeds[start : start + size]} for start in starts]


def _values(model: Recommender, subject: MeasuredRun) -> Floats:
    """Return the measure of every held-out event."""
    evaluation = Evaluation(subject.split, subject.held, model.config.max_len)
    return evaluation.full(model).values[MAIN]


def _counted(count: int, what: str) -> str:
    return f"one {what}" if count == 1 else f"{count} {what}s"


def _column(values: Floats, protocol: str, size: int) -> SeedColumn:
    """Return the means over users of every repetition `[R, B]`, once for each of its seeds."""
    means = values.mean(axis=1)
    return SeedColumn(
        per_seed=tuple(np.repeat(means, size).tolist()),
        n=values.shape[1],
        protocol=protocol,
        direction="higher is better",
        interval=bootstrap_interval(values.mean(axis=0)),
        spread=float(means.std(ddof=1)) if len(means) > 1 else None,
    )


SIMPLE: Final = MODELS.tagged("simple")
MEASUREMENT: Final = Measurement(
    (
        DEFAULT,
        *(OF_SIMPLE.format(name) for name in SIMPLE),
        *(LEAD.format(name) for name in SIMPLE),
    ),
    against_simple,
    DefaultOptions,
    over_users=True,
)
