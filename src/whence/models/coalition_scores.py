"""Scores of a transformer for many coalitions of a history's items, sharing work between them.

`coalition_plans` says which rows to compute. More work is shared:

* The first block's projections and logits do not depend on the coalition.
* The last block has a single query, the row that answers. Its key and value layers can be applied
  to the query and to the mean of the rows instead of to every row: q·(W_K x) = (W_Kᵀ q)·x.
* The layers around attention are two products, W_Kᵀ W_Q and W_O W_V, computed once.
* The rows of a slot see subsets of the same slots, so their sums are one product with 0 and 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from whence.memory import row_slices
from whence.models.blocks import HIDDEN, Block
from whence.models.coalition_plans import CoalitionGroup, CoalitionPlan, plans_for

ROWS_IN_CACHE = 16_384
"""The number of rows that stay in a processor's cache from one layer to the next."""
ALIVE = 4
"""The number of tensors of all rows in memory at once."""
ROWS_OF_CASES = 500_000
"""The number of rows of several cases that a processor computes at once."""
ROWS_OF_A_SLOT = 64
"""The mean number of rows per slot from which it pays to compute slot by slot."""
WIDE = 30.0
"""The largest difference of logits for which `exp` without a softmax is accurate."""


class FoldedFeedForward(NamedTuple):
    """LayerNorm(FFN(LayerNorm(g)) + g) of a block, for rows whose mean is 0.

    Layer normalization subtracts the mean, which can be subtracted from the weights before it. What
    is left is a division by the length of a row. The activation is positively homogeneous, so a row
    can be divided after it.
    """

    expand: Tensor
    """`[d, d]`: W_1ᵀ times the scale of the inner normalization."""
    expand_bias: Tensor
    contract: Tensor
    """`[d, d]`: W_2ᵀ, to rows whose mean is 0."""
    contract_bias: Tensor
    inner_eps: float
    outer_eps: float

    @classmethod
    def from_block(cls, block: Block) -> FoldedFeedForward:
        """Fold the weights of a block."""
        inner = block.inner_norm
        return cls(
            (block.expand.weight * inner.weight).T.contiguous(),
            block.expand(inner.bias),
            _centred(block.contract.weight.T).contiguous(),
            _centred(block.contract.bias),
            inner.eps,
            block.outer_norm.eps,
        )

    def apply_(self, g: Tensor, expanded: Tensor, times: Tensor) -> None:
        """Compute all but the outer scale and shift, in place of the rows `g` `[N, d]`.

        `g` and `expanded`, which is `g @ expand`, are too large by the factor `times` `[N, 1]`.
        """
        length = _length(g, self.inner_eps * times.square())
        hidden = F.leaky_relu_(expanded.addcmul_(length, self.expand_bias))
        g.mul_(length / times).addcmul_(length, self.contract_bias).addmm_(hidden, self.contract)
        g.mul_(_length(g, self.outer_eps * length.square()).reciprocal_())


def _centred(rows: Tensor) -> Tensor:
    """Subtract the mean of each row."""
    return rows - rows.mean(dim=-1, keepdim=True)


def _length(rows: Tensor, eps: Tensor) -> Tensor:
    """Return `[N, 1]`: the root of each row's mean square plus `eps`."""
    norm: Tensor = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
    return norm.square_().div_(rows.shape[-1]).add_(eps).sqrt_()


