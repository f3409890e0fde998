"""Which rows many coalitions of a history's items need, so that each is computed once.

An item that is hidden from attention in every block is seen by nobody, so its row need not be
computed at all, but for the row that answers. In a causal network the row of a slot depends only on
the members of the coalition up to it, so coalitions that begin alike share rows.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from whence.memory import memory_for, row_slices
from whence.models.packed import HIDDEN

GROUPS = 8
"""Into how many groups of like size coalitions are sorted; a group is as wide as its largest."""
BITS = 62
"""Slots that one whole number can tell of."""


class Group(NamedTuple):
    """Coalitions of like size, with the rows that they see and those that are computed for them."""

    seen: Tensor
    """`[g, s]`: the rows of a coalition's members, whoever computes them, and of its answer; filled
    on the left with any row."""
    bias: Tensor
    """`[g, s]`: 0, or `HIDDEN` for filling and for an answer that does not see itself."""
    between: Tensor
    """`[g, q, s]`: the bias of each of the last `q`; at most so many are computed for a coalition,
    for those that come later no fewer than for those before."""
    computed: Tensor
    """`[k]`: those that are, coalition by coalition."""
    line: Tensor
    column: Tensor
    """`[k]`: where among `[g, q]` they stand; columns are counted from the last, which is −1."""
    starts: list[int]
    """Which of the `k` is the first of each coalition, and k."""

    def most(self, some: slice) -> int:
        """How many are at most computed for one of some coalitions: for the last of them."""
        last: int = min(some.stop, len(self.seen))
        return self.starts[last] - self.starts[last - 1]


class Plan(NamedTuple):
    """The `R` rows that `c` coalitions of `m` slots need, slot by slot.

    A row that several coalitions need is computed for the first that needs it, and a coalition that
    comes several times is there once. The last `c` rows answer, in the order of the groups.
    """

    coalitions: Tensor
    """Their numbers among all."""
    answered: Tensor
    """For each of those, which of the `c` it is."""
    slots: Tensor
    """`[R]`: the slot of each row."""
    visible: Tensor
    """`[R, m + 1]`: 1 for the slots that the row sees in the first block, else 0. The last column
    is nothing, which is seen by who sees no slot."""
    ends: list[int]
    """Before which row those of each slot end."""
    causal: bool
    blind: Tensor
    """Which coalitions' answers see nothing at all."""
    groups: list[Group]

    def of_slots(self, some: slice) -> Iterator[tuple[int, int, int, int]]:
        """Slots with how many columns they see some of, and from where to where their rows are."""
        last = len(self.ends) - 1
        for slot, (start, end) in enumerate(pairwise((0, *self.ends))):
            first, end = max(start, some.start), min(end, some.stop)
            if first < end:
                yield slot, slot + 1 if self.causal and slot < last else last + 2, first, end

    @property
    def size(self) -> int:
        """R."""
        return len(self.slots)

    @property
    def answers(self) -> int:
        """c."""
        return self.ends[-1] - self.ends[-2] if len(self.ends) > 1 else self.ends[-1]


def plans_for(
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
    groups = _grouped(members, own)
    order = torch.cat(groups)
    number = _numbered(own, order)[order]
    members, own = members[order], own[order]
    slot, coalition = own.T.nonzero(as_tuple=True)
    visible = members[coalition]
    if causal:
        visible &= torch.arange(members.shape[1], device=members.device) <= slot[:, None]
    visible = torch.cat((visible, ~visible.any(dim=1, keepdim=True)), dim=1)
    sizes = [len(group) for group in groups]
    of_groups = zip(members.split(sizes), own.split(sizes), number.split(sizes), strict=True)
    return Plan(
        coalitions=which,
        answered=order.argsort()[first.cumsum(0) - 1],
        slots=slot,
        visible=visible.float(),
        ends=own.sum(dim=0).cumsum(0).tolist(),
        causal=causal,
        blind=(~members.any(dim=1)).nonzero()[:, 0],
        groups=[_group(*lists, causal=causal) for lists in of_groups if blocks > 1],
    )


def _grouped(members: Tensor, own: Tensor) -> list[Tensor]:
    """Coalitions of like size, in a group those last that most rows are computed for."""
    by_own = own.sum(dim=1).argsort(stable=True)
    groups = members.sum(dim=1).argsort(stable=True).tensor_split(min(GROUPS, len(members)))
    rank = by_own.argsort()
    return [group[rank[group].argsort()] for group in groups]


def _numbered(own: Tensor, order: Tensor) -> Tensor:
    """`[c, m]`: which row each slot has, counted slot by slot in that order of the coalitions."""
    number = torch.empty_like(own, dtype=torch.int64)
    number[order] = own[order].T.flatten().cumsum(0).view(own.T.shape).T - 1
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
    line, column = (asking >= 0).nonzero(as_tuple=True)
    return Group(
        seen=_to_the_right(listed, number).clamp_(min=0),
        bias=torch.where(hidden, HIDDEN, 0.0),
        between=torch.where(between, HIDDEN, 0.0),
        computed=number[own],
        line=line,
        column=column - asking.shape[1],
        starts=[0, *own.sum(dim=1).cumsum(0).tolist()],
    )


def _to_the_right(chosen: Tensor, values: Tensor) -> Tensor:
    """`[g, s]`: the chosen values of every line, in order, with −1 on the left where fewer are."""
    counts = chosen.sum(dim=1, keepdim=True)
    longest = int(counts.max())
    column = (longest - counts + chosen.cumsum(dim=1) - 1)[chosen]
    found = values.new_full((len(chosen), longest), -1)
    found[chosen.nonzero()[:, 0], column] = values[chosen]
    return found
