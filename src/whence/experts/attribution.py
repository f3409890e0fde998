"""Attribution accuracy: is the expert most selected the one that is known to suffice?"""

from __future__ import annotations

from torch import Tensor

from whence.errors import InputError
from whence.measure import Measure, mean_measure


def attribution_accuracy(attribution: Tensor, known: Tensor) -> Measure:
    """Of selections `[B, H]` and the numbers of the known experts `[B]`.

    Where several experts are selected equally, a case counts with the share of them that is right.
    """
    if known.shape != attribution.shape[:1] or not len(known):
        raise InputError(
            f"Selections of {len(attribution)} cases do not answer to {len(known)} known experts."
        )
    first = attribution == attribution.max(dim=1, keepdim=True).values
    right = first.gather(1, known[:, None])[:, 0] / first.sum(dim=1)
    return mean_measure(right.cpu().numpy(), "the expert most selected is the known one")


def accuracy(scores: Tensor, truth: Tensor) -> Measure:
    """How often the class with the highest score `[B, K]` is the true one `[B]`."""
    if truth.shape != scores.shape[:1]:
        raise InputError(f"Scores of {len(scores)} cases do not answer to {len(truth)} truths.")
    right = scores.argmax(dim=1) == truth
    return mean_measure(right.cpu().numpy(), "the class of the highest score is the true one")
