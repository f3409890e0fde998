"""Permutation: attention that can be shuffled without effect cannot be the reason."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from whence.auditing.audited import Audited
from whence.auditing.finding import Answer, Figure, Finding
from whence.auditing.words import between, percent, points, points_between, rounded
from whence.errors import InputError
from whence.explainers import explain_batch
from whence.measure import mean_measure
from whence.trust import attention_permutation, entropy
from whence.trust.cases import mean_over_cases

REPEATS: Final = 20
ATTENTION: Final = "attention-last"
NOTICEABLE: Final = 0.1
"""Share of its own probability by which the first recommendation changes where attention counts."""
NEARLY_ALL: Final = 0.9
"""Share of the histories in which it does so, from which the answer is yes."""
HALF: Final = 0.5
"""The same for partly."""


def permutation(audited: Audited) -> Finding:
    """Shuffle among the items what the answering row attends to, and ask again."""
    found = attention_permutation(
        audited.model,
        audited.batch,
        repeats=REPEATS,
        seed=audited.seed,
        memory=audited.memory,
    )
    relative = found.top / found.confidence
    known = ~np.isnan(relative)
    if not known.any():
        raise InputError("No history has two items whose attention could change places.")
    share = mean_measure(
        relative[known],
        f"mean over cases of |Δ probability| / probability of the top item; {found.protocol}",
        range=(0.0, float("inf")),
    )
    moves = mean_measure(
        relative[known] >= NOTICEABLE,
        f"share of cases whose top item's probability changes by {NOTICEABLE:.0%} of itself or "
        f"more; {found.protocol}",
    )
    change = found.top_measure()
    model = audited.run.model
    return Finding(
        answer=_answer(moves.value),
        summary=f"Shuffling which items get the attention changes the probability of the first "
        f"recommendation by {percent(share.value)} of itself on average, and noticeably, by a "
        f"tenth or more, in {percent(moves.value)} of the histories.",
        figures=(
            Figure(
                "relative change",
                model,
                share,
                f"With shuffled attention, the probability of the first recommendation changes by "
                f"{percent(share.value)} of itself on average ({between(share)}).",
            ),
            Figure(
                "histories where it matters",
                model,
                moves,
                f"In {percent(moves.value)} of the histories ({between(moves)}) it changes by a "
                "tenth of itself or more.",
            ),
            Figure(
                "change of probability",
                model,
                change,
                f"In plain probability that is a change of {points(change.value)} "
                f"({points_between(change)}).",
            ),
            _spread(audited),
        ),
        notes=(
            "The weights of the row that answers are shuffled among the items of a history, in "
            f"all blocks alike, {REPEATS} times for each of {int(known.sum()):,} histories. Where "
            "nothing changes, explanations from attention explain nothing. The first "
            "recommendation is here the most probable of all items, met or not.",
        ),
    )


def _spread(audited: Audited) -> Figure:
    """On how many items attention rests: two to the power of its entropy in bits."""
    attention = explain_batch(
        audited.model,
        audited.batch,
        audited.targets,
        ATTENTION,
        audited.seed,
        memory=audited.memory,
    )
    items = mean_over_cases(
        2 ** entropy(attention.magnitude(), attention.parts),
        f"mean over histories of 2 to the entropy in bits of {ATTENTION}",
        "neither",
        (1.0, math.inf),
    )
    counts = attention.parts.sum(axis=1)
    return Figure(
        "items that attention rests on",
        audited.run.model,
        items,
        f"Attention rests on {rounded(items, 1)} items of a history, counted as so many that share "
        f"it evenly; a history has {counts[counts > 0].mean():.1f}.",
    )


def _answer(share: float) -> Answer:
    return "yes" if share >= NEARLY_ALL else "partly" if share >= HALF else "no"
