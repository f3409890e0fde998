"""Evaluate a trained network on unseen sessions: its accuracy, and what it says it used."""

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
from whence_studies.skips.skip_attribution import (
    SkipAttribution,
    attribution_of,
    concat_attributions,
)

ATTRIBUTED = 20_000
"""Number of sessions whose attributions are stored, as in Figure 8 of Afchar & Hennequin (2020)."""


@dataclass(frozen=True, eq=False)
class SkipEvaluation:
    """The scores of all sessions, and the attributions of the first ones if there are experts."""

    scores: SkipScores
    attribution: SkipAttribution | None
    """By the selection that mixes the predictions."""
    plotted: SkipAttribution | None
    """By the selection that the paper plots."""


def evaluate(
    model: SequentialModel,
    files: SessionFiles,
    tracks: Tracks,
    attributed: int = ATTRIBUTED,
    batch_size: int = BATCH,
    slots: int = SLOTS,
) -> SkipEvaluation:
    """Evaluate in one pass over the files, with `slots` per half."""
    scores: list[SkipScores] = []
    used: list[SkipAttribution] = []
    plotted: list[SkipAttribution] = []
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
    """Return the logit of a skip for every upcoming slot, `[B, slots]`."""
    device = next(model.parameters()).device
    tensors = session_tensors(batch, device)
    with deterministic(str(device)):
        logits = model.scores(tensors.known, tensors.upcoming)[..., 1]
    return logits.cpu().numpy()


@torch.no_grad()
def attribute_skips(
    model: SequentialModel, batch: SessionBatch, selection: Selection | None = None
) -> SkipAttribution:
    """Return the selections for all tracks, by the network's own or another `selection`."""
    device = next(model.parameters()).device
    tensors = session_tensors(batch, device)
    with deterministic(str(device)):
        selected = model.attribute(tensors.known, tensors.upcoming, selection).cpu().numpy()
    return attribution_of(selected, batch)


class SessionTensors(NamedTuple):
    """Both halves, whether the tracks of the second were skipped, and its mask."""

    known: Tensor
    upcoming: Tensor
    skipped: Tensor
    mask: Tensor


def session_tensors(batch: SessionBatch, device: torch.device | str) -> SessionTensors:
    """Return a batch as tensors on the device."""
    arrays = (batch.known, batch.upcoming, batch.skipped, batch.upcoming_mask)
    return SessionTensors(*(torch.from_numpy(one).to(device) for one in arrays))


def cross_attention(model: InterpretableTransformer, sessions: SessionBatch) -> Floats:
    """Return the attention to the first half for each upcoming track, `[layers, N, slots]`.

    It is the mean over an expert's heads, summed over experts with their selections as weights. So
    an expert without a part in the prediction does not count, and only shares are meaningful. For
    an ordinary network it is the mean over its heads.
    """
    if not len(sessions):
        raise InputError("There are no sessions. Pass at least one.")
    pieces = [_cross_attention(model, sessions[rows]) for rows in row_slices(len(sessions), BATCH)]
    return np.concatenate(pieces, axis=1)


def known_tracks(sessions: SessionBatch) -> Bools:
    """Return which slots of the first half hold a track, for each upcoming track, `[N, slots]`."""
    return sessions.known_mask[np.nonzero(sessions.upcoming_mask)[0]]


@torch.no_grad()
def _cross_attention(model: InterpretableTransformer, sessions: SessionBatch) -> Floats:
    device = next(model.parameters()).device
    tensors = session_tensors(sessions, device)
    with deterministic(str(device)):
        selected = model.attribute(tensors.known, tensors.upcoming)
        attention = torch.stack(model.cross_attentions(tensors.known, tensors.upcoming)).mean(dim=3)
        mixed = torch.einsum("lbhnm,bnh->lbnm", attention.double(), selected.double())
    found: Floats = mixed[:, tensors.mask].cpu().numpy()
    return found
