"""The page of an audit, in a real browser, and its table in the terminal."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from browsing import in_browser
from hostile import CONTROLS, acting
from whence.measure import Measure
from whence.report.audit_page import write_audit
from whence.run import Run
from whence.trust.audit.finding import Chart, Figure, Finding, Table
from whence.trust.audit.result import Audit, StageResult, describe_run
from whence.trust.audit.verdict import Verdict

EVIL = f"<script>alert('x')</script>{CONTROLS}"


def finding(answer: str, summary: str, many: int, *charts: Chart) -> Finding:
    measure = Measure(0.5, (0.4, 0.6), 30, "made up", "higher is better", (0.0, 1.0))
    figures = tuple(
        Figure("share", f"explainer {number}", measure, f"Half, or {number} %.")
        for number in range(many)
    )
    return Finding(answer, summary, figures, charts, notes=("Made up.",))  # type: ignore[arg-type]


DOTS = Chart(
    "dots",
    "share",
    "To the right is better.",
    tuple(
        {"name": name, "value": value, "low": value - 0.05, "high": value + 0.05}
        for name, value in (("rollout", 0.4), ("fading", 0.7), ("random", 0.1))
    ),
)
MATRIX = Chart(
    "matrix",
    "Spearman's rho",
    "Blue is alike.",
    tuple(
        {"one": one, "other": other, "value": rho, "low": rho, "high": rho}
        for one, other, rho in (
            ("rollout", "rollout", 1.0),
            ("rollout", "fading", -0.7),
            ("fading", "rollout", -0.7),
            ("fading", "fading", 1.0),
        )
    ),
)
LINES = Chart(
    "lines",
    "how far it moves",
    "Sooner is better.",
    tuple(
        {"name": name, "x": x / 10, "y": height * x}
        for name, height in (("rollout", 1), ("fading", 3), ("random", 0.5), ("best found", 4))
        for x in range(11)
    ),
    across="share left out",
)
SURE = Chart(
    "reliability",
    "how often it is right",
    "On the line is calibrated.",
    tuple(
        {"panel": panel, "from": start, "to": start + 0.25, "sure": start + 0.1, "value": start,
         "low": start - 0.1, "high": start + 0.1, "cases": 9}
        for panel in ("all cases", "never met")
        for start in (0.5, 0.75)
    ),
)  # fmt: skip
BINS = Chart(
    "bins",
    "change",
    "To the right is surer.",
    tuple(
        {"panel": "change", "line": line, "from": x, "to": x + 0.25, "place": x + 0.1,
         "value": x / 4, "low": None, "high": None, "cases": 3}
        for line in ("false negatives", "all")
        for x in (0.5, 0.75)
    ),
    across="how sure",
)  # fmt: skip
BESIDE = Table("How alike", ("the data", "the world"), (("users", "671", "5,000"),))


@pytest.fixture
def made_up(run: Run) -> Audit:
    """One stage of each answer, with every kind of chart."""

    findings = {
        "good": finding("yes", "In 70 % of the cases.", 2, DOTS),
        "middling": finding("partly", "In some.", 9, MATRIX, LINES),
        "bad": replace(finding("no", "In none.", 1, SURE, BINS), tables=(BESIDE,)),
    }
    stages = {name: StageResult(name, f"Is it {name}?", one) for name, one in findings.items()}
    obstacle = "This needs at least 3 seeds, and the run has 2."
    methods = ["rollout", "fading", "random"]
    return Audit(
        describe_run(run),
        {"model_seed": 0, "methods": methods, "cases": 30, "held": "test"},
        {**stages, "open": StageResult("open", "Is it open?", obstacle=obstacle)},
        Verdict(
            "fading", "Use fading: it is right in 70 % of the cases.", "good", "Mind the rest."
        ),
        "whence audit RUN",
    )


def test_the_page_needs_nothing_but_itself(made_up: Audit, tmp_path: Path) -> None:
    page = write_audit(made_up, tmp_path / "audit.html").read_text()
    links = re.findall(r"""(?:src|href)\s*=\s*["']([^"']*)|url\(([^)]*)\)""", page)
    assert all((outer or inner).startswith("#") for outer, inner in links)
    ids = re.findall(r'\bid="([^"]*)"', page)
    assert len(ids) == len(set(ids))
    assert {outer[1:] for outer, _ in links if outer} <= set(ids)
    assert "<script" not in page
    text = page.replace("\u00a0", " ")
    for found in made_up.findings.values():
        for one in (found.summary, *found.notes, *(figure.reading for figure in found.figures)):
            assert one in text
    assert '<th scope="row">users</th><td class="number">671</td><td class="number">5,000</td>' in (
        text
    )
    assert made_up.obstacles["open"] in text
    assert made_up.verdict.sentence in text
    assert text.count("<details open>") == 2, "few figures are shown openly"
    assert text.count("<details>") == 2, "more of them and tables are folded away"


@pytest.mark.needs("chromium")
@pytest.mark.parametrize("width", [1200, 390])
def test_the_page_in_a_browser(made_up: Audit, tmp_path: Path, width: int) -> None:
    """No request, no complaint, no sideways scrolling, and nothing axe objects to."""
    path = write_audit(made_up, tmp_path / "audit.html")
    with in_browser(path, width) as page:
        assert page.locator("h1").inner_text() == "Can this model's reasons be believed?"
        assert page.locator("svg").count() == 5
        assert page.locator(".card").count() == 4
        page.locator("summary").nth(1).click()
        assert page.locator("tbody tr:visible").count() == 2 + 9 + 1 + 3
        page.emulate_media(media="print")
        page.locator("summary").nth(1).click()
        assert page.locator("section#middling tbody tr").first.is_visible()


def test_names_cannot_smuggle_markup(made_up: Audit, tmp_path: Path) -> None:
    rows = ({"name": EVIL, "value": 0.5, "low": 0.4, "high": 0.6},)
    evil = replace(
        finding("yes", EVIL, 1, replace(DOTS, title=EVIL, reading=EVIL, rows=rows)), notes=(EVIL,)
    )
    origin = {**made_up.run.data, "origin": {"source": EVIL}}
    odd = replace(
        made_up,
        run=replace(made_up.run, data=origin),
        stages={**made_up.stages, "good": StageResult(EVIL, EVIL, evil)},
        verdict=Verdict(EVIL, EVIL, "good", EVIL),
        command=EVIL,
    )
    page = write_audit(odd, tmp_path / "audit.html").read_text()
    assert "<script" not in page
    assert page.count("&lt;script&gt;") > 6
    assert not acting(page)


def test_the_table_says_the_same(made_up: Audit, capsys: pytest.CaptureFixture[str]) -> None:
    Console(width=160).print(made_up)
    printed = capsys.readouterr().out
    assert printed.startswith(made_up.verdict.sentence)
    for name, stage in made_up.stages.items():
        assert stage.question in printed
        found = made_up.findings.get(name)
        assert (found.summary if found else made_up.obstacles[name]) in printed


def test_without_an_explainer_the_page_says_so(made_up: Audit, tmp_path: Path) -> None:
    none = replace(made_up, verdict=Verdict(None, "No explainer can be recommended.", None, ""))
    page = write_audit(none, tmp_path / "audit.html").read_text()
    assert "None yet" in page
    assert "No explainer can be recommended." in page
