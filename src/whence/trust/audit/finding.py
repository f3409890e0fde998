"""What a stage of an audit finds: plain data that a page, a table and a file can show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from whence.config import build
from whence.measure import ENOUGH as ENOUGH
from whence.measure import Measure, restore_bounds
from whence.measure import clearly_positive as clearly_positive

Answer = Literal["yes", "partly", "no"]
"""The answer to a stage's question."""


@dataclass(frozen=True)
class Figure:
    """A number and a sentence that explains it to readers who do not know the measure."""

    name: str
    """What is measured."""
    of: str
    """What it is measured for: an explainer, or the model."""
    measure: Measure
    reading: str


@dataclass(frozen=True)
class Chart:
    """The rows of a chart; the report decides how to draw them.

    "dots": name, value, low, high. "matrix": one, other, value, low, high. "lines": name, x, y.
    "reliability": panel, and the rows of a `Reliability`. "bins": panel, line, and the rows of a
    `Binned`. "points": panel, and the rows of a `LearnedMap`.
    """

    kind: Literal["dots", "matrix", "lines", "reliability", "bins", "points"]
    title: str
    """What the chart shows; for dots and lines also the title of the value axis."""
    reading: str
    """How to read the chart, in one or two sentences."""
    rows: tuple[Mapping[str, Any], ...]
    across: str = ""
    """The title of the x axis, for lines and bins."""


@dataclass(frozen=True)
class Table:
    """Numbers that need no chart, formatted for reading."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    """A name, then one text per column."""


def dot(name: str, measure: Measure) -> dict[str, Any]:
    """Return a row of a chart of dots."""
    low, high = measure.bounds
    return {"name": name, "value": measure.value, "low": low, "high": high}


@dataclass(frozen=True)
class Standing:
    """How an explainer does by the stage's measure, on the same cases as the others."""

    explainer: str
    value: float
    says: str
    """What the value means, as a phrase that follows the explainer's name: "finds …"."""
    over_random: tuple[float, float]
    """The 95 % interval of how much better it is than random importances, case by case."""
    behind_best: tuple[float, float]
    """The 95 % interval of how much worse it is than the best explainer."""
    inputs: float
    """Its cost: the mean number of inputs that the model scores per history."""
    cases: int
    """The number of cases behind the intervals."""

    @property
    def better_than_random(self) -> bool:
        """Whether it is clearly better than random importances."""
        return clearly_positive(self.over_random, self.cases)

    @property
    def as_good_as_best(self) -> bool:
        """Whether it is not clearly worse than the best explainer."""
        return not clearly_positive(self.behind_best, self.cases)


@dataclass(frozen=True)
class Finding:
    """The answer to a stage's question, with the evidence."""

    answer: Answer
    summary: str
    """The answer in words, with its main figures."""
    figures: tuple[Figure, ...]
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    """What you should know before you rely on the answer."""
    ranking: tuple[Standing, ...] = ()
    """The explainers, if the stage can tell a better one from a worse one."""
    complete: bool = True
    """Whether nothing was missing; an incomplete stage runs again the next time."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain types only."""
        plain = asdict(self)
        for figure, one in zip(self.figures, plain["figures"], strict=True):
            one["measure"] = figure.measure.as_dict()
        return plain

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Finding:
        """Return the finding that `as_dict` described."""
        figures = [
            {**figure, "measure": restore_bounds(figure["measure"])}
            for figure in document["figures"]
        ]
        return build(cls, {**document, "figures": figures})
