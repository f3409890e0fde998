"""The attention of DeepICF+a (Xue et al. 2019), summed over histories in tiles.

For a history item `p_j` and a target `q`, the weight before smoothing is

    e_j = exp(hᵀ ReLU(W (p_j ⊙ q) + b))

and the model needs only two sums over the history, `Σ e_j` and `Σ e_j p_j`. So histories may come
in tiles, in any order: a pair of a history tile and a target tile adds its share to both sums. The
intermediate values, `a` per item and target, are stored only if all pairs fit into memory at once.
Otherwise the gradient computes them again, a few pairs at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from whence.memory import row_slices

BYTES_AT_ONCE = 2**22
"""Bytes of intermediate values at once, few enough for a processor's cache."""
BYTES_AT_ONCE_ON_GPU = 2**30
ADDED_BY_PRODUCT = ("cuda",)
"""Devices that add by a matrix product; a GPU would have to sort to add in a fixed order."""
LARGEST_PRODUCT = 2**22
"""The largest number of places times values that a product adds up."""
_rectified_backward = torch.ops.aten.threshold_backward


class AttentionNetwork(NamedTuple):
    """The attention network of each of `S` seeds."""

    weight: Tensor
    """W, `[S, a, d]`."""
    bias: Tensor
    """b, `[S, a]`."""
    out: Tensor
    """h, `[S, a]`."""


class Tiled(NamedTuple):
    """`H` tiles of histories, `Q` tiles of targets, and the `P` pairs of them to compute."""

    history: Tensor
    """`[H, w]`: items, or `PAD`."""
    targets: Tensor
    """`[Q, v]`: items, or `PAD`; a target ignores itself in the history."""
    history_tile: Tensor
    """`[P]`."""
    target_tile: Tensor
    """`[P]`."""

    def seen(self, rows: slice) -> Tensor:
        """Return `[r, w, v]`: whether an item is there and is not the target."""
        history = taken(self.history, self.history_tile[rows])[:, :, None]
        return (history >= 0) & (history != taken(self.targets, self.target_tile[rows])[:, None])


def attended(
    p: Tensor, q: Tensor, network: AttentionNetwork, tiled: Tiled
) -> tuple[Tensor, Tensor]:
    """Return `Σ e_j` `[Q, v]`, `Σ e_j p_j` `[Q, v, d]` of `p` `[H, w, d]` and `q` `[Q, v, d]`."""
    with torch.autocast(p.device.type, enabled=False):  # sums of exponentials need all digits
        total, pooled, *_ = _Attended.apply(  # type: ignore[no-untyped-call]
            p[None], q[None], *(one[None] for one in network), *(one[None] for one in tiled)
        )
    return total[0], pooled[0]


class _Attended(torch.autograd.Function):
    """Both sums, with the seeds of a stack as the first dimension of everything."""

    @staticmethod
    def forward(p: Tensor, q: Tensor, *given: Tensor) -> tuple[Tensor, ...]:
        """Return both sums, and intermediate values that the gradient need not compute again."""
        flat = _Flat(p, q, AttentionNetwork(*given[:3]), Tiled(*given[3:]))
        sums = _Sums(q, (*flat.q.shape[:2], flat.with_one.shape[2]), len(p))
        slices = list(flat.slices())
        computed: tuple[Tensor, ...] = ()
        for rows in slices:
            computed = flat.compute(rows)
            pooled = computed[1].transpose(1, 2) @ flat.items(rows)
            sums.add(flat.target_tile(rows), pooled, len(slices) == 1)
        both = sums.found().view(*q.shape[:3], sums.shape[2])
        kept = computed if len(slices) == 1 else ()
        return both[..., -1], both[..., :-1], *kept

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Any) -> None:  # noqa: ANN401
        """Keep the inputs, from which other values can be computed again."""
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
        """Compute the gradients by hand, since few intermediate values are stored."""
        p, q, *given = ctx.saved_tensors
        flat = _Flat(p, q, AttentionNetwork(*given[:3]), Tiled(*given[3:7]))
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
        """Take `[S, 1, …]` of everything."""
        stacked = (
            one.expand(info.batch_size, *one.shape) if dim is None else one.movedim(dim, 0)
            for one, dim in zip(given, in_dims, strict=True)
        )
        total, pooled, *_ = _Attended.apply(*(one.squeeze(1) for one in stacked))  # type: ignore[no-untyped-call]
        return (total.unsqueeze(1), pooled.unsqueeze(1)), (0, 0)


def taken(values: Tensor, places: Tensor) -> Tensor:
    """Return `values[places]`, without a copy if there is one value and one place."""
    return values if len(values) == len(places) == 1 else values[places]


class _Sums:
    """Sums `[S · m, …]` of values at places, added in the same order every time.

    Each of the `S` seeds has its own `m` places and pairs.
    """

    def __init__(self, like: Tensor, shape: tuple[int, ...], seeds: int) -> None:
        self.like, self.shape, self.seeds = like, shape, seeds
        self.sums: Tensor | None = None

    def add(self, place: Tensor, values: Tensor, all_pairs: bool) -> None:
        """Add values `[r, …]` at the places `[r]`; `all_pairs` if these are all, seed by seed."""
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
        # Seed by seed, so that a seed whose values are NaN does not spoil the others.
        places = torch.arange(own, device=place.device)[:, None]
        there = places == (place % own).view(self.seeds, 1, -1)
        into.view(self.seeds, own, -1).baddbmm_(
            there.to(values.dtype), values.reshape(self.seeds, there.shape[2], -1)
        )

    def found(self) -> Tensor:
        """Return the sums so far."""
        return self.like.new_zeros(self.shape) if self.sums is None else self.sums


