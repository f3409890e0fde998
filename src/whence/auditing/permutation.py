"""Permutation: attention that can be shuffled without effect cannot be the reason."""

from __future__ import annotations

from typing import Final

import numpy as np

from whence.auditing.audited import Audited
from whence.auditing.finding import Answer, Figure, Finding
from whence.auditing.words import between, percent
from whence.errors import InputError
from whence.measure import mean_measure
from whence.trust import attention_permutation

REPEATS: Final = 20
MUCH: Final = 0.5
LITTLE: Final = 0.1
"""Of its probability that the first recommendation must change by for attention to decide it."""


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
        relative[known] >= LITTLE,
        f"share of cases whose top item's probability changes by {LITTLE:.0%} of itself or more; "
        f"{found.protocol}",
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
                f"In plain probability that is a change of {percent(change.value)} "
                f"({between(change)}).",
            ),
        ),
        notes=(
            "The weights of the row that answers are shuffled among the items of a history, in "
            f"all blocks alike, {REPEATS} times for each of {int(known.sum()):,} histories. Where "
            "nothing changes, explanations from attention explain nothing. The first "
            "recommendation is here the most probable of all items, met or not.",
        ),
    )


def _answer(share: float) -> Answer:
    return "yes" if share >= 1 - LITTLE else "partly" if share >= MUCH else "no"
