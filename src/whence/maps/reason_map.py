"""One history and several targets: what each target is recommended for, as a map and in words.

It generalizes the attention map of one user (Jain 2019, Figure 2.14) to any explainer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np
import torch

from whence.arrays import Floats
from whence.contract import PAD
from whence.data.catalog import Catalog
from whence.data.histories import Cases
from whence.devices import device_of
from whence.errors import InputError
from whence.explainers import explain_batch
from whence.explanation import Explanation, Labels
from whence.models import Recommender
from whence.models.base import require_history

NAMED: Final = 2
"""How many items a sentence names."""
MOST: Final = 0.5
"""Named items with at least this share of the importance are called "mostly"."""


def reason_map(
    model: Recommender,
    case: Cases,
    targets: Sequence[int],
    catalog: Catalog,
    method: str = "attention-last",
    seed: int = 0,
) -> Explanation:
    """Return the importance of each item of one history for each target, one case per target."""
    if len(case) != 1 or not targets:
        raise InputError(
            f"A map of reasons needs one history and at least one target, not {len(case)} and "
            f"{len(targets)}."
        )
    require_history(model, "a map of reasons")
    device = device_of(model)
    batch = model.read(case, model.config.max_len)
    slots = batch[0].tolist()
    titles = iter(catalog.labels([item for item in slots if item != PAD]))
    parts = tuple("" if item == PAD else next(titles) for item in slots)
    labels = Labels((parts,) * len(targets), tuple(catalog.labels(targets)))
    several = batch.expand(len(targets), -1).to(device)
    asked = torch.tensor(targets, device=device)
    return explain_batch(model, several, asked, method, seed, labels)


def reason_sentences(explanation: Explanation, named: int = NAMED) -> list[str]:
    """Return a sentence for each target, or one for all if the target makes no difference."""
    shares = favour_shares(explanation)
    if len(shares) > 1 and (explanation.scores == explanation.scores[0]).all():
        return [_sentence("Whatever the target", explanation, 0, shares[0], named)]
    return [
        _sentence(f"For *{explanation.target_name(case)}*", explanation, case, own, named)
        for case, own in enumerate(shares)
    ]


def favour_shares(explanation: Explanation) -> Floats:
    """Return `[B, n]`: each part's share of all positive importance, or 0 if there is none."""
    favour = np.where(explanation.parts, explanation.scores, 0.0).clip(min=0)
    total = favour.sum(axis=1, keepdims=True)
    shares: Floats = favour / np.where(total > 0, total, 1.0)
    return shares


def _sentence(about: str, explanation: Explanation, case: int, shares: Floats, named: int) -> str:
    """Return one sentence; an item that occurs several times is named once, with its total."""
    by_title: Counter[str] = Counter()
    for slot in np.flatnonzero(shares).tolist():
        by_title[explanation.part_name(case, slot)] += shares[slot]
    first = by_title.most_common(named)
    if not first:
        return f"{about}, nothing in this history counts for it."
    listed = " and ".join(f"*{title}* ({100 * share:.0f} %)" for title, share in first)
    much = sum(share for _, share in first) >= MOST
    return f"{about}, {'mostly' if much else 'a little of everything, first'} {listed}."
