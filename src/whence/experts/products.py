"""The products of all experts of a layer, shelf by shelf, into one piece of memory.

Σ_j W_ij x_j + b_i of blocks `[blocks, w, R]`, for weights `[experts, outputs, what each reads]`, of
one layer or of several with ReLU between them. PyTorch's own gradients would hold and move the
pieces several times, and call for each, which at these sizes takes as long as the products.
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
class Shelf:
    """Consecutive experts, and the equally many blocks each of them reads."""

    experts: slice
    sources: tuple[tuple[int, ...], ...]

    @cached_property
    def count(self) -> int:
        """How many experts."""
        return len(self.sources)

    @cached_property
    def blocks(self) -> int:
        """How many blocks each reads."""
        return len(self.sources[0])

    @cached_property
    def window(self) -> slice | None:
        """The blocks that all of them read, where those are the same and lie side by side."""
        return _side_by_side(self.sources[0]) if len(set(self.sources)) == 1 else None

    @cached_property
    def run(self) -> slice | None:
        """The blocks of one expert after the other's, where all of them lie side by side."""
        return _side_by_side([block for one in self.sources for block in one])


def _side_by_side(blocks: Sequence[int]) -> slice | None:
    """Where they are, if each is followed by the next."""
    run = range(blocks[0], blocks[0] + len(blocks))
    return slice(run.start, run.stop) if list(run) == list(blocks) else None


def shelves_of(sources: Sequence[Sequence[int]]) -> list[Shelf]:
    """Neighbours that read equally many blocks together; those that read none are left out."""
    shelves: list[Shelf] = []
    place = 0
    for blocks, some in groupby(sources, key=len):
        rows = tuple(map(tuple, some))
        if blocks:
            shelves.append(Shelf(slice(place, place + len(rows)), rows))
        place += len(rows)
    return shelves


class Joining(nn.Module):
    """Joins for every shelf what its experts read."""

    def __init__(self, sources: Sequence[Sequence[int]]) -> None:
        super().__init__()
        self.experts = len(sources)
        self.shelves = shelves_of(sources)
        for number, shelf in enumerate(self.shelves):
            taken = torch.tensor(shelf.sources).flatten()
            self.register_buffer(f"sources_{number}", taken, persistent=False)

    def __len__(self) -> int:
        """How many shelves."""
        return len(self.shelves)

    def read(self, number: int, blocks: Tensor) -> Tensor:
        """`[experts of the shelf, what each reads, R]` of blocks `[blocks, numbers, R]`."""
        shelf, (_, numbers, rows) = self.shelves[number], blocks.shape
        if shelf.run is not None:
            return blocks[shelf.run].reshape(shelf.count, shelf.blocks * numbers, rows)
        if shelf.window is not None:
            return blocks[shelf.window].flatten(0, 1).expand(shelf.count, -1, -1)
        taken = blocks.index_select(0, self._sources(number))
        return taken.view(shelf.count, shelf.blocks * numbers, rows)

    def give_back(self, number: int, read: Tensor, blocks: Tensor) -> None:
        """Add what belongs to the blocks read, such as gradients, to where they came from."""
        sources = self._sources(number)
        blocks.index_add_(0, sources, read.reshape(len(sources), *blocks.shape[1:]))

    def _sources(self, number: int) -> Tensor:
        """Of a shelf, all blocks read, expert after expert."""
        sources: Tensor = getattr(self, f"sources_{number}")
        return sources


# ...


class Layer(NamedTuple):
    """Which blocks are joined, and by which weights."""

    joining: Joining
    stop: bool
    """Whether gradients reach a block from its own expert alone."""
    own: Tensor | None
    """`[H, outputs, w]`: of each expert's own block, where it has one."""
    bias: Tensor | None
    """`[H, outputs, 1]`."""
    linked: Sequence[Tensor]
    """Of the blocks joined, shelf by shelf."""

    @property
    def weights(self) -> tuple[Tensor | None, ...]:
        """All that is learned."""
        return self.own, self.bias, *self.linked

    def with_weights(self, own: Tensor | None, bias: Tensor | None, *linked: Tensor) -> Layer:
        """The same layer with others, in the same order."""
        return self._replace(own=own, bias=bias, linked=linked)

    def read(self, blocks: Tensor) -> list[Tensor]:
        """What the experts of each shelf read."""
        return [self.joining.read(number, blocks) for number in range(len(self.joining))]

    def multiply(self, blocks: Tensor, read: Sequence[Tensor]) -> Tensor:
        """Every product is written, or added, to where it belongs in the one result."""
        if self.own is None:
            outputs = self.linked[0].shape[1]
            out = blocks.new_empty(self.joining.experts, outputs, blocks.shape[2])
        else:
            out = torch.bmm(self.own, blocks)
        for shelf, weight, rows in zip(self.joining.shelves, self.linked, read, strict=True):
            piece = out[shelf.experts]
            if self.own is None:
                torch.bmm(weight, rows, out=piece)
            else:
                piece.baddbmm_(weight, rows)
        return out if self.bias is None else out.add_(self.bias)

    def of_weights(
        self, gradient: Tensor, blocks: Tensor, read: Sequence[Tensor]
    ) -> list[Tensor | None]:
        """The gradients of all that is learned, from that of the result."""
        shelves = zip(self.joining.shelves, read, strict=True)
        return [
            None if self.own is None else torch.bmm(gradient, blocks.mT),
            None if self.bias is None else gradient.sum(dim=2, keepdim=True),
            *(torch.bmm(gradient[shelf.experts], rows.mT) for shelf, rows in shelves),
        ]

    def of_blocks(self, gradient: Tensor, blocks: Tensor) -> Tensor:
        """The gradient of the blocks, from the experts they are allowed to learn from."""
        back = torch.zeros_like(blocks) if self.own is None else torch.bmm(self.own.mT, gradient)
        if not self.stop:
            for number, weight in enumerate(self.linked):
                of_shelf = gradient[self.joining.shelves[number].experts]
                self.joining.give_back(number, torch.bmm(weight.mT, of_shelf), back)
        return back

    def by_pieces(self, blocks: Tensor) -> Tensor:
        """The result in steps of PyTorch's own."""
        read = self.read(blocks.detach() if self.stop else blocks)
        pieces = [torch.bmm(*pair) for pair in zip(self.linked, read, strict=True)]
        if self.own is None:
            out = torch.cat(pieces)
        else:
            out = torch.bmm(self.own, blocks)
            for shelf, piece in zip(self.joining.shelves, pieces, strict=True):
                out[shelf.experts] += piece
        return out if self.bias is None else out + self.bias


