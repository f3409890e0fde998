"""Permutation: attention that can be shuffled without effect cannot be the reason."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from whence.arrays import Floats, Ints
from whence.contract import offers
from whence.errors import InputError
from whence.explainers import explain_batch
from whence.explanation import Explanation
from whence.maps.reason_map import favour_shares
from whence.measure import Measure, mean_over_cases
from whence.trust.audit.class_questions import questions
from whence.trust.audit.context import HELD, AuditContext
from whence.trust.audit.finding import Answer, Chart, Figure, Finding, Table
from whence.trust.audit.words import between, percent, points, points_between, rounded
from whence.trust.bins import Binned, EqualMass, binned
from whence.trust.permutation.attention_permutation import attention_permutation
from whence.trust.permutation.class_permutation import class_permutation
from whence.trust.permutation.entropy import entropy
from whence.trust.resampling import mean_over_users

REPEATS: Final = 20
BINS: Final = 10
ATTENTION: Final = "attention-last"
NOTICEABLE: Final = 0.1
"""Share of its own probability by which the first recommendation changes where attention counts."""
NEARLY_ALL: Final = 0.9
"""Share of the histories in which it does so, from which the answer is yes."""
HALF: Final = 0.5
"""The same for partly."""
EXAMPLES: Final = 5
"""Users whose attention is shown."""


def permutation(audited: AuditContext) -> Finding:
    """Shuffle among the items what the answering row attends to, and ask again."""
    asked = _of_classes(audited) if offers(audited.model, "classes") else _of_items(audited)
    share, moves = _relative(asked, audited.seed)
    model = audited.run.model
    attention = explain_batch(
        audited.model,
        audited.batch,
        audited.targets,
        ATTENTION,
        audited.seed,
        memory=audited.memory,
    )
    return Finding(
        answer=_answer(moves.value),
        summary=f"Shuffling which items get the attention changes the probability of {asked.what} "
        f"by {percent(share.value)} of itself on average, and noticeably, by a tenth or more, in "
        f"{percent(moves.value)} of the {asked.cases}{_where_sure(asked)}.",
        figures=(
            *_relative_figures(asked, model, share, moves),
            *(_change_figure(name, model, one) for name, one in asked.changes.items()),
            _spread(model, attention),
        ),
        charts=(_chart(asked), *([_by_attention(asked)] if asked.by_attention else [])),
        tables=(_most_attended(audited, attention),),
        notes=(
            "The weights of the row that answers are shuffled among the items of a history, in "
            f"all blocks alike, {REPEATS} times for each of {share.n:,} {asked.cases}. "
            f"Where nothing changes, explanations from attention explain nothing. {asked.note}",
        ),
    )


@dataclass(frozen=True, eq=False)
class _Asked:
    """What shuffling changed, of every case."""

    what: str
    """Whose probability."""
    cases: str
    users: Ints
    """Whose each case is."""
    change: Floats
    confidence: Floats
    changes: Mapping[str, Measure]
    """In plain probability, by kind of case."""
    lines: Mapping[str, Binned]
    """By confidence, as a chart shows it."""
    up: str
    """What the lines are of."""
    protocol: str
    note: str
    by_attention: Mapping[str, Binned]
    """By the largest share of attention, where it is known of every question."""


def _of_items(audited: AuditContext) -> _Asked:
    """Of a model that tells items from each other: its first recommendation."""
    found = attention_permutation(
        audited.model,
        audited.batch,
        repeats=REPEATS,
        seed=audited.seed,
        memory=audited.memory,
    )
    relative = found.top / found.confidence
    by_confidence = {
        "all": binned(relative, found.confidence, EqualMass(BINS), protocol=found.protocol)
    }
    return _Asked(
        "the first recommendation",
        "histories",
        np.arange(len(found.top)),
        found.top,
        found.confidence,
        {"all": found.top_measure()} if not np.isnan(found.top).all() else {},
        by_confidence,
        "mean change as a share of its probability",
        found.protocol,
        "The first recommendation is here the most probable of all items, met or not.",
        {},
    )


def _of_classes(audited: AuditContext) -> _Asked:
    """Of a model that judges items one by one: its answers, as Jain (2019) asks for them."""
    put = questions(audited, HELD, audited.cases)
    found = class_permutation(
        audited.model,
        put.batch,
        put.targets,
        put.true,
        repeats=REPEATS,
        seed=audited.seed,
        memory=audited.memory,
    )
    measured = {
        kind: found.measure(kind, audited.seed)
        for kind, rows in found.kinds().items()
        if not np.isnan(found.change[rows]).all()
    }
    lines = found.by_confidence(seed=audited.seed)
    return _Asked(
        "the answer",
        "questions",
        found.users.ravel(),
        found.change.ravel(),
        found.confidence.ravel(),
        measured,
        {kind: one for kind, one in lines.items() if kind in measured},
        "mean change of its probability",
        found.protocol,
        "The model is asked of the item that came next, and of as many as it learned by that the "
        "user meets nowhere in the data, whether it will be liked; a false negative came next and "
        "was not foreseen, a false positive was foreseen and never met.",
        {
            kind: one
            for kind, one in found.by_attention(seed=audited.seed).items()
            if one.count.any()
        },
    )


def _relative(asked: _Asked, seed: int) -> tuple[Measure, Measure]:
    """The change as a share of the probability, and how often that is noticeable."""
    relative = asked.change / asked.confidence
    known = ~np.isnan(relative)
    if not known.any():
        raise InputError("No history has two items whose attention could change places.")
    share = mean_over_users(
        relative[known],
        asked.users[known],
        f"mean over cases of |Δ probability| / probability of {asked.what}; {asked.protocol}",
        range=(0.0, float("inf")),
        seed=seed,
    )
    moves = mean_over_users(
        (relative[known] >= NOTICEABLE).astype(np.float64),
        asked.users[known],
        f"share of cases in which the probability of {asked.what} changes by {NOTICEABLE:.0%} of "
        f"itself or more; {asked.protocol}",
        seed=seed,
    )
    return share, moves


def _relative_figures(
    asked: _Asked, model: str, share: Measure, moves: Measure
) -> tuple[Figure, Figure]:
    return (
        Figure(
            "relative change",
            model,
            share,
            f"With shuffled attention, the probability of {asked.what} changes by "
            f"{percent(share.value)} of itself on average ({between(share)}).",
        ),
        Figure(
            f"{asked.cases} where it matters",
            model,
            moves,
            f"In {percent(moves.value)} of the {asked.cases} ({between(moves)}) it changes by "
            "a tenth of itself or more.",
        ),
    )


def _where_sure(asked: _Asked) -> str:
    """What it is where the model is least and most sure."""
    every = asked.lines["all"]
    filled = np.flatnonzero(every.count)
    if len(filled) < 2:
        return ""
    least, most = (percent(float(every.mean[place])) for place in filled[[0, -1]])
    return f"; the {asked.up} is {least} where it is least sure and {most} where it is most sure"


def _chart(asked: _Asked) -> Chart:
    return Chart(
        "bins",
        asked.up,
        f"How much shuffled attention changes the probability of {asked.what}, by how sure the "
        "model was of it. Where a line falls to the right, attention matters least where the model "
        "is most sure. Bands are 95 % intervals over users.",
        tuple(
            {"panel": asked.up, "line": kind, **row}
            for kind, one in asked.lines.items()
            for row in one.rows()
        ),
        across=f"how sure of {asked.what}",
    )


def _by_attention(asked: _Asked) -> Chart:
    """As Figure 2.15 of Jain (2019) draws it."""
    up = "median change of its probability"
    return Chart(
        "bins",
        up,
        "How much the median of the shuffles changes the probability of the answer, by the share "
        "of the attention that the most attended item has. Where a line does not rise to the "
        "right, attention that rests on one item matters no more than attention that is spread. "
        "Bands are 95 % intervals over users.",
        tuple(
            {"panel": up, "line": kind, **row}
            for kind, one in asked.by_attention.items()
            for row in one.rows()
        ),
        across="largest share of the attention",
    )


def _change_figure(kind: str, model: str, change: Measure) -> Figure:
    whose = "" if kind == "all" else f", of {kind} alone"
    return Figure(
        f"change of probability{whose}",
        model,
        change,
        f"In plain probability that is a change of {points(change.value)} "
        f"({points_between(change)}){whose}.",
    )


def _spread(model: str, attention: Explanation) -> Figure:
    """On how many items attention rests: two to the power of its entropy in bits."""
    items = mean_over_cases(
        2 ** entropy(attention.magnitude(), attention.parts),
        f"mean over histories of 2 to the entropy in bits of {ATTENTION}",
        "neither",
        (1.0, math.inf),
    )
    counts = attention.parts.sum(axis=1)
    return Figure(
        "items that attention rests on",
        model,
        items,
        f"Attention rests on {rounded(items, 1)} items of a history, counted as so many that share "
        f"it evenly; a history has {counts[counts > 0].mean():.1f}.",
    )


def _most_attended(audited: AuditContext, attention: Explanation) -> Table:
    """What the sentence "because you chose …" would name to the first users, and on how much."""
    shares = favour_shares(attention[:EXAMPLES])
    most = shares.argmax(axis=1)
    rows = np.arange(len(most))
    items = audited.batch[:EXAMPLES].cpu().numpy()[rows, most]
    catalog = audited.run.catalog
    named = zip(
        catalog.labels(audited.targets[:EXAMPLES].tolist()),
        catalog.labels(items),
        shares[rows, most].tolist(),
        strict=True,
    )
    return Table(
        "What attention would name as the reason, to the first users",
        ("most attended", "its share"),
        tuple((target, item, percent(share)) for target, item, share in named),
    )


def _answer(share: float) -> Answer:
    return "yes" if share >= NEARLY_ALL else "partly" if share >= HALF else "no"
