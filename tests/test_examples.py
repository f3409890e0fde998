"""The examples that the documents cite do what they say there."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whence.engine.averaging import AveragingRule
from whence.explainers import EXPLAINERS
from whence.explainers.measured import read_measured
from whence.report.which import explainers_markdown
from whence.worlds import REASONS

EXAMPLES = Path(__file__).parent.parent / "docs" / "examples"


@pytest.fixture(scope="module", autouse=True)
def _import_each_other() -> Iterator[None]:
    """Let examples import each other, as scripts in one folder can."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLES))
        yield


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
def test_only_aswa_and_naswa_go_on_from_elsewhere(
    saddle: dict[str, Any], rule: AveragingRule
) -> None:
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


TINY = "--users 150 --max-len 6 --steps 5 --seeds 2 --cases 8 --coalitions 64".split()


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the script writes, where charts and pages are not installed."""
    path = tmp_path_factory.mktemp("which") / "measured.json"
    with pytest.MonkeyPatch.context() as patch:
        for name in ("altair", "vl_convert", "jinja2", "whence.report.charts"):
            patch.setitem(sys.modules, name, None)
        which(patch, *TINY, "--json", str(path))
    return path


def which(patch: pytest.MonkeyPatch, *arguments: str) -> None:
    patch.setattr("sys.argv", ["which_explainer.py", *arguments])
    runpy.run_path(str(EXAMPLES / "which_explainer.py"), run_name="__main__")


def test_all_explainers_are_measured_on_both_models(measured: Path) -> None:
    found = read_measured(measured)
    assert list(found.models) == list(found.sure) == ["SASRec", "BERT4Rec"]
    assert found.command == f"python docs/examples/which_explainer.py {' '.join(TINY)}"
    assert list(found.questions) == list(REASONS)
    for explainers in found.models.values():
        assert set(explainers) == {
            *set(EXPLAINERS) - {"signed-rollout", "experts", "contributions"},
            *(f"signed-rollout:sign={sign}" for sign in ("fading", "gradient-input", "both")),
            "signed-rollout:sign=leave-one-out",
        }
        for one in explainers.values():
            for shares in (*one.precision.values(), one.sign, one.weighted_sign):
                assert len(shares) == 2
                assert all(0 <= share <= 1 for share in shares)
            assert all(-1 <= rho <= 1 for rho in one.rank)
            assert all(time > 0 for time in one.milliseconds)
        exact, left_out = explainers["shapley"], explainers["leave-one-out"]
        assert exact.sign == exact.weighted_sign == [1.0, 1.0], "short histories are exact"
        assert exact.rank == pytest.approx([1.0, 1.0])
        assert explainers["signed-rollout:sign=both"].sign == left_out.sign
        assert explainers["rollout"].sign == explainers["random"].sign, "always for"


def test_what_was_measured_is_shown_again_without_measuring(
    measured: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page, picture = tmp_path / "page.md", tmp_path / "picture.png"
    table = "<!-- explainers -->\n{}\n<!-- end of explainers -->\n"
    figures = "<!-- measured -->\n{}\n<!-- end of measured -->\nafter\n"
    page.write_text((table + figures).format("old", "old"))
    files = ("--page", str(page), "--picture", str(picture))
    which(monkeypatch, "--read", str(measured), *files)
    printed = capsys.readouterr().out
    assert printed.startswith("Use `")
    assert page.read_text() == (table + figures).format(explainers_markdown(), printed.rstrip())
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_one_seed_has_no_interval(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        which(monkeypatch, "--seeds", "1")
    assert "at least two" in capsys.readouterr().err
