"""Controls (after Adebayo et al. 2018): do importances agree in models that learned nothing?

If rollout and gradients agreed in any network of this shape, their agreement would say nothing
about what was learned. So a model is also explained untrained, and with some weights replaced by
the initial weights of another seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Final

import numpy as np

from whence.errors import InputError
from whence.models import Recommender
from whence.progress import progress_bar
from whence.run import Run
from whence_studies.measurements.explainer_agreement import explain_points, per_point, rho
from whence_studies.measurements.measurement import MeasuredRun, Measurement, SeedColumn
from whence_studies.measurements.point_sample import PointSample, draw_points

SYMBOLS: Final = ("∇", "α first", "α last", "α", "φ*₁", "φ*₂")
COMPARED: Final = (rho("∇", "α first"), rho("∇", "α last"), rho("∇", "α"), rho("φ*", "α"))
TRAINED, UNTRAINED = "trained", "untrained"
RANDOMISED: Final = {
    "last block randomised": ("blocks.{last}.",),
    "blocks randomised": ("blocks.",),
    "items randomised": ("item", "position"),
}
"""By version: prefixes of the names of the replaced weights."""
VERSIONS: Final = (TRAINED, UNTRAINED, *RANDOMISED)


def controls(subject: MeasuredRun, options: PointSample) -> dict[str, SeedColumn]:
    """Return the columns of every version of every seed's model, on the same points."""
    cases = draw_points(subject.split, subject.held, options)
    bar = progress_bar("controls", len(subject.run.models), subject.show_progress, transient=True)
    per_seed: dict[str, list[float]] = {}
    for seed in bar.track(subject.run.models):
        for version, model in versions(subject.run, seed):
            found = per_point(explain_points(model, cases, SYMBOLS, seed))
            for column in COMPARED:
                mean = float(np.nanmean(found[column]))
                per_seed.setdefault(f"{column}, {version}", []).append(mean)
    protocol = (
        f"{options.points:,} {subject.held} events, {subject.split.protocol}, {options.words}; "
        "the target is the next item"
    )
    return {
        column: SeedColumn(tuple(values), options.points, protocol, "neither")
        for column, values in per_seed.items()
    }


def versions(run: Run, seed: int) -> Iterator[tuple[str, Recommender]]:
    """Yield the trained model, the untrained one, and the randomised ones."""
    seeds = list(run.models)
    if len(seeds) < 2:
        raise InputError("Randomised weights come from another seed: train at least 2 seeds.")
    other = seeds[(seeds.index(seed) + 1) % len(seeds)]
    trained, fresh = run.models[seed], run.snapshot(0, other).state_dict()
    last = max(int(name.split(".")[1]) for name in fresh if name.startswith("blocks."))
    yield TRAINED, trained
    yield UNTRAINED, run.snapshot(0, seed)
    for version, prefixes in RANDOMISED.items():
        model = deepcopy(trained)
        prefix = tuple(one.format(last=last) for one in prefixes)
        model.load_state_dict(
            {
                name: fresh[name] if name.startswith(prefix) else weight
                for name, weight in trained.state_dict().items()
            }
        )
        yield version, model


MEASUREMENT: Final = Measurement(
    tuple(f"{column}, {version}" for column in COMPARED for version in VERSIONS),
    controls,
    PointSample,
    edition=2,
)
