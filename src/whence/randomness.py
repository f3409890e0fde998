"""Randomness from one seed, in named and independent streams.

Whence has no global random state and does not use `nn.Dropout`: functions receive their source of
randomness. So a seed gives the same bits whatever else runs before or at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from whence.errors import InputError

STREAMS = (
    "init",
    "batches",
    "negatives",
    "dropout",
    "explain",
    "evaluation",
    "masks",
    "part_dropout",
)
"""This order must never change: the position of a stream determines its numbers."""


class DropoutFunction(Protocol):
    """Dropout, or the identity."""

    def __call__(self, values: Tensor, onto: Tensor | None = None) -> Tensor:
        """Return `values` with some set to zero, added to `onto` if given."""


@dataclass(frozen=True)
class Randomness:
    """One `numpy.random.SeedSequence` and its named children."""

    seed: int

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise InputError(f"seed is a whole number from 0, not {self.seed}.")

    def sequence(self, stream: str) -> np.random.SeedSequence:
        """Return the child of this name, the same as `SeedSequence(seed).spawn(…)` gives."""
        return np.random.SeedSequence(self.seed, spawn_key=(STREAMS.index(stream),))

    def numpy(self, stream: str) -> np.random.Generator:
        """Return a NumPy generator at the start of this stream."""
        return np.random.default_rng(self.sequence(stream))

    def key(self, stream: str) -> int:
        """Return a key of 64 bits for `CounterRandom`."""
        return _wrapped(int(self.sequence(stream).generate_state(1, np.uint64)[0]))

    def torch(self, stream: str, device: torch.device | str = "cpu") -> torch.Generator:
        """Return a PyTorch generator at the start of this stream."""
        generator = torch.Generator(device=device)
        return generator.manual_seed(
            int(self.sequence(stream).generate_state(1, np.uint64)[0] >> 1)
        )


class CounterRandom:
    """Random numbers that depend only on the key of a seed, the step and their position.

    Several seeds are drawn at once; a seed in a stack gets the same numbers as alone, on every
    device. Resumed training needs only its step. The numbers are outputs of SplitMix64 (Steele, Lea
    and Flood 2014), which computes any of them without those before it.
    """

    def __init__(self, keys: Sequence[int], device: torch.device | str = "cpu") -> None:
        self.keys = torch.tensor(keys, dtype=torch.int64, device=device)[:, None]
        self.starts: dict[range, Tensor] = {}
        """A cache of `key + place · γ` for the calls and places used so far."""
        self.replaced: list[Tensor] = []
        """Smaller cached tensors, which a step captured on a GPU still reads."""

    def bits(self, step: Tensor, calls: range, count: int) -> Tensor:
        """Return 64-bit numbers `[calls, S, count]` for a step.

        For several steps `[K]` at once the shape is `[calls, S · K, count]`.
        """
        state = self._starts(calls, count)
        if step.dim():
            state = state[:, :, None]
        state = state + step[..., None] * _wrapped(GAMMA * PLACES_OF_A_STEP)
        if step.dim():
            state = state.flatten(1, 2)
        for shift, factor in ((30, MIX_1), (27, MIX_2)):
            state = _xor_shifted(state, shift).mul_(factor)
        return _xor_shifted(state, 31)

    def _starts(self, calls: range, count: int) -> Tensor:
        """Return `key + place · γ`: `[calls, S, count]`."""
        if calls in self.starts and self.starts[calls].shape[2] >= count:
            return self.starts[calls][:, :, :count]
        device = self.keys.device
        call = torch.arange(calls.start, calls.stop, device=device) * PLACES_OF_A_CALL
        place = call[:, None, None] + torch.arange(count, device=device)
        starts = self.keys + place * GAMMA
        # Cache nothing while a step is captured: its tensors are in memory that all captured steps
        # share, so another step would overwrite them.
        if not (starts.is_cuda and torch.cuda.is_current_stream_capturing()):
            if calls in self.starts:
                self.replaced.append(self.starts[calls])
            self.starts[calls] = starts
        return starts

    def integers(self, step: Tensor, calls: range, count: int) -> Tensor:
        """Return integers of 62 bits, whose remainders by any limit are nearly uniform."""
        return self.bits(step, calls, count).bitwise_and_(2**62 - 1)


def bernoulli(numbers: Tensor, share: float) -> Tensor:
    """Return events of probability `share`, from integers of 62 bits."""
    return numbers < round(share * 2**62)


def _xor_shifted(state: Tensor, shift: int) -> Tensor:
    """Return state ^ (state >>> shift); the shift of PyTorch would extend the sign."""
    return (state >> shift).bitwise_and_(2 ** (64 - shift) - 1).bitwise_xor_(state)


def _wrapped(number: int) -> int:
    """Return the number as a signed 64-bit integer."""
    return (number + 2**63) % 2**64 - 2**63


PLACES_OF_A_CALL, PLACES_OF_A_STEP = 2**32, 2**40
GAMMA, MIX_1, MIX_2 = map(_wrapped, (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


class Dropout:
    """Sets a share `rate` of the values to zero and scales up the rest.

    Each value uses 16 random bits, so the rate is exact to 1/65,536. The bits for the next `ahead`
    calls of a step are computed at once, which changes no value.

    For several seeds it works inside `torch.vmap`. The values of a seed are rows `[T, …]`; padding
    rows at the end do not change the others.
    """

    def __init__(self, rate: float, chance: CounterRandom, ahead: int = 1) -> None:
        self.dropped = min(round(rate * 2**16), 2**16 - 1)
        self.scale = 2**16 / (2**16 - self.dropped)
        self.chance, self.ahead = chance, ahead
        self.kept: list[Tensor] = []
        """Masks that are drawn and not used yet."""
        self.shape: torch.Size | None = None
        """The shape of the last values."""
        self.start_step(torch.zeros((), dtype=torch.int64, device=chance.keys.device))

    def start_step(self, step: Tensor, shape: torch.Size | None = None) -> None:
        """Start a step; with the shape `[S, T, …]` of its values, the masks are drawn now."""
        self.step = step
        self.calls = 0
        self.kept = [] if shape is None or not self.dropped else self._draw(shape)

    def __call__(self, values: Tensor, onto: Tensor | None = None) -> Tensor:
        """Return `values` with some set to zero, added to `onto` if given."""
        if self.dropped == 0:
            return no_dropout(values, onto)
        if len(self.chance.keys) == 1:
            below = None if onto is None else onto[None]
            return self.apply_stack(values[None], below).squeeze(0)
        dropped: Tensor = _DroppedInStack.apply(values, onto, self)  # type: ignore[no-untyped-call]
        return dropped

    def apply_stack(self, values: Tensor, onto: Tensor | None) -> Tensor:
        """Return the same for the values of all seeds `[S, T, …]`."""
        if not self.kept or self.kept[0].shape != values.shape:
            self.kept = self._draw(values.shape)
        self.shape = values.shape
        self.calls += 1
        kept = self.kept.pop(0)
        return values * kept if onto is None else torch.addcmul(onto, values, kept)

    def _draw(self, shape: torch.Size) -> list[Tensor]:
        """Draw the masks of the next calls: 0 for dropped values, the scale for others."""
        numbers = shape[1:].numel()
        calls = range(self.calls, self.calls + self.ahead)
        bits = self.chance.bits(self.step, calls, -(-numbers // 4)).view(torch.int16)
        kept = (bits[:, :, :numbers] >= self.dropped - 2**15) * self.scale
        return [one.view(shape) for one in kept.unbind()]


class _DroppedInStack(torch.autograd.Function):
    """Gives dropout the values of all seeds inside `torch.vmap`."""

    @staticmethod
    def forward(values: Tensor, onto: Tensor | None, dropout: Dropout) -> Tensor:
        """Never called: inside `torch.vmap`, `vmap` is called instead."""
        raise AssertionError("dropout of several seeds works only inside torch.vmap")

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:  # noqa: ANN401
        """Save nothing: PyTorch differentiates `vmap`."""

    @staticmethod
    def vmap(
        info: Any,  # noqa: ANN401
        in_dims: tuple[int, int, None],
        values: Tensor,
        onto: Tensor | None,
        dropout: Dropout,
    ) -> tuple[Tensor, int]:
        """Apply dropout to all seeds at once."""
        if onto is not None:
            onto = onto.movedim(in_dims[1], 0)
        return dropout.apply_stack(values.movedim(in_dims[0], 0), onto), 0


def random_below(limits: Tensor, generator: torch.Generator) -> Tensor:
    """Return a random integer from 0 to below each limit, with a bias below limit/2⁶²."""
    return torch.empty_like(limits).random_(0, 2**62, generator=generator) % limits


def no_dropout(values: Tensor, onto: Tensor | None = None) -> Tensor:
    """Return the values unchanged, as outside training."""
    return values if onto is None else onto + values


def uniform_by_content(
    stream: np.random.SeedSequence, rows: npt.NDArray[np.int64], used: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float64]:
    """Return a number in [0, 1) for every used slot of every row; unused slots get 0.

    The numbers of a row depend only on the stream and on its used values, not on other rows or on
    where the unused slots are. So a case gets the same numbers alone and in a batch.
    """
    key = keys_by_content(stream, rows, used)
    turn: npt.NDArray[np.uint64] = np.cumsum(used, axis=1, dtype=np.uint64)
    bits = _splitmix64(key[:, None] ^ _splitmix64(turn)) >> np.uint64(11)
    uniform: npt.NDArray[np.float64] = np.where(used, bits * 2.0**-53, 0.0)
    return uniform


def keys_by_content(
    stream: np.random.SeedSequence, rows: npt.NDArray[np.int64], used: npt.NDArray[np.bool_]
) -> npt.NDArray[np.uint64]:
    """Return `[B]`: a key for every row, from the stream and the row's used values only."""
    key: npt.NDArray[np.uint64] = np.repeat(stream.generate_state(1, np.uint64), len(rows))
    for slot in range(rows.shape[1]):
        value: npt.NDArray[np.uint64] = rows[:, slot].astype(np.uint64)
        mixed = _splitmix64(np.bitwise_xor(key, value))
        key = np.where(used[:, slot], mixed, key)
    return key


def _splitmix64(state: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Apply the finalizer of Steele, Lea and Flood (2014), which mixes all bits."""
    state = state + np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))
