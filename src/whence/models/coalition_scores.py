"""Answers under many coalitions of a history's items, where what they share is computed once.

Which rows there are at all to be computed, `coalition_plans` says. And more is shared:

* The first block's projections and logits do not depend on the coalition.
* The last block has a single query, the row that answers. Its key and value layers then work on
  the query and on the mean of the rows instead of on every row: q·(W_K x) = (W_Kᵀ q)·x.
* The layers around attention are two products, W_Kᵀ W_Q and W_O W_V, whatever they are applied to.
* The rows of a slot see more or fewer of the same slots: their sums are one product with 0 and 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from whence.memory import row_slices
from whence.models.blocks import Block
from whence.models.coalition_plans import Group, Plan, plans_for
from whence.models.packed import HIDDEN

ROWS_NEAR_THE_PROCESSOR = 16_384
"""Whose numbers stay in a processor's cache from one layer to the next."""
ALIVE = 4
"""Tensors with a number for every dimension of every row that are there at a time."""
ROWS_OF_CASES = 500_000
"""Rows of several cases that a processor computes at a time."""
ROWS_OF_A_SLOT = 64
"""From which on, in the mean, the rows of each slot are worth a computation of their own."""
WIDE = 30.0
"""Logits further apart than this are not left to `exp` alone."""


class FeedingForward(NamedTuple):
    """LayerNorm(FFN(LayerNorm(g)) + g) of a block, for rows whose mean is 0.

    Layer normalisation takes the mean off, so it may as well be taken off the weights that bring
    things to it; what is left is a division by the length of a row. And since the activation is
    positively homogeneous, a row may be divided after it as well as before.
    """

    expand: Tensor
    """`[d, d]`: W_1ᵀ, with the scale of the inner normalisation in it."""
    expand_bias: Tensor
    contract: Tensor
    """`[d, d]`: W_2ᵀ, to rows whose mean is 0."""
    contract_bias: Tensor
    inner_eps: float
    outer_eps: float

    @classmethod
    def of(cls, block: Block) -> FeedingForward:
        """From a block's weights."""
        inner = block.inner_norm
        return cls(
            (block.expand.weight * inner.weight).T.contiguous(),
            block.expand(inner.bias),
            _centred(block.contract.weight.T).contiguous(),
            _centred(block.contract.bias),
            inner.eps,
            block.outer_norm.eps,
        )

    def put(self, g: Tensor, expanded: Tensor, times: Tensor) -> None:
        """In the place of the rows `g` `[N, d]`, all but the outer scale and shift.

        Those and `expanded`, which is `g @ expand`, are so many `times` `[N, 1]` what they stand
        for.
        """
        length = _length(g, self.inner_eps * times.square())
        hidden = F.leaky_relu_(expanded.addcmul_(length, self.expand_bias))
        g.mul_(length / times).addcmul_(length, self.contract_bias).addmm_(hidden, self.contract)
        g.mul_(_length(g, self.outer_eps * length.square()).reciprocal_())


def _centred(rows: Tensor) -> Tensor:
    """Less the mean of each row."""
    return rows - rows.mean(dim=-1, keepdim=True)


def _length(rows: Tensor, eps: Tensor) -> Tensor:
    """`[N, 1]`: the root of each row's mean square and `eps`."""
    norm: Tensor = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
    return norm.square_().div_(rows.shape[-1]).add_(eps).sqrt_()


