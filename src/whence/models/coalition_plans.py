"""Which rows the coalitions of a history's items need, so that each row is computed once.

No row sees an absent item, so the row of an absent item need not be computed, unless it is the row
that answers. In a causal network the row of a slot depends only on the members of the coalition up
to that slot, so coalitions with the same beginning share rows.
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
from whence.models.blocks import HIDDEN

GROUPS = 8
"""The number of groups of coalitions by size; a group is padded to its largest."""
BITS = 62
"""The number of slots that one integer can hold."""


class CoalitionGroup(NamedTuple):
    """Coalitions of similar size, with the rows they see and the rows computed for them."""

    seen: Tensor
    """`[g, s]`: the rows of a coalition's members and of its answer, padded on the left.

    Another coalition may have computed them.
    """
    bias: Tensor
    """`[g, s]`: 0, or `HIDDEN` for padding and for an answer that does not see itself."""
    between: Tensor
    """`[g, q, s]`: the bias of each of the last `q` rows, the most computed for a coalition.

    A later coalition computes no fewer rows than one before it.
    """
    computed: Tensor
    """`[k]`: the rows computed, coalition by coalition."""
    line: Tensor
    column: Tensor
    """`[k]`: their places in `[g, q]`; columns count from the last, which is −1."""
    starts: list[int]
    """The first of the `k` rows of each coalition, and k."""

    def most(self, some: slice) -> int:
        """Return the most rows computed for one of some coalitions, which is the last."""
        last: int = min(some.stop, len(self.seen))
        return self.starts[last] - self.starts[last - 1]


class CoalitionPlan(NamedTuple):
    """The `R` rows that `c` distinct coalitions of `m` slots need, slot by slot.

    The first coalition that needs a row computes it. The last `c` rows answer, in the order of the
    groups.
    """

    coalitions: Tensor
    """The numbers of the coalitions among all."""
    answered: Tensor
    """For each of those, its place among the `c`."""
    slots: Tensor
    """`[R]`: the slot of each row."""
    visible: Tensor
    """`[R, m + 1]`: 1 for the slots that the row sees in the first block, else 0.

    The last column stands for nothing; a row that sees no slot sees it.
    """
    ends: list[int]
    """The end of the rows of each slot."""
    causal: bool
    blind: Tensor
    """The coalitions whose answers see nothing."""
    groups: list[CoalitionGroup]

    def by_slot(self, some: slice) -> Iterator[tuple[int, int, int, int]]:
        """Yield slots, the number of columns they may see, and the range of their rows."""
        last = len(self.ends) - 1
        for slot, (start, end) in enumerate(pairwise((0, *self.ends))):
            first, end = max(start, some.start), min(end, some.stop)
            if first < end:
                yield slot, slot + 1 if self.causal and slot < last else last + 2, first, end

    @property
    def size(self) -> int:
        """The number of rows, R."""
        return len(self.slots)

    @property
    def answers(self) -> int:
        """The number of coalitions, c."""
        return self.ends[-1] - self.ends[-2] if len(self.ends) > 1 else self.ends[-1]


def plans_for(
    coalitions: Tensor, slots: int, causal: bool, blocks: int, at_once: int
) -> Iterator[CoalitionPlan]:
    """Yield plans of at most `at_once` coalitions; a single plan is cached for other cases."""
    if len(coalitions) <= at_once:
        yield _cached_plan(coalitions, slots, causal, blocks)
        return
    members = _with_own_slots(coalitions, slots)
    for which in _sorted_by_start(members).split(at_once):
        yield plan_rows(members, which, causal, blocks)


_cache: OrderedDict[tuple[object, ...], tuple[CoalitionPlan, int]] = OrderedDict()
"""The plans last used with their sizes in bytes, as many as fit into the memory of a device.

