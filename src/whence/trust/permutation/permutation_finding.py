"""Audit stage: attention that can be shuffled without effect is no reason."""

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
from whence.trust.audit.class_questions import class_questions
from whence.trust.audit.context import HELD, AuditContext
from whence.trust.audit.finding import Answer, Chart, Figure, Finding, Table
from whence.trust.audit.stage import STAGES, Stage
from whence.trust.audit.words import between, percent, points, points_between, rounded
from whence.trust.bins import Binned, EqualMass, binned
from whence.trust.measures import ATTENTION
from whence.trust.permutation.attention_permutation import attention_permutation
from whence.trust.permutation.class_permutation import class_permutation
from whence.trust.permutation.entropy import entropy
from whence.trust.resampling import mean_over_users

REPEATS: Final = 20
BINS: Final = 10
EXPLAINER: Final = "attention-last"
NOTICEABLE: Final = 0.1
"""A change of the probability by this share of itself is noticeable."""
NEARLY_ALL: Final = 0.9
"""The share of histories with a noticeable change from which the answer is yes."""
HALF: Final = 0.5
"""The share from which the answer is partly."""
EXAMPLES: Final = 5
"""The number of users whose attention is shown."""


def find_permutation(context: AuditContext) -> Finding:
    """Shuffle the attention of the last row among the items, and predict again."""
    shuffled = (
        _shuffle_classes(context) if offers(context.model, "classes") else _shuffle_items(context)
    )
    share, moves = _relative(shuffled, context.seed)
    model = context.run.model
    attention = explain_batch(
        context.model,
        context.batch,
        context.targets,
        EXPLAINER,
        context.seed,
        memory=context.memory,
    )
    return Finding(
        answer=_answer(moves.value),
        summary=f"Shuffling which items get the attention changes the probability of "
        f"{shuffled.what} by {percent(share.value)} of itself on average. In "
        f"{percent(moves.value)} of the {shuffled.cases} it changes by a tenth or more"
        f"{_by_confidence(shuffled)}.",
        figures=(
            *_relative_figures(shuffled, model, share, moves),
            *(_change_figure(name, model, one) for name, one in shuffled.changes.items()),
            _spread(model, attention),
        ),
        charts=(_chart(shuffled), *([_by_attention(shuffled)] if shuffled.by_attention else [])),
        tables=(_most_attended(context, attention),),
        notes=(
            "The attention weights of the last row, which predicts, are shuffled among the items "
            f"of a history, alike in all blocks, {REPEATS} times for each of {share.n:,} "
            f"{shuffled.cases}. If nothing changes, attention explains nothing. {shuffled.note}",
        ),
    )


@dataclass(frozen=True, eq=False)
class _Shuffled:
    """What shuffling changed in every case."""

    what: str
    """What the probability is of."""
    cases: str
    users: Ints
    """The user of each case."""
    change: Floats
    confidence: Floats
    changes: Mapping[str, Measure]
    """In plain probability, by kind of case."""
    lines: Mapping[str, Binned]
    """By confidence, for a chart."""
    y_title: str
    """What the lines show."""
    protocol: str
    note: str
    by_attention: Mapping[str, Binned]
    """By the largest share of attention, if the model judges items one by one."""


def _shuffle_items(context: AuditContext) -> _Shuffled:
    """Shuffle for the first recommendation of a model that ranks items."""
    found = attention_permutation(
        context.model,
        context.batch,
        repeats=REPEATS,
        seed=context.seed,
        memory=context.memory,
    )
    relative = found.top / found.confidence
    by_confidence = {
        "all": binned(relative, found.confidence, EqualMass(BINS), protocol=found.protocol)
    }
    return _Shuffled(
        "the first recommendation",
        "histories",
        np.arange(len(found.top)),
        found.top,
        found.confidence,
        {"all": found.top_measure()} if not np.isnan(found.top).all() else {},
        by_confidence,
        "mean change as a share of its probability",
        found.protocol,
        "The first recommendation is here the most probable of all items, seen or unseen.",
        {},
    )


def _shuffle_classes(context: AuditContext) -> _Shuffled:
    """Shuffle for the predictions of a model that judges items one by one, as Jain (2019)."""
    asked = class_questions(context, HELD, context.n_cases)
    found = class_permutation(
        context.model,
        asked.batch,
        asked.targets,
        asked.true,
        repeats=REPEATS,
        seed=context.seed,
        memory=context.memory,
    )
    measured = {
        kind: found.measure(kind, context.seed)
        for kind, rows in found.kinds().items()
        if not np.isnan(found.change[rows]).all()
    }
    lines = found.by_confidence(seed=context.seed)
    return _Shuffled(
        "the prediction",
        "predictions",
        found.users.ravel(),
        found.change.ravel(),
        found.confidence.ravel(),
        measured,
        {kind: one for kind, one in lines.items() if kind in measured},
        "mean change of its probability",
        found.protocol,
        "The model predicts for the item that came next, and for as many unseen items as in "
        "training, whether it is liked. A false negative came next and was not predicted; a false "
        "positive was predicted and is unseen.",
        {
            kind: one
            for kind, one in found.by_attention(seed=context.seed).items()
            if one.count.any()
        },
    )


