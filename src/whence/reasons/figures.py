"""What a recommendation owes to its history, in log-probabilities: the evidence for a reason.

For every item of a history and every target: what the target loses without the item (necessity),
and what the item alone brings to it (sufficiency). The same for pairs of items, and for all items
of the target's group compared with as many others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import combinations
from typing import Final

import numpy as np
import torch
from torch import Tensor

from whence.contract import ALL, PAD
from whence.memory import cases_at_once, row_slices
from whence.models.base import CaseReader
from whence.reasons.altered import (
    candidates_of,
    keeping,
    others_at_random,
    without_each,
    without_sets,
)

REFERENCES: Final = 256
"""How many single items make up the average of what single items bring."""
PAIRED: Final = 24
"""Pairs are made of this many of the newest distinct items."""
CHECKED_PAIRS: Final = 4
"""How many pairs of a target are left out together, those that bring most beyond either item."""

BY_MODEL: Final = (
    "full",
    "usual",
    "lost",
    "alone",
    "pair_lost",
    "pair_alone",
    "group_lost",
    "others_lost",
    "group_alone",
)
"""The figures whose first dimension is that of the models."""


@dataclass(frozen=True, eq=False)
class Figures:
    """For U users, k targets, c candidate items and p pairs, by each of S models. In nats."""

    full: Tensor
    """`[S, U, k]`: log p(target | history)."""
    usual: Tensor
    """`[S, U, k]`: the mean of log p(target | one item), over items of the catalog."""
    candidates: Tensor
    """`[U, c]`: the items, or `PAD`."""
    lost: Tensor
    """`[S, U, k, c]`: what the target loses without the item."""
    alone: Tensor
    """`[S, U, k, c]`: what the item alone brings, above the usual."""
    pairs: Tensor
    """`[U, k, p, 2]`: places of candidates; equal places are no pair."""
    pair_lost: Tensor
    """`[S, U, k, p]`."""
    pair_alone: Tensor
    """`[S, U, k, p]`."""
    in_group: Tensor
    """Bool `[U, k, c]`: the candidates of the target's group."""
    group_lost: Tensor
    """`[S, U, k]`: what the target loses without its group."""
    others_lost: Tensor
    """`[S, U, k]`: what it loses without as many other items."""
    group_alone: Tensor
    """`[S, U, k]`: what its group alone brings, above the usual."""

    @staticmethod
    def joined(each: Sequence[Figures]) -> Figures:
        """Return the figures of several groups of users."""
        return Figures(
            **{
                one.name: torch.cat(
                    [getattr(own, one.name) for own in each], dim=int(one.name in BY_MODEL)
                )
                for one in fields(Figures)
            }
        )


@torch.no_grad()
def log_probabilities(model: CaseReader, histories: Tensor, targets: Tensor) -> Tensor:
    """Return `[R, k]`: the log-probability of targets `[R, k]` among all items, for `[R, n]`."""
    found = []
    at_once = max(1, 4 * cases_at_once(_item_count(model, histories), histories.is_cuda))
    for rows in row_slices(len(histories), at_once):
        scores = model.score(histories[rows], ALL)
        own = scores.gather(1, targets[rows])
        found.append(own - scores.logsumexp(dim=1, keepdim=True))
    return torch.cat(found)


def _item_count(model: CaseReader, histories: Tensor) -> int:
    return int(model.score(histories[:1], ALL).shape[1])


@torch.no_grad()
def usual_log_probabilities(model: CaseReader, item_count: int, device: torch.device) -> Tensor:
    """Return `[items]`: the mean of log p(target | one item), over items of the catalog."""
    each = np.unique(np.linspace(0, item_count - 1, REFERENCES).round().astype(np.int64))
    singles = torch.from_numpy(each).to(device)[:, None]
    total = torch.zeros(item_count, dtype=torch.float64, device=device)
    for rows in row_slices(len(singles), cases_at_once(item_count, singles.is_cuda)):
        total += model.score(singles[rows], ALL).double().log_softmax(dim=1).sum(dim=0)
    return total / len(singles)


