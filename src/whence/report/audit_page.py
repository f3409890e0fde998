"""An audit as one page, and as a table for the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from markupsafe import Markup
from rich.console import Group
from rich.markup import escape
from rich.text import Text

import whence
from whence.explainers import find_explainer
from whence.files import new_file
from whence.report.audit_charts import alternative, draw
from whence.report.charts import to_svg
from whence.report.pages import render
from whence.spoken import spoken_of
from whence.terminal import plain_table
from whence.trust.audit.auditor import Audit
from whence.trust.audit.context import HELD
from whence.trust.audit.finding import ENOUGH, Chart

FEW: Final = 6
"""Figures that are shown openly; more are folded away behind a line to press."""
NOT_MEASURED: Final = "not measured"
COLOURS: Final = {"yes": "green", "partly": "yellow", "no": "red", NOT_MEASURED: "dim"}


def write_audit(audit: Audit, path: Path, command: str) -> Path:
    """One self-contained HTML file."""
    run = audit.run
    spoken = spoken_of(run.first)
    page = render(
        "audit.html.j2",
        title="Can this model's reasons be believed?",
        model=run.model,
        model_settings=run.model_settings,
        data=run.data,
        source=Path(str(run.data["origin"].get("source", "data in memory"))).name,
        settings=audit.settings,
        held=HELD,
        seeds=len(run.models),
        verdict=audit.verdict,
        stages=[_section(audit, name) for name in audit.stages],
        explainers={
            name: spoken.say(find_explainer(name)[1].summary) for name in audit.settings["methods"]
        },
        spoken=spoken,
        few=FEW,
        enough=ENOUGH,
        version=whence.__version__,
        command=command,
    )
    with new_file(path) as partial:
        partial.write_text(page, encoding="utf-8")
    return path


def _section(audit: Audit, name: str) -> dict[str, Any]:
    stage, finding = audit.stages[name], audit.findings.get(name)
    return {
        "name": name,
        "title": stage.title,
        "question": stage.question,
        "answer": finding.answer if finding else NOT_MEASURED,
        "finding": finding,
        "obstacle": audit.obstacles.get(name),
        "pictures": [
            {"chart": chart, "svg": _picture(chart, audit.verdict.explainer)}
            for chart in (finding.charts if finding else ())
        ],
    }


def _picture(chart: Chart, chosen: str | None) -> Markup:
    return Markup(to_svg(draw(chart, chosen), alternative(chart)))


def audit_table(audit: Audit) -> Group:
    """The verdict, and every question with its answer."""
    table = plain_table("", "", "")
    table.show_header = False
    for name, stage in audit.stages.items():
        finding = audit.findings.get(name)
        answer = finding.answer if finding else NOT_MEASURED
        said = finding.summary if finding else audit.obstacles[name]
        question = f"[bold]{escape(stage.question)}[/]"
        table.add_row(f"[{COLOURS[answer]}]{answer}[/]", f"{question}\n{escape(said)}")
    table.columns[0].no_wrap = True
    verdict = [Text(audit.verdict.sentence, style="bold"), Text(audit.verdict.caution)]
    return Group(*verdict, table)
