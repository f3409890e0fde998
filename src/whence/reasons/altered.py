"""Histories with some items left out: without each item, with one or two alone, without a group.

Left out means as if the items had never been there: all copies of an item go, and older items
move up. A history is `[U, w]`, padded on the left. It may be longer than what a model reads, so
that older items can move up.
"""

from __future__ import annotations

import torch
from torch import Tensor

from whence.contract import PAD
from whence.models.additive import newest_copies
from whence.models.dropping import packed


def candidates_of(histories: Tensor, slots: int) -> Tensor:
    """Return `[U, slots]`: the distinct items of the newest slots, each in its newest one."""
    newest = histories[:, -slots:]
    return newest.where(newest_copies(newest), PAD)


def keeping(histories: Tensor, kept: Tensor, slots: int) -> Tensor:
    """Return `[…, slots]`: what remains of histories `[…, w]` where `kept`, packed to the right."""
    kept = kept & (histories != PAD)
    rows = histories.expand_as(kept).flatten(0, -2)
    return packed(rows, kept.flatten(0, -2), PAD).view(kept.shape)[..., -slots:]


def without_each(histories: Tensor, candidates: Tensor, slots: int) -> Tensor:
    """Return `[U, c, slots]`: each history without each candidate `[U, c]`, at all its places."""
    kept = histories[:, None, :] != candidates[:, :, None]
    return keeping(histories[:, None, :], kept, slots)


def without_sets(histories: Tensor, sets: Tensor, slots: int) -> Tensor:
    """Return `[U, p, slots]`: each history without the items of each set `[U, p, size]`."""
    kept = (histories[:, None, None, :] != sets[..., None]).all(dim=2)
    return keeping(histories[:, None, :], kept, slots)


def others_at_random(histories: Tensor, members: Tensor, eligible: Tensor) -> Tensor:
    """Return bool `[U, …, w]`: as many eligible items that are no members as there are members.

    If there are fewer, all of them. Which ones only depends on the items.
    """
    real = histories != PAD
    while real.dim() < members.dim():
        real, histories = real[:, None], histories[:, None]
    others = real & eligible & ~members
    # Multiplicative hashing: the order of items by it looks random, but is always the same.
    lottery = ((histories + 1) * 1_103_515_245 % 2_147_483_647).expand_as(others)
    place = lottery.where(others, torch.iinfo(lottery.dtype).max).argsort(dim=-1).argsort(dim=-1)
    return others & (place < (members & real).sum(dim=-1, keepdim=True))
