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

from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from whence.memory import row_slices
from whence.models.blocks import Block
from whence.models.packed import HIDDEN

GROUPS = 4
"""Into how many groups of like size coalitions are sorted; a group is as wide as its largest."""
ROWS_NEAR_THE_PROCESSOR = 4096
"""Whose numbers stay in a processor's cache from one layer to the next."""
ALIVE = 12
"""Tensors with a number for every dimension of every row that are there at a time."""
WIDE = 60.0
"""Logits further apart than this are not left to `exp` alone."""
BITS = 62
"""Slots that one whole number can tell of."""


class Attending(NamedTuple):
    """A block's layers around attention as two products; `h` heads."""

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
        return cls(looking.flatten(0, 1), bringing.flatten(1), block.heads)

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
    """Coalitions of like size, and the rows that are computed for them: one after the other.

    A row that several coalitions need is one of the first that needs it. The answers come last.
    """

    first: int
    end: int
    """Their rows are from `first` to before `end`."""
    listed: Tensor
    """`[g, s]`: each coalition's members' rows, wherever they are, and its answer's; filled on the
    left with any row."""
    bias: Tensor
    """`[g, s]`: 0, or `HIDDEN` for filling and for an answer that does not see itself."""
    places: Tensor
    """`[end − first]`: where in the lists the group's own rows stand."""


class Plan(NamedTuple):
    """Which `R` rows `c` coalitions of `m` slots need."""

    coalitions: Tensor
    """`[c]`: their numbers among all, in the order of the groups."""
    slots: Tensor
    """`[R]`: the slot of each row."""
    visible: Tensor
    """`[R, m]`: 1 for the slots that the row sees in the first block, else 0."""
    blind: Tensor
    """`[c, 1]`: the coalitions whose answer sees nothing at all."""
    groups: list[Group]


