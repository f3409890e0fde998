"""Networks of experts compared with ordinary ones of the same total width.

Everything runs on one thread, and figures are medians of interleaved runs. Layers run forward and
backward in the published sizes: four experts of 128, 64, 32 and 16 features for MovieLens-1M, and
eight of 64 for sessions of ten steps. Whole networks take training steps with their loss and Adam,
also in the small sizes of the studies.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from measuring import Record, in_turn
from whence.data.interactions import Counts
from whence.experts.gru import ExpertGRU
from whence.experts.linear import InputLinear, LinkedLinear
from whence.experts.mlp import InterpretableMLP, OrdinaryMLP
from whence.experts.transformer import ExpertAttention, ExpertNorm
from whence.memory import reuse_freed_memory
from whence.models import build_model
from whence.models.content_ncf import family_of
from whence.models.tasks import ChoiceBatch
from whence.randomness import no_dropout
from whence_studies.skips.networks import EXPERTS, UPCOMING, NetworkKind, make_network
from whence_studies.tables.skip_networks import SMALL
from whence_studies.toy_data import TOYS

RUNS, SECONDS = 9, 0.5
"""Number of runs of each network, and the duration of a run."""
ROWS = 256
CASES, STEPS, WIDTH, HEADS, STATE = 100, 10, 64, 8, 32
NCF = ("intrp-ncf", "content-ncf")
SEQUENTIAL: tuple[tuple[NetworkKind, NetworkKind], ...] = (
    ("interpretable transformer", "ordinary transformer"),
    ("interpretable gru", "ordinary gru"),
)

Network = tuple[nn.Module, Callable[[], Tensor]]
"""A network and its loss."""
MOVIELENS = family_of(64)


class ExpertEncoder(nn.Module):
    """One block of the interpretable Transformer, on linked rows."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()

        def linked_layer(outputs: int, linked: bool) -> LinkedLinear:
            return LinkedLinear(EXPERTS, WIDTH, outputs, generator, linked=linked)

        self.around = linked_layer(WIDTH, linked=True)
        self.attention = ExpertAttention(
            EXPERTS,
            linked_layer(WIDTH, linked=True),
            linked_layer(2 * WIDTH, linked=True),
            WIDTH,
            HEADS,
            generator,
        )
        self.norm = ExpertNorm(EXPERTS, WIDTH)
        self.expand, self.contract = (
            linked_layer(WIDTH, linked=False),
            linked_layer(WIDTH, linked=False),
        )

    def forward(self, rows: Tensor) -> Tensor:
        """Map `[H, width, B·n]` to the same shape."""
        rows = self.norm(self.around(rows) + self.attention(rows, rows, STEPS))
        out: Tensor = self.norm(rows + self.contract(F.leaky_relu(self.expand(rows), 0.3)))
        return out


