"""A batch of sessions where the network lives."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from whence.sessions.halves import Halves


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
