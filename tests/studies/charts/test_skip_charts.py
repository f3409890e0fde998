"""Charts of sessions and selections show exactly the given numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whence.errors import InputError
from whence.measure import Measure
from whence.report.charts import to_png
from whence_studies.charts.skip_charts import MEAN, SLOT, selection_chart, strip_chart
from whence_studies.sessions import (
    Cause,
    ListeningConfig,
    SessionBatch,
    read_tracks,
    write_sessions,
)
from whence_studies.sessions.session_batches import batches
from whence_studies.skips import EVIDENCE, EXPERTS


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory) -> SessionBatch:
    folder: Path = tmp_path_factory.mktemp("charts") / "s"
    files = write_sessions(folder, ListeningConfig(sessions=3, tracks=60))
    return next(batches(files, read_tracks(files.tracks)))


def rows_of(drawn: dict[str, Any], part: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the data of one part of a chart."""
    rows: list[dict[str, Any]] = drawn["datasets"][part["data"]["name"]]
    return rows


def test_strip_shows_session_and_experts(batch: SessionBatch) -> None:
    rng = np.random.default_rng(0)
    selected = rng.random((3, 10, 8)).astype(np.float32) / np.float32(8)
    predicted = rng.random((3, 10)) < 0.5
    chart = strip_chart(batch, selected, predicted, 1)
    drawn = chart.to_dict()
    above, below = drawn["concat"]
    marks, words = (rows_of(drawn, layer) for layer in above["layer"])
    known, upcoming = int(batch.known_mask[1].sum()), int(batch.upcoming_mask[1].sum())
    happened = [row["what"] == "skipped" for row in marks if row["row"] == "happened"]
    assert happened == [*batch.known_skipped[1, :known], *batch.skipped[1, :upcoming]]
    said = {row["track"]: row["what"] == "skipped" for row in marks if row["row"] == "predicted"}
    assert said == {known + place + 1: predicted[1, place] for place in range(upcoming)}
    assert batch.causes is not None
    named = [row["word"] for row in words if row["row"] == "true cause"]
    assert named == [Cause(one).word for one in batch.causes[1, :upcoming]]
    values = rows_of(drawn, below)
    assert len(values) == upcoming * len(EVIDENCE)
    music = [row["attribution"] for row in values if row["evidence"] == "music"]
    both = selected[1, :upcoming, EXPERTS.index("S4")] + selected[1, :upcoming, EXPERTS.index("S6")]
    assert music == pytest.approx(both.tolist(), rel=1e-6)
    assert below["width"] == SLOT * (known + upcoming)
    assert to_png(chart).startswith(b"\x89PNG")
    with pytest.raises(InputError, match=r"no session 3\. The batch has"):
        strip_chart(batch, selected, predicted, 3)


def test_strip_without_causes(batch: SessionBatch) -> None:
    plain = SessionBatch(*batch.arrays()[:5])  # type: ignore[arg-type]
    nothing = np.zeros((3, 10, 8), dtype=np.float32)
    chart = strip_chart(plain, nothing, np.zeros((3, 10), dtype=bool), 0)
    drawn = chart.to_dict()
    words = rows_of(drawn, drawn["concat"][0]["layer"][1])
    assert [row["word"] for row in words] == ["first half: heard"]


def test_selection_chart_has_two_bars_per_expert() -> None:
    def measured(value: float) -> Measure:
        return Measure(value, (value - 0.01, value + 0.02), 9, "", "neither", (0.0, 1.0))

    maximum = {name: measured(0.1 + place / 100) for place, name in enumerate(EXPERTS.names)}
    mean = {name: measured(0.3 + place / 100) for place, name in enumerate(EXPERTS.names)}
    chart = selection_chart(maximum, mean)
    rows = rows_of(chart.to_dict(), chart.to_dict())
    assert len(rows) == 16
    found = {row["name"]: row["value"] for row in rows if row["what"] == MEAN}
    assert found["S6: general, music"] == pytest.approx(0.35)
    assert "S8: everything" in found
    assert to_png(chart).startswith(b"\x89PNG")
