"""All chance comes from one seed, through named streams that do not disturb each other.

There is no global random state anywhere in Whence, and no `nn.Dropout`: whoever needs chance is
handed it. So a seed gives the same bits whatever ran before it and whatever runs beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from whence.errors import InputError

STREAMS = ("init", "batches", "negatives", "dropout", "explain", "evaluation")

Drop = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Randomness:
    """One `numpy.random.SeedSequence` and its named children."""

    seed: int

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise InputError(f"A seed is a whole number from 0 on, not {self.seed}.")

    def sequence(self, stream: str) -> np.random.SeedSequence:
        """The child of that name, the same as `SeedSequence(seed).spawn(…)` would give."""
        return np.random.SeedSequence(self.seed, spawn_key=(STREAMS.index(stream),))

    def numpy(self, stream: str) -> np.random.Generator:
        """A NumPy generator at the beginning of that stream."""
        return np.random.default_rng(self.sequence(stream))

    def torch(self, stream: str, device: torch.device | str = "cpu") -> torch.Generator:
        """A PyTorch generator at the beginning of that stream."""
        generator = torch.Generator(device=device)
        return generator.manual_seed(
            int(self.sequence(stream).generate_state(1, np.uint64)[0] >> 1)
        )


class Dropout:
    """Zeroes a share `rate` of the values and scales up the rest, by its own generator.

    One 64-bit draw decides over four values, 16 bits each, which is several times faster than a
    draw for each; the rate is exact to 1/65,536.
    """

    def __init__(self, rate: float, generator: torch.Generator) -> None:
        self.dropped = min(round(rate * 2**16), 2**16 - 1)
        self.scale = 2**16 / (2**16 - self.dropped)
        self.generator = generator

    def __call__(self, values: Tensor) -> Tensor:
        """`values` with some zeroed."""
        if self.dropped == 0:
            return values
        draws = torch.empty(-(-values.numel() // 4), dtype=torch.int64, device=values.device)
        draws.random_(-(2**63), None, generator=self.generator)
        return values * self.kept(draws.view(torch.int16)[: values.numel()].view(values.shape))

    def kept(self, sixteen_bits: Tensor) -> Tensor:
        """0 for what is dropped, and the scale for the rest."""
        return (sixteen_bits >= self.dropped - 2**15) * self.scale


class StackedDropout:
    """The dropouts of several seeds at once, for a function inside `torch.vmap`.

    A seed's values are `[T, …]`, of which the first rows are its own and the rest fills the stack
    up; it draws for its own alone, and so drops what it would drop by itself.
    """

    def __init__(self, rate: float, generators: Sequence[torch.Generator]) -> None:
        self.one = Dropout(rate, generators[0])
        self.generators = generators
        self.rows: Sequence[int] = ()
        """How many rows each seed has, in the batch that comes next."""

    def __call__(self, values: Tensor) -> Tensor:
        """`values` with some zeroed."""
        if self.one.dropped == 0:
            return values
        dropped: Tensor = _DroppedInStack.apply(values, self)  # type: ignore[no-untyped-call]
        return dropped

    def of_stack(self, values: Tensor) -> Tensor:
        """The same for all seeds' values `[S, T, …]`."""
        seeds, rows = values.shape[:2]
        numbers = values[0, 0].numel()
        draws = values.new_empty((seeds, -(-rows * numbers // 4)), dtype=torch.int64)
        counts = [-(-own * numbers // 4) for own in self.rows]
        fill_each(draws, -(2**63), None, self.generators, counts)
        sixteen_bits = draws.view(torch.int16)[:, : rows * numbers].view(values.shape)
        return values * self.one.kept(sixteen_bits)


class _DroppedInStack(torch.autograd.Function):
    """Lets dropout see all the seeds that `torch.vmap` shows a function one of."""

    @staticmethod
    def forward(values: Tensor, dropout: StackedDropout) -> Tensor:
        raise AssertionError("a stacked dropout works inside torch.vmap alone")

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:  # noqa: ANN401
        """There is nothing to keep: PyTorch differentiates what `vmap` does."""

    @staticmethod
    def vmap(
        info: Any,  # noqa: ANN401
        in_dims: tuple[int | None, None],
        values: Tensor,
        dropout: StackedDropout,
    ) -> tuple[Tensor, int]:
        assert in_dims[0] is not None, "every seed has its own values"
        return dropout.of_stack(values.movedim(in_dims[0], 0)), 0


def whole_below(limits: Tensor, generator: torch.Generator) -> Tensor:
    """A whole number from 0 to below each limit; their bias is less than limit/2⁶²."""
    return torch.empty_like(limits).random_(0, 2**62, generator=generator) % limits


def each_below(
    limits: Tensor, generators: Sequence[torch.Generator], counts: Sequence[int]
) -> Tensor:
    """The same for the limits `[S, m]` of several seeds, of whose rows the first so many count."""
    draws = torch.empty_like(limits)
    fill_each(draws, 0, 2**62, generators, counts)
    return draws % limits


def fill_each(
    draws: Tensor,
    low: int,
    high: int | None,
    generators: Sequence[torch.Generator],
    counts: Sequence[int],
) -> None:
    """Whole numbers into the first so many places of each seed's row, by its own generator."""
    for own, generator, count in zip(draws, generators, counts, strict=True):
        own[:count].random_(low, high, generator=generator)


def keep(values: Tensor) -> Tensor:
    """No dropout: how a model runs outside training."""
    return values


def uniform_by_content(
    stream: np.random.SeedSequence, rows: npt.NDArray[np.int64], used: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float64]:
    """A number in [0, 1) for every used slot of every row; unused slots get 0.

    It depends on the stream and on the row's own used values and nothing else: not on the other
    rows, their order, or where the unused slots lie. So whatever is drawn for a case stays the
    same whether the case comes alone or in a batch.
    """
    key: npt.NDArray[np.uint64] = np.repeat(stream.generate_state(1, np.uint64), len(rows))
    for slot in range(rows.shape[1]):
        value: npt.NDArray[np.uint64] = rows[:, slot].astype(np.uint64)
        mixed = _splitmix64(np.bitwise_xor(key, value))
        key = np.where(used[:, slot], mixed, key)
    turn: npt.NDArray[np.uint64] = np.cumsum(used, axis=1, dtype=np.uint64)
    bits = _splitmix64(key[:, None] ^ _splitmix64(turn)) >> np.uint64(11)
    uniform: npt.NDArray[np.float64] = np.where(used, bits * 2.0**-53, 0.0)
    return uniform


def _splitmix64(state: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The finaliser of Steele, Lea and Flood (2014): every input bit reaches every output bit."""
    state = state + np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))