class OrdinaryEncoder(nn.Module):
    """The same block, as wide as all experts together and with as many heads."""

    def __init__(self) -> None:
        super().__init__()
        width = len(EXPERTS) * WIDTH
        self.around, self.project = nn.Linear(width, width), nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width, bias=False)
        self.expand, self.contract = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, rows: Tensor) -> Tensor:
        """Map `[B, n, width]` to the same shape."""
        heads = len(EXPERTS) * HEADS
        parts = self.project(rows).unflatten(2, (3, heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(*parts.unbind())
        mixed = self.output(mixed.transpose(1, 2).flatten(2))
        size = rows.shape[-1:]
        rows = F.layer_norm(self.around(rows) + mixed, size)
        more = self.contract(F.leaky_relu(self.expand(rows), 0.3))
        return F.layer_norm(rows + more, size)


class OrdinaryGRU(nn.Module):
    """The same unfused cell, as wide as all experts together."""

    def __init__(self) -> None:
        super().__init__()
        self.width = len(EXPERTS) * STATE
        self.reader = nn.Linear(EXPERTS.n_columns, 3 * self.width)
        self.recurrent = nn.Linear(self.width, 3 * self.width)

    def forward(self, rows: Tensor) -> Tensor:
        """Map `[n·B, columns]` to the states `[n, B, width]`."""
        state = rows.new_zeros(CASES, self.width)
        cuts, states = (2 * self.width, self.width), []
        for step in self.reader(rows).view(STEPS, CASES, -1).unbind():
            gates, fresh = step.split(cuts, dim=1)
            more_gates, more = self.recurrent(state).split(cuts, dim=1)
            reset, update = (gates + more_gates).sigmoid().chunk(2, dim=1)
            state = torch.lerp(torch.addcmul(fresh, reset, more).tanh(), state, update)
            states.append(state)
        return torch.stack(states)


Pair = tuple[str, Callable[[], None], Callable[[], None]]
"""A name, the work of the experts, and the work of the ordinary network."""


def measure() -> Iterator[Record]:
    """Yield the milliseconds of a step with experts, and with the ordinary network."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    reuse_freed_memory()
    try:
        for name, ours, ordinary in chain(layers(), trainings()):
            found = in_turn({"ours": timed(ours), "ordinary": timed(ordinary)}, RUNS)
            yield Record(
                f"{name} on one thread",
                found["ours"],
                found["ordinary"],
                "ordinary network of the same total width",
                "ms",
            )
    finally:
        torch.set_num_threads(threads)


def layers() -> Iterator[Pair]:
    """Yield layers with their gradients, without an optimizer step."""
    for name, ours, ordinary in layer_losses():
        yield f"{name}, forward and backward", backward(ours), backward(ordinary)


def backward(loss: Callable[[], Tensor]) -> Callable[[], None]:
    """Return a step that computes the loss and its gradients."""
    return lambda: loss().backward()


def trainings() -> Iterator[Pair]:
    """Yield whole training steps: the loss, its gradients, and Adam."""
    generator = torch.Generator().manual_seed(0)
    for name in ("a", "d"):
        toy = TOYS[name]
        rows, truth = next(iter(toy.batches(1, ROWS, 0)))
        networks = (
            kind(toy.family, toy.hidden_dims, generator) for kind in (InterpretableMLP, OrdinaryMLP)
        )
        yield training_pair(
            f"toy ({name}), an MLP of {len(toy.family)} experts of {toy.hidden_dims[0]} features",
            *((one, partial(one.loss, rows, truth)) for one in networks),
        )
    yield training_pair("content NCF of 4 experts in the published sizes", *map(ncf, NCF))
    halves = (
        torch.randn(CASES, STEPS, EXPERTS.n_columns, generator=generator),
        torch.randn(CASES, STEPS, 1 + max(map(max, UPCOMING.values())), generator=generator),
        torch.randint(0, 2, (CASES, STEPS), generator=generator),
        torch.ones(CASES, STEPS, dtype=torch.bool),
    )
    small = {one.kind: one for one in SMALL.networks.values()}
    for ours, ordinary in SEQUENTIAL:
        made = (make_network(small[kind], 0) for kind in (ours, ordinary))
        yield training_pair(
            f"sessions, an {ours} of {len(EXPERTS)} experts of {small[ours].dim} features",
            *((one, partial(one.loss, *halves)) for one in made),
        )


def ncf(name: str) -> Network:
    """Return a model of the size for MovieLens-1M, and its loss on a random batch."""
    generator = torch.Generator().manual_seed(0)
    counts = Counts(3_883, 6_040)
    model = build_model(name, {}, counts, generator)
    users, items, outcomes = (
        torch.randint(0, most, (ROWS,), generator=generator)
        for most in (counts.users, counts.items, 2)
    )
    return model, partial(model.loss, ChoiceBatch(users, items, outcomes), no_dropout)


def training_pair(name: str, ours: Network, ordinary: Network) -> Pair:
    """Return a training step of each network."""
    return f"{name}, one training step", step_of(*ours), step_of(*ordinary)


def step_of(model: nn.Module, loss: Callable[[], Tensor]) -> Callable[[], None]:
    """Return a training step with a new optimizer."""
    optimizer = torch.optim.Adam(model.parameters(), fused=True)

    def step() -> None:
        value = loss()
        optimizer.zero_grad()
        value.backward()
        optimizer.step()

    return step


def layer_losses() -> Iterator[tuple[str, Callable[[], Tensor], Callable[[], Tensor]]]:
    """Yield each name with the loss of the experts and of the ordinary layer."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(ROWS, 160, generator=generator)
    widths = (128, 64, 32, 16)
    experts = InterpretableMLP(MOVIELENS, widths, generator)
    ordinary = OrdinaryMLP(MOVIELENS, widths, generator)
    name = f"an MLP of 4 experts of {', '.join(map(str, widths))} features"
    yield (
        name,
        lambda: experts.expert_outputs(rows).sum(),
        lambda: ordinary.expert_outputs(rows).sum(),
    )
    block, wide = ExpertEncoder(generator), OrdinaryEncoder()
    linked = torch.randn(len(EXPERTS), WIDTH, CASES * STEPS, requires_grad=True)
    whole = torch.randn(CASES, STEPS, len(EXPERTS) * WIDTH, requires_grad=True)
    name = f"a Transformer block of 8 experts of {WIDTH} features"
    yield name, lambda: block(linked).sum(), lambda: wide(whole).sum()
    reader = InputLinear(EXPERTS, 3 * STATE, generator)
    unit, cell = ExpertGRU(EXPERTS, reader, STATE, generator), OrdinaryGRU()
    steps = torch.randn(CASES * STEPS, EXPERTS.n_columns)
    name = f"a GRU of 8 experts of {STATE} features, compared with the same unfused cell"
    yield name, lambda: unit(steps, STEPS).sum(), lambda: cell(steps).sum()


def timed(step: Callable[[], None]) -> Callable[[], float]:
    """Return a run that steps for `SECONDS` of thread time and returns milliseconds per step."""

    def run() -> float:
        steps, start = 0, time.thread_time()
        while time.thread_time() - start < SECONDS:
            step()
            steps += 1
        return 1000 * (time.thread_time() - start) / steps

    run()
    return run
