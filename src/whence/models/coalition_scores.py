"""Answers under many coalitions of a history's items, where what they share is computed once.

An item that is hidden from attention in every block is seen by nobody, so its row need not be
computed at all, but for the row that answers. And more is shared:

* The first block's projections and logits do not depend on the coalition.
* In a causal network the row of a slot depends only on the members of the coalition up to it, so
  coalitions that begin alike share rows.
* The last block has a single query, the row that answers. Its key and value layers then work on
  the query and on the mean of the rows instead of on every row: q·(W_K x) = (W_Kᵀ q)·x.
* The layers around attention are two products, W_Kᵀ W_Q and W_O W_V, whatever they are applied to.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from whence.memory import memory_for, row_slices
from whence.models.blocks import Block
from whence.models.packed import HIDDEN

GROUPS = 8
"""Into how many groups of like size coalitions are sorted; a group is as wide as its largest."""
ROWS_NEAR_THE_PROCESSOR = 8192
"""Whose numbers stay in a processor's cache from one layer to the next."""
ALIVE = 12
"""Tensors with a number for every dimension of every row that are there at a time."""
ROWS_OF_CASES = 65_536
"""Rows of several cases that a processor computes at a time."""
WIDE = 60.0
"""Logits further apart than this are not left to `exp` alone."""
BITS = 62
"""Slots that one whole number can tell of."""


class Attending(NamedTuple):
    """A block, with its layers around attention as two products; `h` heads."""

    block: Block
    looking: Tensor
    """`[h·d, d]`: W_Kᵀ W_Q / √(d/h) of every head."""
    bringing: Tensor
    """`[d, h·d]`: W_O W_V of every head."""
    heads: int

    @classmethod
    def of(cls, block: Block) -> Attending:
        """From its weights."""
        width = block.query.weight.shape[1]
        query, key, value = (
            layer.weight.view(block.heads, -1, width)
            for layer in (block.query, block.key, block.value)
        )
        output = block.output.weight.view(width, block.heads, -1).transpose(0, 1)
        looking = key.transpose(1, 2) @ query * query.shape[1] ** -0.5
        bringing = (output @ value).transpose(0, 1)
        return cls(block, looking.flatten(0, 1), bringing.flatten(1), block.heads)

    def look(self, rows: Tensor) -> Tensor:
        """`[…, h, d]`: what each row `[…, d]` looks for in others."""
        looked: Tensor = F.linear(rows, self.looking).unflatten(-1, (self.heads, -1))
        return looked

    def bring(self, seen: Tensor) -> Tensor:
        """`[…, d]`: from the mean rows `[…, h, d]` that were seen."""
        return F.linear(seen.flatten(-2), self.bringing)

    def brought(self, rows: Tensor) -> Tensor:
        """`[…, h, d]`: what each row `[…, d]` brings to who sees it."""
        each = self.bringing.unflatten(1, (self.heads, -1)).transpose(0, 1).flatten(0, 1)
        brought: Tensor = F.linear(rows, each).unflatten(-1, (self.heads, -1))
        return brought


class Group(NamedTuple):
    """Coalitions of like size, with the rows that they see and those that are computed for them."""

    first: int
    end: int
    """They compute the rows from `first` to before `end`, coalition by coalition."""
    seen: Tensor
    """`[g, s]`: the rows of a coalition's members, whoever computes them, and of its answer."""
    bias: Tensor
    """`[g, s]`: 0, or `HIDDEN` for filling and for an answer that does not see itself."""
    asking: Tensor
    """`[g, q]`: the rows that a coalition computes, its answer last; filled like the others on the
    left, with any row."""
    between: Tensor
    """`[g, q, s]`: the bias of each row that asks."""
    places: Tensor
    """`[end − first]`: where in `asking` the group's rows stand."""


