"""Tables for the terminal: accuracy, and explanations side by side."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from whence.console import plain
from whence.contract import ATTENTION_COLUMN, DROPPED
from whence.explanation import Explanation
from whence.measure import Measure, mean_over_seeds, protocol_lines
from whence.reasons.amounts import before_and_after, percent_lost
from whence.reasons.reason import Reason
from whence.terminal import captioned, plain_table
from whence.training.comparison import MAIN
from whence.training.evaluation import RATING_ERROR
from whence.training.outcome import TOGETHER, Outcome

Accuracy = Mapping[str, Mapping[str, Measure]]
"""By system, then by measure."""
NOT_MEASURED = "–"
"""Shown if a baseline was not measured this way."""
LEFT_OUT = "left out"
HEADING_WIDTH = 8
ROOM_FOR_TITLES = 38
"""Characters for the titles of items and the two columns next to them."""


def accuracy_table(accuracy: Accuracy) -> Group:
    """Return systems side by side, every figure with its 95 % interval.

    Measures that only some systems have go into a table of their own, and so do those of lists.
    """
    measured: dict[tuple[bool, tuple[str, ...]], list[str]] = {}
    for name, measure in next(iter(accuracy.values())).items():
        systems = tuple(system for system, measures in accuracy.items() if name in measures)
        measured.setdefault((is_of_lists(measure), systems), []).append(name)
    return Group(
        *(
            _systems_table({system: accuracy[system] for system in systems}, names)
            for (_, systems), names in measured.items()
        )
    )


def outcome_tables(outcome: Outcome) -> Group:
    """Return what a training chose and tried, how good the run is, and how it compares."""
    run = outcome.run
    accuracy = seeds_table(
        run.metrics,
        outcome.baselines,
        {name: Measure.from_dict(one) for name, one in run.accuracy.get("test", {}).items()},
        run.model if outcome.is_simple else "",
    )
    tried = [tried_table(outcome)] if outcome.tried else []
    lines = map(plain, outcome.lines())
    return Group(*lines, *tried, accuracy, plain(outcome.closing, "bold"))


def tried_table(outcome: Outcome) -> Table:
    """Return what was tried, the best first, and what was kept."""
    table = plain_table("What was tried, on the validation events", "", MAIN, "kept")
    for name, value in outcome.tried.items():
        kept = outcome.run.members if name == outcome.chosen else ""
        table.add_row(name, f"{value:.3f}", kept)
    return table


def is_of_lists(measure: Measure) -> bool:
    """Return whether it says what the lists are like; measures of accuracy have a direction."""
    return measure.direction == "neither"


def _systems_table(accuracy: Accuracy, names: Sequence[str]) -> Group:
    own = next(iter(accuracy.values()))
    first = {name: own[name] for name in names}
    title = f"{_title(first)}, with 95 % intervals"
    table = plain_table(title, "", *first, numbers=len(first))
    for system, measures in accuracy.items():
        table.add_row(system, *(str(measures[name]) for name in first))
    return captioned(table, _protocols(first))


def seeds_table(
    metrics: Mapping[int, Mapping[str, Any]],
    baselines: Accuracy,
    together: Mapping[str, Measure] | None = None,
    label: str = "",
) -> Group:
    """Return a run's accuracy on its test events by seed, compared with simple baselines.

    `together` is the accuracy of all models of the run, if there are several. `label` names the
    model of a single seed.
    """
    whole = {TOGETHER: together} if together else {}
    measured = {
        seed: {name: Measure.from_dict(fields) for name, fields in found["test"].items()}
        for seed, found in metrics.items()
        if "test" in found
    }
    if not measured:
        return Group("No user has enough events to measure accuracy.")
    if len(measured) == 1:
        (only,) = measured.items()
        return accuracy_table({label or f"seed {only[0]}": only[1], **whole, **baselines})
    first = next(iter(measured.values()))
    tables = []
    for lists in (False, True):
        names = [name for name, one in first.items() if is_of_lists(one) == lists]
        names = [name for name in names if all(name in one for one in measured.values())]
        if names:
            tables.append(_table_by_seed(measured, {**whole, **baselines}, names))
    return Group(*tables)


def _table_by_seed(
    measured: Mapping[int, Mapping[str, Measure]], baselines: Accuracy, names: Sequence[str]
) -> Group:
    own = next(iter(measured.values()))
    first = {name: own[name] for name in names}
    title = f"{_title(first)}, with the 95 % interval over seeds"
    table = plain_table(title, "", *first, numbers=len(first))
    for seed, measures in measured.items():
        table.add_row(f"seed {seed}", *(f"{measures[name].value:.3f}" for name in first))
    columns = ([measures[name].value for measures in measured.values()] for name in first)
    table.add_row("mean", *(str(mean_over_seeds(values)) for values in columns))
    for system, simple in baselines.items():
        if not set(first) & set(simple):
            continue
        row = (f"{simple[name].value:.3f}" if name in simple else NOT_MEASURED for name in first)
        table.add_row(system, *row)
    return captioned(table, _protocols(first))


def _title(measures: Mapping[str, Measure]) -> str:
    if all(map(is_of_lists, measures.values())):
        return "More than accuracy: what the lists are like"
    ranking, rating = "How well the next item is ranked", "how large rating errors are"
    if RATING_ERROR not in measures:
        return ranking
    return f"{ranking}, and {rating}" if len(measures) > 1 else rating.capitalize()


def _protocols(measures: Mapping[str, Measure]) -> str:
    return "\n".join(protocol_lines({name: one.protocol for name, one in measures.items()}))


def side_by_side(
    explanations: Mapping[str, Explanation], reason: Reason, top: int = 5, columns: int = 80
) -> Group:
    """Return one row for each part, newest first: the effect of leaving it out, then each method.

    Methods that do not fit into the columns of the terminal go into further tables.
    """
    first = next(iter(explanations.values()))
    slots = _slots_to_show(explanations, reason, top)
    groups = _that_fit(list(explanations), columns - ROOM_FOR_TITLES)
    tables = [
        _methods_table({name: explanations[name] for name in names}, reason, slots)
        for names in groups
    ]
    hidden = int(first.parts[0].sum()) - len(slots)
    samples = len(explanations) == 1 and first.error is not None
    removed = how_removed([*explanations.values()])
    legend = _legend(first, removed, hidden, samples) + _of_one_seed(explanations)
    legend += _opposite_signs(explanations, reason, slots)
    return Group(*tables[:-1], captioned(tables[-1], legend))


def _of_one_seed(explanations: Mapping[str, Explanation]) -> str:
    """Return a line that names the methods that explain the model of one seed."""
    found = {name: one.model_seed for name, one in explanations.items()}
    named = [name for name, seed in found.items() if seed is not None]
    if not named:
        return ""
    return f"\n{', '.join(named)}: of the model of seed {found[named[0]]} alone"


def _opposite_signs(
    explanations: Mapping[str, Explanation], reason: Reason, slots: Sequence[int]
) -> str:
    """Return a line about methods whose sign differs from that of leaving an item out."""
    lost = {support.item: support.probability_lost for support in reason.considered}
    differ = [
        name
        for name, one in explanations.items()
        if one.signed and any(_differs(one, slot, lost) for slot in slots)
    ]
    if not differ:
        return ""
    return (
        f"\nsigns differ from '{LEFT_OUT}' in {', '.join(differ)}: only '{LEFT_OUT}' asks what "
        "happens without just this item, as the checks do; a method may hide it in its place, or "
        "weigh it together with others"
    )


def _differs(explanation: Explanation, slot: int, lost: Mapping[Any, float]) -> bool:
    """Return whether a method's shown sign is not that of leaving the item out, as shown."""
    ids = _part_ids(explanation)
    if not ids or ids[slot] not in lost:
        return False
    share, change = _percent_of(explanation, slot), 100 * lost[ids[slot]]
    return round(share) * round(change) < 0


