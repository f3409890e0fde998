"""A trained network on sessions it has not seen: how right it is, and what it says it used."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from whence.devices import deterministic
from whence.errors import InputError
from whence.experts import PLOTTED, Selection, SequentialModel
from whence.sessions.accuracy import SkipScores, join_scores, score_skips
from whence.sessions.batches import BATCH, batches
from whence.sessions.files import SessionFiles
from whence.sessions.halves import Halves
from whence.sessions.logs import SLOTS
from whence.sessions.tracks import Tracks
from whence.skips.attribution import Attribution, attribution_of, join_attributions
from whence.skips.tensors import question_of

ATTRIBUTED = 20_000
"""Sessions whose attributions are looked at, as in Figure 8 of Afchar & Hennequin (2020)."""


@dataclass(frozen=True, eq=False)
class Evaluated:
    """Of all sessions the scores, and of the first the attributions, where there are experts."""

    scores: SkipScores
    attribution: Attribution | None
    """By the selection that predictions are mixed by."""
    plotted: Attribution | None
    """By the one that the paper plots."""


def evaluate(
    model: SequentialModel,
    files: SessionFiles,
    tracks: Tracks,
    attributed: int = ATTRIBUTED,
    batch: int = BATCH,
    slots: int = SLOTS,
) -> Evaluated:
    """In one reading of the files, a batch at a time, with so many slots for each half."""
    scores: list[SkipScores] = []
    used: list[Attribution] = []
    plotted: list[Attribution] = []
    left = attributed if len(model.family) > 1 else 0
    for halves in batches(files, tracks, batch, slots=slots):
        scores.append(score_skips(predict_skips(model, halves) > 0, halves))
        if left:
            used.append(attribute_skips(model, halves[:left]))
            plotted.append(attribute_skips(model, halves[:left], PLOTTED))
            left -= min(left, len(halves))
    if not scores:
        raise InputError("There are no sessions to evaluate on.")
    together = [join_attributions(some) if some else None for some in (used, plotted)]
    return Evaluated(join_scores(scores), *together)


@torch.no_grad()
def predict_skips(
    model: SequentialModel, halves: Halves
) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """`[B, slots]`: the logit of a skip for every asked slot."""
    device = next(model.parameters()).device
    question = question_of(halves, device)
    with deterministic(str(device)):
        logits = model.scores(question.known, question.asked)[..., 1]
    return logits.cpu().numpy()


@torch.no_grad()
def attribute_skips(
    model: SequentialModel, halves: Halves, selection: Selection | None = None
) -> Attribution:
    """Of the tracks there are, session after session, by the network's selection or another."""
    device = next(model.parameters()).device
    question = question_of(halves, device)
    with deterministic(str(device)):
        selected = model.attribute(question.known, question.asked, selection).cpu().numpy()
    return attribution_of(selected, halves)
