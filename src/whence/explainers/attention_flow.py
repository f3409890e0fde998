"""Attention flow (Abnar & Zuidema 2020): how much could run from a part to the answer at most.

The weights of all blocks are pipes, as wide as (mean over heads of A + I) / 2, from each row of a
block to the rows it looks at one block below. The flow of a part is the maximum flow between the
answering row at the top and the part's slot at the bottom.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from scipy.sparse.csgraph import maximum_flow
from torch import Tensor

from whence.arrays import Bools, Ints
from whence.contract import HasAttentions
from whence.explainers.base import Attribution, Inquiry
from whence.explainers.rollout import has_own_slot, rollout
from whence.memory import row_slices

Widths = npt.NDArray[np.int32]

WHOLE: Final = 2**30
"""Flows are counted in whole numbers: of a flow of 1, so many."""
WIDEST: Final = 2**31 - 1
BYTES_OF_A_PIPE: Final = 64
PIPES_AT_ONCE: Final = 2**18
"""More of them in one network do not run faster."""


@dataclass(frozen=True)
class AttentionFlow:
    """The maximum flow from the answering row through all blocks to each slot."""

    method: ClassVar[str] = "attention-flow"
    needs: ClassVar[tuple[str, ...]] = ("attentions",)
    signed: ClassVar[bool] = False
    cost: ClassVar[str] = "1"
    words: ClassVar[str] = "How much of each {part} could reach the answer at most, block by block."

    def __call__(self, inquiry: Inquiry) -> Attribution:
        """The same for every target: attention does not ask which item is meant."""
        assert isinstance(inquiry.model, HasAttentions)
        attentions = inquiry.model.attentions(inquiry.batch, inquiry.targets)
        if len(attentions) == 1:
            return Attribution(rollout(attentions), evaluations=1)
        pipes = [weights.mean(dim=1) for weights in attentions]
        own = torch.eye(pipes[0].shape[-1]).to(pipes[0])
        pipes = [(one + own) / 2 if has_own_slot(one, len(pipes)) else one for one in pipes]
        top = pipes.pop()[:, -1]  # the answering row: [B, n]
        if len(pipes) == 1:
            narrower = torch.minimum(top[:, :, None], pipes[0])  # of both pipes through a row
            return Attribution(narrower.sum(dim=1), evaluations=1)
        return Attribution(_maximum_flows(top, pipes, inquiry), evaluations=1)


def _maximum_flows(top: Tensor, below: list[Tensor], inquiry: Inquiry) -> Tensor:
    """`[B, n]`, for three blocks and more, some cases in one network at a time."""
    first, *rest = (_whole(one) for one in (top, *below))
    blocks, parts = np.stack(rest, axis=1), inquiry.parts.cpu().numpy()  # [B, b − 1, n, n]
    pipes_each = parts.shape[1] * (len(below) - 1) * first.shape[1] ** 2
    at_once = min(PIPES_AT_ONCE, inquiry.memory // BYTES_OF_A_PIPE) // pipes_each
    flows = np.zeros(parts.shape)
    for some in row_slices(len(parts), max(1, at_once)):
        flows[some][parts[some]] = _flows_side_by_side(first[some], blocks[some], parts[some])
    return torch.from_numpy(flows).to(inquiry.batch.device)


def _whole(widths: Tensor) -> Widths:
    """In whole numbers, as the algorithm wants them.

    So each pipe is off by 2⁻³¹ at most, and a flow, whose narrowest cut has k pipes, by k·2⁻³¹.
    """
    found: Widths = (WHOLE * widths.double()).round().int().cpu().numpy()
    return found


def _flows_side_by_side(top: Widths, below: Widths, parts: Bools) -> npt.NDArray[np.float64]:
    """The flow of every part, in order, by one network with a piece for each of them.

    A piece has a layer of n rows for each block but the last, lowest first, and the part's slot at
    the end. The source feeds the highest layers of all pieces; their slots drain into one sink.
    """
    case, slot = parts.nonzero()
    depth, rows = below.shape[1:3]
    lowest, inner = below[case, 0, :, slot], below[case, 1:]  # [P, n], [P, b − 2, n, n]
    highest = top[case]
    used = _used(highest, inner, lowest)
    node = np.arange(len(case) * (depth * rows + 1)).reshape(len(case), -1)
    layer, end = node[:, :-1].reshape(-1, depth, rows), node[:, -1]
    source, sink = node.size, node.size + 1
    pipes = (
        _pipes(source, layer[:, -1], highest * used[:, -1]),
        _pipes(layer[:, 1:, :, None], layer[:, :-1, None], inner * _both(used)),
        _pipes(layer[:, 0], end[:, None], lowest * used[:, 0]),
        _pipes(end, sink, np.full(len(end), WIDEST)),
    )
    start, stop = (np.concatenate([one[which] for one in pipes]) for which in (0, 1))
    width = np.concatenate([one[2] for one in pipes])
    network = sparse.csr_array((width, (start, stop)), shape=(sink + 1, sink + 1))
    flow = maximum_flow(network, source, sink, method="dinic").flow
    reached: npt.NDArray[np.float64] = flow[end, np.full(len(end), sink)] / WHOLE
    return reached


def _used(highest: Widths, inner: Widths, lowest: Widths) -> Bools:
    """`[P, b − 1, n]`: the rows that something can reach from above and leave from downwards."""
    depth = 1 + inner.shape[1]
    fed, drained = [highest > 0], [lowest > 0]
    for block in range(depth - 1):
        drained.append(np.any((inner[:, block] > 0) & drained[-1][:, None], axis=2))
        fed.append(np.any((inner[:, depth - 2 - block] > 0) & fed[-1][:, :, None], axis=1))
    used: Bools = np.stack(fed[::-1], axis=1) & np.stack(drained, axis=1)
    return used


def _both(used: Bools) -> Bools:
    """`[P, b − 2, n, n]`: pipes between a used row and a used row of the layer below."""
    both: Bools = used[:, 1:, :, None] & used[:, :-1, None]
    return both


def _pipes(start: Ints | int, stop: Ints | int, width: Widths) -> tuple[Ints, Ints, Widths]:
    """Those that have a width, one after another."""
    there = width > 0
    begin, finish = (np.broadcast_to(node, width.shape)[there] for node in (start, stop))
    return begin, finish, width[there].astype(np.int32)
