"""Columns side by side, and curves: tables and charts from the same records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import altair as alt
import numpy as np
import pytest

from whence.report.charts import to_png
from whence_studies.cache import CachedColumns
from whence_studies.charts.cells import ABSENT
from whence_studies.charts.claim_tables import JUDGED
from whence_studies.charts.study_charts import study_charts
from whence_studies.charts.study_tables import ALONE, LEGEND, study_tables
from whence_studies.declared_claims import Claim, ClaimSide
from whence_studies.measurements.measurement import LinePlot, SeedColumn
from whence_studies.measurements.registry import MEASUREMENTS, columns_of, figures_of
from whence_studies.records import Record
from whence_studies.results import StudyResults
from whence_studies.study import Study, find_study

ROWS = [
    (model, dataset)
    for model in ("SASRec", "BERT4Rec")
    for dataset in ("ML-1M", "Steam", "Beauty", "Games")
]
Key = tuple[str, str | None, str, str]


def results(study: Study, without: str = "") -> list[Record]:
    """Other values in every column of every cell, of three seeds; a dataset may be absent."""
    rng = np.random.default_rng(0)
    found = {
        cell: {
            name: CachedColumns(
                (0, 1, 2),
                {
                    column: SeedColumn(
                        tuple(rng.normal(0.5, 0.02, 3).tolist()), 9, "9 events", "neither"
                    )
                    for column in MEASUREMENTS[name].all_columns
                },
            )
            for name in study.measurements
        }
        for cell in study.cells()
        if cell.dataset != without
    }
    return StudyResults(study, "2 CPU cores", study.command, found).records()


def by_place(records: list[Record]) -> dict[Key, Record]:
    return {(one.dataset, one.model, one.row, one.column): one for one in records}


def drawn(chart: alt.FacetChart) -> list[dict[str, Any]]:
    (rows,) = chart.to_dict()["datasets"].values()
    return list(rows)


def figures(record: Record) -> tuple[float | None, ...]:
    return record.value, *(record.interval or ())


@pytest.fixture(scope="module")
def blocks() -> Study:
    return find_study("sequential-agreement-b1")


@pytest.fixture(scope="module")
def records(blocks: Study) -> list[Record]:
    return results(blocks)


def test_one_table_per_group_and_variant(blocks: Study, records: list[Record]) -> None:
    *groups, histograms, claims, judged = study_tables(blocks, records)
    assert histograms.title == "Distribution of correlations over points"
    assert (claims.title, judged.title) == ("Claims", JUDGED)
    places = [(group, variant) for group in blocks.groups for variant in blocks.variants]
    assert [table.title for table in groups] == [f"{one}, {two}" for one, two in places]
    found = by_place(records)
    for (group, variant), table in zip(places, groups, strict=True):
        columns = blocks.groups[group]
        assert table.headings == ("model", "dataset", *columns)
        assert [row[:2] for row in table.rows] == ROWS
        assert table.numbers == len(columns)
        for model, dataset, *cells in table.rows:
            data, name = blocks.datasets[dataset].data, blocks.models[model].name
            for column, text in zip(columns, cells, strict=True):
                record = found[data, name, variant, column]
                low, high = record.interval or (0.0, 0.0)
                value, _, half = text.partition(" (")[0].partition(" ± ")
                assert float(value) == pytest.approx(record.value, abs=5.1e-3)
                assert float(half) == pytest.approx((high - low) / 2, rel=0.1)
        unpublished = ("Precision of Shapley values", "Kendall's τ")
        printed = variant == "points by history length" and group not in unpublished
        assert table.legend == (LEGEND if printed else ALONE)
        assert any("(" in cell for row in table.rows for cell in row) == printed


def test_published_values_have_a_sign(blocks: Study, records: list[Record]) -> None:
    tables = {table.title: table for table in study_tables(blocks, records)}
    means = tables["Correlations, points by history length"]
    spreads = tables["Standard deviation over points, points by history length"]
    first = dict(zip(means.headings, means.rows[0], strict=True))
    assert first["ρ(∇, α first)"].endswith(" (< 0.97)")
    assert spreads.rows[0][2].endswith(" (> 0.04)")
    assert "(" not in first["ρ(|φ*|, α first)"], "nothing is printed of it"
    ends = [row[2].rpartition(" ")[2] for row in means.rows]
    assert ends == ["0.97)", "0.84)", "0.60)", "0.61)", "0.99)", "0.97)", "0.97)", "0.96)"]


def test_an_absent_dataset_keeps_published_values(blocks: Study) -> None:
    by_length, uniform, *_, histograms, _, _ = study_tables(blocks, results(blocks, "Steam"))
    assert by_length.rows[1][2] == f"{ABSENT} (0.84)"
    assert uniform.rows[1][2] == ABSENT
    assert {row[4] for row in histograms.rows if row[1] == "Steam"} == {ABSENT}
    assert by_length.notes[0] == "– needs your copy of the data: Steam."


def test_the_chart_of_a_group_shows_its_table(blocks: Study, records: list[Record]) -> None:
    charts = study_charts(blocks, records)
    assert [*charts, JUDGED] == [table.title for table in study_tables(blocks, records)]
    found = by_place(records)
    for variant in blocks.variants:
        for group, columns in blocks.groups.items():
            rows = drawn(charts[f"{group}, {variant}"])
            assert len(rows) == 8 * len(columns)
            for row in rows:
                data, name = blocks.datasets[row["dataset"]].data, blocks.models[row["model"]].name
                record = found[data, name, variant, row["name"]]
                assert (row["value"], row["low"], row["high"]) == figures(record)
                printed = None if "published" not in row else float(row["published"])
                assert printed == record.published
                if printed is not None:
                    assert row["print_low"] == pytest.approx(printed - 0.005)
                    assert row["print_high"] == pytest.approx(printed + 0.005)


def test_a_column_may_be_in_a_group_and_in_a_figure() -> None:
    study = find_study("sequential-truth")
    column = "precision of shapley, caused"
    study = replace(study, columns=(), groups={"Shapley values": (column,)}, claims=())
    records = results(study)
    (variant,) = list(study.variants)[:1]
    title = f"Shapley values, {variant}"
    table = next(one for one in study_tables(study, records) if one.title == title)
    assert table.headings[-1] == column
    rows = drawn(study_charts(study, records)[title])
    assert {row["name"] for row in rows} == {column}
    assert len(rows) == len(table.rows) == 2


def curves_of(study: Study) -> LinePlot:
    (figure,) = figures_of(study)
    assert isinstance(figure, LinePlot)
    return figure


@pytest.mark.parametrize("name", ["sequential-agreement-b1", "sequential-dynamics"])
def test_curves_are_a_table_and_a_chart_of_the_same_records(name: str) -> None:
    study = find_study(name)
    records, curves = results(study), curves_of(study)
    found = by_place(records)
    table = next(one for one in study_tables(study, records) if one.title == curves.title)
    places = list(next(iter(curves.lines.values())))
    assert table.headings[:4] == ("model", "dataset", "variant", curves.y)
    assert [float(x) for x in table.headings[4:]] == pytest.approx(places)
    cells = study.cells()
    assert len(table.rows) == len(cells) * len(curves.lines)
    for row in table.rows:
        model, dataset, variant, line, *shown = row
        data, model_name = study.datasets[dataset].data, study.models[model].name
        columns = curves.lines[line].values()
        expected = [found[data, model_name, variant, column].value for column in columns]
        assert [float(text) for text in shown] == pytest.approx(expected, rel=5e-3)
    chart = study_charts(study, records)[curves.title]
    rows = drawn(chart)
    assert len(rows) == len(cells) * len(curves.columns)
    seen = set()
    for point in rows:
        model, variant = point["panel_row"].split(" ", 1)
        data = study.datasets[point["panel_column"]].data
        column = curves.lines[point["line"]][point["x"]]
        record = found[data, study.models[model].name, variant, column]
        assert (point["value"], point["low"], point["high"]) == figures(record)
        seen.add((data, model, variant, column))
    assert len(seen) == len(rows)


def test_a_grid_with_gaps_has_every_panel_under_its_own_name() -> None:
    """Vega would draw those of a grid one after the other, below the headings of others."""
    study = find_study("collaborative-calibration")
    curves = curves_of(study)
    chart = study_charts(study, results(study))[curves.title]
    facet = chart.to_dict()["facet"]
    assert facet["field"] == "panel"
    assert facet["sort"] == [f"{cell.model}, {cell.variant}" for cell in study.cells()]
    for point in drawn(chart):
        assert point["panel"] == f"{point['panel_row']}, {point['panel_column']}"
    (ideal,) = (
        layer
        for layer in chart.to_dict()["spec"]["layer"]
        if layer["encoding"]["y"]["field"] == "x"
    )
    assert ideal["mark"]["strokeDash"], "as often right as it is sure"
    whole = find_study("sequential-dynamics")
    assert set(study_charts(whole, results(whole))[curves_of(whole).title].to_dict()["facet"]) == {
        "row",
        "column",
    }


def test_a_single_variant_is_not_named(blocks: Study) -> None:
    plain = next(iter(blocks.variants.items()))
    study = replace(
        blocks,
        variants=dict([plain]),
        models={"SASRec": blocks.models["SASRec"]},
        datasets={"ML-1M": blocks.datasets["ML-1M"]},
        claims=(),
    )
    records = results(study)
    *groups, histograms = study_tables(study, records)
    assert [table.title for table in groups] == list(blocks.groups)
    assert groups[0].headings == ("dataset", *blocks.groups["Correlations"])
    assert histograms.headings[:2] == ("dataset", "share of the points")
    charts = study_charts(study, records)
    assert {point["panel_row"] for point in drawn(charts[histograms.title])} == {"SASRec"}
    assert to_png(charts[histograms.title], scale=1)[:8] == b"\x89PNG\r\n\x1a\n"


def test_claims_are_drawn_by_their_limits(blocks: Study) -> None:
    def claim(text: str, **settings: Any) -> Claim:  # noqa: ANN401
        return Claim(text=text, source="s", of=ClaimSide(column="ρ(∇, α)"), **settings)

    of = {
        claim("weak", expect="weak"): 0.3,
        claim("moderate", expect="moderate"): 0.3,
        claim("strong", expect="strong"): 0.7,
        claim("high", expect="higher", limit=0.4, margin=0.01): 0.41,
        claim("low", expect="lower", limit=0.4, margin=0.01): 0.39,
        claim("few", expect="higher", models=("SASRec",), datasets=("Games",)): 0.0,
    }
    study = replace(blocks, claims=tuple(of))
    records = results(study)
    rows = drawn(study_charts(study, records)["Claims"])
    for one, limit in of.items():
        own = [row for row in rows if row["claim"].startswith(f"{one.text} (")]
        assert len(own) == (1 if one.datasets else 8)
        assert [row["limit"] for row in own] == pytest.approx([limit] * len(own))
    *_, table, _ = study_tables(study, records)
    assert [row[:2] for row in table.rows[-2:]] == [("low", "BERT4Rec"), ("few", "SASRec")]
    assert table.rows[-1][2:5] == ("", "", "")
    assert table.rows[-1][5].startswith(("holds: ", "undecided: ", "does not hold: "))


def test_a_drawn_column_is_one_record() -> None:
    study = find_study("sequential-truth")
    assert len(set(columns_of(study))) == len(columns_of(study))
    records = results(study)
    assert len(by_place(records)) == len(records)
