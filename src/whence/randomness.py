"""All chance comes from one seed, through named streams that do not disturb each other.

There is no global random state anywhere in Whence, and no `nn.Dropout`: whoever needs chance is
handed it. So a seed gives the same bits whatever ran before it and whatever runs beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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
        sixteen_bits = draws.view(torch.int16)[: values.numel()].view(values.shape)
        return values * ((sixteen_bits >= self.dropped - 2**15) * self.scale)


def whole_below(limits: Tensor, generator: torch.Generator) -> Tensor:
    """A whole number from 0 to below each limit; their bias is less than limit/2⁶²."""
    return torch.empty_like(limits).random_(0, 2**62, generator=generator) % limits


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
