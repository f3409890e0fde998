"""Necessity of named items: what recommendations lose without them, and without random others.

For each recommendation as many other items of the same history are drawn as its sentence names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Final

import torch
import torch.nn.functional as F
from torch import Tensor

from whence.contract import PAD
from whence.memory import row_slices
from whence.randomness import Randomness
from whence.reasons.altered import candidates_of
from whence.reasons.reasoner import Reasoner
from whence.reasons.shown import Shown
from whence.trust.sentences.said import LARGEST_SET, Histories, Said

DRAWS: Final = 5
"""How often random items are drawn for a recommendation."""
AT_ONCE: Final = 256
"""How many recommendations are tested at a time."""


@dataclass(frozen=True, eq=False)
class Necessity:
    """What N recommendations, whose sentences name items, lose without these."""

    lost: Tensor
    """`[N]`: see `share_lost`."""
    lost_at_random: Tensor
    """`[N]`: the mean over draws of the same without as many other items."""
    rank_with: Tensor
    """`[N]`: the rank with all items, from 1."""
    rank: Tensor
    """`[N]`: the rank without the named items."""
    rank_at_random: Tensor
    """`[N, DRAWS]`."""
    matched: Tensor
    """Bool `[N]`: whether the history has as many other items; otherwise none were drawn."""

    def left(self, list_size: int) -> tuple[Tensor, Tensor]:
        """Return which leave a list without the named items, and the share of draws that do."""
        return self.rank > list_size, (self.rank_at_random > list_size).double().mean(dim=1)


def share_lost(nats: Tensor) -> Tensor:
    """Return the share of a probability that is lost with this log-probability, from −1 to 1.

    What is gained is negative, as a share of the larger probability, so that no case outweighs all
    others.
    """
    return -nats.sign() * torch.expm1(-nats.abs())


@torch.no_grad()
def necessity(reasoner: Reasoner, histories: Histories, said: Said, seed: int) -> Necessity:
    """Test recommendations whose sentences name items, for the histories of all users."""
    every = list(_tested(reasoner, histories, said, seed))
    return Necessity(
        **{
            one.name: torch.cat([getattr(own, one.name) for own in every])
            for one in fields(Necessity)
        }
    )


def _tested(reasoner: Reasoner, histories: Histories, said: Said, seed: int) -> Iterator[Necessity]:
    generator = Randomness(seed).torch("explain")
    for rows in row_slices(len(said), AT_ONCE):
        named, of_users = said.named[rows], histories[said.user[rows]]
        candidates = candidates_of(of_users.longer, reasoner.slots)
        others, matched = _draw(candidates, named, generator)
        gone = torch.cat((torch.full_like(named[:, None], PAD), named[:, None], others), dim=1)
        items = of_users.longer[:, None, :]
        kept = (items[..., None] != gone[:, :, None, :]).all(dim=3) | (items == PAD)
        shown = Shown(
            reasoner.models,
            of_users.longer,
            said.target[rows, None],
            of_users.seen,
            reasoner.slots,
            reasoner.removal,
        )
        found = shown.own_target(kept[:, None])
        log_probability = found.log_probability[:, :, 0].mean(dim=0)  # [N, 2 + DRAWS]
        lost = share_lost((log_probability[:, :1] - log_probability[:, 1:]).double())
        rank = found.rank[:, 0]
        ranks = (rank[:, 0], rank[:, 1], rank[:, 2:])
        yield Necessity(lost[:, 0], lost[:, 1:].mean(dim=1), *ranks, matched)


def _draw(candidates: Tensor, named: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return `[N, DRAWS, LARGEST_SET]` candidates that are not named, as many as are named.

    If a history has fewer, none are drawn, and the second result is false.
    """
    count, slots = candidates.shape
    eligible = (candidates != PAD) & (candidates[..., None] != named[:, None, :]).all(dim=2)
    size = (named != PAD).sum(dim=1)
    matched = eligible.sum(dim=1) >= size
    lottery = torch.rand((count, DRAWS, slots), generator=generator).to(candidates.device)
    chosen = lottery.where(eligible[:, None], -1.0).topk(min(LARGEST_SET, slots), dim=2).indices
    others = candidates[:, None].expand(-1, DRAWS, -1).gather(2, chosen)
    place = torch.arange(others.shape[2], device=others.device)
    wanted = (place < size[:, None]) & matched[:, None]
    drawn = others.where(wanted[:, None], PAD)
    return F.pad(drawn, (0, LARGEST_SET - others.shape[2]), value=PAD), matched
