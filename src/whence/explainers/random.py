"""Random scores: the control that every explainer must beat."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from whence.arrays import Bools, Floats
from whence.explainers.base import EXPLAINERS, Attribution, Explainer, Request
from whence.randomness import Randomness, keys_by_content, uniform_by_content


@dataclass(frozen=True)
class Random(Explainer):
    """A uniform number for each part, the same for the same case and seed."""

    method = "random"
    needs = ("parts",)
    signed = False
    control = True
    cost = "0"
    summary = "Nothing: random numbers, to compare the others with."

    def __call__(self, request: Request) -> Attribution:
        """Draw by the case's content and its target."""
        stream = Randomness(request.seed).sequence("explain")
        drawn = uniform_by_case(stream, request.batch, request.parts, request.targets)
        return Attribution(torch.from_numpy(drawn).to(request.batch.device), evaluations=0)


def uniform_by_case(
    stream: np.random.SeedSequence, batch: Tensor, parts: Tensor, targets: Tensor | None = None
) -> Floats:
    """Return `[B, n]`: a number in [0, 1) for every part, the same for the same case; else 0.

    A case is the integers in its part slots. In a batch of real numbers it is all columns, bit by
    bit. A target `[B]` counts as one more slot, before the others.
    """
    drawn = uniform_by_content(stream, *_content(batch, parts, targets))
    first = 0 if targets is None else 1
    kept = drawn[:, first : first + parts.shape[1]]
    return np.where(parts.cpu().numpy(), kept, 0.0)


def key_by_case(
    stream: np.random.SeedSequence, batch: Tensor, parts: Tensor, targets: Tensor
) -> npt.NDArray[np.uint64]:
    """Return `[B]`: a key of 64 bits, the same for the same case and target."""
    return keys_by_content(stream, *_content(batch, parts, targets))


def _content(
    batch: Tensor, parts: Tensor, targets: Tensor | None
) -> tuple[npt.NDArray[np.int64], Bools]:
    """Return the integers of each case, and which of them count."""
    rows, used = batch, parts
    if batch.is_floating_point():
        rows = batch.double().view(torch.int64)
        used = torch.ones_like(rows, dtype=torch.bool)
    if targets is not None:
        rows = torch.column_stack((targets, rows))
        used = torch.column_stack((torch.ones_like(targets, dtype=torch.bool), used))
    return rows.cpu().numpy(), used.cpu().numpy()


EXPLAINERS.add("random", Random(), tags=("usual", "audit"), place=900)
