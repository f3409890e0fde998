"""A trained network on sessions it has not seen: how right it is, and what it says it used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from whence.arrays import Bools, Floats
from whence.devices import deterministic
from whence.errors import InputError
from whence.experts import PLOTTED, InterpretableTransformer, Selection, SequentialModel
from whence.memory import row_slices
from whence_studies.sessions.halves import Halves
from whence_studies.sessions.logs import SLOTS
from whence_studies.sessions.session_batches import BATCH, batches
from whence_studies.sessions.session_files import SessionFiles
from whence_studies.sessions.skip_accuracy import SkipScores, join_scores, score_skips
from whence_studies.sessions.tracks import Tracks
from whence_studies.skips.skip_attribution import Attribution, attribution_of, join_attributions

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


# A batch of sessions where the network lives.


class Question(NamedTuple):
    """Both halves, what became of the second, and where it has tracks."""

    known: Tensor
    asked: Tensor
    skipped: Tensor
    there: Tensor


def question_of(halves: Halves, device: torch.device | str) -> Question:
    """As tensors."""
    arrays = (halves.known, halves.asked, halves.skipped, halves.asked_there)
    return Question(*(torch.from_numpy(one).to(device) for one in arrays))


# Which tracks of the first half a Transformer looks at when it answers for one of the second.


def looks_of_skips(model: InterpretableTransformer, sessions: Halves) -> Floats:
    """`[layers, N, slots]`: attention to the slots of the first half, for each track asked about.

    It is the mean over an expert's heads, and of experts the sum, each as far as it is selected; so
    the attention of an expert that has no part in the answer does not count. Only its shares mean
    something. An ordinary network has one expert, and all is the mean over its heads.
    """
    if not len(sessions):
        raise InputError("There are no sessions whose tracks could be looked at; give one.")
    pieces = [_looks(model, sessions[rows]) for rows in row_slices(len(sessions), BATCH)]
    return np.concatenate(pieces, axis=1)


def tracks_looked_at(sessions: Halves) -> Bools:
    """`[N, slots]`: which slots of the first half hold a track, for each track asked about."""
    return sessions.known_there[np.nonzero(sessions.asked_there)[0]]


@torch.no_grad()
def _looks(model: InterpretableTransformer, sessions: Halves) -> Floats:
    device = next(model.parameters()).device
    question = question_of(sessions, device)
    with deterministic(str(device)):
        selected = model.attribute(question.known, question.asked)
        looks = torch.stack(model.cross_attentions(question.known, question.asked)).mean(dim=3)
        mixed = torch.einsum("lbhnm,bnh->lbnm", looks.double(), selected.double())
    found: Floats = mixed[:, question.there].cpu().numpy()
    return found