def _slots_to_show(explanations: Mapping[str, Explanation], reason: Reason, top: int) -> list[int]:
    """Return the strongest slots of each method and those of the reason, newest first."""
    shown: set[int] = set()
    for explanation in explanations.values():
        if explanation.method != "random" or len(explanations) == 1:
            shown.update(explanation.strongest(0, top))
    named = {support.item for support in reason.supports}
    first = next(iter(explanations.values()))
    shown.update(slot for slot, raw in enumerate(_part_ids(first)) if raw in named)
    return sorted(shown, reverse=True)


def _that_fit(names: list[str], columns: int) -> list[list[str]]:
    """Return the names in groups whose headings fit next to each other."""
    groups: list[list[str]] = [[]]
    room = columns
    for name in names:
        needed = 1 + max(4, *map(len, _heading_lines(name)))
        if groups[-1] and needed > room:
            groups.append([])
            room = columns
        groups[-1].append(name)
        room -= needed
    return groups


def _heading_lines(name: str) -> list[str]:
    """Return a method's name in short lines, broken at hyphens and between settings."""
    words = name.replace(":", ": ").replace(",", ", ")
    return textwrap.wrap(words, HEADING_WIDTH, break_long_words=False)


def _in_lines(words: Sequence[str]) -> Text:
    return Text("\n").join(map(plain, words))