@torch.no_grad()
def answers_of_coalitions(
    blocks: Sequence[Block], rows: Tensor, coalitions: Tensor, causal: bool, memory: int
) -> Tensor:
    """`[B, c, d]`: the last row after all blocks, which answers, under each coalition.

    `rows` `[B, m, d]` enter the first block. `coalitions` `[c, n]` are the visible slots; slots
    after those are the model's own, and always visible.
    """
    cases, slots, width = rows.shape
    at_once = max(1, memory // (ALIVE * rows.element_size() * width * slots))
    plans = _plans(coalitions, slots, causal, len(blocks) > 1, at_once)
    found = rows.new_empty(cases, len(coalitions), width)
    for plan in plans:
        for few in row_slices(cases, max(1, at_once // len(plan.coalitions))):
            answers = _answers(blocks, rows[few], plan, causal)
            found[few].index_copy_(1, plan.coalitions, answers)
    return found


def _plans(
    coalitions: Tensor, slots: int, causal: bool, deep: bool, at_once: int
) -> Iterable[Plan]:
    """For some coalitions at a time; one for all of them is kept, since it serves other cases."""
    if len(coalitions) > at_once:
        return _new_plans(coalitions, slots, causal, deep, at_once)
    kept = _KEPT.setdefault(coalitions, {})
    key = (coalitions._version, slots, causal, deep)
    if key not in kept:
        kept[key] = list(_new_plans(coalitions, slots, causal, deep, at_once))
    return kept[key]


def _new_plans(
    coalitions: Tensor, slots: int, causal: bool, deep: bool, at_once: int
) -> Iterator[Plan]:
    members = F.pad(coalitions, (0, slots - coalitions.shape[1]), value=True)
    for which in _alike_side_by_side(members).split(at_once):
        yield plan_rows(members, which, causal, deep)


_KEPT: MutableMapping[Tensor, dict[tuple[int, int, bool, bool], list[Plan]]] = WeakIdKeyDictionary()


def _alike_side_by_side(members: Tensor) -> Tensor:
    """`[c]`: an order in which coalitions that begin alike follow each other."""
    order = torch.arange(len(members), device=members.device)
    for some in reversed(list(row_slices(members.shape[1], BITS))):
        bits = members[:, some]
        power = torch.arange(bits.shape[1] - 1, -1, -1, device=members.device)
        number = (bits.long() << power).sum(dim=1)
        order = order[number[order].argsort(stable=True)]
    return order


def plan_rows(members: Tensor, which: Tensor, causal: bool, deep: bool) -> Plan:
    """The rows that `which` of the coalitions need, those that begin alike side by side.

    In a network of one block they are the answers alone.
    """
    members = members[which]
    inner = members[:, :-1] if deep else members[:, :0]
    own = inner.clone()
    if causal:  # not where the coalition before it began alike up to this slot
        own[1:] &= (inner[1:] != inner[:-1]).cumsum(dim=1) > 0
    by_size = inner.sum(dim=1).argsort(stable=True).tensor_split(min(GROUPS, len(members)))
    number, firsts = _numbered(own, by_size)
    groups, slots, visible = [], [], []
    for some, first in zip(by_size, firsts, strict=True):
        answers = number[some, -1]
        coalition, slot = own[some].nonzero(as_tuple=True)
        seen = members[some][coalition]
        if causal:
            seen &= torch.arange(members.shape[1], device=seen.device) <= slot[:, None]
        slots += [slot, torch.full_like(answers, members.shape[1] - 1)]
        visible += [seen, members[some]]
        listed, bias, place = _lists(inner[some], number[some], members[some, -1])
        places = torch.cat((place[:, :-1][own[some]], place[:, -1]))
        groups.append(Group(first, first + len(places), listed, bias, places))
    coalitions = torch.cat(by_size)
    return Plan(
        coalitions=which[coalitions],
        slots=torch.cat(slots),
        visible=torch.cat(visible).float(),
        blind=~members[coalitions].any(dim=1, keepdim=True),
        groups=groups,
    )


def _numbered(own: Tensor, groups: Sequence[Tensor]) -> tuple[Tensor, list[int]]:
    """`[c, m]`: the number of every slot's row, the answer's last; and each group's first."""
    number = torch.zeros_like(F.pad(own, (0, 1)), dtype=torch.int64)
    firsts, begun = [], 0
    for some in groups:
        firsts.append(begun)
        mine = own[some]
        count = int(mine.sum())
        number[some, :-1] = begun - 1 + mine.flatten().cumsum(0).view(mine.shape)
        number[some, -1] = begun + count + torch.arange(len(some), device=own.device)
        begun += count + len(some)
    # Who does not compute a row has it from the latest coalition before that does.
    line = torch.arange(len(own), device=own.device)[:, None]
    owner = torch.where(own, line, 0).cummax(dim=0).values
    number[:, :-1] = number[:, :-1].gather(0, owner)
    return number, firsts


def _lists(inner: Tensor, number: Tensor, sees_itself: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """`[g, s]` rows, `[g, s]` their bias, and `[g, m]` the place of each slot in all lists."""
    sizes = inner.sum(dim=1, keepdim=True)
    longest = int(sizes.max())
    column = longest - sizes + inner.cumsum(dim=1) - 1
    listed = number.new_zeros(len(inner), longest + 1)
    bias = torch.full(listed.shape, HIDDEN, device=listed.device)
    line = inner.nonzero(as_tuple=True)[0]
    listed[line, column[inner]] = number[:, :-1][inner]
    bias[line, column[inner]] = 0
    listed[:, -1] = number[:, -1]
    bias[sees_itself, -1] = 0
    first = torch.arange(0, listed.numel(), longest + 1, device=listed.device)[:, None]
    return listed, bias, first + F.pad(column, (0, 1), value=longest)


def _answers(blocks: Sequence[Block], rows: Tensor, plan: Plan, causal: bool) -> Tensor:
    """`[B, c, d]`."""
    first, *others = blocks
    states = _first(first, rows, plan)
    if not others:
        return states
    *middle, last = others
    for block in middle:
        states = _middle(block, states, plan, causal)
    return _last(last, states, plan)


def _first(block: Block, rows: Tensor, plan: Plan) -> Tensor:
    """`[B, R + c, d]`: the rows after the first block, whose logits all coalitions share."""
    attending = Attending.of(block)
    brought = attending.brought(rows).transpose(1, 2)  # [B, h, m, d]
    logits = attending.look(rows).transpose(1, 2) @ rows[:, None].transpose(2, 3)  # [B, h, m, m]
    seen = _seen_safely if _is_wide(logits) else _seen_at_once
    states = rows.new_empty(len(rows), len(plan.slots), rows.shape[2])
    for some in row_slices(len(plan.slots), _rows_at_once(rows)):
        slots = plan.slots[some]
        mixed = seen(logits, brought, slots, plan.visible[some])
        states[:, some] = block.feed_forward(mixed.add_(rows.index_select(1, slots)))
    return states


def _is_wide(logits: Tensor) -> bool:
    """Whether a row's weights may be too small for numbers once its largest are hidden."""
    return bool((logits.amax(dim=-1) - logits.amin(dim=-1)).max() > WIDE)


def _seen_at_once(logits: Tensor, brought: Tensor, slots: Tensor, visible: Tensor) -> Tensor:
    """`[B, R, d]`: Σ_j∈S exp(l_ij)·v_j / Σ_j∈S exp(l_ij), with each exp(l_ij) computed once."""
    shares = (logits - logits.amax(dim=-1, keepdim=True)).exp_()
    weights = shares.index_select(2, slots).mul_(visible)
    total = weights.sum(dim=-1, keepdim=True)
    if weights.shape[1] > 1:
        return _over_heads(weights.div_(total.add_(total == 0)), brought)
    return _over_heads(weights, brought).div_(total.add_(total == 0).squeeze(1))


def _seen_safely(logits: Tensor, brought: Tensor, slots: Tensor, visible: Tensor) -> Tensor:
    """The same by a softmax of what each row sees."""
    weights = logits.index_select(2, slots).masked_fill_(visible == 0, HIDDEN).softmax(dim=-1)
    return _over_heads(weights.mul_(visible), brought)


def _middle(block: Block, states: Tensor, plan: Plan, causal: bool) -> Tensor:
    """`[B, R, d]`: the rows after another block."""
    attending = Attending.of(block)
    looked, brought = attending.look(states), attending.brought(states)
    after = torch.empty_like(states)
    blind = plan.blind.split([len(group.listed) for group in plan.groups])
    for group, no_answer in zip(plan.groups, blind, strict=True):
        own = slice(group.first, group.end)
        mixed = _seen_in_lists(states, looked, brought, group, causal).flatten(1, 2)
        mixed = mixed.index_select(1, group.places)
        mixed[:, -len(no_answer) :].masked_fill_(no_answer, 0)
        after[:, own] = block.feed_forward(mixed.add_(states[:, own]))
    return after


def _seen_in_lists(
    states: Tensor, looked: Tensor, brought: Tensor, group: Group, causal: bool
) -> Tensor:
    """`[B, g, s, d]`: what attention brings to every row of every list."""
    bias = group.bias[:, None, None].to(states.dtype)  # [g, h, s, s]
    if causal:
        size = group.listed.shape[1]
        bias = bias + bias.new_full((size, size), HIDDEN).triu(1)
    query, value = (_take(one, group.listed).transpose(2, 3) for one in (looked, brought))
    key = _take(states, group.listed)[:, :, None]
    weights = (query @ key.transpose(3, 4)).add_(bias).softmax(dim=-1)
    return _over_heads(weights, value)


def _last(block: Block, states: Tensor, plan: Plan) -> Tensor:
    """`[B, c, d]`: the answers, which alone the last block computes."""
    attending = Attending.of(block)
    answers = torch.cat(
        [states[:, one.end - len(one.listed) : one.end] for one in plan.groups], dim=1
    )
    sizes = [len(group.listed) for group in plan.groups]
    seen = []
    for group, looked in zip(plan.groups, attending.look(answers).split(sizes, dim=1), strict=True):
        listed = _take(states, group.listed)  # [B, g, s, d]
        logits = looked @ listed.transpose(2, 3)  # [B, g, h, s]
        weights = logits.add_(group.bias[:, None].to(logits.dtype)).softmax(dim=-1)
        seen.append(weights @ listed)
    mixed = attending.bring(torch.cat(seen, dim=1)).masked_fill_(plan.blind, 0)
    return block.feed_forward(mixed.add_(answers))


def _take(values: Tensor, rows: Tensor) -> Tensor:
    """`[B, g, s, …]`: of the values `[B, N, …]`."""
    taken: Tensor = values.index_select(1, rows.flatten()).unflatten(1, rows.shape)
    return taken


def _over_heads(weights: Tensor, values: Tensor) -> Tensor:
    """`[…, q, d]`: the sum over heads of weights `[…, h, q, k]` times values `[…, h, k, d]`."""
    mixed = weights @ values
    return mixed.squeeze(-3) if mixed.shape[-3] == 1 else mixed.sum(dim=-3)


def _rows_at_once(rows: Tensor) -> int:
    """A GPU takes all of them."""
    return 2**62 if rows.is_cuda else ROWS_NEAR_THE_PROCESSOR
