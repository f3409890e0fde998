"""Tables in the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from whence.explanation import Explanation, bar
from whence.measure import Measure, mean_over_seeds
from whence.recommendation import Recommendations

Accuracy = Mapping[str, Mapping[str, Measure]]
"""By system, then by measure."""


def plain_table(title: str, *headings: str, numbers: int = 0) -> Table:
    """A table of the house style; the last `numbers` columns are set to the right."""
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    for place, heading in enumerate(headings):
        right = place >= len(headings) - numbers
        table.add_column(heading, justify="right" if right else "left")
    return table


def history_table(picks: Recommendations, verb: str, newest: int = 10) -> Table:
    """The newest items of a history, newest first."""
    table = plain_table(f"What {picks.name} {verb} last", "", "title")
    for back, title in enumerate(reversed(picks.history[-newest:]), start=1):
        table.add_row(str(back), escape(title))
    if len(picks.history) > newest:
        table.caption = f"and {len(picks.history) - newest} earlier ones the model reads"
        table.caption_justify = "left"
    return table


def picks_table(picks: Recommendations) -> Table:
    """Recommendations with their reasons and what was checked."""
    table = plain_table(f"Recommended to {picks.name}", "", "title", "why", "without it")
    for pick in picks.picks:
        table.add_row(
            str(pick.rank),
            escape(pick.title),
            escape(pick.reason.sentence),
            ", ".join(f"−{support.probability_lost:.0%}" for support in pick.reason.supports),
        )
    table.caption = "without it: the share of its probability the recommendation would lose"
    table.caption_justify = "left"
    return table


def accuracy_table(accuracy: Accuracy) -> Table:
    """Systems side by side, every figure with its 95 % interval."""
    title = "How often the next item is found, with 95 % intervals"
    table = plain_table(title, "", *accuracy, numbers=len(accuracy))
    first = next(iter(accuracy.values()))
    for name in first:
        table.add_row(name, *(escape(str(measures[name])) for measures in accuracy.values()))
    _explain_protocols(table, first)
    return table


def seeds_table(metrics: Mapping[int, Mapping[str, Any]]) -> Table:
    """A trained run's accuracy on its test events, seed by seed, and their mean."""
    measured = {
        seed: {name: Measure(**fields) for name, fields in found["test"].items()}
        for seed, found in metrics.items()
        if "test" in found
    }
    if not measured:
        return plain_table("No user has the three events that measuring accuracy needs.")
    first = next(iter(measured.values()))
    title = "How often the next item is found"
    table = plain_table(title, "", *first, numbers=len(first))
    for seed, measures in measured.items():
        table.add_row(f"seed {seed}", *(f"{measure.value:.3f}" for measure in measures.values()))
    if len(measured) > 1:
        columns = ([measures[name].value for measures in measured.values()] for name in first)
        table.add_row("mean", *(escape(str(mean_over_seeds(values))) for values in columns))
    _explain_protocols(table, first)
    return table


def _explain_protocols(table: Table, measures: Mapping[str, Measure]) -> None:
    """Say under the table what each measure was measured on."""
    named: dict[str, list[str]] = {}
    for name, measure in measures.items():
        named.setdefault(measure.protocol, []).append(name)
    lines = (f"{', '.join(names)}: {protocol}" for protocol, names in named.items())
    table.caption = "\n".join(lines)
    table.caption_justify = "left"


def side_by_side(explanations: Mapping[str, Explanation], top: int = 10) -> Table:
    """One row a part, newest first, one column a method; every bar is relative to its method."""
    first = next(iter(explanations.values()))
    shown: set[int] = set()
    for explanation in explanations.values():
        if explanation.method != "random" or len(explanations) == 1:
            shown.update(explanation.strongest(0, top))
    table = plain_table(f"Why {escape(first.target_name(0))}?", "part", *explanations)
    for slot in sorted(shown, reverse=True):
        cells = [_cell(explanation, slot) for explanation in explanations.values()]
        table.add_row(escape(first.part_name(0, slot)), *cells)
    left_out = int(first.parts[0].sum()) - len(shown)
    table.caption = "newest first; green speaks for it, red against, blue takes no side"
    if left_out:
        table.caption += f"; {left_out} weaker parts not shown"
    table.caption += f"\na part is removed by: {first.removal}"
    table.caption_justify = "left"
    return table


def agreement_table(agreements: Mapping[tuple[str, str], Measure]) -> Table:
    """Spearman's rho of each pair of explainers."""
    names = list(dict.fromkeys(first for first, _ in agreements))
    title = "Do the explainers agree? (Spearman's rho)"
    table = plain_table(title, "", *names, numbers=len(names))
    for row in names:
        values = [f"{agreements[row, column].value:.2f}" for column in names]
        table.add_row(row, *values)
    return table


def pairs_table(title: str, pairs: Mapping[str, object]) -> Table:
    """Names and values, numbers with thousands set apart."""
    table = plain_table(title, "", "")
    for name, value in pairs.items():
        shown = f"{value:,}" if isinstance(value, int) else value
        shown = f"{value:.4g}" if isinstance(value, float) else shown
        table.add_row(name, "unknown" if shown is None else escape(str(shown)))
    return table


def _cell(explanation: Explanation, slot: int) -> str:
    value = float(explanation.scores[0, slot])
    scale = float(explanation.magnitude()[0].max(initial=0.0))
    return bar(value, scale, explanation.signed, width=8)