@torch.no_grad()
def find_figures(
    models: Sequence[CaseReader],
    usual: Sequence[Tensor],
    histories: Tensor,
    targets: Tensor,
    groups: Tensor,
    slots: int,
) -> Figures:
    """Return the figures of targets `[U, k]` for histories `[U, w]`, by each model.

    `groups` is bool `[U, k, w]`: the slots whose items are of the target's group. `usual` has
    `usual_log_probabilities` of each model.
    """
    slots = min(slots, histories.shape[1])
    candidates = candidates_of(histories, slots)
    shown = _Shown(models, targets)
    full = shown(histories[:, None, -slots:])[..., 0]
    base = torch.stack([one[targets] for one in usual]).to(full.dtype)
    real = (candidates != PAD)[None, :, None, :]
    lost = full[..., None] - shown(without_each(histories, candidates, slots))
    alone = shown(candidates[:, :, None]) - base[..., None]
    lost, alone = lost.where(real, 0.0), alone.where(real, 0.0)
    # A taste is more than one item, so the strongest item is on neither side.
    strongest = candidates.gather(1, (lost + alone).mean(dim=0).argmax(dim=2))  # [U, k]
    apart = histories[:, None, :] != strongest[:, :, None]
    groups = groups & apart
    return Figures(
        full=full,
        usual=base,
        candidates=candidates,
        lost=lost,
        alone=alone,
        in_group=groups[:, :, -slots:] & (candidates != PAD)[:, None, :],
        **_of_pairs(shown, histories, candidates, full, base, alone),
        **_of_groups(shown, histories, groups, apart, full, base, slots),
    )


def _of_pairs(
    shown: _Shown,
    histories: Tensor,
    candidates: Tensor,
    full: Tensor,
    base: Tensor,
    alone: Tensor,
) -> dict[str, Tensor]:
    """Return the pairs that bring most beyond either item, and their figures."""
    (users, slots), k = candidates.shape, full.shape[2]
    first, second = _places(slots, histories.device)
    both = torch.stack((candidates[:, first], candidates[:, second]), dim=2)  # older, newer
    there = (both != PAD).all(dim=2)
    brought = shown(both) - base[..., None]
    larger = torch.maximum(alone[..., first], alone[..., second])
    beyond = (brought - larger).mean(dim=0).where(there[:, None, :], -torch.inf)
    best = beyond.topk(min(CHECKED_PAIRS, beyond.shape[2]), dim=2).indices  # [U, k, p]
    valid = there[:, None, :].expand(-1, k, -1).gather(2, best)
    pairs = torch.stack((first[best], second[best]), dim=3).where(valid[..., None], 0)
    sets = candidates.gather(1, pairs.flatten(1)).reshape(users, -1, 2)
    left = shown.own(without_sets(histories, sets, slots))
    chosen = brought.gather(3, best.expand(len(full), -1, -1, -1))
    return {
        "pairs": pairs,
        "pair_lost": (full[..., None] - left).where(valid, 0.0),
        "pair_alone": chosen.where(valid, 0.0),
    }


def _of_groups(
    shown: _Shown,
    histories: Tensor,
    groups: Tensor,
    apart: Tensor,
    full: Tensor,
    base: Tensor,
    slots: int,
) -> dict[str, Tensor]:
    """Return the figures of each target's group `[U, k, w]`; 0 if the history has none of it."""
    others = others_at_random(histories, groups, apart)
    variants = torch.stack((~groups, ~others, groups), dim=2)  # [U, k, 3, w]
    rows = keeping(histories[:, None, None, :], variants, slots).flatten(1, 2)
    without, without_others, alone = shown.own(rows).unbind(dim=3)
    any_of_it = (groups & (histories != PAD)[:, None, :]).any(dim=2)
    return {
        "group_lost": (full - without).where(any_of_it, 0.0),
        "others_lost": (full - without_others).where(any_of_it, 0.0),
        "group_alone": (alone - base).where(any_of_it, 0.0),
    }


def _places(slots: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the older and the newer place of every pair of the newest places."""
    first = max(0, slots - PAIRED)
    each = list(combinations(range(first, slots), 2)) or [(0, 0)]
    found = torch.tensor(each, device=device)
    return found[:, 0], found[:, 1]


class _Shown:
    """Log-probabilities of the targets `[U, k]` by each model, if users had altered histories."""

    def __init__(self, models: Sequence[CaseReader], targets: Tensor) -> None:
        self.models, self.targets = models, targets

    def __call__(self, variants: Tensor) -> Tensor:
        """Return `[S, U, k, v]`: every target for every history `[U, v, n]`."""
        users, count, _ = variants.shape
        found = self._of_rows(variants, self.targets.repeat_interleave(count, dim=0))
        return found.view(len(found), users, count, -1).transpose(2, 3)

    def own(self, variants: Tensor) -> Tensor:
        """Return `[S, U, k, v]`: each target for its own histories `[U, k · v, n]`."""
        users, k = self.targets.shape
        count = variants.shape[1] // k
        targets = self.targets.repeat_interleave(count, dim=1).reshape(-1, 1)
        return self._of_rows(variants, targets).view(-1, users, k, count)

    def _of_rows(self, variants: Tensor, targets: Tensor) -> Tensor:
        rows = variants.flatten(0, 1)
        return torch.stack([log_probabilities(model, rows, targets) for model in self.models])
