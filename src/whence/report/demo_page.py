"""The report of `whence demo` as one page."""

from __future__ import annotations

from pathlib import Path

from markupsafe import Markup

import whence
from whence.demonstration import EFFORT, Demonstration
from whence.explainers import EXPLAINERS
from whence.explanation import ITEM_WORDING
from whence.files import new_file
from whence.measure import protocol_lines
from whence.picks import picks_caption
from whence.reasons.reason import MARKS, checks_caption, checks_title
from whence.report.charts import (
    agreement_chart,
    explainer_chart,
    interval_chart,
    left_out_chart,
    to_svg,
)
from whence.report.pages import render
from whence.report.tables import how_removed, is_of_lists
from whence.training.comparison import MAIN


def write_demo_report(demo: Demonstration, path: Path, command: str) -> Path:
    """Write one self-contained HTML file."""
    own = demo.accuracy[demo.outcome.name]
    lists = {name: one for name, one in own.items() if is_of_lists(one)}
    measures = [name for name in own if name not in lists]
    main = {system: found[MAIN] for system, found in demo.accuracy.items()}
    explanations = list(demo.explanations.values())
    reason = demo.explained.reason
    page = render(
        "demo.html.j2",
        title="Whence: recommendations and their reasons",
        members=demo.run.members,
        effort=EFFORT,
        outcome=demo.outcome,
        metric=MAIN,
        data=demo.data,
        verb=demo.run.verb,
        picks=demo.picks,
        whom=demo.whom,
        picks_caption=picks_caption(demo.picks).splitlines(),
        explained=demo.explained,
        checks_title=checks_title(reason),
        checks_caption=checks_caption(reason),
        marks=MARKS,
        left_out_chart=Markup(
            to_svg(
                left_out_chart(reason),
                "What the recommendation loses without each item",
            )
        ),
        explainer_charts=[
            Markup(to_svg(explainer_chart(one), f"Importance of each item by {one.method}"))
            for one in explanations
        ],
        accuracy=demo.accuracy,
        measures=measures,
        lists=list(lists),
        list_protocols=protocol_lines({name: one.protocol for name, one in lists.items()}),
        cases=own[MAIN].n,
        protocols=list(dict.fromkeys(own[name].protocol for name in measures)),
        accuracy_chart=Markup(to_svg(interval_chart(main, MAIN), f"{MAIN} of every system")),
        agreement_cases=next(iter(demo.agreements.values())).n,
        agreement_chart=Markup(
            to_svg(agreement_chart(demo.agreements), "Agreement of every pair of explainers")
        ),
        explainers={
            name: ITEM_WORDING.fill(EXPLAINERS[name].summary)
            for name in dict.fromkeys(one for one, _ in demo.agreements)
        },
        version=whence.__version__,
        seed=explanations[0].seed,
        command=command,
        removed=how_removed(explanations),
        has_attention=len(explanations) > 1,
    )
    with new_file(path) as partial:
        partial.write_text(page, encoding="utf-8")
    return path
