"""Text from data cannot abort the renderer of charts, nor act in pictures and pages.

The renderer ends the whole process if it fails, so charts are drawn in a process of their own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from hostile import CODES, CONTROLS, PAGE, acting
from whence.explanation import Explanation
from whence.maps import Groups, LearnedMap
from whence.report.audit_charts import draw
from whence.report.charts import explainer_chart, interval_chart, specification, to_svg
from whence.report.map_charts import learned_chart, reason_chart
from whence.report.pages import render
from whence.trust.audit.finding import Chart
from whence_studies.charts.study_page import page_files
from whence_studies.records import read_records
from whence_studies.study import find_study

EVIL = CONTROLS + CODES + PAGE
FEW = '\x00\x1b\u202e\uffff</text><script>" role="\\'
"""Quicker to draw than all."""
SURROGATE = "\ud800"
LONG = "x" * 100_000


def explanation(*titles: str) -> Explanation:
    parts = [{"slot": place, "score": 1.0, "label": title} for place, title in enumerate(titles)]
    case = {"target": {"index": 0, "label": titles[0]}, "full_score": 1.0, "empty_score": 0.0,
            "evaluations": 1, "parts": parts}  # fmt: skip
    return Explanation.from_dict(
        {"method": titles[0], "parameters": {}, "signed": True, "removal": "", "seed": 0,
         "slots": len(titles), "cases": [case]}
    )  # fmt: skip


def charts() -> dict[str, Any]:
    """Return charts of every kind that shows names from data."""
    titles = (FEW, f"a{SURROGATE}", LONG)
    groups = Groups(FEW, (FEW, "b"), np.eye(3, 2, dtype=bool))
    row = {"value": 0.5, "low": 0.4, "high": 0.6}
    bins = {**row, "panel": FEW, "from": 0.0, "to": 1.0, "cases": 3}
    point = {"panel": FEW, "x": 0.1, "y": 0.2, "of": FEW, "name": FEW, "groups": FEW}
    rows: dict[str, dict[str, Any]] = {
        "dots": {**row, "name": FEW},
        "matrix": {**row, "one": FEW, "other": FEW},
        "lines": {"name": FEW, "x": 0.1, "y": 0.2},
        "reliability": {**bins, "sure": 0.5},
        "bins": {**bins, "line": FEW, "place": 0.5},
        "points": point,
    }
    audit = {
        kind: draw(Chart(kind, FEW, FEW, (one,), FEW), FEW)  # type: ignore[arg-type]
        for kind, one in rows.items()
    }
    learned = LearnedMap(np.arange(6.0).reshape(3, 2), titles, groups, FEW, None)
    return {
        **audit,
        "bars": explainer_chart(explanation(EVIL)),
        "reasons": reason_chart(explanation(*titles)),
        "map": learned_chart(learned),
    }


def draw_all(folder: Path) -> None:
    """Draw the charts, and the page of a study with hostile names."""
    for name, chart in charts().items():
        (folder / f"{name}.svg").write_text(to_svg(chart, EVIL + SURROGATE), encoding="utf-8")
    study = find_study("attribution-toys")
    claims = tuple(replace(one, text=f"{one.text}{FEW}") for one in study.claims)
    study = replace(study, title=EVIL, source=EVIL, claims=claims, figures={})
    records = [
        replace(one, row=f"{one.row}{FEW}", command=EVIL, machine=EVIL)
        for one in read_records(study.id, Path(__file__).parent.parent.parent / "results")
    ]
    for name, content in page_files(study, records).items():
        (folder / name).write_bytes(content)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("drawn")
    done = subprocess.run(
        [sys.executable, __file__, folder], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return folder


def test_every_chart_is_a_valid_picture(drawn: Path) -> None:
    pictures = sorted(drawn.glob("*.svg"))
    assert len(pictures) >= len(charts())
    for path in pictures:
        text = path.read_text(encoding="utf-8")
        tags = {element.tag.rpartition("}")[2] for element in ET.fromstring(text).iter()}
        assert tags <= {"svg", "g", "path", "text", "rect", "defs", "clipPath", "line", "circle",
                        "linearGradient", "stop", "tspan"}, path.name  # fmt: skip
        assert not acting(text), path.name


def test_the_page_of_a_study_holds_no_markup_from_names(drawn: Path) -> None:
    page = (drawn / "attribution-toys.html").read_text(encoding="utf-8")
    own = page[page.index('vegaEmbed("#') :]
    assert "<script>alert" not in page
    assert "<" not in own[: own.index("</script>")]
    assert not acting(page[: page.index("<script>")])


def test_a_chart_that_a_user_saves_is_clean_too() -> None:
    for name, chart in charts().items():
        assert not acting(json.dumps(chart.to_dict(), ensure_ascii=False)), name


def test_text_is_only_changed_if_it_must_be() -> None:
    chart = explainer_chart(explanation("Amélie", "千と千尋", "🎬"))
    assert specification(chart, "") == {**chart.to_dict(), "description": ""}
    named = specification(interval_chart({}, "x"), "Amélie")
    assert named["description"] == "Amélie"


def test_a_page_shows_codes_for_harmful_characters() -> None:
    page = render("page.html.j2", title=EVIL)
    assert not acting(page)
    assert "\\x1b[2J" in page
    assert "<script>alert" not in page


if __name__ == "__main__":
    draw_all(Path(sys.argv[1]))