Histories of every length have their own plan, and every model needs them all.
"""


def _cached_plan(coalitions: Tensor, slots: int, causal: bool, blocks: int) -> CoalitionPlan:
    """Return the plan for coalitions with these values, from the cache if possible."""
    content = coalitions.cpu().numpy().tobytes()
    key = (content, coalitions.shape, slots, causal, blocks, coalitions.device)
    if key not in _cache:
        members = _with_own_slots(coalitions, slots)
        plan = plan_rows(members, _sorted_by_start(members), causal, blocks)
        available = memory_for(coalitions.device) - _bytes_of(plan)
        while _cache and sum(size for _, size in _cache.values()) > available:
            _cache.popitem(last=False)
        _cache[key] = plan, _bytes_of(plan)
    _cache.move_to_end(key)
    return _cache[key][0]


def _bytes_of(plan: CoalitionPlan) -> int:
    tensors = (*plan, *(tensor for group in plan.groups for tensor in group))
    return sum(one.nbytes for one in tensors if isinstance(one, Tensor))


def _with_own_slots(coalitions: Tensor, slots: int) -> Tensor:
    return F.pad(coalitions, (0, slots - coalitions.shape[1]), value=True)


def _sorted_by_start(members: Tensor) -> Tensor:
    """Return `[c]`: an order in which coalitions with the same beginning are neighbours."""
    order = torch.arange(len(members), device=members.device)
    for some in reversed(list(row_slices(members.shape[1], BITS))):
        bits = members[:, some]
        power = torch.arange(bits.shape[1] - 1, -1, -1, device=members.device)
        number = (bits.long() << power).sum(dim=1)
        order = order[number[order].argsort(stable=True)]
    return order


def plan_rows(members: Tensor, which: Tensor, causal: bool, blocks: int) -> CoalitionPlan:
    """Return the plan of `which` coalitions, ordered so that equal beginnings are neighbours."""
    members = members[which]
    first = torch.ones_like(which, dtype=torch.bool)  # of equal coalitions
    first[1:] = (members[1:] != members[:-1]).any(dim=1)
    members = members[first]
    own = members.clone()
    if blocks == 1:
        own[:] = False  # only the answers
    elif causal:  # not if the coalition before has the same members up to this slot
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
    return CoalitionPlan(
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
    """Return groups of similar size; a group ends with the coalitions that compute most rows."""
    by_own = own.sum(dim=1).argsort(stable=True)
    groups = members.sum(dim=1).argsort(stable=True).tensor_split(min(GROUPS, len(members)))
    rank = by_own.argsort()
    return [group[rank[group].argsort()] for group in groups]


def _numbered(own: Tensor, order: Tensor) -> Tensor:
    """Return `[c, m]`: the row of each slot, counted slot by slot in that order of coalitions."""
    number = torch.empty_like(own, dtype=torch.int64)
    number[order] = own[order].T.flatten().cumsum(0).view(own.T.shape).T - 1
    # A coalition that does not compute a row takes that of the last coalition before that does.
    line = torch.arange(len(own), device=own.device)[:, None]
    return number.gather(0, torch.where(own, line, 0).cummax(dim=0).values)


def _group(members: Tensor, own: Tensor, number: Tensor, causal: bool) -> CoalitionGroup:
    """Return the group of some coalitions."""
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
    return CoalitionGroup(
        seen=_to_the_right(listed, number).clamp_(min=0),
        bias=torch.where(hidden, HIDDEN, 0.0),
        between=torch.where(between, HIDDEN, 0.0),
        computed=number[own],
        line=line,
        column=column - asking.shape[1],
        starts=[0, *own.sum(dim=1).cumsum(0).tolist()],
    )


def _to_the_right(chosen: Tensor, values: Tensor) -> Tensor:
    """Return `[g, s]`: the chosen values of every line, in order, padded on the left with −1."""
    counts = chosen.sum(dim=1, keepdim=True)
    longest = int(counts.max())
    column = (longest - counts + chosen.cumsum(dim=1) - 1)[chosen]
    found = values.new_full((len(chosen), longest), -1)
    found[chosen.nonzero()[:, 0], column] = values[chosen]
    return found
