"""A training step recorded once on the GPU and replayed, which spares Python from every kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

WARM_UP = 3
"""Steps made one kernel at a time before the recording, as CUDA needs it."""


class Recorded:
    """Makes the same step as the function it is given, which returns the step's loss.

    The function may allocate, but all that it reads, its sizes included, stays where it is.
    """

    def __init__(self, step: Callable[[], Tensor], generators: Iterable[torch.Generator]) -> None:
        self.step, self.generators = step, list(generators)
        self.stream = torch.cuda.Stream()
        self.warm = 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.loss = torch.empty(0)

    def __call__(self) -> Tensor:
        """One step; its loss is overwritten by the next."""
        if self.warm < WARM_UP:
            self.warm += 1
            return self._unrecorded()
        if self.graph is None:
            self.graph = self._record()
        self.graph.replay()
        return self.loss

    def _unrecorded(self) -> Tensor:
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            loss = self.step()
        torch.cuda.current_stream().wait_stream(self.stream)
        return loss

    def _record(self) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        for generator in self.generators:
            graph.register_generator_state(generator)
        with torch.cuda.graph(graph, stream=self.stream):
            self.loss = self.step()
        return graph
