"""Reliability diagrams, drawn from the bins as they are."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from whence.report.charts import reliability_chart, specification, to_png, to_svg
from whence.trust import (
    EqualMass,
    EqualWidth,
    JainBins,
    Predictions,
    Reliability,
    predictions_of,
    reliability,
)


@pytest.fixture(scope="module")
def predictions() -> Predictions:
    rng = np.random.default_rng(0)
    first = rng.uniform(0, 1, 300)
    return predictions_of(
        np.stack((first, 1 - first), axis=1), (rng.random(300) > first**2).astype(np.int64)
    )


def test_bars_are_the_bins(predictions: Predictions) -> None:
    diagrams = {
        "positives": reliability(predictions.for_class(0), JainBins()),
        "all": reliability(predictions, EqualWidth(10)),
    }
    chart = specification(reliability_chart(diagrams), "")
    drawn = chart["hconcat"]

    def data_of(part: dict[str, Any]) -> list[dict[str, float]]:
        rows: list[dict[str, float]] = chart["datasets"][part["data"]["name"]]
        return rows

    assert [panel["vconcat"][0]["title"] for panel in drawn] == list(diagrams)
    for panel, diagram in zip(drawn, diagrams.values(), strict=True):
        some = diagram.count > 0
        above, below = panel["vconcat"]
        bars, diagonal, *_ = above["layer"]
        rows = data_of(bars)
        for name, values in {
            "from": diagram.edges[:-1],
            "to": diagram.edges[1:],
            "sure": diagram.expected,
            "value": diagram.accuracy,
            "low": diagram.interval[:, 0],
            "high": diagram.interval[:, 1],
            "cases": diagram.count,
        }.items():
            np.testing.assert_array_equal([row[name] for row in rows], values[some])
        assert data_of(diagonal) == [{"sure": diagram.edges[0]}, {"sure": 1.0}]
        assert data_of(below) == rows
    assert len(rows) == 5, "of two classes nothing is predicted with less than a half"


def reliabilities(predictions: Predictions) -> dict[str, Reliability]:
    even = predictions_of(np.full((4, 2), 0.5), np.array([0, 1, 1, 1]))
    return {
        "equally many": reliability(predictions, EqualMass()),
        "all alike": reliability(even, EqualMass()),
        "none": reliability(predictions[:0]),
    }


@pytest.mark.parametrize("name", ["equally many", "all alike", "none"])
def test_whatever_there_is_can_be_drawn(name: str, predictions: Predictions) -> None:
    chart = reliability_chart({name: reliabilities(predictions)[name]})
    assert to_png(chart).startswith(b"\x89PNG")
    svg = to_svg(chart, "How sure")
    assert ElementTree.fromstring(svg).attrib["aria-label"] == "How sure"
    assert name in svg
    assert "NaN" not in svg
