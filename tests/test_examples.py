"""The examples that the documents cite do what they say there."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whence.training.averaging import Rule

EXAMPLES = Path(__file__).parent.parent / "docs" / "examples"


@pytest.fixture(scope="module")
def saddle() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / "saddle.py"))


def test_the_saddle_is_walked_past_and_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "saddle.png"
    monkeypatch.setattr("sys.argv", ["saddle.py", "--starts", "2", "--picture", str(picture)])
    runpy.run_path(str(EXAMPLES / "saddle.py"), run_name="__main__")

    lines = capsys.readouterr().out.splitlines()
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert [row[:2] for row in table[2:]] == [
        ["SGD", ""],
        ["SWA", "20"],
        *(["ASWA", epoch] for epoch in ("5", "10", "20", "40")),
        *(["NASWA", epoch] for epoch in ("5", "10", "20", "40")),
    ]
    assert {len(row) for row in table} == {7}
    plain, swa = table[2], table[3]
    assert swa[2] == plain[2], "SWA does not change the way"
    assert plain[4] == "2 of 2"
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("rule", ["none", "swa", "aswa", "naswa"])
def test_only_aswa_and_naswa_go_on_from_elsewhere(saddle: dict[str, Any], rule: Rule) -> None:
    walk = saddle["walk"](rule, 20, 0)
    assert walk.epochs.shape == (20, 21, 2)
    goes_on = np.array_equal(walk.epochs[1:, 0], walk.epochs[:-1, -1])
    assert goes_on == (rule in ("none", "swa"))


def test_the_lines_are_of_equal_loss(saddle: dict[str, Any]) -> None:
    for level in saddle["LEVELS"]:
        for point in saddle["_below"](level):
            place = saddle["Place"](np.array([point["a"], point["high"]]))
            assert place().item() == pytest.approx(level, abs=1e-9)


@pytest.mark.parametrize(("suffix", "begins"), [("svg", "<svg"), ("html", "<!DOCTYPE html>")])
def test_the_picture_has_the_form_its_name_says(
    saddle: dict[str, Any], tmp_path: Path, suffix: str, begins: str
) -> None:
    picture = tmp_path / f"saddle.{suffix}"
    saddle["save"](saddle["picture"]({"SGD": saddle["walk"]("none", 20, 0)}), picture)
    assert picture.read_text().strip().startswith(begins)
