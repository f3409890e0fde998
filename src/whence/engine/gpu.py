"""What keeps a GPU busy: steps that are recorded and replayed, and layers for stacks of seeds.

Replaying a recorded step spares Python from launching every kernel. The gradient of a weight is a
sum over all rows of a batch. In a stack, PyTorch gives the sum of one seed to few threads, which
then take most of a step; cut into parts, it goes to many.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

WARM_UP = 3
"""Steps that CUDA needs to run unrecorded first."""
ROWS_OF_A_PART = 64
"""Rows of a part in the sum over rows that is a weight's gradient."""


class RecordedStep:
    """Replays the step that it was given first for each batch shape.

    The step is a function that returns its loss. It may allocate memory, but everything it reads
    must stay at the same address.
    """

    def __init__(self, device: str) -> None:
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)
        self.pool = torch.cuda.graph_pool_handle()
        """All graphs share one memory pool, since no two of them run at the same time."""
        self.warm_up_steps = 0
        self.graphs: dict[Hashable, tuple[torch.cuda.CUDAGraph, Tensor]] = {}
        """By the shape of the batch, with the tensor that holds the loss."""
        self.side_streams: dict[str, torch.cuda.Stream] = {}
        self.busy: set[str] = set()
        """The side streams that have work in progress."""

    @contextmanager
    def in_parallel(self, name: str) -> Iterator[None]:
        """Within a step, run at the same time as what follows, until it is waited for."""
        if name not in self.side_streams:
            self.side_streams[name] = torch.cuda.Stream(self.device)
        self.side_streams[name].wait_stream(torch.cuda.current_stream())
        self.busy.add(name)
        with torch.cuda.stream(self.side_streams[name]):
            yield

    def wait_for(self, name: str) -> None:
        """Wait until the work of that side stream is done."""
        if name in self.busy:
            torch.cuda.current_stream().wait_stream(self.side_streams[name])
            self.busy.remove(name)

    def __call__(self, step: Callable[[], Tensor], shape: Hashable = None) -> Tensor:
        """Run one step on a batch of that shape. The next step overwrites the loss."""
        with torch.cuda.device(self.device):
            if self.warm_up_steps < WARM_UP:
                self.warm_up_steps += 1
                return self._run_unrecorded(step)
            if shape not in self.graphs:
                self.graphs[shape] = self._record(step)
            graph, loss = self.graphs[shape]
            graph.replay()
            return loss

    def _run_unrecorded(self, step: Callable[[], Tensor]) -> Tensor:
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            loss = step()
        torch.cuda.current_stream().wait_stream(self.stream)
        return loss

    def _record(self, step: Callable[[], Tensor]) -> tuple[torch.cuda.CUDAGraph, Tensor]:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream, pool=self.pool), _no_garbage_collection():
            loss = step()
        return graph, loss


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Deleting the graphs of an older training would end the recording."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class StackedLayers(TorchFunctionMode):
    """Compute layers inside `torch.vmap` in the way that suits a stack of seeds."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        """Replace linear layers and layer norms; leave everything else as it is."""
        for original, replacement in ((F.linear, _linear), (F.layer_norm, _layer_norm)):
            if func is original:
                func = replacement
        return func(*args, **(kwargs or {}))


def _layer_norm(
    rows: Tensor,
    shape: list[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Apply the weight and the bias in one operation."""
    normal = F.layer_norm(rows, shape, None, None, eps)
    if weight is None or bias is None:
        return normal if weight is None else normal * weight
    return torch.addcmul(bias, normal, weight)


def _linear(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    flat = rows.reshape(1, -1, rows.shape[-1])
    biases = None if bias is None else bias[None]
    return _apply(flat, weight[None], biases).squeeze(0).view(*rows.shape[:-1], -1)


def _apply(rows: Tensor, weights: Tensor, biases: Tensor | None) -> Tensor:
    out: Tensor = _Linear.apply(rows, weights, biases)  # type: ignore[no-untyped-call]
    return out


class _Linear(torch.autograd.Function):
    """`x Wᵀ + b` for the rows `[S, T, i]`, weights `[S, o, i]` and biases `[S, o]` of S seeds."""

    @staticmethod
    def forward(rows: Tensor, weights: Tensor, biases: Tensor | None) -> Tensor:
        """Compute the products of all seeds at once."""
        if biases is None:
            return rows @ weights.transpose(1, 2)
        return torch.baddbmm(biases[:, None], rows, weights.transpose(1, 2))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ANN401
        """Keep rows and weights: the gradient of each needs the other."""
        rows, weights, biases = inputs
        ctx.save_for_backward(rows, weights)
        ctx.has_biases = biases is not None

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:  # noqa: ANN401
        """Sum the gradient of the weights in parts."""
        rows, weights = ctx.saved_tensors
        row_gradient = gradient @ weights.to(gradient.dtype)
        seeds, count, inputs = rows.shape
        parts = next(n for n in range(count // ROWS_OF_A_PART or 1, 0, -1) if count % n == 0)
        left, right = (
            values.reshape(seeds * parts, count // parts, -1)
            for values in (gradient, rows.to(gradient.dtype))
        )
        weight_gradient = (left.transpose(1, 2) @ right).view(seeds, parts, -1, inputs).sum(dim=1)
        bias_gradient = gradient.sum(dim=1).to(weights.dtype) if ctx.has_biases else None
        return row_gradient.to(rows.dtype), weight_gradient.to(weights.dtype), bias_gradient

    @staticmethod
    def vmap(
        info: Any,  # noqa: ANN401
        in_dims: tuple[int | None, ...],
        *values: Tensor | None,
    ) -> tuple[Tensor, int]:
        """Take `[S, 1, T, i]`, `[S, 1, o, i]` and `[S, 1, o]`; seeds may share their rows."""
        rows, weights, biases = (
            None
            if one is None
            else one.expand(info.batch_size, *one.shape).squeeze(1)
            if dim is None
            else one.movedim(dim, 0).squeeze(1)
            for one, dim in zip(values, in_dims, strict=True)
        )
        assert rows is not None
        assert weights is not None
        return _apply(rows, weights, biases).unsqueeze(1), 0
