"""What a stage of an audit finds: plain data, which a page, a table and a file can show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from whence.config import build
from whence.measure import Measure, with_ends

Answer = Literal["yes", "partly", "no"]
"""To the stage's question."""

ENOUGH: Final = 20
"""Cases, below which nothing is clear: of a few that are all alike, an interval has no width."""


def clearly_positive(interval: tuple[float, float], cases: int) -> bool:
    """Of a difference, case by case: by an interval above 0, of cases enough."""
    return cases >= ENOUGH and interval[0] > 0


@dataclass(frozen=True)
class Figure:
    """A number and the sentence that says it to somebody who knows no measure."""

    name: str
    """What is measured."""
    of: str
    """Of whom: an explainer, or the model."""
    measure: Measure
    reading: str


@dataclass(frozen=True)
class Chart:
    """What a picture shows, as rows; how it looks is not decided here.

    "dots": name, value, low, high. "matrix": one, other, value, low, high. "lines": name, x, y.
    "reliability": panel, and the rows of a `Reliability`. "bins": panel, line, and the rows of a
    `Binned`. "points": panel, and the rows of a `LearnedMap`.
    """

    kind: Literal["dots", "matrix", "lines", "reliability", "bins", "points"]
    title: str
    """What is shown, in a few words; of dots and lines the axis of the values."""
    reading: str
    """How to read it, in a sentence."""
    rows: tuple[Mapping[str, Any], ...]
    across: str = ""
    """Of lines and bins, the axis of x."""


@dataclass(frozen=True)
class Table:
    """Numbers side by side that need no picture, as they are to be read."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    """A name and a text for each column."""


def dot(name: str, measure: Measure) -> dict[str, Any]:
    """A row of a chart of dots."""
    low, high = measure.interval
    return {"name": name, "value": measure.value, "low": low, "high": high}


@dataclass(frozen=True)
class Standing:
    """How an explainer does by the stage's own measure, on the same cases as the others."""

    explainer: str
    value: float
    says: str
    """What the value says, to go on from the explainer's name: "finds …"."""
    over_random: tuple[float, float]
    """95 %: how much better than the control, case by case."""
    behind_best: tuple[float, float]
    """95 %: how much worse than the best."""
    inputs: float
    """What it costs: inputs the model scored a history, on average."""
    cases: int
    """How many the intervals are over."""

    @property
    def better_than_random(self) -> bool:
        """Clearly."""
        return clearly_positive(self.over_random, self.cases)

    @property
    def as_good_as_best(self) -> bool:
        """Not clearly worse."""
        return not clearly_positive(self.behind_best, self.cases)


@dataclass(frozen=True)
class Finding:
    """The answer to a stage's question, and all that it rests on."""

    answer: Answer
    summary: str
    """The answer in a sentence, with its figures."""
    figures: tuple[Figure, ...]
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    """What a reader should know before believing it."""
    ranking: tuple[Standing, ...] = ()
    """Of the explainers, where the stage can tell a better one from a worse one."""
    complete: bool = True
    """Whether nothing was lacking; otherwise the stage runs again the next time."""

    def as_dict(self) -> dict[str, Any]:
        """Plain types only."""
        plain = asdict(self)
        for figure, one in zip(self.figures, plain["figures"], strict=True):
            one["measure"] = figure.measure.as_dict()
        return plain


def read_finding(document: Mapping[str, Any]) -> Finding:
    """A finding from what `Finding.as_dict` wrote, where a range without an end has none."""
    figures = [
        {**figure, "measure": with_ends(figure["measure"])} for figure in document["figures"]
    ]
    return build(Finding, {**document, "figures": figures})