def _part_ids(explanation: Explanation) -> tuple[Any, ...]:
    """Return the raw ids by slot; none if the parts are not items."""
    labels = explanation.labels
    return labels.part_ids[0] if labels and labels.part_ids else ()


def _legend(first: Explanation, removed: str, hidden: int, samples: bool) -> str:
    items = bool(_part_ids(first))
    part = "item" if items else "part"
    left_out = (
        f"{LEFT_OUT}: how its probability changes if the item is really left out of the history, "
        "and its rank before → after"
    )
    methods = (
        f"{'other ' if items else ''}columns: percent of the method's total importance; a negative "
        "number counts against it" + ("; ± is the standard error" if samples else "")
    )
    weaker = f"{hidden} weaker {part}{'s' if hidden > 1 else ''} not shown"
    lines = [left_out] if items else []
    return "\n".join([*lines, methods, *([weaker] if hidden else []), removed])


def how_removed(explanations: Sequence[Explanation]) -> str:
    """Say in a sentence how the methods remove a part."""
    removal = "; ".join(dict.fromkeys(one.removal for one in explanations))
    if not _part_ids(explanations[0]):
        return f"How the methods remove a part: {removal}."
    if removal == DROPPED:
        return f"The methods leave an item out, as if it had never been there ({removal})."
    in_place = f"The methods hide an item but keep its place ({removal})."
    if ATTENTION_COLUMN not in removal:
        return in_place
    return (
        f"{in_place} In SASRec the newest item's place answers, so that item counts for less here "
        "than if it is left out."
    )


def _methods_table(
    explanations: Mapping[str, Explanation], reason: Reason, slots: list[int]
) -> Table:
    first = next(iter(explanations.values()))
    ids = _part_ids(first)
    considered = {support.item: support for support in reason.considered}
    named = {support.item for support in reason.supports}
    headings = [_in_lines(_heading_lines(name)) for name in explanations]
    leading = ["item (newest first)", _in_lines(LEFT_OUT.split()), "rank"] if ids else ["part"]
    numbers = len(leading) - 1 + len(headings)
    table = plain_table(f"Why {first.target_name(0)}?", *leading, *headings, numbers=numbers)
    table.padding = (0, 0)
    alone = len(explanations) == 1  # leaves room for standard errors
    for slot in slots:
        cells = [_share(explanation, slot, alone) for explanation in explanations.values()]
        if ids:
            weight = "bold" if ids[slot] in named else "default"
            effect = considered[ids[slot]]
            ranks = before_and_after(effect.rank_before, effect.rank_without, reason.in_history)
            cells.insert(0, Text(NOT_MEASURED if reason.in_history else ranks, weight))
            cells.insert(0, Text(percent_lost(effect.probability_lost), weight))
        table.add_row(first.part_name(0, slot), *cells)
    return table


def _whole(number: float) -> str:
    return f"{round(number)}".replace("-", "−")


def _share(explanation: Explanation, slot: int, with_error: bool) -> Text:
    """Return a part's share of the method's total in percent, the strongest in bold."""
    share = _percent_of(explanation, slot)
    color = ("green" if share >= 0 else "red") if explanation.signed else "blue"
    strongest = explanation.strongest(0, 1) == [slot]
    shown = Text.assemble((_whole(share), f"{'bold ' if strongest else ''}{color}"))
    if with_error and explanation.error is not None:
        shown.append(f" ± {_percent(explanation, explanation.error[0, slot]):.1f}")
    return shown


def _percent_of(explanation: Explanation, slot: int) -> float:
    """Return a part's share of the method's total in percent."""
    return _percent(explanation, explanation.scores[0, slot])


def _percent(explanation: Explanation, value: float) -> float:
    total = float(explanation.magnitude()[0].sum())
    return 100 * float(value) / total if total else 0.0