class Plan(NamedTuple):
    """The `R` rows that `c` coalitions of `m` slots need; each has an answer, in the last slot.

    A row that several coalitions need is computed by the first that needs it, and a coalition that
    comes several times is there once.
    """

    coalitions: Tensor
    """Their numbers among all."""
    answered: Tensor
    """For each of those, which of the `c` it is, in the order of the groups."""
    slots: Tensor
    """`[R]`: the slot of each row."""
    visible: Tensor
    """`[R, m]`: 1 for the slots that the row sees in the first block, else 0."""
    answers: Tensor
    """`[c]`: the rows that answer."""
    blind: Tensor
    """Which coalitions' answers see nothing at all."""
    groups: list[Group]


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
    if not len(coalitions):
        return rows.new_zeros(cases, 0)
    heads = blocks[0].heads
    numbers = ALIVE * width + 2 * heads * (width + slots)  # of a row, and of what it looks at
    rows_each = slots if len(blocks) > 1 else 1
    at_once = max(1, memory // (rows.element_size() * numbers * rows_each))
    attending = [Attending.of(block) for block in blocks]
    found = rows.new_empty(cases, len(coalitions))
    for plan in _plans(coalitions, slots, causal, len(blocks), at_once):
        fitting = at_once // len(plan.answers)
        if not rows.is_cuda:
            fitting = min(fitting, ROWS_OF_CASES // len(plan.slots))
        for few in row_slices(cases, max(1, fitting)):
            answers = _answers(attending, rows[few], plan)
            scores = (answers @ targets[few, :, None]).squeeze(-1)
            found[few].index_copy_(1, plan.coalitions, scores.index_select(1, plan.answered))
    return found


def _plans(
    coalitions: Tensor, slots: int, causal: bool, blocks: int, at_once: int
) -> Iterator[Plan]:
    """For some coalitions at a time; one for all of them is kept, since it serves other cases."""
    if len(coalitions) <= at_once:
        yield _kept_plan(coalitions, slots, causal, blocks)
        return
    members = _with_own_slots(coalitions, slots)
    for which in _alike_side_by_side(members).split(at_once):
        yield plan_rows(members, which, causal, blocks)


_kept: OrderedDict[tuple[object, ...], tuple[Plan, int]] = OrderedDict()
"""The plans last used with their bytes, as many as the memory for a device has room for.

Histories of every length have a plan of their own, and one model after the other needs them all.
"""


def _kept_plan(coalitions: Tensor, slots: int, causal: bool, blocks: int) -> Plan:
    """By what the coalitions are, not by who holds them."""
    told = coalitions.cpu().numpy().tobytes()
    key = (told, coalitions.shape, slots, causal, blocks, coalitions.device)
    if key not in _kept:
        members = _with_own_slots(coalitions, slots)
        plan = plan_rows(members, _alike_side_by_side(members), causal, blocks)
        room = memory_for(coalitions.device) - _bytes_of(plan)
        while _kept and sum(size for _, size in _kept.values()) > room:
            _kept.popitem(last=False)
        _kept[key] = plan, _bytes_of(plan)
    _kept.move_to_end(key)
    return _kept[key][0]


def _bytes_of(plan: Plan) -> int:
    tensors = (*plan, *(tensor for group in plan.groups for tensor in group))
    return sum(one.nbytes for one in tensors if isinstance(one, Tensor))


def _with_own_slots(coalitions: Tensor, slots: int) -> Tensor:
    return F.pad(coalitions, (0, slots - coalitions.shape[1]), value=True)


def _alike_side_by_side(members: Tensor) -> Tensor:
    """`[c]`: an order in which coalitions that begin alike follow each other."""
    order = torch.arange(len(members), device=members.device)
    for some in reversed(list(row_slices(members.shape[1], BITS))):
        bits = members[:, some]
        power = torch.arange(bits.shape[1] - 1, -1, -1, device=members.device)
        number = (bits.long() << power).sum(dim=1)
        order = order[number[order].argsort(stable=True)]
    return order


def plan_rows(members: Tensor, which: Tensor, causal: bool, blocks: int) -> Plan:
    """The rows that `which` of the coalitions need, those that begin alike side by side."""
    members = members[which]
    first = torch.ones_like(which, dtype=torch.bool)  # of those that are the same
    first[1:] = (members[1:] != members[:-1]).any(dim=1)
    members = members[first]
    own = members.clone()
    if blocks == 1:
        own[:] = False  # the answers alone
    elif causal:  # not where the coalition before it began alike up to this slot
        own[1:] &= (members[1:] != members[:-1]).cumsum(dim=1) > 0
    own[:, -1] = True
    order = members.sum(dim=1).argsort(stable=True)
    number = _numbered(own, order)
    coalition, slot = own[order].nonzero(as_tuple=True)
    visible = members[order][coalition]
    if causal:
        visible &= torch.arange(members.shape[1], device=members.device) <= slot[:, None]
    return Plan(
        coalitions=which,
        answered=order.argsort()[first.cumsum(0) - 1],
        slots=slot,
        visible=visible.float(),
        answers=number[order, -1],
        blind=(~members[order].any(dim=1)).nonzero()[:, 0],
        groups=[
            _group(members[some], own[some], number[some], causal)
            for some in order.tensor_split(min(GROUPS, len(order)))
            if blocks > 1
        ],
    )


def _numbered(own: Tensor, order: Tensor) -> Tensor:
    """`[c, m]`: which row each slot has, counted in that order of the coalitions."""
    number = torch.empty_like(own, dtype=torch.int64)
    number[order] = own[order].flatten().cumsum(0).view(own.shape) - 1
    # Who does not compute a row has it from the latest coalition before that does.
    line = torch.arange(len(own), device=own.device)[:, None]
    return number.gather(0, torch.where(own, line, 0).cummax(dim=0).values)


def _group(members: Tensor, own: Tensor, number: Tensor, causal: bool) -> Group:
    """Of some coalitions."""
    listed = members.clone()
    listed[:, -1] = True
    slot = torch.arange(members.shape[1], device=members.device).expand_as(members)
    seen, asking = _to_the_right(listed, slot), _to_the_right(own, slot)
    hidden = seen < 0
    hidden[:, -1] = ~members[:, -1]
    between = hidden[:, None].expand(-1, asking.shape[1], -1)
    if causal:
        between = between | (seen[:, None] > asking[:, :, None])
    computed = number[own]
    return Group(
        first=int(computed[0]),
        end=int(computed[-1]) + 1,
        seen=_to_the_right(listed, number).clamp_(min=0),
        bias=torch.where(hidden, HIDDEN, 0.0),
        asking=_to_the_right(own, number).clamp_(min=0),
        between=torch.where(between, HIDDEN, 0.0),
        places=(asking.flatten() >= 0).nonzero()[:, 0],
    )


def _to_the_right(chosen: Tensor, values: Tensor) -> Tensor:
    """`[g, s]`: the chosen values of every line, in order, with −1 on the left where fewer are."""
    counts = chosen.sum(dim=1, keepdim=True)
    longest = int(counts.max())
    column = (longest - counts + chosen.cumsum(dim=1) - 1)[chosen]
    found = values.new_full((len(chosen), longest), -1)
    found[chosen.nonzero()[:, 0], column] = values[chosen]
    return found


def _answers(blocks: Sequence[Attending], rows: Tensor, plan: Plan) -> Tensor:
    """`[B, c, d]`."""
    first, *others = blocks
    states = _first(first, rows, plan)
    if not others:
        return states
    *middle, last = others
    for block in middle:
        states = _middle(block, states, plan)
    return _last(last, states, plan)


def _first(attending: Attending, rows: Tensor, plan: Plan) -> Tensor:
    """`[B, R, d]`: the rows after the first block, whose logits all coalitions share."""
    brought = attending.brought(rows).transpose(1, 2)  # [B, h, m, d]
    asking = rows if plan.groups else rows[:, -1:]  # answers alone are all in one slot
    logits = attending.look(asking).transpose(1, 2) @ rows[:, None].transpose(2, 3)  # [B, h, m, m]
    seen = _seen_safely if _is_wide(logits) else _seen_at_once
    g = rows.new_empty(len(rows), len(plan.slots), rows.shape[2])
    for some in row_slices(len(plan.slots), _rows_at_once(rows)):
        slots = plan.slots[some]
        mixed, total = seen(logits, brought, slots, plan.visible[some])
        torch.addcdiv(_of_slots(asking, slots), mixed, total, out=g[:, some])
    return _fed_forward(attending.block, g)


def _is_wide(logits: Tensor) -> bool:
    """Whether a row's weights may be too small for numbers once its largest are hidden."""
    return bool((logits.amax(dim=-1) - logits.amin(dim=-1)).max() > WIDE)


def _seen_at_once(
    logits: Tensor, brought: Tensor, slots: Tensor, visible: Tensor
) -> tuple[Tensor, Tensor]:
    """`[B, R, d]` Σ_j∈S exp(l_ij)·v_j and `[B, R, 1]` Σ_j∈S exp(l_ij), each exp computed once.

    Where nothing is seen the sum is 1. Heads have sums of their own, and are divided by them here.
    """
    shares = (logits - logits.amax(dim=-1, keepdim=True)).exp_()
    of_rows = _of_slots(shares.flatten(0, 1), slots).unflatten(0, shares.shape[:2])
    weights = of_rows * visible.to(shares.dtype)
    total = weights.sum(dim=-1, keepdim=True)
    total += total == 0
    if weights.shape[1] > 1:
        return _over_heads(weights.div_(total), brought), total.new_ones(1)
    return _over_heads(weights, brought), total.squeeze(1)


def _seen_safely(
    logits: Tensor, brought: Tensor, slots: Tensor, visible: Tensor
) -> tuple[Tensor, Tensor]:
    """The same by a softmax of what each row sees, whose sum is 1."""
    of_rows = _of_slots(logits.flatten(0, 1), slots).unflatten(0, logits.shape[:2])
    weights = of_rows.masked_fill(visible == 0, HIDDEN).softmax(dim=-1)
    return _over_heads(weights.mul_(visible), brought), logits.new_ones(1)


def _middle(attending: Attending, states: Tensor, plan: Plan) -> Tensor:
    """`[B, R, d]`: the rows after another block."""
    looked = attending.look(states)  # [B, R, h, d]
    mixed = torch.empty_like(states)
    for group in plan.groups:
        seen = _take(states, group.seen)[:, :, None]  # [B, g, 1, s, d]
        asking = _take(looked, group.asking).transpose(2, 3)  # [B, g, h, q, d]
        between = group.between[:, None].to(states.dtype)
        weights = (asking @ seen.transpose(3, 4)).add_(between).softmax(dim=-1)
        found = (weights @ seen).transpose(2, 3).flatten(1, 2)  # [B, g·q, h, d]
        mixed[:, group.first : group.end] = attending.bring(_take(found, group.places))
    mixed.index_fill_(1, plan.answers[plan.blind], 0)
    return _fed_forward(attending.block, mixed.add_(states))


def _last(attending: Attending, states: Tensor, plan: Plan) -> Tensor:
    """`[B, c, d]`: the answers, which alone the last block computes."""
    answers = _take(states, plan.answers)
    sizes = [len(group.seen) for group in plan.groups]
    found = []
    for group, asking in zip(plan.groups, attending.look(answers).split(sizes, dim=1), strict=True):
        seen = _take(states, group.seen)  # [B, g, s, d]
        logits = asking @ seen.transpose(2, 3)  # [B, g, h, s]
        weights = logits.add_(group.bias[:, None].to(logits.dtype)).softmax(dim=-1)
        found.append(weights @ seen)
    mixed = attending.bring(torch.cat(found, dim=1)).index_fill_(1, plan.blind, 0)
    return _fed_forward(attending.block, mixed.add_(answers))


def _fed_forward(block: Block, g: Tensor) -> Tensor:
    """As `Block.feed_forward`, some rows at a time."""
    added = torch.empty_like(g)
    for some in row_slices(g.shape[1], _rows_at_once(g)):
        torch.add(block.ffn(g[:, some]), g[:, some], out=added[:, some])
    normed: Tensor = block.outer_norm(added)
    return normed


def _take(values: Tensor, rows: Tensor) -> Tensor:
    """`[B, …, d]`: of the values `[B, N, d]`, or `[B, …, h, d]` of those of several heads."""
    cases, count = values.shape[:2]
    which = rows.flatten()
    if cases > 1:
        which = (which + torch.arange(0, cases * count, count, device=which.device)[:, None]).view(
            -1
        )
    # From one long table: on a processor twice as fast as from each case's own.
    taken = values.flatten(0, 1).index_select(0, which)
    return taken.view(cases, *rows.shape, *values.shape[2:])


def _of_slots(values: Tensor, slots: Tensor) -> Tensor:
    """`[B, R, …]`: of the values `[B, m, …]` of all slots, or `[B, 1, …]` of the only one."""
    return values if values.shape[1] == 1 else _take(values, slots)


def _over_heads(weights: Tensor, values: Tensor) -> Tensor:
    """`[…, q, d]`: the sum over heads of weights `[…, h, q, k]` times values `[…, h, k, d]`."""
    mixed = weights @ values
    return mixed.squeeze(-3) if mixed.shape[-3] == 1 else mixed.sum(dim=-3)


def _rows_at_once(rows: Tensor) -> int:
    """A GPU takes all of them."""
    return 2**62 if rows.is_cuda else ROWS_NEAR_THE_PROCESSOR
