"""Tables 2 and 3 of Afchar & Hennequin (2020): the print transcribed again, and who fills it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from whence.report.study import as_markdown
from whence.sessions import ListeningConfig, write_sessions
from whence.skips import NetworkConfig, SkipConfig
from whence.studies import find_study
from whence.studies.records import NEEDS_FILE, NOT_RUN, PRIVATE
from whence.studies.results import rows_done
from whence.studies.skips import MADE_TABLE, measure
from whence.studies.trained_skips import (
    INTERPRETABLE,
    INTERPRETABLE_GRU,
    ORDINARY,
    ORDINARY_GRU,
    Learning,
    Workshop,
)

COLUMNS = ("accuracy", "accuracy of the first track", "mean average accuracy")
PAGES = {
    "Table 2 (Afchar & Hennequin 2020)": """
        random | 50.0 | 50.0 | 33.1
        last | 63.0 | 74.2 | 54.3
        mean | 61.7 | 66.3 | 51.7
        Transformer (128) | 72.2 ± 0.2 | 80.0 ± 0.2 | 62.8 ± 0.2
        WSDM leader-board | – | 81.2 | 65.1
        Interpretable Transformer (128) | 70.9 ± 0.2 | 78.8 ± 0.2 | 61.1 ± 0.2
        """,
    "Table 3 (Afchar & Hennequin 2020)": """
        random | 50.0 | 50.0 | 32.3
        last | 69.0 | 77.9 | 60.8
        mean | 70.1 | 73.3 | 60.9
        Transformer (256) | 78.9 | 83.4 | 70.2
        Interpretable Transformer (128) | 77.7 | 82.4 | 68.8
        Interpretable Transformer (64) | 77.4 | 82.3 | 68.4
        """,
}
FEW = ListeningConfig(sessions=200, logs=3, tracks=100)
TINY = Learning(
    NetworkConfig(width=4, heads=2, layers=1),
    training=SkipConfig(steps=3, batch=50, learning_rate=0.01, validate_every=0),
    seeds=2,
)


@pytest.fixture(autouse=True)
def _data_are_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHENCE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "none"))


def test_what_is_printed() -> None:
    published = find_study("attribution-skips").published
    for table, page in PAGES.items():
        rows = [line.split(" | ") for line in page.strip().splitlines()]
        expected = {
            row.strip(): {
                column: text for column, text in zip(COLUMNS, cells, strict=True) if text != "–"
            }
            for row, *cells in rows
        }
        held = {
            row: {column: text for column, text in cells.items() if column != "dataset"}
            for row, cells in published[table].items()
        }
        assert held == expected
    assert list(published) == list(PAGES)


def test_without_the_files_the_rows_say_why(tmp_path: Path) -> None:
    study = find_study("attribution-skips")
    records = measure(study, Workshop(tmp_path, show_progress=False), FEW, TINY)
    why = {record.verdict for record in records if record.dataset == "spotify-sessions"}
    assert why == {NEEDS_FILE}
    assert {one.verdict for one in records if one.dataset == "deezer-sessions"} == {PRIVATE}
    made = {(one.row, one.column): one for one in records if one.protocol == MADE_TABLE}
    assert len(made) == 9
    assert all(one.value is not None and one.n == 200 for one in made.values())
    assert made["last", COLUMNS[1]].value > made["last", COLUMNS[0]].value  # type: ignore[operator]
    assert rows_done(study, records) == (7, 19)
    line = "| Table 2 (Afchar & Hennequin 2020) | last | accuracy | needs the user's file |  | 63 |"
    assert line in as_markdown(study, records)


def test_with_the_files_baselines_are_measured_on_the_last_tenth(tmp_path: Path) -> None:
    config = ListeningConfig(sessions=150, logs=3, tracks=100, seed=1)
    write_sessions(tmp_path / "spotify-sessions", config)
    study = find_study("attribution-skips")
    assert study.datasets["Spotify"].available
    assert not study.datasets["Deezer"].available
    workshop = Workshop(tmp_path, until=time.monotonic(), show_progress=False)
    records = measure(study, workshop, FEW, TINY)
    spotify = [one for one in records if one.dataset == "spotify-sessions"]
    measured = {one.row for one in spotify if one.value is not None}
    assert measured == {"random", "last", "mean"}
    assert {one.verdict for one in spotify if one.row not in measured} == {NOT_RUN}
    for one in spotify:
        if one.row in measured:
            assert one.n == 150
            assert one.interval is not None
            assert one.value is not None
            assert one.interval[0] < one.value < one.interval[1]
            meets = one.interval[0] - 0.05 <= (one.published or 0) <= one.interval[1] + 0.05
            assert (one.verdict == "agrees") == meets


def test_networks_are_trained_where_causes_are_known(tmp_path: Path) -> None:
    """Every seed once: the second time nothing is trained; without time nothing is there."""
    study = find_study("attribution-skips")
    late = Workshop(tmp_path, until=time.monotonic(), show_progress=False)
    rows = (INTERPRETABLE, ORDINARY, INTERPRETABLE_GRU, ORDINARY_GRU)
    before = [one for one in measure(study, late, FEW, TINY) if one.row in rows]
    assert {one.verdict for one in before} == {NOT_RUN}
    records = measure(study, Workshop(tmp_path, show_progress=False), FEW, TINY)
    found = {(one.row, one.column): one for one in records}
    for row in rows:
        for column in COLUMNS:
            one = found[row, column]
            assert one.seeds == (0, 1)
            assert one.n == 200
            assert one.interval is not None
            assert "8 experts of 4 features and 2 heads, 1 layer each way" in one.protocol
            assert "3 steps of 50 sessions, Adam 0.01" in one.protocol
    assert (ORDINARY, "attribution accuracy") not in found
    causes = ("persistence", "context", "music", "popularity")
    assert all(0 <= found[INTERPRETABLE, one].value <= 100 for one in causes)  # type: ignore[operator]
    for what in ("most selected", "mean attribution"):
        shares = [found[INTERPRETABLE, f"{what}: S{expert}"].value for expert in range(1, 9)]
        assert sum(shares) == pytest.approx(100)  # type: ignore[arg-type]
    assert measure(study, late, FEW, TINY) == records
