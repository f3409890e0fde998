"""Tables in the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group
from rich.markup import escape

from whence.explanation import Explanation
from whence.measure import Measure, mean_over_seeds
from whence.reasons import Reason
from whence.recommendation import Recommendations
from whence.report.plain import captioned, plain_table

Accuracy = Mapping[str, Mapping[str, Measure]]
"""By system, then by measure."""


def history_table(picks: Recommendations, verb: str, newest: int = 10) -> Group:
    """The newest items of a history, newest first."""
    table = plain_table(f"{picks.name.capitalize()} {verb}, newest first", "", "title")
    for back, title in enumerate(reversed(picks.history[-newest:]), start=1):
        table.add_row(str(back), escape(title))
    earlier = len(picks.history) - newest
    return captioned(table, f"and {earlier} earlier ones the model reads" if earlier > 0 else "")


def picks_table(picks: Recommendations) -> Group:
    """Recommendations with their reasons and what was checked."""
    table = plain_table(f"Recommended to {picks.name}", "", "title", "why", "without it")
    for pick in picks.picks:
        table.add_row(
            str(pick.rank),
            escape(pick.title),
            escape(pick.reason.sentence),
            ", ".join(f"−{support.probability_lost:.0%}" for support in pick.reason.supports),
        )
    if not picks.picks:
        table.add_row("", "nothing: every item is in the history already", "", "")
    return captioned(
        table,
        "without it: the share of its probability the recommendation would lose if the item were "
        "not in the history",
    )


def accuracy_table(accuracy: Accuracy) -> Group:
    """Systems side by side, every figure with its 95 % interval."""
    title = "How often the next item is found, with 95 % intervals"
    table = plain_table(title, "", *accuracy, numbers=len(accuracy))
    first = next(iter(accuracy.values()))
    for name in first:
        table.add_row(name, *(escape(str(measures[name])) for measures in accuracy.values()))
    return captioned(table, _protocols(first))


def seeds_table(metrics: Mapping[int, Mapping[str, Any]], baselines: Accuracy) -> Group:
    """A trained run's accuracy on its test events, seed by seed, beside simple rules."""
    measured = {
        seed: {name: Measure(**fields) for name, fields in found["test"].items()}
        for seed, found in metrics.items()
        if "test" in found
    }
    if not measured:
        return Group("No user has the three events that measuring accuracy needs.")
    if len(measured) == 1:
        (only,) = measured.items()
        return accuracy_table({f"seed {only[0]}": only[1], **baselines})
    first = next(iter(measured.values()))
    title = "How often the next item is found, with the 95 % interval over seeds"
    table = plain_table(title, "", *first, numbers=len(first))
    for seed, measures in measured.items():
        table.add_row(f"seed {seed}", *(f"{measure.value:.3f}" for measure in measures.values()))
    columns = ([measures[name].value for measures in measured.values()] for name in first)
    table.add_row("mean", *(str(mean_over_seeds(values)) for values in columns))
    for system, simple in baselines.items():
        table.add_row(system, *(f"{measure.value:.3f}" for measure in simple.values()))
    return captioned(table, _protocols(first))


def _protocols(measures: Mapping[str, Measure]) -> str:
    """What each measure was measured on."""
    named: dict[str, list[str]] = {}
    for name, measure in measures.items():
        named.setdefault(measure.protocol, []).append(name)
    return "\n".join(f"{', '.join(names)}: {protocol}" for protocol, names in named.items())


def side_by_side(explanations: Mapping[str, Explanation], reason: Reason, top: int = 5) -> Group:
    """One row a part, newest first: what leaving it out does, and what each method says.

    The first column is per cent of the recommendation's probability, the others are per cent of
    the method's total.
    """
    first = next(iter(explanations.values()))
    shown: set[int] = set()
    for explanation in explanations.values():
        if explanation.method != "random" or len(explanations) == 1:
            shown.update(explanation.strongest(0, top))
    numbers = [str(number) for number in range(1, len(explanations) + 1)]
    title = f"Why {first.target_name(0)}?"
    lost = {support.item: -100 * support.probability_lost for support in reason.considered}
    named = {support.item for support in reason.supports}
    ids = first.labels.part_ids[0] if first.labels and first.labels.part_ids else ()
    shown.update(slot for slot, raw in enumerate(ids) if raw in named)
    table = plain_table(title, "newest first", "without", *numbers, numbers=1 + len(numbers))
    for slot in sorted(shown, reverse=True):
        cells = [_share(explanation, slot) for explanation in explanations.values()]
        weight = "bold" if ids[slot] in named else "default"
        without = f"[{weight}]{lost[ids[slot]]:+.0f} %[/]"
        table.add_row(escape(first.part_name(0, slot)), without, *cells)
    left_out = int(first.parts[0].sum()) - len(shown)
    legend = [f"{number} {name}" for number, name in zip(numbers, explanations, strict=True)]
    return captioned(
        table,
        "without: what becomes of its probability if the item is left out of the history\n"
        + ", ".join(legend)
        + "\nin per cent of all importance; below 0 speaks against"
        + (f"; {left_out} weaker parts not shown" if left_out else "")
        + f"\nThe methods hide a part in its place ({first.removal}) and leave the rest as it is: "
        "so an item whose own place answers, as the newest one's does in SASRec, counts for less "
        "there than if it is left out.",
    )


def _share(explanation: Explanation, slot: int) -> str:
    """A part's share of the method's total, the strongest in bold."""
    total = float(explanation.magnitude()[0].sum())
    share = 100 * float(explanation.scores[0, slot]) / total if total else 0.0
    colour = ("green" if share >= 0 else "red") if explanation.signed else "blue"
    strongest = explanation.strongest(0, 1) == [slot]
    return f"[{'bold ' if strongest else ''}{colour}]{round(share)}[/]"
