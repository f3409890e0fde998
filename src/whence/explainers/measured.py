"""What was measured of the explainers on a world, and which of them that speaks for.

`docs/examples/which_explainer.py` measures; `measured.json` beside this file is what it wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from whence.errors import InputError
from whence.files import read_json
from whence.measure import SeedMean, mean_over_seeds

FILE: Final = Path(__file__).with_name("measured.json")
FEW: Final = 4
"""Inputs scored a history, up to which a method is cheap however long the history."""
AS_QUICK: Final = 1.1
"""Times the quickest: up to there a difference of times may be noise."""
CONTROL: Final = "random"
SIGNED_ROLLOUT: Final = "signed-rollout:sign="

Values = list[float]
"""One a seed."""


@dataclass(frozen=True)
class Figures:
    """Of one explainer on one model."""

    signed: bool
    inputs: float
    """Scored a history, on average."""
    precision: dict[str, Values]
    """At the true cause, by kind of reason."""
    sign: Values
    """Agreement with Shapley's sign. A method without a sign has it as one that is always for."""
    weighted_sign: Values
    rank: Values
    """Spearman's rho of its sizes with Shapley's."""
    milliseconds: Values
    """A history, in one batch."""

    def right(self) -> Values:
        """Precision at the true cause, the kinds of reason counting alike."""
        return _mean(self.precision.values())


@dataclass(frozen=True)
class Measured:
    """All explainers on some models, with the same seeds and questions."""

    command: str
    machine: str
    versions: dict[str, str]
    seeds: list[int]
    settings: dict[str, int]
    questions: dict[str, int]
    """By kind of reason, how many."""
    reference: str
    """The Shapley values that signs and sizes are held against."""
    sure: dict[str, Values]
    """By model, the share of parts whose sign the reference is sure of."""
    models: dict[str, dict[str, Figures]]
    """By model and explainer."""

    def as_dict(self) -> dict[str, Any]:
        """Plain types only."""
        return asdict(self)

    def over_models(self, of: Callable[[Figures], Values]) -> dict[str, Values]:
        """A figure of every explainer, the models counting alike."""
        first = next(iter(self.models.values()))
        return {
            name: _mean(of(explainers[name]) for explainers in self.models.values())
            for name in first
        }

    def cheap(self) -> list[str]:
        """The explainers of a few inputs a history."""
        inputs = self.over_models(lambda one: [one.inputs])
        return [name for name, (count,) in inputs.items() if count <= FEW and name != CONTROL]

    def recommended(self) -> str:
        """The quickest of those that name the true reason about as often as the best.

        Of those about as quick the first, in the order of the registry, in which they are measured.
        """
        right = self.over_models(Figures.right)
        right.pop(CONTROL)
        time = self.over_models(lambda one: one.milliseconds)
        taken = {name: float(np.mean(time[name])) for name in as_good_as_best(right)}
        quickest = min(taken.values())
        return next(name for name, one in taken.items() if one <= AS_QUICK * quickest)

    def cheap_sign(self) -> str:
        """The sign for rollout of a few inputs that is most often Shapley's, by weight."""
        signs = self.over_models(lambda one: one.weighted_sign)
        found = {name: signs[name] for name in self.cheap() if name.startswith(SIGNED_ROLLOUT)}
        return best(found).removeprefix(SIGNED_ROLLOUT)


def measured_here() -> Measured | None:
    """What comes with Whence, if it was measured."""
    return read_measured(FILE) if FILE.exists() else None


def read_measured(path: Path) -> Measured:
    """What a file says."""
    document = read_json(path)
    try:
        models = {
            model: {name: Figures(**figures) for name, figures in explainers.items()}
            for model, explainers in document.pop("models").items()
        }
        found = Measured(**document, models=models)
        _look_at_all(found)
    except (KeyError, TypeError, AttributeError, ValueError):
        raise InputError(
            f"{path} is not what docs/examples/which_explainer.py --json writes."
        ) from None
    return found


def _look_at_all(measured: Measured) -> None:
    """Stumble here, not where it is told, over a file that lacks something."""
    if not measured.models:
        raise ValueError
    for explainers in measured.models.values():
        for figures in (explainers[CONTROL], *explainers.values()):
            figures.right()
    measured.recommended()
    measured.cheap_sign()


def best(values: Mapping[str, Values]) -> str:
    """The name with the highest mean; of equals the first."""
    return max(values, key=lambda name: float(np.mean(values[name])))


def as_good_as_best(values: Mapping[str, Values]) -> list[str]:
    """The best, and those whose distance from it has 0 in its interval, seed by seed."""
    first = best(values)
    return [
        name
        for name in values
        if name == first or _behind(values[first], values[name]).interval[0] <= 0
    ]


def beats_chance(values: Mapping[str, Values], chance: Values) -> bool:
    """Whether anybody is above chance by an interval without 0 in it, seed by seed."""
    return any(_behind(one, chance).interval[0] > 0 for one in values.values())


def _behind(first: Values, other: Values) -> SeedMean:
    return mean_over_seeds([one - two for one, two in zip(first, other, strict=True)])


def _mean(values: Iterable[Values]) -> Values:
    """Seed by seed."""
    means: Values = np.mean(list(values), axis=0).tolist()
    return means
