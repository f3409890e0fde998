"""Attention flow (Abnar & Zuidema 2020): the most that could flow from a part to the answer.

The weights of all blocks are the capacities of a network. A row of a block connects to the rows one
block below with capacity (mean over heads of A + I) / 2. A part's score is the maximum flow between
the answering row at the top and the part's slot at the bottom.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from scipy.sparse.csgraph import maximum_flow
from torch import Tensor

from whence.arrays import Bools, Ints
from whence.explainers.base import EXPLAINERS, Attribution, Explainer, Request
from whence.explainers.rollout import has_own_slot, rollout
from whence.memory import row_slices

Capacities = npt.NDArray[np.int32]

UNIT: Final = 2**30
"""The integer that stands for a capacity of 1."""
UNLIMITED: Final = 2**31 - 1
BYTES_OF_AN_EDGE: Final = 64
EDGES_AT_ONCE: Final = 2**18
"""More edges in one network do not run faster."""


@dataclass(frozen=True)
class AttentionFlow(Explainer):
    """The maximum flow from the answering row through all blocks to each slot."""

    method = "attention-flow"
    needs = ("attentions",)
    signed = False
    cost = "1"
    summary = "How much of each {part} could reach the answer at most, through all blocks."

    def __call__(self, request: Request) -> Attribution:
        """Return the same for every target: attention does not depend on the target."""
        attentions = request.attentions()
        if len(attentions) == 1:
            return Attribution(rollout(attentions), evaluations=1)
        blocks = [weights.mean(dim=1) for weights in attentions]
        own = torch.eye(blocks[0].shape[-1]).to(blocks[0])
        blocks = [(one + own) / 2 if has_own_slot(one, len(blocks)) else one for one in blocks]
        top = blocks.pop()[:, -1]  # the answering row: [B, n]
        if len(blocks) == 1:
            smaller = torch.minimum(top[:, :, None], blocks[0])  # of both edges through a row
            return Attribution(smaller.sum(dim=1), evaluations=1)
        return Attribution(_maximum_flows(top, blocks, request), evaluations=1)


def _maximum_flows(top: Tensor, below: list[Tensor], request: Request) -> Tensor:
    """Return `[B, n]` for three blocks or more, with several cases in one network at a time."""
    first, *rest = (_as_integers(one) for one in (top, *below))
    blocks, parts = np.stack(rest, axis=1), request.parts.cpu().numpy()  # [B, b − 1, n, n]
    edges_each = parts.shape[1] * (len(below) - 1) * first.shape[1] ** 2
    at_once = min(EDGES_AT_ONCE, request.memory // BYTES_OF_AN_EDGE) // edges_each
    flows = np.zeros(parts.shape)
    for some in row_slices(len(parts), max(1, at_once)):
        flows[some][parts[some]] = _flows_in_one_network(first[some], blocks[some], parts[some])
    return torch.from_numpy(flows).to(request.batch.device)


def _as_integers(capacities: Tensor) -> Capacities:
    """Return the integers that the algorithm needs.

    Each capacity is off by at most 2⁻³¹, and a flow whose minimum cut has k edges by k·2⁻³¹.
    """
    found: Capacities = (UNIT * capacities.double()).round().int().cpu().numpy()
    return found


def _flows_in_one_network(
    top: Capacities, below: Capacities, parts: Bools
) -> npt.NDArray[np.float64]:
    """Return the flow of every part, in order, from one network with a component for each.

    A component has a layer of n rows for each block but the last, lowest first, and the part's slot
    at the end. The source feeds the highest layers of all components; their slots share one sink.
    """
    case, slot = parts.nonzero()
    depth, rows = below.shape[1:3]
    lowest, inner = below[case, 0, :, slot], below[case, 1:]  # [P, n], [P, b − 2, n, n]
    highest = top[case]
    used = _used(highest, inner, lowest)
    node = np.arange(len(case) * (depth * rows + 1)).reshape(len(case), -1)
    layer, end = node[:, :-1].reshape(-1, depth, rows), node[:, -1]
    source, sink = node.size, node.size + 1
    edges = (
        _edges(source, layer[:, -1], highest * used[:, -1]),
        _edges(layer[:, 1:, :, None], layer[:, :-1, None], inner * _both(used)),
        _edges(layer[:, 0], end[:, None], lowest * used[:, 0]),
        _edges(end, sink, np.full(len(end), UNLIMITED)),
    )
    start, stop = (np.concatenate([one[which] for one in edges]) for which in (0, 1))
    capacity = np.concatenate([one[2] for one in edges])
    network = sparse.csr_array((capacity, (start, stop)), shape=(sink + 1, sink + 1))
    flow = maximum_flow(network, source, sink, method="dinic").flow
    reached: npt.NDArray[np.float64] = flow[end, np.full(len(end), sink)] / UNIT
    return reached


def _used(highest: Capacities, inner: Capacities, lowest: Capacities) -> Bools:
    """Return `[P, b − 1, n]`: the rows with a path from the top and a path to the bottom."""
    depth = 1 + inner.shape[1]
    fed, drained = [highest > 0], [lowest > 0]
    for block in range(depth - 1):
        drained.append(np.any((inner[:, block] > 0) & drained[-1][:, None], axis=2))
        fed.append(np.any((inner[:, depth - 2 - block] > 0) & fed[-1][:, :, None], axis=1))
    used: Bools = np.stack(fed[::-1], axis=1) & np.stack(drained, axis=1)
    return used


def _both(used: Bools) -> Bools:
    """Return `[P, b − 2, n, n]`: edges between a used row and a used row of the layer below."""
    both: Bools = used[:, 1:, :, None] & used[:, :-1, None]
    return both


def _edges(
    start: Ints | int, stop: Ints | int, capacity: Capacities
) -> tuple[Ints, Ints, Capacities]:
    """Return the edges with a capacity above 0, as flat arrays."""
    there = capacity > 0
    begin, finish = (np.broadcast_to(node, capacity.shape)[there] for node in (start, stop))
    return begin, finish, capacity[there].astype(np.int32)


EXPLAINERS.add("attention-flow", AttentionFlow(), place=21)
