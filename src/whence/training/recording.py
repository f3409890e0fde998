"""A training step recorded once on the GPU and replayed, which spares Python from every kernel."""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

WARM_UP = 3
"""Steps made one kernel at a time before the recording, as CUDA needs it."""


class Recorded:
    """Makes the same step again and again, by the function it is given first for each size.

    The function returns the step's loss. It may allocate, but all that it reads stays where it is.
    """

    def __init__(self, device: str) -> None:
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)
        self.pool = torch.cuda.graph_pool_handle()
        """One memory for all graphs, since no two of them are under way at a time."""
        self.warm = 0
        self.graphs: dict[Hashable, tuple[torch.cuda.CUDAGraph, Tensor]] = {}
        """By the size of the step's batch, with the place of its loss."""
        self.lanes: dict[str, torch.cuda.Stream] = {}
        self.busy: set[str] = set()
        """The lanes on which something is going on."""

    @contextmanager
    def beside(self, lane: str) -> Iterator[None]:
        """Within a step: work at the same time as what follows, until the lane is joined."""
        if lane not in self.lanes:
            self.lanes[lane] = torch.cuda.Stream(self.device)
        self.lanes[lane].wait_stream(torch.cuda.current_stream())
        self.busy.add(lane)
        with torch.cuda.stream(self.lanes[lane]):
            yield

    def join(self, lane: str) -> None:
        """Go on when what was begun there is done."""
        if lane in self.busy:
            torch.cuda.current_stream().wait_stream(self.lanes[lane])
            self.busy.remove(lane)

    def __call__(self, step: Callable[[], Tensor], size: Hashable = None) -> Tensor:
        """One step, with a batch of that size; its loss is overwritten by the next."""
        with torch.cuda.device(self.device):
            if self.warm < WARM_UP:
                self.warm += 1
                return self._unrecorded(step)
            if size not in self.graphs:
                self.graphs[size] = self._record(step)
            graph, loss = self.graphs[size]
            graph.replay()
            return loss

    def _unrecorded(self, step: Callable[[], Tensor]) -> Tensor:
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            loss = step()
        torch.cuda.current_stream().wait_stream(self.stream)
        return loss

    def _record(self, step: Callable[[], Tensor]) -> tuple[torch.cuda.CUDAGraph, Tensor]:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream, pool=self.pool), _nothing_collected():
            loss = step()
        return graph, loss


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """An older training whose graphs were deleted meanwhile would end the recording."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
