"""What is drawn by confidence is what was binned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree

import altair as alt
import numpy as np
import pytest

from whence.report.charts import specification, to_svg
from whence.report.trust_charts import attention_chart, permutation_chart, stability_chart
from whence.trust import Binned, ClassPermutation, EqualMass, EqualWidth, JainBins
from whence.trust.bins import binned


@pytest.fixture(scope="module")
def permuted() -> ClassPermutation:
    rng = np.random.default_rng(0)
    shape = 40, 25
    sure = rng.uniform(0.5, 1, shape)
    sure[(sure > 0.8) & (sure < 0.9)] = 0.95  # one bin is empty
    change = (1 - sure) * rng.random(shape)
    true, said = (rng.integers(0, 2, shape) for _ in range(2))
    return ClassPermutation(
        change, change / 2, sure, said, true, rng.uniform(0.01, 0.4, shape), 2, "by hand"
    )


def drawn_by(chart: alt.TopLevelMixin) -> tuple[dict[str, Any], list[list[dict[str, Any]]]]:
    """What is drawn, and all data that travel with it."""
    drawn = specification(chart, "")
    return drawn, list(drawn["datasets"].values())


def same(rows: list[dict[str, Any]], lines: Mapping[str, Binned]) -> None:
    assert list(dict.fromkeys(row["line"] for row in rows)) == list(lines)
    for name, one in lines.items():
        own, some = [row for row in rows if row["line"] == name], one.count > 0
        columns = {
            "from": one.edges[:-1],
            "to": one.edges[1:],
            "place": one.place,
            "value": one.mean,
            "low": one.interval[:, 0],
            "high": one.interval[:, 1],
            "least": one.quantiles[:, 0],
            "median": one.quantiles[:, 2],
            "most": one.quantiles[:, 4],
            "cases": one.count,
        }
        for key, values in columns.items():
            drawn = [np.nan if row[key] is None else row[key] for row in own]
            np.testing.assert_array_equal(drawn, values[some], err_msg=f"{name} {key}")


def test_shuffled_attention_by_confidence(permuted: ClassPermutation) -> None:
    lines = permuted.by_confidence()
    assert (lines["all"].count == 0).sum() == 1
    drawn, data = drawn_by(permutation_chart(lines))
    for rows in data:
        same(rows, lines)
    above, below = drawn["concat"][0]["vconcat"]
    assert [layer["mark"]["type"] for layer in above["layer"]] == ["area", "line", "circle"]
    assert above["layer"][0]["encoding"]["x"]["scale"]["domain"] == [0.5, 1.0]
    assert below["layer"][0]["encoding"]["y"]["field"] == "cases"
    assert above["layer"][0]["encoding"]["color"]["scale"]["domain"] == list(lines)


def test_median_change_by_attention(permuted: ClassPermutation) -> None:
    kinds = permuted.by_attention()
    for rows in drawn_by(attention_chart(kinds))[1]:
        same(rows, kinds)
        labels = {(row["from"], row["share"]) for row in rows}
        assert len(labels) == len({share for _, share in labels}) == 10
    near = permuted.by_attention(EqualWidth(7))["predicted liked"]
    alike = Binned(**{**vars(near), "edges": 0.25 + near.edges / 10_000})
    shares = {row["share"] for row in drawn_by(attention_chart({"alike": alike}))[1][0]}
    assert len(shares) == (near.count > 0).sum(), "labels tell narrow bins apart"


def test_stability_by_the_mean_prediction() -> None:
    rng = np.random.default_rng(0)
    liked = rng.random(200)
    measures = {
        name: binned(rng.random(200), liked, EqualWidth(10), protocol="")
        for name in ("Jaccard index", "KL")
    }
    drawn, data = drawn_by(stability_chart(measures))
    above = [panel["vconcat"][0]["layer"][0] for panel in drawn["concat"]]
    assert [band["encoding"]["y"]["title"] for band in above] == list(measures)
    for rows in data:
        name = rows[0]["line"]
        same(rows, {name: measures[name]})


@pytest.mark.parametrize("cases", [0, 1])
def test_whatever_there_is_can_be_drawn(cases: int) -> None:
    """Nothing, or a single user, who has no interval."""
    line = binned(np.full(cases, 0.1), np.full(cases, 0.7), JainBins(), protocol="")
    few = binned(np.full(cases, 0.1), np.full(cases, 0.7), EqualMass(3), protocol="")
    for chart in (permutation_chart({"one": line, "other": line}), attention_chart({"one": few})):
        svg = to_svg(chart, "Whatever")
        assert ElementTree.fromstring(svg).attrib["aria-label"] == "Whatever"
        assert "NaN" not in svg
        assert "undefined" not in svg
