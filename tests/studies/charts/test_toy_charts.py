from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import torch

from whence.experts import PLOTTED, InterpretableMLP
from whence.randomness import Randomness
from whence.report.charts import to_svg
from whence_studies.charts.toy_charts import selection_chart
from whence_studies.toy_data import TOYS

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"


def test_every_point_is_in_every_experts_panel() -> None:
    toy = TOYS["d"]
    model = InterpretableMLP(toy.family, (4,), Randomness(0).torch("init"))
    points = toy.draw(8, Randomness(0).torch("evaluation")).rows
    chart = selection_chart(model, points, (0, 1), (2, 3))
    drawn = chart.to_dict()
    with torch.no_grad():
        expected = model.attribute(points, PLOTTED)
        says = model.expert_outputs(points)[:, 0] > 0
    for first, panels in zip((0, 2), drawn["concat"], strict=True):
        rows = drawn["datasets"][panels["data"]["name"]]
        assert len(rows) == 4 * 7, "the first four points are at 0 in the last plane, and so on"
        for place, row in enumerate(rows):
            number, expert = divmod(place, 7)
            point = 2 * first + number
            assert row["expert"] == toy.family.names[expert]
            where = points[point, first : first + 2].tolist()
            assert (row["x"], row["y"]) == pytest.approx(where)
            assert row["alpha"] == pytest.approx(float(expected[point, expert]))
            assert row["class"] == ("1" if says[expert, point] else "-1")
        axes = panels["spec"]["encoding"]
        assert [axes[one]["title"] for one in "xy"] == [f"x{first + 1}", f"x{first + 2}"]
    assert to_svg(chart, "selections").startswith("<svg")


def test_example_draws_every_toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = ["--out", str(tmp_path), "--steps", "2", "--points", "8"]
    monkeypatch.setattr("sys.argv", ["toy_selections.py", *few])
    runpy.run_path(str(EXAMPLES / "toy_selections.py"), run_name="__main__")
    assert {path.name for path in tmp_path.iterdir()} == {
        f"toy-{name}-selections.svg" for name in TOYS
    }
