"""Audit stage: do neighbours share what the model was never given, such as a genre or an age?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from whence.arrays import Ints
from whence.contract import offers
from whence.errors import InputError
from whence.maps.groups import NEIGHBOURS, SameGroup, same_group
from whence.maps.learned_map import SIDES, LearnedMap, Side
from whence.randomness import Randomness
from whence.trust.audit.context import AuditContext
from whence.trust.audit.finding import (
    ENOUGH,
    Answer,
    Chart,
    Figure,
    Finding,
    Table,
    clearly_positive,
    dot,
)
from whence.trust.audit.stage import STAGES, Stage
from whence.trust.audit.words import (
    between,
    listed,
    percent,
    points,
    points_between,
    sentence,
    too_few,
)

IN_COLOUR: Final = 3
POINTS: Final = 1_000
"""Groups in colour on a map, and the largest number of points."""
FAR: Final = 0.3
"""The answer is yes from this share of the way from random neighbours to all alike."""

Neighbours = Mapping[str, SameGroup]
"""By what neighbours may share: a genre, an age."""


def find_learned(context: AuditContext) -> Finding:
    """Compare the share of neighbours with a genre or age in common with random neighbours."""
    found, lacking = _measured(context)
    if not found:
        reasons = "; ".join(f"for {whose}, {why}" for whose, why in lacking.items())
        raise InputError(f"Neighbours cannot be compared: {reasons}.")
    answer, why = _answer(found)
    shares = " ".join(_share(SIDES[what], one) for what, one in found.items())
    return Finding(
        answer=answer,
        summary=f"{shares} {why}",
        figures=tuple(figure for what, one in found.items() for figure in _figures(what, one)),
        charts=(_chart(found), _map(context, found)),
        tables=tuple(_table(what, one) for what, one in found.items()),
        notes=(
            "Neighbours are the nearest vectors of the model in all dimensions; random neighbours "
            "are all others. The intervals are over items and users of one trained model.",
            *(f"Not measured for {whose}: {why}." for whose, why in lacking.items()),
        ),
    )


def _measured(context: AuditContext) -> tuple[dict[str, SameGroup], dict[str, str]]:
    """Return what can be measured, and why the rest cannot."""
    found, lacking = {}, {}
    for what, side in SIDES.items():
        if not offers(context.model, side.capability):
            lacking[side.whose] = f"{context.model.kind} has no '{side.capability}'"
            continue
        try:
            groups = side.groups(context.split.interactions)
            one = same_group(side.vectors(context.model), groups, seed=context.seed)
        except InputError as problem:
            said = str(problem).removesuffix(".").partition(". ")[0]  # without the advice
            lacking[side.whose] = f"{said[:1].lower()}{said[1:]}"
            continue
        if 0 < one.chance < 1:
            found[what] = one
        else:
            who = "all" if one.chance else "no two"
            lacking[side.whose] = f"{who} have {side.shared} in common"
    return found, lacking


def _answer(found: Neighbours) -> tuple[Answer, str]:
    """Answer by how much the neighbours differ from random ones."""
    fewest = min(one.excess.n for one in found.values())
    if fewest < ENOUGH:
        return "partly", sentence(too_few(fewest, ENOUGH))
    ways = [f"{percent(_way(one))} for {SIDES[what].whose}" for what, one in found.items()]
    why = f"On a scale from random neighbours (0 %) to all alike (100 %), that is {listed(ways)}"
    unclear = [SIDES[what].whose for what, one in found.items() if not _clear(one)]
    if unclear:
        why += f"; for {listed(unclear)} it is not clearly more than random"
    if len(unclear) == len(found):
        return "no", f"{why}."
    far = not unclear and all(_way(one) >= FAR for one in found.values())
    return "yes" if far else "partly", f"{why}."


def _clear(one: SameGroup) -> bool:
    return clearly_positive(one.excess.interval, one.excess.n)


def _way(one: SameGroup) -> float:
    return one.excess.value / (1 - one.chance)


def _share(side: Side, one: SameGroup) -> str:
    return (
        f"{percent(one.share.value)} of the {NEIGHBOURS} nearest {side.whose} have {side.shared} "
        f"in common (random: {percent(one.chance)})."
    )


def _figures(what: str, one: SameGroup) -> Iterator[Figure]:
    side, excess = SIDES[what], one.excess
    yield Figure(
        f"neighbours of the same {what}",
        side.whose,
        one.share,
        f"{percent(one.share.value)} of the {NEIGHBOURS} nearest {side.whose} have {side.shared} "
        f"in common ({between(one.share)}).",
    )
    yield Figure(
        f"neighbours of the same {what}, above random",
        side.whose,
        excess,
        f"That is {points(abs(excess.value))} {'more' if excess.value >= 0 else 'less'} than the "
        f"{percent(one.chance)} of random neighbours ({points_between(excess)}).",
    )


def _chart(found: Neighbours) -> Chart:
    rows = []
    for what, one in found.items():
        whose, share = SIDES[what].whose, one.chance
        rows.append(dot(f"{what}, nearest {whose}", one.share))
        rows.append({"name": f"{what}, any {whose}", "value": share, "low": share, "high": share})
    return Chart(
        "dots",
        "share of neighbours with it in common",
        "The further the nearest lie to the right of any others, the more the model has learned "
        "about what it was never given.",
        tuple(rows),
    )


def _map(context: AuditContext, found: Neighbours) -> Chart:
    """Draw a map of some items and users, with a few groups in colour."""
    rows: list[dict[str, Any]] = []
    for what, one in found.items():
        drawn = SIDES[what].drawn(context.model, context.split.interactions)
        together = sorted(one.by_group, key=lambda name: -_above_random(one, name))[:IN_COLOUR]
        some = _some(len(drawn.points), context.seed)
        panel = f"{SIDES[what].whose} by {what}: {drawn.title}"
        rows += [{"panel": panel, **row} for row in _few(drawn, some).rows(together)]
    return Chart(
        "points",
        "map of the model's vectors",
        f"At most {POINTS:,} of each, in the plane of the first two principal components. In "
        f"colour are the {IN_COLOUR} groups whose members lie together most. The plane keeps only "
        "part of the distances; the shares above use all dimensions.",
        tuple(rows),
        across="group",
    )


def _above_random(one: SameGroup, group: str) -> float:
    near, anywhere = one.by_group[group]
    return near - anywhere


def _some(count: int, seed: int) -> Ints:
    """Return a random choice of points, in their order."""
    drawn = Randomness(seed).numpy("evaluation").permutation(count)[:POINTS]
    return np.sort(drawn)


def _few(learned: LearnedMap, some: Ints) -> LearnedMap:
    """Return some points of a map, with coordinates rounded for a picture."""
    reach = float(np.abs(learned.points).max()) or 1.0
    return replace(
        learned,
        points=(learned.points[some] / reach).round(3),
        names=tuple(learned.names[place] for place in some.tolist()),
        groups=replace(learned.groups, member=learned.groups.member[some]),
    )


def _table(what: str, one: SameGroup) -> Table:
    """Return a row per group, sorted by the share of its own among the neighbours."""
    ranked = sorted(one.by_group.items(), key=lambda pair: -pair[1][0])
    return Table(
        f"Share of the same {what}, by {what}",
        (f"among the {NEIGHBOURS} nearest", f"among all {SIDES[what].whose}"),
        tuple((name, percent(near), percent(anywhere)) for name, (near, anywhere) in ranked),
    )


STAGES.add(
    "learned",
    Stage(
        "What it learned",
        "Are similar items, and similar users, close together?",
        find_learned,
        (
            f"neighbours reach {percent(FAR)} of the way from random to all alike",
            "clearly more than random",
            "not clearly more",
        ),
    ),
    place=30,
)
