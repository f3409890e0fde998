from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import torch

from whence.experts import PLOTTED, TOYS, InterpretableMLP
from whence.randomness import Randomness
from whence.report.charts import to_svg
from whence.report.toy_charts import selection_chart

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def test_every_point_in_every_experts_panel() -> None:
    toy = TOYS["d"]
    model = InterpretableMLP(toy.family, (4,), Randomness(0).torch("init"))
    points = toy.draw(8, Randomness(0).torch("evaluation")).rows
    chart = selection_chart(model, points, (2, 3))
    (rows,) = chart.to_dict()["datasets"].values()
    assert len(rows) == 8 * 7
    with torch.no_grad():
        expected = model.attribute(points, PLOTTED)
        says = model.answers(points)[:, 0] > 0
    for place, row in enumerate(rows):
        point, expert = divmod(place, 7)
        assert row["expert"] == toy.family.names[expert]
        assert (row["x"], row["y"]) == pytest.approx(points[point, 2:].tolist())
        assert row["alpha"] == pytest.approx(float(expected[point, expert]))
        assert row["class"] == ("1" if says[expert, point] else "-1")
    assert to_svg(chart, "selections").startswith("<svg")


def test_the_example_draws_every_toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = ["--out", str(tmp_path), "--steps", "2", "--points", "8"]
    monkeypatch.setattr("sys.argv", ["toy_selections.py", *few])
    runpy.run_path(str(EXAMPLES / "toy_selections.py"), run_name="__main__")
    assert {path.name for path in tmp_path.iterdir()} == {
        f"toy-{name}-selections.svg" for name in TOYS
    }
