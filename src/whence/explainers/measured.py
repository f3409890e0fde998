"""Figures of the explainers, measured on a synthetic world, and what they recommend.

`docs/examples/which_explainer.py` measures them and writes `measured.json`, next to this file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from whence.checked_types import check_types
from whence.errors import InputError
from whence.files import read_json
from whence.measure import SeedMean, mean_over_seeds

FILE: Final = Path(__file__).with_name("measured.json")
FEW: Final = 4
"""The most inputs that a cheap explainer scores per history, however long the history."""
AS_FAST: Final = 1.1
"""A ratio of times up to which the difference may be noise."""
CONTROL: Final = "random"
SIGNED_ROLLOUT: Final = "signed-rollout:sign="

SeedScores = list[float]
"""One value for each seed."""


@dataclass(frozen=True)
class Figures:
    """The figures of one explainer on one model."""

    signed: bool
    inputs: float
    """The mean number of inputs scored for a history."""
    precision: dict[str, SeedScores]
    """How often the strongest part is the true reason, by kind of reason."""
    sign: SeedScores
    """Agreement with the sign of Shapley values. An unsigned explainer counts as positive."""
    weighted_sign: SeedScores
    rank: SeedScores
    """Spearman's ρ of its sizes with those of Shapley values."""
    milliseconds: SeedScores
    """For a history, in one batch."""

    def right(self) -> SeedScores:
        """Return the mean precision over the kinds of reason."""
        return _mean(self.precision.values())


@dataclass(frozen=True)
class Measured:
    """The figures of all explainers on some models, with the same seeds and questions."""

    command: str
    machine: str
    versions: dict[str, str]
    seeds: list[int]
    settings: dict[str, int]
    questions: dict[str, int]
    """The number of questions, by kind of reason."""
    reference: str
    """The Shapley values that signs and sizes are compared with."""
    sure: dict[str, SeedScores]
    """By model, the share of parts whose sign the reference is sure of."""
    models: dict[str, dict[str, Figures]]
    """By model and explainer."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain types only."""
        return asdict(self)

    def over_models(self, of: Callable[[Figures], SeedScores]) -> dict[str, SeedScores]:
        """Return a figure of every explainer, as the mean over the models."""
        first = next(iter(self.models.values()))
        return {
            name: _mean(of(explainers[name]) for explainers in self.models.values())
            for name in first
        }

    def cheap(self) -> list[str]:
        """Return the explainers that score few inputs per history."""
        inputs = self.over_models(lambda one: [one.inputs])
        return [name for name, (count,) in inputs.items() if count <= FEW and name != CONTROL]

    def recommended(self) -> str:
        """Return the fastest explainer that is not measurably worse than the best.

        If several are about as fast, the first in the order of the registry wins.
        """
        right = self.over_models(Figures.right)
        right.pop(CONTROL)
        time = self.over_models(lambda one: one.milliseconds)
        taken = {name: float(np.mean(time[name])) for name in as_good_as_best(right)}
        fastest = min(taken.values())
        return next(name for name, one in taken.items() if one <= AS_FAST * fastest)

    def cheap_sign(self) -> str:
        """Return the cheap sign for rollout that agrees most with Shapley values, by weight."""
        signs = self.over_models(lambda one: one.weighted_sign)
        found = {name: signs[name] for name in self.cheap() if name.startswith(SIGNED_ROLLOUT)}
        return best(found).removeprefix(SIGNED_ROLLOUT)


def measured_here() -> Measured | None:
    """Return the figures that come with Whence, if there are any."""
    return read_measured(FILE) if FILE.exists() else None


def read_measured(path: Path) -> Measured:
    """Return the figures in a file."""
    document = read_json(path)
    try:
        models = {
            model: {name: Figures(**figures) for name, figures in explainers.items()}
            for model, explainers in document.pop("models").items()
        }
        found = Measured(**document, models=models)
        _check(found)
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, StopIteration):
        raise InputError(
            f"{path} is not what docs/examples/which_explainer.py --json writes."
        ) from None
    return found


def _check(measured: Measured) -> None:
    """Raise here, and not in the answer, if a file lacks something."""
    check_types(measured)
    values = [*measured.sure.values()]
    for explainers in measured.models.values():
        for one in explainers.values():
            values += [one.sign, one.weighted_sign, one.rank, one.milliseconds]
            values += one.precision.values()
    if not all(len(one) == len(measured.seeds) > 0 and np.isfinite(one).all() for one in values):
        raise ValueError("each figure needs a finite value for each seed")
    for explainers in measured.models.values():
        for figures in (explainers[CONTROL], *explainers.values()):
            figures.right()
    measured.recommended()
    measured.cheap_sign()


def best(values: Mapping[str, SeedScores]) -> str:
    """Return the name with the highest mean, and the first if several are equal."""
    return max(values, key=lambda name: float(np.mean(values[name])))


def as_good_as_best(values: Mapping[str, SeedScores]) -> list[str]:
    """Return the best, and those whose difference from it has an interval that contains 0."""
    first = best(values)
    return [
        name
        for name in values
        if name == first or _behind(values[first], values[name]).interval[0] <= 0
    ]


def beats_random(values: Mapping[str, SeedScores], control: SeedScores) -> bool:
    """Return whether any is above random by a difference whose interval is above 0."""
    return any(_behind(one, control).interval[0] > 0 for one in values.values())


def _behind(first: SeedScores, other: SeedScores) -> SeedMean:
    return mean_over_seeds([one - two for one, two in zip(first, other, strict=True)])


def _mean(values: Iterable[SeedScores]) -> SeedScores:
    """Return the mean of each seed."""
    means: SeedScores = np.mean(list(values), axis=0).tolist()
    return means
