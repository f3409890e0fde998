"""The matrix products of all experts of a layer, fused into one autograd function.

Computes Σ_j W_ij x_j + b_i for blocks `[blocks, w, R]` and weights `[experts, outputs, inputs]`,
for one layer or for several with ReLU between them. PyTorch's own autograd would store and copy
the pieces several times and launch one kernel for each. At these sizes that takes as long as the
products themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, islice
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Bucket:
    """Consecutive experts that read the same number of blocks, so that one product serves them."""

    experts: slice
    sources: tuple[tuple[int, ...], ...]

    @cached_property
    def count(self) -> int:
        """Number of experts."""
        return len(self.sources)

    @cached_property
    def n_blocks(self) -> int:
        """Number of blocks that each expert reads."""
        return len(self.sources[0])

    @cached_property
    def shared_slice(self) -> slice | None:
        """The blocks that all experts read, if they are the same and adjacent."""
        return _as_slice(self.sources[0]) if len(set(self.sources)) == 1 else None

    @cached_property
    def joint_slice(self) -> slice | None:
        """The blocks of one expert after another, if all of them are adjacent."""
        return _as_slice([block for one in self.sources for block in one])


def _as_slice(blocks: Sequence[int]) -> slice | None:
    """Return the blocks as a slice if each is followed by the next."""
    run = range(blocks[0], blocks[0] + len(blocks))
    return slice(run.start, run.stop) if list(run) == list(blocks) else None


def bucket_experts(sources: Sequence[Sequence[int]]) -> list[Bucket]:
    """Bucket neighbouring experts that read equally many blocks; skip those that read none."""
    buckets: list[Bucket] = []
    start = 0
    for n_blocks, some in groupby(sources, key=len):
        rows = tuple(map(tuple, some))
        if n_blocks:
            buckets.append(Bucket(slice(start, start + len(rows)), rows))
        start += len(rows)
    return buckets


class Gather(nn.Module):
    """Gather, for every bucket, the blocks that its experts read."""

    def __init__(self, sources: Sequence[Sequence[int]]) -> None:
        super().__init__()
        self.n_experts = len(sources)
        self.buckets = bucket_experts(sources)
        for number, bucket in enumerate(self.buckets):
            index = torch.tensor(bucket.sources).flatten()
            self.register_buffer(f"sources_{number}", index, persistent=False)

    def __len__(self) -> int:
        """Return the number of buckets."""
        return len(self.buckets)

    def read(self, number: int, blocks: Tensor) -> Tensor:
        """Return `[experts of the bucket, inputs, R]` from blocks `[blocks, w, R]`.

        Adjacent blocks are read as a view, without a copy.
        """
        bucket, (_, width, rows) = self.buckets[number], blocks.shape
        if bucket.joint_slice is not None:
            return blocks[bucket.joint_slice].reshape(bucket.count, bucket.n_blocks * width, rows)
        if bucket.shared_slice is not None:
            return blocks[bucket.shared_slice].flatten(0, 1).expand(bucket.count, -1, -1)
        taken = blocks.index_select(0, self._sources(number))
        return taken.view(bucket.count, bucket.n_blocks * width, rows)

    def scatter_add_(self, number: int, read: Tensor, blocks: Tensor) -> None:
        """Add values shaped like what `read` returns, such as gradients, to their blocks."""
        sources = self._sources(number)
        blocks.index_add_(0, sources, read.reshape(len(sources), *blocks.shape[1:]))

    def _sources(self, number: int) -> Tensor:
        """Return all blocks that a bucket reads, expert after expert."""
        sources: Tensor = getattr(self, f"sources_{number}")
        return sources


class GatheredLinear(NamedTuple):
    """One linear layer over experts: the blocks it gathers and its weights."""

    gather: Gather
    detach: bool
    """Whether only an expert's own product sends a gradient back to its block."""
    own: Tensor | None
    """`[H, outputs, w]`: weights of each expert's own block, if it has one."""
    bias: Tensor | None
    """`[H, outputs, 1]`."""
    linked: Sequence[Tensor]
    """Weights of the gathered blocks, one tensor per bucket."""

    @property
    def weights(self) -> tuple[Tensor | None, ...]:
        """All parameters."""
        return self.own, self.bias, *self.linked

    def with_weights(
        self, own: Tensor | None, bias: Tensor | None, *linked: Tensor
    ) -> GatheredLinear:
        """Return the same layer with other parameters, in the same order."""
        return self._replace(own=own, bias=bias, linked=linked)

    def read(self, blocks: Tensor) -> list[Tensor]:
        """Return what the experts of each bucket read."""
        return [self.gather.read(number, blocks) for number in range(len(self.gather))]

    def multiply(self, blocks: Tensor, read: Sequence[Tensor]) -> Tensor:
        """Write or add every product in place into one result."""
        if self.own is None:
            n_outputs = self.linked[0].shape[1]
            out = blocks.new_empty(self.gather.n_experts, n_outputs, blocks.shape[2])
        else:
            out = torch.bmm(self.own, blocks)
        for bucket, weight, rows in zip(self.gather.buckets, self.linked, read, strict=True):
            piece = out[bucket.experts]
            if self.own is None:
                torch.bmm(weight, rows, out=piece)
            else:
                piece.baddbmm_(weight, rows)
        return out if self.bias is None else out.add_(self.bias)

    def weight_gradients(
        self, gradient: Tensor, blocks: Tensor, read: Sequence[Tensor]
    ) -> list[Tensor | None]:
        """Return the gradients of all parameters, given that of the result."""
        buckets = zip(self.gather.buckets, read, strict=True)
        return [
            None if self.own is None else torch.bmm(gradient, blocks.mT),
            None if self.bias is None else gradient.sum(dim=2, keepdim=True),
            *(torch.bmm(gradient[bucket.experts], rows.mT) for bucket, rows in buckets),
        ]

    def block_gradient(self, gradient: Tensor, blocks: Tensor) -> Tensor:
        """Return the gradient of the blocks, from the experts that may train them."""
        back = torch.zeros_like(blocks) if self.own is None else torch.bmm(self.own.mT, gradient)
        if not self.detach:
            for number, weight in enumerate(self.linked):
                of_bucket = gradient[self.gather.buckets[number].experts]
                self.gather.scatter_add_(number, torch.bmm(weight.mT, of_bucket), back)
        return back

    def unfused(self, blocks: Tensor) -> Tensor:
        """Compute the result with PyTorch's own differentiable operations."""
        read = self.read(blocks.detach() if self.detach else blocks)
        pieces = [torch.bmm(*pair) for pair in zip(self.linked, read, strict=True)]
        if self.own is None:
            out = torch.cat(pieces)
        else:
            out = torch.bmm(self.own, blocks)
            for bucket, piece in zip(self.gather.buckets, pieces, strict=True):
                out[bucket.experts] += piece
        return out if self.bias is None else out + self.bias


