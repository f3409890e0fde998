"""Random families, a network of every layer, and the parts of it that belong to one expert."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from whence.experts.family import Family
from whence.experts.gru import ExpertGRU
from whence.experts.linear import InputLinear, LinkedLinear
from whence.experts.transformer import ExpertAttention, ExpertNorm

TOY = Family.of({"x1": [0], "x2": [1]}, {"S1": ["x1"], "S2": ["x2"], "S3": ["x1", "x2"]})
SESSIONS = Family.of(
    {"position": [0], "context": [1, 2], "interaction": [3], "general": [4], "music": [5, 6]},
    {
        "S1": ["position", "context"],
        "S2": ["position", "interaction"],
        "S3": ["position", "general"],
        "S4": ["position", "music"],
        "S5": ["position", "context", "interaction"],
        "S6": ["position", "general", "music"],
        "S7": ["position", "context", "interaction", "general"],
        "S8": ["position", "context", "interaction", "general", "music"],
    },
)


@st.composite
def families(draw: st.DrawFn) -> Family:
    """Draw up to four groups of up to three columns, and any subsets of them, in any order."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    columns = iter(draw(st.permutations(range(sum(sizes)))))
    groups = {
        f"x{number}": [next(columns) for _ in range(size)] for number, size in enumerate(sizes)
    }
    some = st.sets(st.sampled_from(sorted(groups)), min_size=1)
    chosen = draw(st.sets(some.map(frozenset), max_size=8)) | {frozenset(groups)}
    order = draw(st.permutations(sorted(map(sorted, chosen))))
    return Family.of(groups, {f"S{number}": seen for number, seen in enumerate(order)})


class EveryLayer(nn.Module):
    """Inputs, normalization, attention, recurrence and a last linear layer, stacked."""

    def __init__(self, family: Family, steps: int, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.steps = steps
        self.first = InputLinear(family, 4, generator)
        self.norm = ExpertNorm(family, 4, learned=True)
        self.attention = ExpertAttention(
            family,
            LinkedLinear(family, 4, 4, generator, bias=False),
            LinkedLinear(family, 4, 8, generator, bias=False),
            dim=4,
            n_heads=2,
            generator=generator,
        )
        self.recurrent = ExpertGRU(family, LinkedLinear(family, 4, 9, generator), 3, generator)
        self.last = LinkedLinear(family, 3, 2, generator)
        self.double()

    def forward(self, inputs: Tensor, detach: bool = True) -> Tensor:
        rows = self.norm(self.first(inputs, detach))
        rows = rows + self.attention(rows, rows, self.steps, detach=detach)
        out: Tensor = self.last(self.recurrent(torch.tanh(rows), self.steps, detach), detach)
        return out


def of_expert(module: nn.Module, expert: int) -> Iterator[Tensor]:
    """Yield the gradients of all weights of one expert."""
    for layer in module.modules():
        for parameter in layer.parameters(recurse=False):
            if not isinstance(layer, nn.ParameterList):
                yield gradient_of(parameter)[expert]
        if isinstance(layer, InputLinear | LinkedLinear):
            weights = layer.weights if isinstance(layer, InputLinear) else layer.linked
            for bucket, weight in zip(layer.gather.buckets, weights, strict=True):
                if bucket.experts.start <= expert < bucket.experts.stop:
                    yield gradient_of(weight)[expert - bucket.experts.start]


def gradient_of(parameter: Tensor) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


def full_matrix(layer: LinkedLinear) -> Tensor:
    """Return W_k of equation 14: a block for every expert and expert it contains, else zeros."""
    experts, outputs, inputs = layer.own.shape
    full = torch.zeros(experts, outputs, experts, inputs, dtype=layer.own.dtype)
    for expert in range(experts):
        full[expert, :, expert] = layer.own[expert]
    for bucket, weight in zip(layer.gather.buckets, layer.linked, strict=True):
        for place, sources in enumerate(bucket.sources):
            for block, source in enumerate(sources):
                part = weight[place][:, block * inputs : (block + 1) * inputs]
                full[bucket.experts.start + place, :, source] = part
    return full.reshape(experts * outputs, experts * inputs)
