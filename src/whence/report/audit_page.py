"""An audit as one self-contained page."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

import whence
from whence.errors import InputError
from whence.explainers import find_explainer
from whence.explanation import Wording
from whence.files import new_file
from whence.report.audit_charts import alternative, draw
from whence.report.charts import to_svg
from whence.report.pages import render
from whence.trust.audit.context import HELD
from whence.trust.audit.finding import ENOUGH, Chart
from whence.trust.audit.result import Audit, StageResult

LEAD: Final = "sentences"
"""The stage about what users see, whose answer comes first."""
FEW: Final = 6
"""A stage with more figures than this folds them away."""


def write_audit(audit: Audit, path: Path) -> Path:
    """Write one HTML file that needs no other, and return its path."""
    run = audit.run
    page = render(
        "audit.html.j2",
        title="Can this model's reasons be believed?",
        model=run.model,
        model_settings=run.model_settings,
        data=run.data,
        source=Path(str(run.data["origin"].get("source", "data in memory"))).name,
        settings=audit.settings,
        held=HELD,
        seeds=len(run.seeds),
        recommends=run.recommends,
        together=run.recommends not in ("", run.model),
        verdict=audit.verdict,
        lead=LEAD,
        stages=[_section(audit, name, one) for name, one in audit.stages.items()],
        explainers={name: _describe(name, run.wording) for name in audit.settings["methods"]},
        wording=run.wording,
        few=FEW,
        enough=ENOUGH,
        version=whence.__version__,
        command=audit.command,
    )
    with new_file(path) as partial:
        partial.write_text(page, encoding="utf-8")
    return path


def _describe(explainer: str, wording: Wording) -> str:
    """Say what an explainer does; nothing if an old audit used one that is gone."""
    try:
        return wording.fill(find_explainer(explainer)[1].summary)
    except InputError:
        return ""


def _section(audit: Audit, name: str, one: StageResult) -> dict[str, Any]:
    return {
        "name": name,
        "title": one.title,
        "question": one.question,
        "answer": one.answer,
        "finding": one.finding,
        "obstacle": one.obstacle,
        "pictures": [
            {"chart": chart, "svg": _picture(chart, audit.verdict.explainer)}
            for chart in (one.finding.charts if one.finding else ())
        ],
    }


def _picture(chart: Chart, chosen: str | None) -> Markup:
    return Markup(to_svg(draw(chart, chosen), alternative(chart)))
