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
from whence_studies.sessions.logs import SLOTS
from whence_studies.sessions.session_batches import BATCH, SessionBatch, batches
from whence_studies.sessions.session_files import SessionFiles
from whence_studies.sessions.skip_accuracy import SkipScores, concat_scores, score_skips
from whence_studies.sessions.tracks import Tracks
from whence_studies.skips.skip_attribution import Attribution, attribution_of, concat_attributions

ATTRIBUTED = 20_000
"""Sessions whose attributions are looked at, as in Figure 8 of Afchar & Hennequin (2020)."""


@dataclass(frozen=True, eq=False)
class SkipEvaluation:
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
    batch_size: int = BATCH,
    slots: int = SLOTS,
) -> SkipEvaluation:
    """In one reading of the files, a batch at a time, with so many slots for each half."""
    scores: list[SkipScores] = []
    used: list[Attribution] = []
    plotted: list[Attribution] = []
    left = attributed if len(model.family) > 1 else 0
    for batch in batches(files, tracks, batch_size, slots=slots):
        scores.append(score_skips(predict_skips(model, batch) > 0, batch))
        if left:
            used.append(attribute_skips(model, batch[:left]))
            plotted.append(attribute_skips(model, batch[:left], PLOTTED))
            left -= min(left, len(batch))
    if not scores:
        raise InputError("There are no sessions to evaluate on.")
    together = [concat_attributions(some) if some else None for some in (used, plotted)]
    return SkipEvaluation(concat_scores(scores), *together)


@torch.no_grad()
def predict_skips(
    model: SequentialModel, batch: SessionBatch
) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """`[B, slots]`: the logit of a skip for every asked slot."""
    device = next(model.parameters()).device
    tensors = session_tensors(batch, device)
    with deterministic(str(device)):
        logits = model.scores(tensors.known, tensors.upcoming)[..., 1]
    return logits.cpu().numpy()


@torch.no_grad()
def attribute_skips(
    model: SequentialModel, batch: SessionBatch, selection: Selection | None = None
) -> Attribution:
    """Of the tracks there are, session after session, by the network's selection or another."""
    device = next(model.parameters()).device
    tensors = session_tensors(batch, device)
    with deterministic(str(device)):
        selected = model.attribute(tensors.known, tensors.upcoming, selection).cpu().numpy()
    return attribution_of(selected, batch)


# A batch of sessions where the network lives.


class SessionTensors(NamedTuple):
    """Both batch, what became of the second, and where it has tracks."""

    known: Tensor
    upcoming: Tensor
    skipped: Tensor
    mask: Tensor


def session_tensors(batch: SessionBatch, device: torch.device | str) -> SessionTensors:
    """As tensors."""
    arrays = (batch.known, batch.upcoming, batch.skipped, batch.upcoming_mask)
    return SessionTensors(*(torch.from_numpy(one).to(device) for one in arrays))


# Which tracks of the first half a Transformer looks at when it answers for one of the second.


def cross_attention(model: InterpretableTransformer, sessions: SessionBatch) -> Floats:
    """`[layers, N, slots]`: attention to the slots of the first half, for each track asked about.

    It is the mean over an expert's heads, and of experts the sum, each as far as it is selected; so
    the attention of an expert that has no part in the answer does not count. Only its shares mean
    something. An ordinary network has one expert, and all is the mean over its heads.
    """
    if not len(sessions):
        raise InputError("There are no sessions whose tracks could be looked at; give one.")
    pieces = [_looks(model, sessions[rows]) for rows in row_slices(len(sessions), BATCH)]
    return np.concatenate(pieces, axis=1)


def known_tracks(sessions: SessionBatch) -> Bools:
    """`[N, slots]`: which slots of the first half hold a track, for each track asked about."""
    return sessions.known_mask[np.nonzero(sessions.upcoming_mask)[0]]


@torch.no_grad()
def _looks(model: InterpretableTransformer, sessions: SessionBatch) -> Floats:
    device = next(model.parameters()).device
    tensors = session_tensors(sessions, device)
    with deterministic(str(device)):
        selected = model.attribute(tensors.known, tensors.upcoming)
        looks = torch.stack(model.cross_attentions(tensors.known, tensors.upcoming)).mean(dim=3)
        mixed = torch.einsum("lbhnm,bnh->lbnm", looks.double(), selected.double())
    found: Floats = mixed[:, tensors.mask].cpu().numpy()
    return found
