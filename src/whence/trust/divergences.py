"""Divergences: how far apart are two distributions over all items, in nats?"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

from torch import Tensor

from whence.errors import InputError, did_you_mean

FAR: Final = 40.0
"""Of two probabilities whose logarithms are this far apart, the lesser is as good as 0."""


class Divergence(NamedTuple):
    """From log-probabilities `[…, items]` twice to `[…]`, and the most that can come out."""

    between: Callable[[Tensor, Tensor], Tensor]
    most: float


def symmetrised_kl(log_p: Tensor, log_q: Tensor) -> Tensor:
    """(KL(P‖Q) + KL(Q‖P)) / 2 = Σ (p − q)(log p − log q) / 2.

    Baumhauer (2021) prints it as JS, which it is not: it is half of Jeffreys' divergence, and has
    no upper bound. In this form no term is below 0, so that small ones are not lost in rounding.
    """
    difference = log_p.exp() - log_q.exp()
    terms = difference * (log_p - log_q)
    return terms.masked_fill_(difference == 0, 0).sum(dim=-1).double() / 2


def jensen_shannon(log_p: Tensor, log_q: Tensor) -> Tensor:
    """(KL(P‖M) + KL(Q‖M)) / 2 with M = (P + Q) / 2; at most ln 2.

    With a = |log p − log q| an item brings (p + q)/4 · (a·tanh(a/2) − 2·log cosh(a/2)), which is
    never below 0; log cosh(x) is taken as log(1 + 2·sinh²(x/2)), exact where a is small.
    """
    total = log_p.exp() + log_q.exp()
    apart = (log_p - log_q).abs_().clamp_(max=FAR)
    cosh = (apart / 4).sinh_().square_().mul_(2).log1p_()
    terms = total * (apart * (apart / 2).tanh_() - 2 * cosh)
    return (terms.masked_fill_(total == 0, 0).sum(dim=-1).double() / 4).clamp(max=math.log(2))


DIVERGENCES: dict[str, Divergence] = {
    "symmetrised KL": Divergence(symmetrised_kl, math.inf),
    "Jensen-Shannon": Divergence(jensen_shannon, math.log(2)),
}


def find_divergence(name: str) -> Divergence:
    """The one of that name."""
    if name not in DIVERGENCES:
        raise InputError(f"There is no divergence '{name}': {did_you_mean(name, DIVERGENCES)}")
    return DIVERGENCES[name]
