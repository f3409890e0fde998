"""Attention that looks at every item of a history with the target in mind, and adds them up.

For a history item `p_j` and a target `q`, DeepICF (Xue et al. 2019) has a weight before smoothing

    e_j = exp(hᵀ ReLU(W (p_j ⊙ q) + b))

and needs only two sums over the history, `Σ e_j` and `Σ e_j p_j`. So histories may come in tiles,
in any order: a pair of a tile of a history and a tile of targets adds its share to both sums. What
is computed on the way, `a` numbers for every item and target, is kept only where all pairs fit into
one go; else the gradient computes it again, a few pairs at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from whence.memory import row_slices

BYTES_AT_ONCE = 2**22
"""Of what is computed on the way: few enough to stay near a processor."""
BYTES_AT_ONCE_ON_GPU = 2**30
ADDED_BY_PRODUCT = ("cuda",)
"""Where a product needs no sorting, which a GPU otherwise does to add in one order."""
LARGEST_PRODUCT = 2**22
"""Of places and of values that are added up there, multiplied."""
_rectified_backward = torch.ops.aten.threshold_backward


class Look(NamedTuple):
    """The attention network of each of `S` seeds."""

    weight: Tensor
    """W, `[S, a, d]`."""
    bias: Tensor
    """b, `[S, a]`."""
    out: Tensor
    """h, `[S, a]`."""


class Tiled(NamedTuple):
    """Who looks at what: items of `H` tiles of histories and `Q` of targets, and `P` pairs."""

    history: Tensor
    """`[H, w]`: items, or `PAD`."""
    targets: Tensor
    """`[Q, v]`: items, of which one that is in the history does not look at itself, or `PAD`."""
    history_tile: Tensor
    """`[P]`."""
    target_tile: Tensor
    """`[P]`."""

    def seen(self, rows: slice) -> Tensor:
        """`[r, w, v]`: whether an item is there, and another one than the target."""
        history = taken(self.history, self.history_tile[rows])[:, :, None]
        return (history >= 0) & (history != taken(self.targets, self.target_tile[rows])[:, None])


def attended(p: Tensor, q: Tensor, look: Look, tiled: Tiled) -> tuple[Tensor, Tensor]:
    """`Σ e_j` `[Q, v]` and `Σ e_j p_j` `[Q, v, d]`, from `p` `[H, w, d]` and `q` `[Q, v, d]`."""
    with torch.autocast(p.device.type, enabled=False):  # sums of exponentials need all digits
        total, pooled, *_ = _Attended.apply(  # type: ignore[no-untyped-call]
            p[None], q[None], *(one[None] for one in look), *(one[None] for one in tiled)
        )
    return total[0], pooled[0]


class _Attended(torch.autograd.Function):
    """The same with the seeds of a stack before all other dimensions."""

    @staticmethod
    def forward(p: Tensor, q: Tensor, *given: Tensor) -> tuple[Tensor, ...]:
        """A few pairs at a time; both sums, and what the gradient need not compute again."""
        flat = _Flat(p, q, Look(*given[:3]), Tiled(*given[3:]))
        sums = _Sums(q, (*flat.q.shape[:2], flat.with_one.shape[2]), len(p))
        slices = list(flat.slices())
        looked: tuple[Tensor, ...] = ()
        for rows in slices:
            looked = flat.look_at(rows)
            pooled = looked[1].transpose(1, 2) @ flat.items(rows)
            sums.add(flat.target_tile(rows), pooled, len(slices) == 1)
        both = sums.found().view(*q.shape[:3], sums.shape[2])
        kept = looked if len(slices) == 1 else ()
        return both[..., -1], both[..., :-1], *kept

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Any) -> None:  # noqa: ANN401
        """What is not kept is computed again from what it was computed from."""
        _total, _pooled, *kept = output
        ctx.save_for_backward(*inputs, *kept)
        ctx.mark_non_differentiable(*kept)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(
        ctx: Any,  # noqa: ANN401
        of_total: Tensor | None,
        of_pooled: Tensor | None,
        *_: None,
    ) -> tuple[Tensor | None, ...]:
        """By hand, since little was kept on the way."""
        p, q, *given = ctx.saved_tensors
        flat = _Flat(p, q, Look(*given[:3]), Tiled(*given[3:7]))
        of_total = q.new_zeros(q.shape[:3]) if of_total is None else of_total
        of_pooled = torch.zeros_like(q) if of_pooled is None else of_pooled
        of_both = torch.cat((of_pooled, of_total[..., None]), dim=-1)
        found = flat.gradients(of_both.flatten(0, 1), tuple(given[7:]))
        shaped = (one.view(like.shape) for one, like in zip(found, (p, q, *given), strict=False))
        return (*shaped, None, None, None, None)

    @staticmethod
    def vmap(
        info: Any,  # noqa: ANN401
        in_dims: tuple[int | None, ...],
        *given: Tensor,
    ) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        """`[S, 1, …]` of everything."""
        stacked = (
            one.expand(info.batch_size, *one.shape) if dim is None else one.movedim(dim, 0)
            for one, dim in zip(given, in_dims, strict=True)
        )
        total, pooled, *_ = _Attended.apply(*(one.squeeze(1) for one in stacked))  # type: ignore[no-untyped-call]
        return (total.unsqueeze(1), pooled.unsqueeze(1)), (0, 0)


def taken(values: Tensor, places: Tensor) -> Tensor:
    """`values[places]`, without a copy where there is one value for one place."""
    return values if len(values) == len(places) == 1 else values[places]


class _Sums:
    """What is added up `[S · m, …]` at places, in the same order each time.

    Of several seeds each has `m` places, and pairs of its own.
    """

    def __init__(self, like: Tensor, shape: tuple[int, ...], seeds: int) -> None:
        self.like, self.shape, self.seeds = like, shape, seeds
        self.sums: Tensor | None = None

    def add(self, place: Tensor, values: Tensor, all_pairs: bool) -> None:
        """Values `[r, …]` to the places `[r]`; whether those are of all pairs, seed by seed."""
        if self.shape[0] == 1:
            one = values if len(values) == 1 else values.sum(dim=0, keepdim=True)
            self.sums = one if self.sums is None else self.sums.add_(one)
            return
        into = self.sums = self.found()
        own = len(into) // self.seeds  # m
        few = own * len(place) <= LARGEST_PRODUCT
        if not (all_pairs and few and into.device.type in ADDED_BY_PRODUCT):
            into.index_add_(0, place, values)
            return
        # Seed by seed, so that one whose values are no numbers any more spoils no other's.
        places = torch.arange(own, device=place.device)[:, None]
        there = places == (place % own).view(self.seeds, 1, -1)
        into.view(self.seeds, own, -1).baddbmm_(
            there.to(values.dtype), values.reshape(self.seeds, there.shape[2], -1)
        )

    def found(self) -> Tensor:
        """So far."""
        return self.like.new_zeros(self.shape) if self.sums is None else self.sums


class _Flat:
    """The tiles of all seeds in one row, each with the network of its seed."""

    def __init__(self, p: Tensor, q: Tensor, look: Look, tiled: Tiled) -> None:
        self.seeds, self.history_tiles, self.width = p.shape[:3]
        self.target_tiles, self.targets = q.shape[1:3]
        self.q, self.look = q.flatten(0, 1), look
        self.with_one = F.pad(p.flatten(0, 1), (0, 1), value=1)
        seed = torch.arange(self.seeds, device=p.device)[:, None]
        self.of = seed.expand_as(tiled.target_tile).flatten()
        """`[P]`: whose pairs they are."""
        if self.seeds > 1:
            tiled = tiled._replace(
                history_tile=tiled.history_tile + seed * self.history_tiles,
                target_tile=tiled.target_tile + seed * self.target_tiles,
            )
        self.tiled = Tiled(*(one.flatten(0, 1) for one in tiled))

    def slices(self) -> Iterator[slice]:
        """Of the pairs, as many at a time as there is memory for."""
        each = self.width * self.targets * self.look.bias.shape[1] * self.q.element_size()
        memory = BYTES_AT_ONCE_ON_GPU if self.q.is_cuda else BYTES_AT_ONCE
        return row_slices(len(self.tiled.history_tile), max(1, memory // max(1, each)))

    def target_tile(self, rows: slice) -> Tensor:
        """`[r]`: the tile of targets of each pair."""
        return self.tiled.target_tile[rows]

    def items(self, rows: slice) -> Tensor:
        """`[r, w, d + 1]`: `p_j` and a 1."""
        return taken(self.with_one, self.tiled.history_tile[rows])

    def of_seed(self, values: Tensor, rows: slice) -> Tensor:
        """`[r or 1, …]`: a part of the network for each pair."""
        return values if self.seeds == 1 else values[self.of[rows]]

    def look_at(self, rows: slice) -> tuple[Tensor, Tensor, Tensor]:
        """What is looked through, `e`, and what the rectifier lets through."""
        through = self._seen_through(rows)
        return through, *self._weights(rows, through)

    def _seen_through(self, rows: slice) -> Tensor:
        """`[r, d + 1, v · a]`: W diag(q) above b, which `p_j` and a 1 are multiplied with."""
        weight = self.of_seed(self.look.weight, rows).transpose(1, 2)  # [r or 1, d, a]
        target = taken(self.q, self.target_tile(rows)).transpose(1, 2)  # [r, d, v]
        bias = self.of_seed(self.look.bias, rows)[:, None, None]
        bias = bias.expand(len(target), 1, self.targets, -1)
        return torch.cat((target[..., None] * weight[:, :, None], bias), dim=1).flatten(2)

    def _weights(self, rows: slice, through: Tensor) -> tuple[Tensor, Tensor]:
        """`e` `[r, w, v]`, and what the rectifier lets through `[r, w, v, a]`."""
        hidden = (self.items(rows) @ through).relu_()
        hidden = hidden.view(*hidden.shape[:2], self.targets, self.look.bias.shape[1])
        out = self.of_seed(self.look.out, rows)[:, :, None]
        logits = (hidden.flatten(1, 2) @ out).view(hidden.shape[:3])
        return logits.exp_().mul_(self.tiled.seen(rows)), hidden

    def gradients(self, of_both: Tensor, kept: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Of items, targets, W, b and h, from those of both sums `[Q, v, d + 1]`."""
        like = (self.with_one[..., :-1], self.q, *self.look)
        found = [_Sums(one, one.shape, self.seeds) for one in like]
        slices = list(self.slices())
        for rows in slices:
            gradients = self._gradients(rows, kept or self.look_at(rows), of_both)
            seed = self.of[rows]
            places = (self.tiled.history_tile[rows], self.target_tile(rows), seed, seed, seed)
            for sums, place, values in zip(found, places, gradients, strict=True):
                sums.add(place, values, len(slices) == 1)
        return tuple(one.found() for one in found)

    def _gradients(
        self, rows: slice, looked: tuple[Tensor, ...], of_both: Tensor
    ) -> tuple[Tensor, ...]:
        """What each of some pairs has to add to those of items, targets, W, b and h."""
        target = self.target_tile(rows)
        own, (through, e, hidden) = self.items(rows), looked
        out = taken(of_both, target)  # [r, v, d + 1]
        of_logits = (own @ out.transpose(1, 2)).mul_(e)
        flat = of_logits.flatten(1)[:, None]  # [r, 1, w · v]
        of_out = (flat @ hidden.flatten(1, 2)).squeeze(1)
        of_hidden = of_logits[..., None] * self.of_seed(self.look.out, rows)[:, None, None]
        of_hidden = _rectified_backward(of_hidden, hidden, 0).flatten(2)  # [r, w, v · a]
        weighed = e @ out[..., :-1]
        of_p = torch.baddbmm(weighed, of_hidden, through[:, :-1].transpose(1, 2))
        both = own.transpose(1, 2) @ of_hidden
        both = both.view(len(both), -1, self.targets, hidden.shape[3])
        of_bias = both[:, -1].sum(dim=1)
        both = both[:, :-1]  # [r, d, v, a]
        weight = self.of_seed(self.look.weight, rows).transpose(1, 2)  # [r or 1, d, a]
        of_q = (both @ weight[..., None]).squeeze(3).transpose(1, 2)
        q = taken(self.q, target).transpose(1, 2)  # [r, d, v]
        of_weight = (both.transpose(2, 3) @ q[..., None]).squeeze(3).transpose(1, 2)
        return of_p, of_q, of_weight, of_bias, of_out
