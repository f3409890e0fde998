"""Attention that looks at every item of a history with the target in mind, and adds them up.

For a history item `p_j` and a target `q`, DeepICF (Xue et al. 2019) has a weight before smoothing

    e_j = exp(hᵀ ReLU(W (p_j ⊙ q) + b))

and needs only two sums over the history, `Σ e_j` and `Σ e_j p_j`. So histories may come in tiles,
in any order: a pair of a tile of a history and a tile of targets adds its share to both sums. What
is computed on the way, `a` numbers for every item and target, is never kept: the gradient computes
it again, a few pairs at a time.
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
PLACES_BY_PRODUCT = 2**22
"""By values: how many are added up by a product, on a GPU."""
_rectified_backward = torch.ops.aten.threshold_backward
NOBODY = -2
"""A target that is no item of any history."""


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
    """`[Q, v]`: items, of which one that is in the history does not look at itself."""
    history_tile: Tensor
    """`[P]`."""
    target_tile: Tensor
    """`[P]`."""

    def seen(self, rows: slice) -> Tensor:
        """`[r, w, v]`: whether an item is there, and another one than the target."""
        history = self.history[self.history_tile[rows]][:, :, None]
        return (history >= 0) & (history != self.targets[self.target_tile[rows]][:, None])


def attended(p: Tensor, q: Tensor, look: Look, tiled: Tiled) -> tuple[Tensor, Tensor]:
    """`Σ e_j` `[Q, v]` and `Σ e_j p_j` `[Q, v, d]`, from `p` `[H, w, d]` and `q` `[Q, v, d]`."""
    total, pooled = _Attended.apply(  # type: ignore[no-untyped-call]
        p[None], q[None], *(one[None] for one in look), *(one[None] for one in tiled)
    )
    return total[0], pooled[0]


class _Attended(torch.autograd.Function):
    """The same with the seeds of a stack before all other dimensions."""

    @staticmethod
    def forward(p: Tensor, q: Tensor, *given: Tensor) -> tuple[Tensor, Tensor]:
        """A few pairs at a time."""
        flat = _Flat(p, q, Look(*given[:3]), Tiled(*given[3:]))
        total, pooled = flat.q.new_zeros(flat.q.shape[:2]), torch.zeros_like(flat.q)
        for rows in flat.slices():
            e, _ = flat.weights(rows, flat.seen_through(rows))
            own, target = flat.p[flat.tiled.history_tile[rows]], flat.tiled.target_tile[rows]
            _add_up(total, target, e.sum(dim=1))
            _add_up(pooled, target, e.transpose(1, 2) @ own)
        return total.view(q.shape[:3]), pooled.view(q.shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Any) -> None:  # noqa: ANN401
        """Everything is computed again from what it was computed from."""
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, of_total: Tensor, of_pooled: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        """By hand, since nothing was kept on the way."""
        p, q, *given = ctx.saved_tensors
        flat = _Flat(p, q, Look(*given[:3]), Tiled(*given[3:]))
        found = flat.gradients(of_total.reshape(flat.q.shape[:2]), of_pooled.reshape(flat.q.shape))
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
        total, pooled = _Attended.apply(*(one.squeeze(1) for one in stacked))  # type: ignore[no-untyped-call]
        return (total.unsqueeze(1), pooled.unsqueeze(1)), (0, 0)


def _add_up(into: Tensor, place: Tensor, values: Tensor) -> None:
    """Add values `[r, …]` to the places `[r]` of what is `[m, …]`, in the same order each time."""
    if len(into) == 1:
        into.add_(values.sum(dim=0) if len(values) > 1 else values)
        return
    if not into.is_cuda or len(into) * len(place) > PLACES_BY_PRODUCT:
        into.index_add_(0, place, values)
        return
    # A product needs no sorting, which a GPU otherwise does to add in one order.
    there = torch.arange(len(into), device=place.device)[:, None] == place
    into.flatten(1).addmm_(there.to(values.dtype), values.flatten(1))


class _Flat:
    """The tiles of all seeds in one row, each with the network of its seed."""

    def __init__(self, p: Tensor, q: Tensor, look: Look, tiled: Tiled) -> None:
        self.seeds, self.history_tiles, self.width = p.shape[:3]
        self.target_tiles, self.targets = q.shape[1:3]
        self.p, self.q, self.look = p.flatten(0, 1), q.flatten(0, 1), look
        self.with_one = F.pad(self.p, (0, 1), value=1)
        first = torch.arange(self.seeds, device=p.device)[:, None]
        self.tiled = Tiled(
            tiled.history.flatten(0, 1),
            tiled.targets.flatten(0, 1),
            (tiled.history_tile + first * self.history_tiles).flatten(),
            (tiled.target_tile + first * self.target_tiles).flatten(),
        )

    def slices(self) -> Iterator[slice]:
        """Of the pairs, as many at a time as there is memory for."""
        each = self.width * self.targets * self.look.bias.shape[1] * self.p.element_size()
        memory = BYTES_AT_ONCE_ON_GPU if self.p.is_cuda else BYTES_AT_ONCE
        return row_slices(len(self.tiled.history_tile), max(1, memory // max(1, each)))

    def seed(self, rows: slice) -> Tensor:
        """`[r]`: whose pairs they are."""
        return self.tiled.target_tile[rows] // self.target_tiles

    def seen_through(self, rows: slice) -> Tensor:
        """`[r, d + 1, v · a]`: W diag(q) above b, which `p_j` and a 1 are multiplied with."""
        seed = self.seed(rows)
        weight = self.look.weight[seed].transpose(1, 2)  # [r, d, a]
        target = self.q[self.tiled.target_tile[rows]].transpose(1, 2)  # [r, d, v]
        bias = self.look.bias[seed][:, None, None].expand(-1, 1, self.targets, -1)
        return torch.cat((target[..., None] * weight[:, :, None], bias), dim=1).flatten(2)

    def weights(self, rows: slice, through: Tensor) -> tuple[Tensor, Tensor]:
        """`e` `[r, w, v]`, and what the rectifier lets through `[r, w, v, a]`."""
        hidden = (self.with_one[self.tiled.history_tile[rows]] @ through).relu_()
        hidden = hidden.view(*hidden.shape[:2], self.targets, self.look.bias.shape[1])
        out = self.look.out[self.seed(rows)][:, :, None]
        logits = (hidden.flatten(1, 2) @ out).view(hidden.shape[:3])
        return logits.exp_().mul_(self.tiled.seen(rows)), hidden

    def gradients(self, of_total: Tensor, of_pooled: Tensor) -> tuple[Tensor, ...]:
        """Of items, targets, W, b and h."""
        found = tuple(torch.zeros_like(one) for one in (self.p, self.q, *self.look))
        of_p, of_q, of_weight, of_bias, of_out = found
        for rows in self.slices():
            history, target = self.tiled.history_tile[rows], self.tiled.target_tile[rows]
            seed, p, q = self.seed(rows), self.p[history], self.q[target]
            through = self.seen_through(rows)
            e, hidden = self.weights(rows, through)
            out = of_pooled[target]  # [r, v, d]
            of_logits = (of_total[target][:, None] + p @ out.transpose(1, 2)).mul_(e)
            flat = of_logits.flatten(1)[:, None]  # [r, 1, w · v]
            _add_up(of_out, seed, (flat @ hidden.flatten(1, 2)).squeeze(1))
            of_hidden = of_logits[..., None] * self.look.out[seed][:, None, None]
            of_hidden = _rectified_backward(of_hidden, hidden, 0).flatten(2)  # [r, w, v · a]
            _add_up(of_p, history, of_hidden @ through[:, :-1].transpose(1, 2) + e @ out)
            both = self.with_one[history].transpose(1, 2) @ of_hidden
            both = both.view(len(seed), -1, self.targets, hidden.shape[3])
            _add_up(of_bias, seed, both[:, -1].sum(dim=1))
            both = both[:, :-1]  # [r, d, v, a]
            weight = self.look.weight[seed].transpose(1, 2)  # [r, d, a]
            _add_up(of_q, target, (both @ weight[..., None]).squeeze(3).transpose(1, 2))
            product = both.transpose(2, 3) @ q.transpose(1, 2)[..., None]  # [r, d, a, 1]
            _add_up(of_weight, seed, product.squeeze(3).transpose(1, 2))
        return found
