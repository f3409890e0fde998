"""The demonstration as one page."""

from __future__ import annotations

from pathlib import Path

from markupsafe import Markup

import whence
from whence.demonstration import Demonstration
from whence.explainers import EXPLAINERS
from whence.files import new_file
from whence.measure import Measure
from whence.reasons import NOTICEABLE
from whence.report.charts import agreement_chart, interval_chart, reasons_chart, to_svg
from whence.report.pages import render

MAIN_MEASURE = "recall@10"


def write_demo_report(demo: Demonstration, path: Path, command: str) -> Path:
    """One self-contained HTML file."""
    measures = list(next(iter(demo.accuracy.values())))
    best = demo.accuracy[demo.run.model]
    main = {system: found[MAIN_MEASURE] for system, found in demo.accuracy.items()}
    reasons = list(demo.reasons.values())
    page = render(
        "demo.html.j2",
        title="Whence: a recommendation and its reasons",
        model=demo.run.model,
        data=demo.data,
        verb=demo.run.verb,
        picks=demo.picks,
        noticeable=NOTICEABLE,
        reasons=reasons,
        reason_charts=[
            Markup(to_svg(reasons_chart(one), f"Importance of each item by {one.method}"))
            for one in reasons
        ],
        verdict=verdict(demo.run.model, demo.accuracy),
        accuracy=demo.accuracy,
        measures=measures,
        cases=best[MAIN_MEASURE].n,
        protocols=list(dict.fromkeys(measure.protocol for measure in best.values())),
        accuracy_chart=Markup(
            to_svg(interval_chart(main, MAIN_MEASURE), f"{MAIN_MEASURE} of every system")
        ),
        agreement_cases=next(iter(demo.agreements.values())).n,
        agreement_chart=Markup(
            to_svg(agreement_chart(demo.agreements), "Agreement of every pair of explainers")
        ),
        explainers={name: explainer.words for name, explainer in EXPLAINERS.items()},
        version=whence.__version__,
        seed=reasons[0].seed,
        command=command,
        removal=reasons[0].removal,
    )
    with new_file(path) as partial:
        partial.write_text(page, encoding="utf-8")
    return path


def verdict(model: str, accuracy: dict[str, dict[str, Measure]]) -> str:
    """One honest sentence: whom the model beats, and whom it does not."""
    own = accuracy[model][MAIN_MEASURE]
    beaten, level, better = [], [], []
    for name, measures in accuracy.items():
        other = measures[MAIN_MEASURE]
        if name == model:
            continue
        if own.interval[0] > other.interval[1]:
            beaten.append(name)
        elif own.interval[1] < other.interval[0]:
            better.append(name)
        else:
            level.append(name)
    clauses = [
        f"is {how} {' and '.join(names)}"
        for how, names in (
            ("clearly better than", beaten),
            ("not clearly different from", level),
            ("clearly worse than", better),
        )
        if names
    ]
    return f"By {MAIN_MEASURE}, {model} " + ", and ".join(clauses) + "."
