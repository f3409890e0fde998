"""Networks of experts beside ordinary ones of the same total width, forwards and backwards.

One thread, medians of runs in turn. The sizes are the published ones: four experts of 128, 64, 32
and 16 features for MovieLens-1M, and eight of 64 for sessions of ten steps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from measuring import Record, in_turn
from whence.experts.attention import ExpertAttention
from whence.experts.family import Family
from whence.experts.linear import InputLinear, LinkedLinear
from whence.experts.mlp import InterpretableMLP, OrdinaryMLP
from whence.experts.normalisation import ExpertNorm
from whence.experts.recurrent import ExpertGRU
from whence.memory import reuse_freed_memory

RUNS, SECONDS = 9, 0.5
"""How often each has its turn, and for how long."""
CASES, STEPS, WIDTH, HEADS, STATE = 100, 10, 64, 8, 32
MOVIELENS = Family.of(
    {"content": range(32), "user": range(32, 96), "item": range(96, 160)},
    {
        "S1": ["content"],
        "S2": ["content", "user"],
        "S3": ["content", "item"],
        "S4": ["content", "user", "item"],
    },
)
SESSIONS = Family.of(
    {
        "position": range(2),
        "context": range(2, 15),
        "interaction": range(15, 44),
        "general": range(44, 47),
        "music": range(47, 73),
    },
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


class ExpertEncoder(nn.Module):
    """One block of the interpretable Transformer, on linked rows."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()

        def linked(outputs: int, links: bool) -> LinkedLinear:
            return LinkedLinear(SESSIONS, WIDTH, outputs, generator, links=links)

        self.around = linked(WIDTH, links=True)
        self.attention = ExpertAttention(
            SESSIONS,
            linked(WIDTH, links=True),
            linked(2 * WIDTH, links=True),
            WIDTH,
            HEADS,
            generator,
        )
        self.norm = ExpertNorm(SESSIONS, WIDTH)
        self.expand, self.contract = linked(WIDTH, links=False), linked(WIDTH, links=False)

    def forward(self, rows: Tensor) -> Tensor:
        """`[H, width, B·n]` to the same."""
        rows = self.norm(self.around(rows) + self.attention(rows, rows, STEPS))
        out: Tensor = self.norm(rows + self.contract(F.leaky_relu(self.expand(rows), 0.3)))
        return out


class OrdinaryEncoder(nn.Module):
    """The same block as wide as all experts together, with as many heads."""

    def __init__(self) -> None:
        super().__init__()
        width = len(SESSIONS) * WIDTH
        self.around, self.project = nn.Linear(width, width), nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width, bias=False)
        self.expand, self.contract = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, rows: Tensor) -> Tensor:
        """`[B, n, width]` to the same."""
        heads = len(SESSIONS) * HEADS
        parts = self.project(rows).unflatten(2, (3, heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(*parts.unbind())
        mixed = self.output(mixed.transpose(1, 2).flatten(2))
        size = rows.shape[-1:]
        rows = F.layer_norm(self.around(rows) + mixed, size)
        more = self.contract(F.leaky_relu(self.expand(rows), 0.3))
        return F.layer_norm(rows + more, size)


class OrdinaryGRU(nn.Module):
    """The same unfused cell as wide as all experts together."""

    def __init__(self) -> None:
        super().__init__()
        self.width = len(SESSIONS) * STATE
        self.reader = nn.Linear(SESSIONS.width, 3 * self.width)
        self.recurrent = nn.Linear(self.width, 3 * self.width)

    def forward(self, rows: Tensor) -> Tensor:
        """`[n·B, columns]` to the states `[n, B, width]`."""
        state = rows.new_zeros(CASES, self.width)
        cuts, states = (2 * self.width, self.width), []
        for step in self.reader(rows).view(STEPS, CASES, -1).unbind():
            gates, fresh = step.split(cuts, dim=1)
            more_gates, more = self.recurrent(state).split(cuts, dim=1)
            reset, update = (gates + more_gates).sigmoid().chunk(2, dim=1)
            state = torch.lerp(torch.addcmul(fresh, reset, more).tanh(), state, update)
            states.append(state)
        return torch.stack(states)


def measure() -> Iterator[Record]:
    """Milliseconds of a step of each, without the optimiser's."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    reuse_freed_memory()
    try:
        for name, ours, ordinary in pairs():
            found = in_turn({"ours": timed(ours), "ordinary": timed(ordinary)}, RUNS)
            yield Record(
                f"{name}, forwards and backwards on one thread",
                found["ours"],
                found["ordinary"],
                "ordinary of the same total width",
                "ms",
            )
    finally:
        torch.set_num_threads(threads)


def pairs() -> Iterator[tuple[str, Callable[[], Tensor], Callable[[], Tensor]]]:
    """What is compared: the losses whose gradients are asked for."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(256, 160, generator=generator)
    widths = (128, 64, 32, 16)
    experts = InterpretableMLP(MOVIELENS, widths, generator)
    ordinary = OrdinaryMLP(MOVIELENS, widths, generator)
    name = f"a perceptron of 4 experts of {', '.join(map(str, widths))} features"
    yield name, lambda: experts.answers(rows).sum(), lambda: ordinary.answers(rows).sum()
    block, wide = ExpertEncoder(generator), OrdinaryEncoder()
    linked = torch.randn(len(SESSIONS), WIDTH, CASES * STEPS, requires_grad=True)
    whole = torch.randn(CASES, STEPS, len(SESSIONS) * WIDTH, requires_grad=True)
    name = f"a Transformer block of 8 experts of {WIDTH} features"
    yield name, lambda: block(linked).sum(), lambda: wide(whole).sum()
    reader = InputLinear(SESSIONS, 3 * STATE, generator)
    unit, cell = ExpertGRU(SESSIONS, reader, STATE, generator), OrdinaryGRU()
    steps = torch.randn(CASES * STEPS, SESSIONS.width)
    name = f"a recurrent unit of 8 experts of {STATE} features, beside the same unfused cell"
    yield name, lambda: unit(steps, STEPS).sum(), lambda: cell(steps).sum()


def timed(loss: Callable[[], Tensor]) -> Callable[[], float]:
    """A run: as many steps as there is time for, of the one thread's own time."""

    def run() -> float:
        steps, begin = 0, time.thread_time()
        while time.thread_time() - begin < SECONDS:
            loss().backward()  # type: ignore[no-untyped-call]
            steps += 1
        return 1000 * (time.thread_time() - begin) / steps

    run()
    return run