class _Flat:
    """The tiles of all seeds in one list, each with the network of its seed."""

    def __init__(self, p: Tensor, q: Tensor, network: AttentionNetwork, tiled: Tiled) -> None:
        self.seeds, self.history_tiles, self.tile_size = p.shape[:3]
        self.target_tiles, self.targets = q.shape[1:3]
        self.q, self.network = q.flatten(0, 1), network
        self.with_one = F.pad(p.flatten(0, 1), (0, 1), value=1)
        seed = torch.arange(self.seeds, device=p.device)[:, None]
        self.of = seed.expand_as(tiled.target_tile).flatten()
        """`[P]`: the seed of each pair."""
        if self.seeds > 1:
            tiled = tiled._replace(
                history_tile=tiled.history_tile + seed * self.history_tiles,
                target_tile=tiled.target_tile + seed * self.target_tiles,
            )
        self.tiled = Tiled(*(one.flatten(0, 1) for one in tiled))

    def slices(self) -> Iterator[slice]:
        """Return slices of the pairs that fit into memory."""
        each = self.tile_size * self.targets * self.network.bias.shape[1] * self.q.element_size()
        memory = BYTES_AT_ONCE_ON_GPU if self.q.is_cuda else BYTES_AT_ONCE
        return row_slices(len(self.tiled.history_tile), max(1, memory // max(1, each)))

    def target_tile(self, rows: slice) -> Tensor:
        """Return `[r]`: the target tile of each pair."""
        return self.tiled.target_tile[rows]

    def items(self, rows: slice) -> Tensor:
        """Return `[r, w, d + 1]`: `p_j` and a 1."""
        return taken(self.with_one, self.tiled.history_tile[rows])

    def for_seed(self, values: Tensor, rows: slice) -> Tensor:
        """Return `[r or 1, …]`: a weight of the network for each pair."""
        return values if self.seeds == 1 else values[self.of[rows]]

    def compute(self, rows: slice) -> tuple[Tensor, Tensor, Tensor]:
        """Return the first layer of each pair, `e`, and the rectified values."""
        through = self._first_layer(rows)
        return through, *self._weights(rows, through)

    def _first_layer(self, rows: slice) -> Tensor:
        """Return `[r, d + 1, v · a]`: W diag(q) above b, to multiply `p_j` and a 1 with."""
        weight = self.for_seed(self.network.weight, rows).transpose(1, 2)  # [r or 1, d, a]
        target = taken(self.q, self.target_tile(rows)).transpose(1, 2)  # [r, d, v]
        bias = self.for_seed(self.network.bias, rows)[:, None, None]
        bias = bias.expand(len(target), 1, self.targets, -1)
        return torch.cat((target[..., None] * weight[:, :, None], bias), dim=1).flatten(2)

    def _weights(self, rows: slice, through: Tensor) -> tuple[Tensor, Tensor]:
        """Return `e` `[r, w, v]`, and the rectified values `[r, w, v, a]`."""
        hidden = (self.items(rows) @ through).relu_()
        hidden = hidden.view(*hidden.shape[:2], self.targets, self.network.bias.shape[1])
        out = self.for_seed(self.network.out, rows)[:, :, None]
        logits = (hidden.flatten(1, 2) @ out).view(hidden.shape[:3])
        return logits.exp_().mul_(self.tiled.seen(rows)), hidden

    def gradients(self, of_both: Tensor, kept: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Return those of items, targets, W, b and h, from those of both sums `[Q, v, d + 1]`."""
        like = (self.with_one[..., :-1], self.q, *self.network)
        found = [_Sums(one, one.shape, self.seeds) for one in like]
        slices = list(self.slices())
        for rows in slices:
            gradients = self._gradients(rows, kept or self.compute(rows), of_both)
            seed = self.of[rows]
            places = (self.tiled.history_tile[rows], self.target_tile(rows), seed, seed, seed)
            for sums, place, values in zip(found, places, gradients, strict=True):
                sums.add(place, values, len(slices) == 1)
        return tuple(one.found() for one in found)

    def _gradients(
        self, rows: slice, computed: tuple[Tensor, ...], of_both: Tensor
    ) -> tuple[Tensor, ...]:
        """Return what each of some pairs adds to the gradients of items, targets, W, b and h."""
        target = self.target_tile(rows)
        own, (through, e, hidden) = self.items(rows), computed
        out = taken(of_both, target)  # [r, v, d + 1]
        of_logits = (own @ out.transpose(1, 2)).mul_(e)
        flat = of_logits.flatten(1)[:, None]  # [r, 1, w · v]
        of_out = (flat @ hidden.flatten(1, 2)).squeeze(1)
        of_hidden = of_logits[..., None] * self.for_seed(self.network.out, rows)[:, None, None]
        of_hidden = _rectified_backward(of_hidden, hidden, 0).flatten(2)  # [r, w, v · a]
        weighed = e @ out[..., :-1]
        of_p = torch.baddbmm(weighed, of_hidden, through[:, :-1].transpose(1, 2))
        both = own.transpose(1, 2) @ of_hidden
        both = both.view(len(both), -1, self.targets, hidden.shape[3])
        of_bias = both[:, -1].sum(dim=1)
        both = both[:, :-1]  # [r, d, v, a]
        weight = self.for_seed(self.network.weight, rows).transpose(1, 2)  # [r or 1, d, a]
        of_q = (both @ weight[..., None]).squeeze(3).transpose(1, 2)
        q = taken(self.q, target).transpose(1, 2)  # [r, d, v]
        of_weight = (both.transpose(2, 3) @ q[..., None]).squeeze(3).transpose(1, 2)
        return of_p, of_q, of_weight, of_bias, of_out