class FoldedBlock(NamedTuple):
    """A block of `h` heads, with its layers around attention as two products.

    The scale and shift of the normalization before it are part of its layers.
    """

    scale: Tensor
    shift: Tensor
    """That of the normalization, plus the bias of W_O, which a row that sees nothing has, too."""
    query_layer: Tensor
    """`[h·d, d]`: W_Kᵀ W_Q / √(d/h) of every head."""
    query_bias: Tensor
    value_layer: Tensor
    """`[d, h·d]`: W_O W_V of every head, for rows whose mean is 0."""
    value_bias: Tensor
    seen_bias: Tensor | None
    """`[h, d]`: W_O times the bias of W_V of every head, for rows that see something."""
    heads: int
    forward: FoldedFeedForward

    @classmethod
    def from_block(cls, block: Block, scale: Tensor, shift: Tensor) -> FoldedBlock:
        """Fold the weights of a block, and the scale and shift that its inputs still need."""
        dim = len(scale)
        query, key, value = (
            layer.weight.view(block.heads, -1, dim)
            for layer in (block.query, block.key, block.value)
        )
        output = block.output.weight.view(dim, block.heads, -1).transpose(0, 1)
        size = query.shape[1]
        # The shift and the bias of the keys add the same to all logits of a row: nothing changes.
        query_layer = scale[:, None] * key.transpose(1, 2) @ query * size**-0.5
        query_bias = query_layer @ shift
        value_layer = _centred((output @ value).transpose(1, 2)).permute(2, 0, 1)  # [d, h, d]
        value_bias = (value_layer @ shift).sum(dim=1) + shift
        seen_bias = None
        if block.query.bias is not None:
            of_query, of_value = (
                layer.bias.view(block.heads, size, 1) for layer in (block.query, block.value)
            )
            query_bias = query_bias + scale * (key.transpose(1, 2) @ of_query)[..., 0] * size**-0.5
            seen_bias = _centred((output @ of_value)[..., 0])
            value_bias = value_bias + seen_bias.sum(dim=0) + block.output.bias
            shift = shift + block.output.bias
        return cls(
            scale=scale,
            shift=shift,
            query_layer=(query_layer * scale).flatten(0, 1),
            query_bias=query_bias.flatten(),
            value_layer=(value_layer * scale).flatten(1),
            value_bias=value_bias,
            seen_bias=seen_bias,
            heads=block.heads,
            forward=FoldedFeedForward.from_block(block),
        )

    def queries(self, rows: Tensor) -> Tensor:
        """Return `[…, h, d]`: the queries of rows `[…, d]`, to multiply with other rows."""
        queries = F.linear(rows, self.query_layer, self.query_bias)
        return queries.view(*rows.shape[:-1], self.heads, -1)

    def output(self, seen: Tensor) -> Tensor:
        """Return `[…, d]` from the mean rows `[…, h, d]` that were seen, with the shift."""
        return F.linear(seen.flatten(-2), self.value_layer, self.value_bias)

    def values(self, rows: Tensor) -> Tensor:
        """Return `[…, h, d]`: what each row `[…, d]` adds to the rows that see it, unshifted."""
        each = self.value_layer.unflatten(1, (self.heads, -1)).transpose(0, 1).flatten(0, 1)
        bias = None if self.seen_bias is None else self.seen_bias.flatten()
        return F.linear(rows, each, bias).view(*rows.shape[:-1], self.heads, -1)

    def residual(self, rows: Tensor) -> Tensor:
        """Return the rows themselves, less their mean."""
        return _centred(torch.addcmul(self.shift, rows, self.scale))

    def feed_forward(self, mixed: Tensor, rows: Tensor) -> Tensor:
        """Compute the output from what attention adds to rows `[R, B, d]`, in place of it."""
        all_mixed, all_rows = mixed.flatten(0, 1), rows.flatten(0, 1)
        for some in row_slices(len(all_rows), _rows_at_once(rows)):
            g = all_mixed[some].addcmul_(all_rows[some], self.scale)
            g.sub_(g.mean(dim=-1, keepdim=True))
            self.forward.apply_(g, g @ self.forward.expand, g.new_ones(1, 1))
        return mixed


