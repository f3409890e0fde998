"""Tables in the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group
from rich.markup import escape
from rich.table import Table

from whence.contract import DROPPED
from whence.explanation import Explanation
from whence.measure import Measure, mean_over_seeds
from whence.memory import row_slices
from whence.reasons.checked import Reason
from whence.recommendation import Recommendations
from whence.terminal import captioned, plain_table
from whence.training.evaluation import RATING_ERROR

Accuracy = Mapping[str, Mapping[str, Measure]]
"""By system, then by measure."""
NOT_ASKED = "–"
"""Stands where a rule has no answer."""
BESIDE_EACH_OTHER = 9
"""Columns of methods that a terminal of 80 characters has room for."""


def history_table(picks: Recommendations, verb: str, newest: int = 10) -> Group:
    """The newest items of a history, newest first."""
    table = plain_table(f"{picks.name.capitalize()} {verb}, newest first", "", "title")
    for back, title in enumerate(reversed(picks.history[-newest:]), start=1):
        table.add_row(str(back), escape(title))
    earlier = len(picks.history) - newest
    return captioned(table, f"and {earlier} earlier ones" if earlier > 0 else "")


def picks_table(picks: Recommendations) -> Group:
    """Recommendations with their reasons and what was checked."""
    named = any(pick.reason.supports for pick in picks.picks)  # items, and no other evidence
    checked = ("without it",) if named else ()
    table = plain_table(f"Recommended to {picks.name}", "", "title", "why", *checked)
    for pick in picks.picks:
        lost = ", ".join(f"−{support.probability_lost:.0%}" for support in pick.reason.supports)
        row = (str(pick.rank), escape(pick.title), escape(pick.reason.sentence), lost)
        table.add_row(*row[: len(table.columns)])
    if not picks.picks:
        table.add_row("", "nothing: every item is in the history already")
    lost_means = (
        "without it: the share of its probability the recommendation would lose if the item were "
        "not in the history"
    )
    return captioned(table, lost_means if named else "")


def accuracy_table(accuracy: Accuracy) -> Group:
    """Systems side by side, every figure with its 95 % interval.

    What only some of them were asked is a table of its own.
    """
    asked: dict[tuple[str, ...], list[str]] = {}
    for name in next(iter(accuracy.values())):
        systems = tuple(system for system, measures in accuracy.items() if name in measures)
        asked.setdefault(systems, []).append(name)
    return Group(
        *(
            _systems_table({system: accuracy[system] for system in systems}, names)
            for systems, names in asked.items()
        )
    )


def _systems_table(accuracy: Accuracy, names: Sequence[str]) -> Group:
    own = next(iter(accuracy.values()))
    first = {name: own[name] for name in names}
    title = f"{_title(first)}, with 95 % intervals"
    table = plain_table(title, "", *accuracy, numbers=len(accuracy))
    for name in first:
        table.add_row(name, *(escape(str(measures[name])) for measures in accuracy.values()))
    return captioned(table, _protocols(first))


def seeds_table(metrics: Mapping[int, Mapping[str, Any]], baselines: Accuracy) -> Group:
    """A trained run's accuracy on its test events, seed by seed, beside simple rules."""
    measured = {
        seed: {name: Measure.from_dict(fields) for name, fields in found["test"].items()}
        for seed, found in metrics.items()
        if "test" in found
    }
    if not measured:
        return Group("No user has as many events as measuring accuracy needs.")
    if len(measured) == 1:
        (only,) = measured.items()
        return accuracy_table({f"seed {only[0]}": only[1], **baselines})
    first = next(iter(measured.values()))
    title = f"{_title(first)}, with the 95 % interval over seeds"
    table = plain_table(title, "", *first, numbers=len(first))
    for seed, measures in measured.items():
        table.add_row(f"seed {seed}", *(f"{measure.value:.3f}" for measure in measures.values()))
    columns = ([measures[name].value for measures in measured.values()] for name in first)
    table.add_row("mean", *(str(mean_over_seeds(values)) for values in columns))
    for system, simple in baselines.items():
        row = (f"{simple[name].value:.3f}" if name in simple else NOT_ASKED for name in first)
        table.add_row(system, *row)
    return captioned(table, _protocols(first))