def fused_layers(blocks: Tensor, *layers: GatheredLinear) -> Tensor:
    """Apply the layers one after another with ReLU between them; return `[H, outputs, R]`."""
    # In-place products do not support autocast, and custom functions do not support torch.func.
    autocast = torch.is_autocast_enabled(blocks.device.type)
    if autocast or torch._C._are_functorch_transforms_active():
        return _unfused_layers(blocks, *layers)
    weights = [weight for layer in layers for weight in layer.weights]
    out: Tensor = _FusedLayers.apply(blocks, layers, *weights)  # type: ignore[no-untyped-call]
    return out


def _unfused_layers(blocks: Tensor, *layers: GatheredLinear) -> Tensor:
    """Do the same with operations that `torch.func` can map over seeds and differentiate."""
    first, *others = layers
    blocks = first.unfused(blocks)
    for layer in others:
        blocks = layer.unfused(blocks.relu())
    return blocks


class _FusedLayers(torch.autograd.Function):
    """All layers as one autograd node; only the inputs of each layer are saved."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        blocks: Tensor,
        layers: Sequence[GatheredLinear],
        *weights: Tensor | None,
    ) -> Tensor:
        """Compute Σ_j W_ij x_j + b_i, layer after layer."""
        saved: list[Tensor] = []
        for number, layer in enumerate(layers):
            blocks = blocks.relu_() if number else blocks
            read = layer.read(blocks)
            saved += [blocks, *read]
            blocks = layer.multiply(blocks, read)
        ctx.layers = layers
        # Saving the weights lets PyTorch detect that they were changed in place.
        ctx.save_for_backward(*weights, *saved)
        return blocks

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:  # noqa: ANN401
        """Return the gradients of the weights, and of the blocks where they may be trained."""
        layers, needed, tensors = ctx.layers, ctx.needs_input_grad, ctx.saved_tensors
        weights, saved = tensors[: len(needed) - 2], tensors[len(needed) - 2 :]
        if torch.is_grad_enabled():
            return _differentiable(layers, needed, (saved[0], None, *weights), gradient)
        found: list[Tensor | None] = []
        for number in reversed(range(len(layers))):
            layer = layers[number]
            end = len(needed) - len(found)  # of this layer's weights among the inputs
            begin = end - len(layer.weights)
            cut = len(saved) - 1 - len(layer.gather)  # the blocks, and what each bucket read
            saved, (blocks, *read) = saved[:cut], saved[cut:]
            trains = any(needed[begin:end])
            skipped: list[Tensor | None] = [None] * (end - begin)
            own = layer.weight_gradients(gradient, blocks, read) if trains else skipped
            found = own + found
            if not any(needed[:begin]):  # nothing below is trained
                return *(None for _ in range(begin)), *found
            gradient = layer.block_gradient(gradient, blocks)
            if number:
                gradient = torch.ops.aten.threshold_backward(gradient, blocks, 0)
        return gradient, None, *found


def _differentiable(
    layers: Sequence[GatheredLinear],
    needed: Sequence[bool],
    inputs: Sequence[Tensor | None],
    gradient: Tensor,
) -> tuple[Tensor | None, ...]:
    """Return the same gradients in differentiable steps, for second derivatives.

    Views stand in for the inputs, so that hooks on the inputs are not called a second time.
    """
    views = [None if one is None else one.view_as(one) for one in inputs]
    blocks, _, *weights = views
    given: Iterator[Any] = iter(weights)
    again = [layer.with_weights(*islice(given, len(layer.weights))) for layer in layers]
    wanted = [one for one, need in zip(views, needed, strict=True) if need and one is not None]
    assert blocks is not None
    out = _unfused_layers(blocks, *again)
    found = iter(torch.autograd.grad(out, wanted, gradient, create_graph=True))
    return tuple(next(found) if need else None for need in needed)