@torch.no_grad()
def scores_of_coalitions(
    blocks: Sequence[Block],
    rows: Tensor,
    targets: Tensor,
    coalitions: Tensor,
    causal: bool,
    memory: int,
) -> Tensor:
    """Return `[B, c]`: the answering row after all blocks times each case's target `[B, d]`.

    `rows` `[B, m, d]` are the input of the first block. `coalitions` `[c, n]` are the visible
    slots. Slots after those are the model's own and always visible.
    """
    cases, slots, dim = rows.shape
    found = rows.new_empty(cases, len(coalitions))
    if not found.numel():
        return found
    heads = blocks[0].heads
    numbers = ALIVE * dim + 2 * heads * (dim + slots)  # per row, and for its queries
    fitting = max(1, memory // (rows.element_size() * numbers))
    coalitions_at_once = max(1, fitting // (slots if len(blocks) > 1 else 1))
    if not rows.is_cuda:
        fitting = min(fitting, ROWS_OF_CASES)
    norm = blocks[-1].outer_norm
    folded = list(_fold(blocks))
    for plan in plans_for(coalitions, slots, causal, len(blocks), coalitions_at_once):
        times = math.ceil(cases / max(1, fitting // plan.size))
        for few in row_slices(cases, math.ceil(cases / times)):  # slices of similar size
            answers = _answers(folded, rows[few].transpose(0, 1).contiguous(), plan)
            scores = torch.einsum("cbd,bd->bc", answers, targets[few] * norm.weight)
            scores += (targets[few] @ norm.bias)[:, None]
            found[few].index_copy_(1, plan.coalitions, scores.index_select(1, plan.answered))
    return found


def _fold(blocks: Sequence[Block]) -> Iterator[FoldedBlock]:
    """Fold each block with the normalization of the block before it; the first has none."""
    like = blocks[0].outer_norm.weight
    scale, shift = torch.ones_like(like), torch.zeros_like(like)
    for block in blocks:
        yield FoldedBlock.from_block(block, scale, shift)
        scale, shift = block.outer_norm.weight, block.outer_norm.bias


def _answers(blocks: Sequence[FoldedBlock], rows: Tensor, plan: CoalitionPlan) -> Tensor:
    """Return `[c, B, d]` from the rows `[m, B, d]`."""
    first, *others = blocks
    states = _first(first, rows, plan)
    if not others:
        return states
    *middle, last = others
    for block in middle:
        states = _middle(block, states, plan)
    return _last(last, states, plan)


class FirstAttention(NamedTuple):
    """What `m` asking slots can see in the first block: `v − 1` slots, or nothing."""

    logits: Tensor
    """`[m, B, h, v]`: l_ij."""
    shares: Tensor
    """`[m, v, B, h]`: exp(l_ij) as shares of the largest."""
    values: Tensor
    """`[2, v, B, h, d]`: v_j, and the output of the next layer for it."""
    residual: Tensor
    """`[2, m, B, d]`: the residual r_i, and the output of the next layer for it."""
    expand: Tensor
    """`[d, d]`: the next layer."""

    @classmethod
    def compute(cls, block: FoldedBlock, rows: Tensor, asking: Tensor) -> FirstAttention:
        """Compute it from the rows `[v − 1, B, d]` of all slots and from those that ask."""
        queries = block.queries(asking).permute(1, 2, 0, 3)  # [B, h, m, d]
        logits = (queries @ rows.permute(1, 2, 0)[:, None]).permute(2, 0, 1, 3)
        logits = F.pad(logits, (0, 1))
        shares = (logits - logits.amax(dim=-1, keepdim=True)).exp_().permute(0, 3, 1, 2)
        values, residual = block.values(rows), block.residual(asking)
        expand = block.forward.expand
        return cls(
            logits,
            shares.contiguous(),
            F.pad(torch.stack((values, values @ expand)), (0, 0, 0, 0, 0, 0, 0, 1)),
            torch.stack((residual, residual @ expand)),
            expand,
        )

    @property
    def is_wide(self) -> bool:
        """Whether weights may underflow once the largest of a row are hidden."""
        return bool((self.logits.amax(dim=-1) - self.logits.amin(dim=-1)).max() > WIDE)


def _first(block: FoldedBlock, rows: Tensor, plan: CoalitionPlan) -> Tensor:
    """Return `[R, B, d]`: the rows after the first block, whose logits all coalitions share."""
    cases = rows.shape[1]
    asking = rows if plan.groups else rows[-1:]  # answers are all in one slot
    attention = FirstAttention.compute(block, rows, asking)
    many = plan.size * cases >= ROWS_OF_A_SLOT * len(asking)
    see = _see_by_slot if many and not attention.is_wide else _see_by_row
    states = rows.new_empty(plan.size, *rows.shape[1:])
    for some in row_slices(plan.size, max(1, _rows_at_once(rows) // cases)):
        g = states[some]
        expanded, times = torch.empty_like(g), g.new_ones(len(g), cases, 1)
        see(attention, plan, some, g, expanded, times)
        block.forward.apply_(g.flatten(0, 1), expanded.flatten(0, 1), times.flatten(0, 1))
    return states


def _see_by_row(
    attention: FirstAttention,
    plan: CoalitionPlan,
    some: slice,
    g: Tensor,
    expanded: Tensor,
    _: Tensor,
) -> None:
    """Write g = Σ_j α_ij v_j + r_i of some rows, and the next layer's output for it."""
    slots = plan.slots[some] - (plan.slots[-1] + 1 - len(attention.logits))
    hidden = plan.visible[some, None, None] == 0
    weights = attention.logits[slots].masked_fill_(hidden, HIDDEN).softmax(dim=-1)
    mixed = torch.einsum("rbhv,vbhd->rbd", weights, attention.values[0])
    torch.add(mixed, attention.residual[0, slots], out=g)
    torch.matmul(g, attention.expand, out=expanded)


def _see_by_slot(
    attention: FirstAttention,
    plan: CoalitionPlan,
    some: slice,
    g: Tensor,
    expanded: Tensor,
    times: Tensor,
) -> None:
    """Do the same with each exp(l_ij) computed once, by a product with 0 and 1 per slot.

    With one head the sums Σ_j∈S exp(l_ij)·(v_j + r_i) stay too large by the factor `times`, so that
    the next layer is a product of the same size.
    """
    for slot, count, first, end in plan.by_slot(some):
        here = slice(first - some.start, end - some.start)
        visible = plan.visible[first:end, :count].to(g.dtype)
        asking = slot - len(plan.ends)
        shares, residual = attention.shares[asking, :count], attention.residual[:, asking]
        values = attention.values[:, :count]
        if shares.shape[-1] == 1:
            both = (values.squeeze(3) + residual[:, None]).mul_(shares)
            for products, place in ((both[0], g), (both[1], expanded), (shares, times)):
                torch.mm(visible, products.flatten(1), out=place[here].flatten(1))
        else:  # each head has its own sum of shares
            once = (visible @ shares.flatten(1)).reciprocal_().view(-1, *shares.shape[1:], 1)
            mixed = visible @ (values[0] * shares[..., None]).flatten(1)
            each = mixed.view(-1, *values.shape[2:]).mul_(once)
            torch.add(each.sum(dim=2), residual[0], out=g[here])
            torch.matmul(g[here], attention.expand, out=expanded[here])


def _middle(block: FoldedBlock, states: Tensor, plan: CoalitionPlan) -> Tensor:
    """Return `[R, B, d]`: the rows after a middle block."""
    mixed = torch.empty_like(states)
    for group, _, some in _in_cache(plan, states):
        seen = _take(states, group.seen[some])[:, :, None]  # [g, B, 1, s, d]
        most = group.most(some)
        asking = block.queries(seen[:, :, 0, -most:]).transpose(2, 3)  # [g, B, h, q, d]
        between = group.between[some, None, None, -most:].to(states.dtype)
        weights = (asking @ seen.transpose(3, 4)).add_(between).softmax(dim=-1)
        own = slice(group.starts[some.start], group.starts[some.start + len(seen)])
        found = _pick(weights @ seen, group.line[own] - some.start, group.column[own])
        mixed[group.computed[own]] = block.output(found)
    mixed[-plan.answers :][plan.blind] = block.shift
    return block.feed_forward(mixed, states)


def _last(block: FoldedBlock, states: Tensor, plan: CoalitionPlan) -> Tensor:
    """Return `[c, B, d]`: the answers, the only rows of the last block."""
    answers = states[-plan.answers :]
    queries = block.queries(answers)  # [c, B, h, d]
    found = torch.empty_like(queries)
    for group, own, some in _in_cache(plan, states):
        seen = _take(states, group.seen[some])  # [g, B, s, d]
        logits = queries[own] @ seen.transpose(2, 3)  # [g, B, h, s]
        weights = logits.add_(group.bias[some, None, None].to(logits.dtype)).softmax(dim=-1)
        torch.matmul(weights, seen, out=found[own])
    mixed = block.output(found)
    mixed[plan.blind] = block.shift
    return block.feed_forward(mixed, answers)


def _in_cache(plan: CoalitionPlan, states: Tensor) -> Iterator[tuple[CoalitionGroup, slice, slice]]:
    """Yield slices of groups that fit into the cache: of all coalitions and of the group."""
    start = 0
    for group in plan.groups:
        count, longest = group.seen.shape
        for some in row_slices(count, max(1, _rows_at_once(states) // (states.shape[1] * longest))):
            yield group, slice(start + some.start, start + min(some.stop, count)), some
        start += count


def _take(values: Tensor, rows: Tensor) -> Tensor:
    """Return `[g, B, s, d]`: the rows `[g, s]` of the values `[R, B, d]`."""
    cases = values.shape[1]
    which = rows[:, None] * cases + torch.arange(cases, device=rows.device)[:, None]
    # One long table is twice as fast on a processor as a table per case.
    return values.flatten(0, 1).index_select(0, which.flatten()).view(*which.shape, -1)


def _pick(values: Tensor, line: Tensor, column: Tensor) -> Tensor:
    """Return `[k, B, h, d]`: the values `[g, B, h, q, d]` in `k` lines and columns.

    Columns count from the last one, which is −1.
    """
    _, cases, heads, columns, _ = values.shape
    each = torch.arange(cases * heads, device=line.device)
    which = (line[:, None] * len(each) + each + 1) * columns + column[:, None]
    return (
        values.flatten(0, 3)
        .index_select(0, which.flatten())
        .view(-1, cases, heads, values.shape[4])
    )


def _rows_at_once(rows: Tensor) -> int:
    """Return the number of rows to compute at once; a GPU computes all."""
    return 2**62 if rows.is_cuda else ROWS_IN_CACHE