def _title(measures: Mapping[str, Measure]) -> str:
    found, off = "How often the next item is found", "how far off ratings are"
    if RATING_ERROR not in measures:
        return found
    return f"{found}, and {off}" if len(measures) > 1 else off.capitalize()


def _protocols(measures: Mapping[str, Measure]) -> str:
    """What each measure was measured on."""
    named: dict[str, list[str]] = {}
    for name, measure in measures.items():
        named.setdefault(measure.protocol, []).append(name)
    return "\n".join(f"{', '.join(names)}: {protocol}" for protocol, names in named.items())


def side_by_side(explanations: Mapping[str, Explanation], reason: Reason, top: int = 5) -> Group:
    """One row a part, newest first: what leaving it out does, and what each method says.

    The first column is per cent of the recommendation's probability, the others are per cent of
    the method's total. More methods than fit beside each other make further tables.
    """
    first = next(iter(explanations.values()))
    shown: set[int] = set()
    for explanation in explanations.values():
        if explanation.method != "random" or len(explanations) == 1:
            shown.update(explanation.strongest(0, top))
    named = {support.item for support in reason.supports}
    ids = first.labels.part_ids[0] if first.labels and first.labels.part_ids else ()
    shown.update(slot for slot, raw in enumerate(ids) if raw in named)
    slots = sorted(shown, reverse=True)
    columns = list(enumerate(explanations.values(), start=1))
    tables = [
        _beside(dict(columns[some]), reason, slots)
        for some in row_slices(len(columns), BESIDE_EACH_OTHER)
    ]
    left_out = int(first.parts[0].sum()) - len(slots)
    legend = [f"{number} {name}" for number, name in enumerate(explanations, start=1)]
    drawn = len(columns) == 1 and first.error is not None
    caption = (
        ", ".join(legend)
        + "\nin per cent of all importance; below 0 speaks against"
        + ("; ± is the standard error" if drawn else "")
        + (f"; {left_out} weaker parts not shown" if left_out else "")
    )
    if not ids:
        return Group(*tables[:-1], captioned(tables[-1], f"{caption}\nabsent is: {first.removal}"))
    without = "without: what becomes of its probability if the item is left out of the history"
    in_place = (
        f"The methods hide a part in its place ({first.removal}) and leave the rest as it is: so "
        "an item whose own place answers, as the newest one's does in SASRec, counts for less "
        "there than if it is left out."
    )
    # A model that has no places leaves out what is hidden.
    notes = [without, caption, *([] if first.removal == DROPPED else [in_place])]
    return Group(*tables[:-1], captioned(tables[-1], "\n".join(notes)))


def _beside(columns: Mapping[int, Explanation], reason: Reason, slots: list[int]) -> Table:
    """One table of some methods, by their numbers."""
    first = next(iter(columns.values()))
    ids = first.labels.part_ids[0] if first.labels and first.labels.part_ids else ()
    lost = {support.item: -100 * support.probability_lost for support in reason.considered}
    named = {support.item for support in reason.supports}
    title = f"Why {first.target_name(0)}?"
    beside = ("newest first", "without") if ids else ("part",)
    table = plain_table(title, *beside, *map(str, columns), numbers=len(beside) - 1 + len(columns))
    alone = list(columns) == [1]  # then there is room for its standard errors
    for slot in slots:
        cells = [_share(explanation, slot, alone) for explanation in columns.values()]
        without = []
        if ids:
            weight = "bold" if ids[slot] in named else "default"
            without = [f"[{weight}]{lost[ids[slot]]:+.0f} %[/]"]
        table.add_row(escape(first.part_name(0, slot)), *without, *cells)
    return table


def _share(explanation: Explanation, slot: int, with_error: bool) -> str:
    """A part's share of the method's total, the strongest in bold."""
    total = float(explanation.magnitude()[0].sum())
    percent = 100 / total if total else 0.0
    share = percent * float(explanation.scores[0, slot])
    colour = ("green" if share >= 0 else "red") if explanation.signed else "blue"
    strongest = explanation.strongest(0, 1) == [slot]
    shown = f"[{'bold ' if strongest else ''}{colour}]{round(share)}[/]"
    if not with_error or explanation.error is None:
        return shown
    return f"{shown} ± {percent * float(explanation.error[0, slot]):.1f}"