def joined_products(blocks: Tensor, *layers: Layer) -> Tensor:
    """`[H, outputs, R]`: of one layer after the other, with ReLU between them."""
    # Products that are written into others have no half precision.
    halved = torch.is_autocast_enabled(blocks.device.type)
    if halved or torch._C._are_functorch_transforms_active():
        return _by_pieces(blocks, *layers)
    weights = [weight for layer in layers for weight in layer.weights]
    out: Tensor = _Products.apply(blocks, layers, *weights)  # type: ignore[no-untyped-call]
    return out


def _by_pieces(blocks: Tensor, *layers: Layer) -> Tensor:
    """The same in steps that `torch.func` can map over seeds and differentiate."""
    first, *others = layers
    blocks = first.by_pieces(blocks)
    for layer in others:
        blocks = layer.by_pieces(blocks.relu())
    return blocks


class _Products(torch.autograd.Function):
    """All layers as one step, of which what they read is kept and nothing between."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        blocks: Tensor,
        layers: Sequence[Layer],
        *weights: Tensor | None,
    ) -> Tensor:
        """Σ_j W_ij x_j + b_i, layer after layer."""
        kept: list[Tensor] = []
        for number, layer in enumerate(layers):
            blocks = blocks.relu_() if number else blocks
            read = layer.read(blocks)
            kept += [blocks, *read]
            blocks = layer.multiply(blocks, read)
        ctx.layers = layers
        ctx.save_for_backward(*weights, *kept)  # weights, too: PyTorch notices if they change
        return blocks

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:  # noqa: ANN401
        """To weights, and to blocks from those they are allowed to learn from."""
        layers, needed, saved = ctx.layers, ctx.needs_input_grad, ctx.saved_tensors
        weights, kept = saved[: len(needed) - 2], saved[len(needed) - 2 :]
        if torch.is_grad_enabled():
            return _differentiable(layers, needed, (kept[0], None, *weights), gradient)
        found: list[Tensor | None] = []
        for number in reversed(range(len(layers))):
            layer = layers[number]
            end = len(needed) - len(found)  # of this layer's weights among the inputs
            begin = end - len(layer.weights)
            cut = len(kept) - 1 - len(layer.joining)  # blocks, and what each shelf read of them
            kept, (blocks, *read) = kept[:cut], kept[cut:]
            learns = any(needed[begin:end])
            own = layer.of_weights(gradient, blocks, read) if learns else [None] * (end - begin)
            found = own + found
            if not any(needed[:begin]):  # nothing below learns
                return *(None for _ in range(begin)), *found
            gradient = layer.of_blocks(gradient, blocks)
            if number:
                gradient = torch.ops.aten.threshold_backward(gradient, blocks, 0)
        return gradient, None, *found


def _differentiable(
    layers: Sequence[Layer],
    needed: Sequence[bool],
    inputs: Sequence[Tensor | None],
    gradient: Tensor,
) -> tuple[Tensor | None, ...]:
    """The same for who asks for second derivatives, in steps that can be followed.

    Views stand for the inputs: hooks on those are called by who asked, and not here as well.
    """
    views = [None if one is None else one.view_as(one) for one in inputs]
    blocks, _, *weights = views
    given: Iterator[Any] = iter(weights)
    again = [layer.with_weights(*islice(given, len(layer.weights))) for layer in layers]
    asked = [one for one, need in zip(views, needed, strict=True) if need and one is not None]
    assert blocks is not None
    out = _by_pieces(blocks, *again)
    found = iter(torch.autograd.grad(out, asked, gradient, create_graph=True))
    return tuple(next(found) if need else None for need in needed)