class Attending(NamedTuple):
    """A block, with its layers around attention as two products; `h` heads.

    Scale and shift of the normalisation before it are in its layers, not in its rows.
    """

    scale: Tensor
    shift: Tensor
    looking: Tensor
    """`[h·d, d]`: W_Kᵀ W_Q / √(d/h) of every head."""
    looking_bias: Tensor
    bringing: Tensor
    """`[d, h·d]`: W_O W_V of every head, to rows whose mean is 0."""
    bringing_bias: Tensor
    heads: int
    forward: FeedingForward

    @classmethod
    def of(cls, block: Block, scale: Tensor, shift: Tensor) -> Attending:
        """From its weights, and what the rows before it still need."""
        width = len(scale)
        query, key, value = (
            layer.weight.view(block.heads, -1, width)
            for layer in (block.query, block.key, block.value)
        )
        output = block.output.weight.view(width, block.heads, -1).transpose(0, 1)
        # The shift of what is seen adds the same to all logits of a row, which changes nothing.
        looking = scale[:, None] * key.transpose(1, 2) @ query * query.shape[1] ** -0.5
        bringing = _centred((output @ value).transpose(1, 2)).permute(2, 0, 1)  # [d, h, d]
        return cls(
            scale=scale,
            shift=shift,
            looking=(looking * scale).flatten(0, 1),
            looking_bias=(looking @ shift).flatten(),
            bringing=(bringing * scale).flatten(1),
            bringing_bias=(bringing @ shift).sum(dim=1) + shift,
            heads=block.heads,
            forward=FeedingForward.of(block),
        )

    def look(self, rows: Tensor) -> Tensor:
        """`[…, h, d]`: what each row `[…, d]` looks for in others."""
        looked = F.linear(rows, self.looking, self.looking_bias)
        return looked.view(*rows.shape[:-1], self.heads, -1)

    def bring(self, seen: Tensor) -> Tensor:
        """`[…, d]`: from the mean rows `[…, h, d]` that were seen, with the shift of who sees."""
        return F.linear(seen.flatten(-2), self.bringing, self.bringing_bias)

    def brought(self, rows: Tensor) -> Tensor:
        """`[…, h, d]`: what each row `[…, d]` brings to who sees it, where nothing is shifted."""
        each = self.bringing.unflatten(1, (self.heads, -1)).transpose(0, 1).flatten(0, 1)
        return F.linear(rows, each).view(*rows.shape[:-1], self.heads, -1)

    def stay(self, rows: Tensor) -> Tensor:
        """The rows themselves, less their mean."""
        return _centred(torch.addcmul(self.shift, rows, self.scale))

    def feed_forward(self, mixed: Tensor, rows: Tensor) -> Tensor:
        """From what attention brought to rows `[R, B, d]`, in its place, some at a time."""
        all_mixed, all_rows = mixed.flatten(0, 1), rows.flatten(0, 1)
        for some in row_slices(len(all_rows), _rows_at_once(rows)):
            g = all_mixed[some].addcmul_(all_rows[some], self.scale)
            g.sub_(g.mean(dim=-1, keepdim=True))
            self.forward.put(g, g @ self.forward.expand, g.new_ones(1, 1))
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
    """`[B, c]`: the last row after all blocks, which answers, times each case's target `[B, d]`.

    `rows` `[B, m, d]` enter the first block. `coalitions` `[c, n]` are the visible slots; slots
    after those are the model's own, and always visible.
    """
    cases, slots, width = rows.shape
    found = rows.new_empty(cases, len(coalitions))
    if not found.numel():
        return found
    heads = blocks[0].heads
    numbers = ALIVE * width + 2 * heads * (width + slots)  # of a row, and of what it looks at
    fitting = max(1, memory // (rows.element_size() * numbers))
    coalitions_at_once = max(1, fitting // (slots if len(blocks) > 1 else 1))
    if not rows.is_cuda:
        fitting = min(fitting, ROWS_OF_CASES)
    norm = blocks[-1].outer_norm
    attending = list(_attending(blocks))
    for plan in plans_for(coalitions, slots, causal, len(blocks), coalitions_at_once):
        times = math.ceil(cases / max(1, fitting // plan.size))
        for few in row_slices(cases, math.ceil(cases / times)):  # of like size, none too small
            answers = _answers(attending, rows[few].transpose(0, 1).contiguous(), plan)
            scores = torch.einsum("cbd,bd->bc", answers, targets[few] * norm.weight)
            scores += (targets[few] @ norm.bias)[:, None]
            found[few].index_copy_(1, plan.coalitions, scores.index_select(1, plan.answered))
    return found


def _attending(blocks: Sequence[Block]) -> Iterator[Attending]:
    """Each after the normalisation of the one before it; the first, after none."""
    like = blocks[0].outer_norm.weight
    scale, shift = torch.ones_like(like), torch.zeros_like(like)
    for block in blocks:
        yield Attending.of(block, scale, shift)
        scale, shift = block.outer_norm.weight, block.outer_norm.bias


def _answers(blocks: Sequence[Attending], rows: Tensor, plan: Plan) -> Tensor:
    """`[c, B, d]`, from the rows `[m, B, d]`."""
    first, *others = blocks
    states = _first(first, rows, plan)
    if not others:
        return states
    *middle, last = others
    for block in middle:
        states = _middle(block, states, plan)
    return _last(last, states, plan)


class Sight(NamedTuple):
    """What there is to see in the first block for `m` slots that ask; besides slots, nothing."""

    logits: Tensor
    """`[m, B, h, v]`: l_ij."""
    shares: Tensor
    """`[m, v, B, h]`: exp(l_ij), as shares of the largest."""
    brought: Tensor
    """`[2, v, B, h, d]`: v_j, and what the next layer makes of it."""
    stay: Tensor
    """`[2, m, B, d]`: r_i, what is there without attention, and what the next layer makes of it."""
    expand: Tensor
    """`[d, d]`: the next layer."""

    @classmethod
    def of(cls, attending: Attending, rows: Tensor, asking: Tensor) -> Sight:
        """From the rows `[v − 1, B, d]` of all slots and those that ask."""
        looked = attending.look(asking).permute(1, 2, 0, 3)  # [B, h, m, d]
        logits = (looked @ rows.permute(1, 2, 0)[:, None]).permute(2, 0, 1, 3)
        logits = F.pad(logits, (0, 1))
        shares = (logits - logits.amax(dim=-1, keepdim=True)).exp_().permute(0, 3, 1, 2)
        brought, stay = attending.brought(rows), attending.stay(asking)
        expand = attending.forward.expand
        return cls(
            logits,
            shares.contiguous(),
            F.pad(torch.stack((brought, brought @ expand)), (0, 0, 0, 0, 0, 0, 0, 1)),
            torch.stack((stay, stay @ expand)),
            expand,
        )

    @property
    def is_wide(self) -> bool:
        """Whether weights may be too small for numbers once a row's largest are hidden."""
        return bool((self.logits.amax(dim=-1) - self.logits.amin(dim=-1)).max() > WIDE)


def _first(attending: Attending, rows: Tensor, plan: Plan) -> Tensor:
    """`[R, B, d]`: the rows after the first block, whose logits all coalitions share."""
    cases = rows.shape[1]
    asking = rows if plan.groups else rows[-1:]  # answers alone are all in one slot
    sight = Sight.of(attending, rows, asking)
    many = plan.size * cases >= ROWS_OF_A_SLOT * len(asking)
    see = _see_by_slot if many and not sight.is_wide else _see_by_row
    states = rows.new_empty(plan.size, *rows.shape[1:])
    for some in row_slices(plan.size, max(1, _rows_at_once(rows) // cases)):
        g = states[some]
        expanded, times = torch.empty_like(g), g.new_ones(len(g), cases, 1)
        see(sight, plan, some, g, expanded, times)
        attending.forward.put(g.flatten(0, 1), expanded.flatten(0, 1), times.flatten(0, 1))
    return states


def _see_by_row(
    sight: Sight, plan: Plan, some: slice, g: Tensor, expanded: Tensor, _: Tensor
) -> None:
    """Put g = Σ_j α_ij v_j + r_i of some rows, and what the next layer makes of it, into places."""
    slots = plan.slots[some] - (plan.slots[-1] + 1 - len(sight.logits))
    hidden = plan.visible[some, None, None] == 0
    weights = sight.logits[slots].masked_fill_(hidden, HIDDEN).softmax(dim=-1)
    mixed = torch.einsum("rbhv,vbhd->rbd", weights, sight.brought[0])
    torch.add(mixed, sight.stay[0, slots], out=g)
    torch.matmul(g, sight.expand, out=expanded)


def _see_by_slot(
    sight: Sight, plan: Plan, some: slice, g: Tensor, expanded: Tensor, times: Tensor
) -> None:
    """The same with each exp(l_ij) computed once, by a product with 0 and 1 for a slot's rows.

    With one head the sums are left so many `times` as large, Σ_j∈S exp(l_ij)·(v_j + r_i), and the
    next layer is a product as small as that one.
    """
    for slot, count, first, end in plan.of_slots(some):
        here = slice(first - some.start, end - some.start)
        visible = plan.visible[first:end, :count].to(g.dtype)
        asking = slot - len(plan.ends)
        shares, stay = sight.shares[asking, :count], sight.stay[:, asking]
        brought = sight.brought[:, :count]
        if shares.shape[-1] == 1:
            both = (brought.squeeze(3) + stay[:, None]).mul_(shares)
            for products, place in ((both[0], g), (both[1], expanded), (shares, times)):
                torch.mm(visible, products.flatten(1), out=place[here].flatten(1))
        else:  # each head has its own sum of shares
            once = (visible @ shares.flatten(1)).reciprocal_().view(-1, *shares.shape[1:], 1)
            mixed = visible @ (brought[0] * shares[..., None]).flatten(1)
            each = mixed.view(-1, *brought.shape[2:]).mul_(once)
            torch.add(each.sum(dim=2), stay[0], out=g[here])
            torch.matmul(g[here], sight.expand, out=expanded[here])


def _middle(attending: Attending, states: Tensor, plan: Plan) -> Tensor:
    """`[R, B, d]`: the rows after another block."""
    mixed = torch.empty_like(states)
    for group, _, some in _near_the_processor(plan, states):
        seen = _take(states, group.seen[some])[:, :, None]  # [g, B, 1, s, d]
        most = group.most(some)
        asking = attending.look(seen[:, :, 0, -most:]).transpose(2, 3)  # [g, B, h, q, d]
        between = group.between[some, None, None, -most:].to(states.dtype)
        weights = (asking @ seen.transpose(3, 4)).add_(between).softmax(dim=-1)
        own = slice(group.starts[some.start], group.starts[some.start + len(seen)])
        found = _pick(weights @ seen, group.line[own] - some.start, group.column[own])
        mixed[group.computed[own]] = attending.bring(found)
    mixed[-plan.answers :][plan.blind] = attending.shift
    return attending.feed_forward(mixed, states)


def _last(attending: Attending, states: Tensor, plan: Plan) -> Tensor:
    """`[c, B, d]`: the answers, which alone the last block computes."""
    answers = states[-plan.answers :]
    looked = attending.look(answers)  # [c, B, h, d]
    found = torch.empty_like(looked)
    for group, own, some in _near_the_processor(plan, states):
        seen = _take(states, group.seen[some])  # [g, B, s, d]
        logits = looked[own] @ seen.transpose(2, 3)  # [g, B, h, s]
        weights = logits.add_(group.bias[some, None, None].to(logits.dtype)).softmax(dim=-1)
        torch.matmul(weights, seen, out=found[own])
    mixed = attending.bring(found)
    mixed[plan.blind] = attending.shift
    return attending.feed_forward(mixed, answers)


def _near_the_processor(plan: Plan, states: Tensor) -> Iterator[tuple[Group, slice, slice]]:
    """Some coalitions of a group, not too many at a time: which of all and which of the group."""
    begin = 0
    for group in plan.groups:
        count, longest = group.seen.shape
        for some in row_slices(count, max(1, _rows_at_once(states) // (states.shape[1] * longest))):
            yield group, slice(begin + some.start, begin + min(some.stop, count)), some
        begin += count


def _take(values: Tensor, rows: Tensor) -> Tensor:
    """`[g, B, s, d]`: of the values `[R, B, d]`, the rows `[g, s]`."""
    cases = values.shape[1]
    which = rows[:, None] * cases + torch.arange(cases, device=rows.device)[:, None]
    # From one long table: on a processor twice as fast as from each case's own.
    return values.flatten(0, 1).index_select(0, which.flatten()).view(*which.shape, -1)


def _pick(values: Tensor, line: Tensor, column: Tensor) -> Tensor:
    """`[k, B, h, d]`: of the values `[g, B, h, q, d]`, those in `k` lines and columns.

    Columns are counted from the last one, which is −1.
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
    """A GPU takes all of them."""
    return 2**62 if rows.is_cuda else ROWS_NEAR_THE_PROCESSOR
