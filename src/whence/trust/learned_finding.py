"""What it learned: are those that the model puts near each other alike in what it was not told?"""

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
"""How many groups a map has in colour, and items or users at most."""
FAR: Final = 0.3
"""Of the way from chance to neighbours who are all alike, from which on the answer is yes."""

Alike = Mapping[str, SameGroup]
"""By what neighbours may share."""


def learned(audited: AuditContext) -> Finding:
    """The share of neighbours with a genre, or an age, in common beside that of anybody."""
    found, lacking = _measured(audited)
    if not found:
        told = "; ".join(f"of {whose}, {why}" for whose, why in lacking.items())
        raise InputError(f"Whether neighbours are alike is not measured: {told}.")
    answer, told = _answer(found)
    shares = "; of ".join(_share(SIDES[what], one) for what, one in found.items())
    return Finding(
        answer=answer,
        summary=f"Of {shares}. {told}",
        figures=tuple(figure for what, one in found.items() for figure in _figures(what, one)),
        charts=(_chart(found), _map(audited, found)),
        tables=tuple(_table(what, one) for what, one in found.items()),
        notes=(
            "Neighbours are the nearest by the model's own vectors, in all dimensions; chance is "
            "the share of all others. The intervals are over items and users, of one training.",
            *(f"Of {whose} it is not measured: {why}." for whose, why in lacking.items()),
        ),
    )


def _measured(audited: AuditContext) -> tuple[dict[str, SameGroup], dict[str, str]]:
    """What can be measured, and of whom it cannot, why."""
    found, lacking = {}, {}
    for what, side in SIDES.items():
        if not offers(audited.model, side.capability):
            lacking[side.whose] = f"{type(audited.model).__name__} has no '{side.capability}'"
            continue
        try:
            groups = side.groups(audited.split.interactions)
            one = same_group(side.vectors(audited.model), groups, seed=audited.seed)
        except InputError as problem:
            said = str(problem).removesuffix(".")
            lacking[side.whose] = f"{said[:1].lower()}{said[1:]}"
            continue
        if 0 < one.chance < 1:
            found[what] = one
        else:
            who = "all" if one.chance else "no two"
            lacking[side.whose] = f"{who} have {side.shared} in common"
    return found, lacking


def _answer(found: Alike) -> tuple[Answer, str]:
    """By how far from chance each is, where that is clear."""
    fewest = min(one.excess.n for one in found.values())
    if fewest < ENOUGH:
        return "partly", sentence(too_few(fewest, ENOUGH))
    ways = [f"{percent(_way(one))} for {SIDES[what].whose}" for what, one in found.items()]
    told = f"Of the way from chance to all alike that is {listed(ways)}"
    unclear = [SIDES[what].whose for what, one in found.items() if not _clear(one)]
    if unclear:
        told += f"; for {listed(unclear)} it is not clearly more than chance"
    if len(unclear) == len(found):
        return "no", f"{told}."
    far = not unclear and all(_way(one) >= FAR for one in found.values())
    return "yes" if far else "partly", f"{told}."


def _clear(one: SameGroup) -> bool:
    return clearly_positive(one.excess.interval, one.excess.n)


def _way(one: SameGroup) -> float:
    return one.excess.value / (1 - one.chance)


def _share(side: Side, one: SameGroup) -> str:
    """To go on from "of"."""
    return (
        f"the {NEIGHBOURS} nearest {side.whose}, {percent(one.share.value)} have {side.shared} in "
        f"common, by chance {percent(one.chance)}"
    )


def _figures(what: str, one: SameGroup) -> Iterator[Figure]:
    side, excess = SIDES[what], one.excess
    yield Figure(
        f"neighbours of the same {what}",
        side.whose,
        one.share,
        f"Of the {NEIGHBOURS} nearest {side.whose}, {percent(one.share.value)} have {side.shared} "
        f"in common ({between(one.share)}).",
    )
    yield Figure(
        f"neighbours of the same {what}, less chance",
        side.whose,
        excess,
        f"That is {points(abs(excess.value))} {'more' if excess.value >= 0 else 'less'} than the "
        f"{percent(one.chance)} of chance ({points_between(excess)}).",
    )


def _chart(found: Alike) -> Chart:
    rows = []
    for what, one in found.items():
        whose, chance = SIDES[what].whose, one.chance
        rows.append(dot(f"{what}, nearest {whose}", one.share))
        by_chance = {"value": chance, "low": chance, "high": chance}
        rows.append({"name": f"{what}, any {whose}", **by_chance})
    return Chart(
        "dots",
        "share with the same in common",
        "The further the nearest lie to the right of any others, the more the model has learned of "
        "what it was never told.",
        tuple(rows),
    )


def _map(audited: AuditContext, found: Alike) -> Chart:
    """Some of all, with a few groups in colour."""
    rows: list[dict[str, Any]] = []
    for what, one in found.items():
        drawn = SIDES[what].drawn(audited.model, audited.split.interactions)
        together = sorted(one.by_group, key=lambda name: -_beyond_chance(one, name))[:IN_COLOUR]
        some = _some(len(drawn.points), audited.seed)
        panel = f"{SIDES[what].whose} by {what}: {drawn.title}"
        rows += [{"panel": panel, **row} for row in _few(drawn, some).rows(together)]
    return Chart(
        "points",
        "where the model puts them",
        f"At most {POINTS:,} of each, in the plane that keeps most of how far apart their vectors "
        f"lie; in colour are the {IN_COLOUR} groups that lie together most beyond chance. The "
        "plane leaves out the rest of the distances: the shares above are of all of them.",
        tuple(rows),
        across="group",
    )


def _beyond_chance(one: SameGroup, group: str) -> float:
    near, anywhere = one.by_group[group]
    return near - anywhere


def _some(count: int, seed: int) -> Ints:
    """Places to draw, in their order."""
    drawn = Randomness(seed).numpy("evaluation").permutation(count)[:POINTS]
    return np.sort(drawn)


def _few(learned: LearnedMap, some: Ints) -> LearnedMap:
    """With coordinates as exact as a picture needs them."""
    reach = float(np.abs(learned.points).max()) or 1.0
    return replace(
        learned,
        points=(learned.points[some] / reach).round(3),
        names=tuple(learned.names[place] for place in some.tolist()),
        groups=replace(learned.groups, member=learned.groups.member[some]),
    )


def _table(what: str, one: SameGroup) -> Table:
    """Group by group, those whose neighbours are most of it before others."""
    ranked = sorted(one.by_group.items(), key=lambda pair: -pair[1][0])
    return Table(
        f"By {what}, the share of its own",
        (f"among the {NEIGHBOURS} nearest", f"among all {SIDES[what].whose}"),
        tuple((name, percent(near), percent(anywhere)) for name, (near, anywhere) in ranked),
    )
