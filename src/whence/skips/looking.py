"""Which tracks of the first half a Transformer looks at when it answers for one of the second."""

from __future__ import annotations

import numpy as np
import torch

from whence.devices import deterministic
from whence.errors import InputError
from whence.experts import InterpretableTransformer
from whence.explanation import Floats
from whence.memory import row_slices
from whence.sessions.batches import BATCH
from whence.sessions.halves import Flags, Halves
from whence.skips.tensors import question_of


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


def tracks_looked_at(sessions: Halves) -> Flags:
    """`[N, slots]`: which slots of the first half hold a track, for each track asked about."""
    return sessions.known_there[np.nonzero(sessions.asked_there)[0]]


@torch.no_grad()
def _looks(model: InterpretableTransformer, sessions: Halves) -> Floats:
    device = next(model.parameters()).device
    question = question_of(sessions, device)
    with deterministic(str(device)):
        selected = model.attribute(question.known, question.asked)
        looks = torch.stack(model.looks(question.known, question.asked)).mean(dim=3)
        mixed = torch.einsum("lbhnm,bnh->lbnm", looks.double(), selected.double())
    found: Floats = mixed[:, question.there].cpu().numpy()
    return found
