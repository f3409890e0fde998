"""Maps, shares and bars of a study, from the same records as its tables."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import count
from pathlib import Path
from xml.etree import ElementTree

import pytest

from whence.errors import InputError
from whence.report.charts import to_png, to_svg
from whence_studies.cache import CachedColumns
from whence_studies.charts.cells import ABSENT
from whence_studies.charts.study_charts import study_charts
from whence_studies.charts.study_page import as_markdown
from whence_studies.charts.study_tables import study_tables
from whence_studies.checking import check_study
from whence_studies.measurements.genre_attention import BLOCKS, GENRES
from whence_studies.measurements.measurement import SeedColumn, SharePlot
from whence_studies.measurements.one_recommendation import (
    AGREEMENT,
    POSITIONS,
    RANK,
    ROLLOUT,
    SHAPLEY,
)
from whence_studies.measurements.one_user_attention import CELLS, LARGEST
from whence_studies.measurements.registry import MEASUREMENTS, figures_of
from whence_studies.records import Record, read_records, write_records
from whence_studies.results import StudyResults
from whence_studies.study import Cell, Study, Variant, find_study

(SHARED,) = MEASUREMENTS["evidence"].bars.values()
assert isinstance(SHARED, SharePlot)
SHARES = SHARED.cells
SHOWN = {
    "genres": ["Romance"],
    "example": ["3. Film 3", "why Goldfinger?"],
    "experts": ["S2: content, user", "Intrp-MLP, not linked", "%"],
}
TITLES = {column: f"Film {back}" for of in POSITIONS.values() for back, column in of.items()}


def results(study: Study, done: int | None = None) -> list[Record]:
    """Other values in every column of every cell, of two seeds each; of some cells alone."""
    number = count(1)
    found: dict[Cell, dict[str, CachedColumns]] = {cell: {} for cell in study.cells()}
    for cell in study.cells()[:done]:
        for name in study.measurements:
            columns = {
                column: SeedColumn(
                    (value := (-1) ** at * at / 100, value + 0.001),
                    1,
                    "1 event",
                    "neither",
                    {**TITLES, RANK: "Goldfinger"}.get(column),
                )
                for column, at in zip(MEASUREMENTS[name].all_columns, number, strict=False)
            }
            found[cell][name] = CachedColumns((0, 1), columns)
    return StudyResults(study, "2 CPU cores", study.command, found).records()


def values(records: list[Record]) -> dict[str, float]:
    return {one.column: one.value or 0.0 for one in records}


@pytest.fixture(scope="module")
def genres() -> Study:
    return find_study("sequential-genres")


@pytest.fixture(scope="module")
def example() -> Study:
    return find_study("sequential-example")


@pytest.fixture(scope="module")
def experts() -> Study:
    """A study whose shares are drawn, of networks that all have experts."""
    study = find_study("attribution-movielens")
    models = {"Intrp-MLP": study.models["Intrp-MLP"]}
    variants = {name: study.variants[name] for name in ("plain", "not linked")}
    return replace(study, models=models, variants=variants, claims=())


def test_a_heat_map_has_a_table(genres: Study) -> None:
    records = results(genres)
    variant, shades, claims, _ = study_tables(genres, records)
    assert variant.headings == ("dataset", *MEASUREMENTS["genres"].columns)
    assert shades.headings == ("dataset", "genre of the query", *GENRES)
    found = values(records)
    for row, query in zip(shades.rows, GENRES, strict=True):
        assert row[:2] == ("ML-1M", query)
        shown = [float(cell.split(" ± ")[0]) for cell in row[2:]]
        assert shown == pytest.approx([found[BLOCKS[query, key]] for key in GENRES], abs=1e-4)
    assert len(claims.rows) == 3


def test_a_heat_map_draws_its_cells(genres: Study) -> None:
    records = results(genres)
    chart = study_charts(genres, records)["Attention between genres"].to_dict()
    (drawn,) = chart["datasets"].values()
    found = values(records)
    assert len(drawn) == 16
    for cell in drawn:
        assert cell["value"] == found[BLOCKS[cell["down"], cell["across"]]]
    tiles, _ = chart["spec"]["layer"]
    low, middle, high = tiles["encoding"]["color"]["scale"]["domain"]
    assert middle == 1
    assert high - 1 == pytest.approx(1 - low) == max(abs(cell["value"] - 1) for cell in drawn)


def test_a_heat_map_takes_names_from_the_data() -> None:
    """Each variant has titles of its own, in a row above its cells, and a panel with them."""
    study = find_study("collaborative-example")
    for_each = {"plain": "Jaws", "two classes": "Heat"}
    records = [
        replace(one, label=f"{for_each[one.row]} {one.column.rsplit(', ')[-1]}")
        for one in results(replace(study, claims=()))
    ]
    *_, table = study_tables(replace(study, claims=()), records)
    assert len(table.rows) == 2 * 11
    for place, (variant, name) in enumerate(for_each.items()):
        titles, first, *_ = table.rows[place * 11 : place * 11 + 11]
        assert titles == (
            "ML-1M",
            variant,
            "",
            *(f"{name} {place} recommendation" for place in LARGEST),
        )
        assert first[:3] == ("ML-1M", variant, f"1. {name} 1")
        own = {one.column: one.value for one in records if one.row == variant}
        shown = [float(cell.split(" ± ")[0]) for cell in first[3:]]
        assert shown == pytest.approx([own[CELLS["1", one]] for one in LARGEST], abs=6e-3)
    chart = study_charts(study, records)["Attention of one user"].to_dict()
    (drawn,) = chart["datasets"].values()
    assert len(drawn) == 100
    spots = {(one["panel_column"], one["down"], one["across"]) for one in drawn}
    assert ("plain", "10. Jaws 10", "5th: Jaws 5th recommendation") in spots
    assert ("two classes", "10. Heat 10", "5th: Heat 5th recommendation") in spots
    assert chart["resolve"]["scale"] == {"x": "independent", "y": "independent"}
    order = chart["spec"]["layer"][0]["encoding"]["y"]["sort"]
    assert [int(name.split(".")[0]) for name in order] == sorted([*range(1, 11)] * 2)


def test_bars_have_labels(example: Study) -> None:
    records = results(example)
    *_, bars, _, _ = study_tables(example, records)
    assert bars.headings == ("dataset", "explained", "position from the end", "item", *POSITIONS)
    found = values(records)
    assert len(bars.rows) == 10
    for back, row in enumerate(bars.rows, start=1):
        assert row[:4] == ("ML-1M", "Goldfinger", str(back), f"Film {back}")
        shown = [float(cell.split(" ± ")[0]) for cell in row[4:]]
        expected = [found[of[str(back)]] for of in POSITIONS.values()]
        assert shown == pytest.approx(expected, abs=1e-4)


def test_signed_bars_speak_for_or_against(example: Study) -> None:
    chart = study_charts(example, results(example))["The ten newest items"].to_dict()
    (drawn,) = chart["datasets"].values()
    assert len(drawn) == 30
    sides = {bar["name"]: bar["effect"] for bar in drawn if bar["panel"] == SHAPLEY}
    assert list(sides)[:2] == ["1. Film 1", "2. Film 2"]
    assert set(sides.values()) == {"for it", "against it"}
    for bar in drawn:
        expected = "for it" if bar["value"] >= 0 else "against it"
        assert bar["effect"] == ("unsigned" if bar["panel"] == ROLLOUT else expected)
    assert {bar["of"] for bar in drawn} == {"ML-1M, SASRec: why Goldfinger?"}


def test_shares_are_bars_with_intervals(experts: Study) -> None:
    records = results(experts)
    table = study_tables(experts, records)[-1]
    assert table.headings[-4:] == ("expert", *(what for _, what in list(SHARES)[:3]))
    assert [row[-4] for row in table.rows[:4]] == list(dict.fromkeys(name for name, _ in SHARES))
    chart = study_charts(experts, records)["Which expert is selected"].to_dict()
    (drawn,) = chart["datasets"].values()
    assert len(drawn) == 2 * 3 * 4, "variants, kinds of shares, experts"
    found = {(one.row, one.column): one for one in records}
    for bar in drawn:
        model, variant = bar["of"].split(", ")
        assert model == "Intrp-MLP"
        record = found[variant, SHARES[bar["name"], bar["what"]]]
        assert (bar["value"], (bar["low"], bar["high"])) == (record.value, record.interval)
    assert [layer["mark"]["type"] for layer in chart["spec"]["layer"]] == ["bar", "rule"]


@pytest.mark.parametrize("name", ["genres", "example", "experts"])
def test_figures_become_png_and_svg(name: str, request: pytest.FixtureRequest) -> None:
    study: Study = request.getfixturevalue(name)
    (figure,) = figures_of(study)
    chart = study_charts(study, results(study))[figure.title]
    assert to_png(chart, scale=1)[:8] == b"\x89PNG\r\n\x1a\n"
    texts = "".join(ElementTree.fromstring(to_svg(chart, figure.title)).itertext())
    for shown in SHOWN[name]:
        assert shown in texts


def test_labels_are_kept_in_the_records(example: Study, tmp_path: Path) -> None:
    records = results(example)
    write_records(records, tmp_path)
    assert read_records(example.id, tmp_path) == records
    labels = {one.column: one.label for one in records if one.label}
    assert labels == {**TITLES, RANK: "Goldfinger"}
    written = json.loads((tmp_path / f"{example.id}.json").read_text())
    assert {one["column"] for one in written if "label" in one} == set(labels)


def test_without_values_there_is_a_table_and_no_chart(genres: Study, example: Study) -> None:
    assert study_charts(genres, results(genres, 0)) == {}
    assert study_charts(example, results(example, 0)) == {}
    assert as_markdown(genres, results(genres, 0)).count("– not run yet: ML-1M.") == 3
    *_, bars, _, _ = study_tables(example, results(example, 0))
    assert bars.rows[0] == ("ML-1M", ABSENT, "1", ABSENT, *[ABSENT] * 3)


def test_several_variants_are_named(genres: Study, example: Study) -> None:
    two = {"a": Variant(), "b": Variant({"n_blocks": 3})}
    genres, example = replace(genres, variants=two), replace(example, variants=two)
    *_, shades, _, _ = study_tables(genres, results(genres))
    assert [row[1] for row in shades.rows] == ["a"] * 4 + ["b"] * 4
    chart = study_charts(genres, results(genres))["Attention between genres"].to_dict()
    (drawn,) = chart["datasets"].values()
    assert {(cell["panel_column"], cell["panel_row"]) for cell in drawn} == {
        ("a", "SASRec"),
        ("b", "SASRec"),
    }
    *_, bars, _, _ = study_tables(example, results(example, 1))
    assert bars.rows[9][1:4] == ("a", "Goldfinger", "10")
    assert bars.rows[10][1:4] == ("b", ABSENT, "1")
    chart = study_charts(example, results(example))["The ten newest items"].to_dict()
    (drawn,) = chart["datasets"].values()
    assert len({bar["of"] for bar in drawn}) == 2
    assert chart["resolve"]["scale"]["y"] == "independent"


def test_an_unmeasured_figure_is_refused(genres: Study, example: Study) -> None:
    with pytest.raises(InputError, match="There is no map 'genre': did you mean 'genres'"):
        check_study(replace(genres, maps=("genre",)))
    with pytest.raises(InputError, match="There is no bar chart 'example'"):
        check_study(replace(genres, bars=("example",)))
    with pytest.raises(InputError, match="There is no column 'rank of the recommendation'"):
        check_study(replace(example, columns=(AGREEMENT,)))