def _relative(shuffled: _Shuffled, seed: int) -> tuple[Measure, Measure]:
    """Return the change relative to the probability, and how often it is noticeable."""
    relative = shuffled.change / shuffled.confidence
    known = ~np.isnan(relative)
    if not known.any():
        raise InputError("No history has two items between which attention could be shuffled.")
    share = mean_over_users(
        relative[known],
        shuffled.users[known],
        f"mean over cases of |Δ probability| / probability of {shuffled.what}; {shuffled.protocol}",
        range=(0.0, float("inf")),
        seed=seed,
    )
    moves = mean_over_users(
        (relative[known] >= NOTICEABLE).astype(np.float64),
        shuffled.users[known],
        f"share of cases in which the probability of {shuffled.what} changes by {NOTICEABLE:.0%} "
        f"of itself or more; {shuffled.protocol}",
        seed=seed,
    )
    return share, moves


def _relative_figures(
    shuffled: _Shuffled, model: str, share: Measure, moves: Measure
) -> tuple[Figure, Figure]:
    return (
        Figure(
            "relative change",
            model,
            share,
            f"With shuffled attention, the probability of {shuffled.what} changes by "
            f"{percent(share.value)} of itself on average ({between(share)}).",
        ),
        Figure(
            f"{shuffled.cases} that change noticeably",
            model,
            moves,
            f"In {percent(moves.value)} of the {shuffled.cases} ({between(moves)}) it changes by "
            "a tenth of itself or more.",
        ),
    )


def _by_confidence(shuffled: _Shuffled) -> str:
    """Say what the change is at the lowest and the highest confidence."""
    every = shuffled.lines["all"]
    filled = np.flatnonzero(every.count)
    if len(filled) < 2:
        return ""
    least, most = (percent(float(every.mean[place])) for place in filled[[0, -1]])
    return f". The {shuffled.y_title} is {least} at the lowest confidence and {most} at the highest"


def _chart(shuffled: _Shuffled) -> Chart:
    return Chart(
        "bins",
        shuffled.y_title,
        f"How much shuffled attention changes the probability of {shuffled.what}, by the model's "
        "confidence. If a line falls to the right, attention matters least where the model is most "
        "confident. Bands are 95 % intervals over users.",
        tuple(
            {"panel": shuffled.y_title, "line": kind, **row}
            for kind, one in shuffled.lines.items()
            for row in one.rows()
        ),
        across=f"confidence in {shuffled.what}",
    )


def _by_attention(shuffled: _Shuffled) -> Chart:
    """Return the chart of Figure 2.15 of Jain (2019)."""
    y_title = "median change of its probability"
    return Chart(
        "bins",
        y_title,
        "How much a median shuffle changes the probability of the prediction, by the share of "
        "attention that the most attended item gets. If a line does not rise to the right, "
        "attention to one item matters no more than attention that is spread over many. Bands are "
        "95 % intervals over users.",
        tuple(
            {"panel": y_title, "line": kind, **row}
            for kind, one in shuffled.by_attention.items()
            for row in one.rows()
        ),
        across="largest share of the attention",
    )


def _change_figure(kind: str, model: str, change: Measure) -> Figure:
    only = "" if kind == "all" else f", {kind} only"
    return Figure(
        f"change of probability{only}",
        model,
        change,
        f"In absolute terms the probability changes by {points(change.value)} "
        f"({points_between(change)}){only}.",
    )


def _spread(model: str, attention: Explanation) -> Figure:
    """Return over how many items attention is spread: 2 to its entropy in bits."""
    items = mean_over_cases(
        2 ** entropy(attention.magnitude(), attention.parts),
        f"mean over histories of 2 to the entropy in bits of {EXPLAINER}",
        "neither",
        (1.0, math.inf),
    )
    counts = attention.parts.sum(axis=1)
    return Figure(
        "items that share the attention",
        model,
        items,
        f"Attention is spread as if {rounded(items, 1)} items of a history shared it equally; a "
        f"history has {counts[counts > 0].mean():.1f} items on average.",
    )


def _most_attended(context: AuditContext, attention: Explanation) -> Table:
    """Return what "because you chose …" would name for the first users."""
    shares = favour_shares(attention[:EXAMPLES])
    most = shares.argmax(axis=1)
    rows = np.arange(len(most))
    items = context.batch[:EXAMPLES].cpu().numpy()[rows, most]
    catalog = context.run.catalog
    named = zip(
        catalog.labels(context.targets[:EXAMPLES].tolist()),
        catalog.labels(items),
        shares[rows, most].tolist(),
        strict=True,
    )
    return Table(
        "The reason that attention would give to the first users",
        ("most attended item", "its share"),
        tuple((target, item, percent(share)) for target, item, share in named),
    )


def _answer(share: float) -> Answer:
    return "yes" if share >= NEARLY_ALL else "partly" if share >= HALF else "no"


STAGES.add(
    "permutation",
    Stage(
        "Attention",
        "Does it matter which items get the attention?",
        find_permutation,
        (
            "shuffling changes the probability by a tenth or more in nine of ten histories",
            "in half of them",
            "in fewer",
        ),
        needs=ATTENTION,
    ),
    place=90,
)
