"""What importances of two seeds would differ by, if they knew nothing of each other's cases."""

from __future__ import annotations

import numpy as np

from whence.errors import InputError
from whence.explanation import Floats
from whence.trust.cases import Bools


def of_other_cases(importances: Floats, having: Bools, rng: np.random.Generator) -> Floats:
    """`[S, B, n]`: each seed's importances dealt anew among cases that have the same, `[B, m]`.

    What cases have are their parts, or what else must be alike for two of them to be compared.

    Between these, two seeds differ as they do on two cases drawn at random. So to be near there
    needs no knowledge of the case, as where all attention goes to the newest part; and who is not
    nearer on the same case says nothing that is of the case. A case that has what no other
    has keeps its own.
    """
    if importances.ndim != 3 or having.ndim != 2 or importances.shape[1] != len(having):
        raise InputError(
            "Importances are [seeds, cases, slots] and what cases have [cases, m], not "
            f"{list(importances.shape)} and {list(having.shape)}."
        )
    kind = np.unique(having, axis=0, return_inverse=True)[1].reshape(-1)
    places = np.argsort(kind, kind="stable")
    found = np.empty_like(importances)
    for own, dealt in zip(importances, found, strict=True):
        order = rng.permutation(len(kind))
        dealt[places] = own[order[np.argsort(kind[order], kind="stable")]]
    return found
