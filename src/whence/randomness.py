"""All chance comes from one seed, through named streams that do not disturb each other.

There is no global random state anywhere in Whence, and no `nn.Dropout`: whoever needs chance is
handed it. So a seed gives the same bits whatever ran before it and whatever runs beside it.
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
"""In this order for ever: a stream is known by its place."""


class DropoutFunction(Protocol):
    """Dropout, or nothing of the kind."""

    def __call__(self, values: Tensor, onto: Tensor | None = None) -> Tensor:
        """`values` with some zeroed, added to what they go `onto`."""


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

    def key(self, stream: str) -> int:
        """64 bits for `Chance`."""
        return _wrapped(int(self.sequence(stream).generate_state(1, np.uint64)[0]))

    def torch(self, stream: str, device: torch.device | str = "cpu") -> torch.Generator:
        """A PyTorch generator at the beginning of that stream."""
        generator = torch.Generator(device=device)
        return generator.manual_seed(
            int(self.sequence(stream).generate_state(1, np.uint64)[0] >> 1)
        )


class CounterRandom:
    """Numbers that a seed's key, the step and their place decide, and nothing else.

    Those of several seeds come at once, a seed in a stack has the same as alone, every device has
    the same, and a training that goes on needs to know no more than its step. They are the outputs
    of SplitMix64 (Steele, Lea and Flood 2014), which gives any of them without those before it.
    """

    def __init__(self, keys: Sequence[int], device: torch.device | str = "cpu") -> None:
        self.keys = torch.tensor(keys, dtype=torch.int64, device=device)[:, None]
        self.begun: dict[range, Tensor] = {}
        """`key + place · γ` of the calls and places asked for so far, which come again."""
        self.outgrown: list[Tensor] = []
        """Those of fewer places: a step that was recorded on a GPU still reads them."""

    def bits(self, step: Tensor, calls: range, count: int) -> Tensor:
        """`[calls, S, count]` of 64 bits: a place is the number of a call and one within it.

        Of several steps `[K]` at once it is `[calls, S · K, count]`.
        """
        state = self._beginning(calls, count)
        if step.dim():
            state = state[:, :, None]
        state = state + step[..., None] * _wrapped(GAMMA * PLACES_OF_A_STEP)
        if step.dim():
            state = state.flatten(1, 2)
        for shift, factor in ((30, MIX_1), (27, MIX_2)):
            state = _xor_shifted(state, shift).mul_(factor)
        return _xor_shifted(state, 31)

    def _beginning(self, calls: range, count: int) -> Tensor:
        """`[calls, S, count]`: `key + place · γ`."""
        if calls in self.begun and self.begun[calls].shape[2] >= count:
            return self.begun[calls][:, :, :count]
        device = self.keys.device
        call = torch.arange(calls.start, calls.stop, device=device) * PLACES_OF_A_CALL
        place = call[:, None, None] + torch.arange(count, device=device)
        begun = self.keys + place * GAMMA
        # While a step is recorded nothing may be kept: what is there belongs to the memory that all
        # recorded steps share, and another one would write over it.
        if not (begun.is_cuda and torch.cuda.is_current_stream_capturing()):
            if calls in self.begun:
                self.outgrown.append(self.begun[calls])
            self.begun[calls] = begun
        return begun

    def integers(self, step: Tensor, calls: range, count: int) -> Tensor:
        """The same as whole numbers of 62 bits, whose remainders by any limit are even enough."""
        return self.bits(step, calls, count).bitwise_and_(2**62 - 1)


def bernoulli(numbers: Tensor, share: float) -> Tensor:
    """Whether what happens in that share of all cases does, by whole numbers of 62 bits."""
    return numbers < round(share * 2**62)


def _xor_shifted(state: Tensor, shift: int) -> Tensor:
    """state ^ (state >>> shift); PyTorch's own shift would bring the sign along."""
    return (state >> shift).bitwise_and_(2 ** (64 - shift) - 1).bitwise_xor_(state)


def _wrapped(number: int) -> int:
    """As a 64-bit integer with a sign."""
    return (number + 2**63) % 2**64 - 2**63


PLACES_OF_A_CALL, PLACES_OF_A_STEP = 2**32, 2**40
GAMMA, MIX_1, MIX_2 = map(_wrapped, (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


class Dropout:
    """Zeroes a share `rate` of the values and scales up the rest.

    64 bits decide over four values, 16 each; the rate is exact to 1/65,536. A step that drops
    several times has the bits for `ahead` of them computed at once, which changes none.

    For several seeds it works inside `torch.vmap`. A seed's values are rows `[T, …]`; rows that
    fill the seed up to others' length change nothing for its own.
    """

    def __init__(self, rate: float, chance: CounterRandom, ahead: int = 1) -> None:
        self.dropped = min(round(rate * 2**16), 2**16 - 1)
        self.scale = 2**16 / (2**16 - self.dropped)
        self.chance, self.ahead = chance, ahead
        self.kept: list[Tensor] = []
        """Drawn and not used yet."""
        self.shape: torch.Size | None = None
        """Of the values that came last."""
        self.begin(torch.zeros((), dtype=torch.int64, device=chance.keys.device))

    def begin(self, step: Tensor, shape: torch.Size | None = None) -> None:
        """The step whose values come next; with their shape `[S, T, …]`, it draws at once."""
        self.step = step
        self.calls = 0
        self.kept = [] if shape is None or not self.dropped else self._draw(shape)

    def __call__(self, values: Tensor, onto: Tensor | None = None) -> Tensor:
        """`values` with some zeroed, added to what they go `onto`."""
        if self.dropped == 0:
            return no_dropout(values, onto)
        if len(self.chance.keys) == 1:
            below = None if onto is None else onto[None]
            return self.of_stack(values[None], below).squeeze(0)
        dropped: Tensor = _DroppedInStack.apply(values, onto, self)  # type: ignore[no-untyped-call]
        return dropped

    def of_stack(self, values: Tensor, onto: Tensor | None) -> Tensor:
        """The same for all seeds' values `[S, T, …]`."""
        if not self.kept or self.kept[0].shape != values.shape:
            self.kept = self._draw(values.shape)
        self.shape = values.shape
        self.calls += 1
        kept = self.kept.pop(0)
        return values * kept if onto is None else torch.addcmul(onto, values, kept)

    def _draw(self, shape: torch.Size) -> list[Tensor]:
        """For the calls ahead: 0 for what is dropped, and the scale for the rest."""
        numbers = shape[1:].numel()
        calls = range(self.calls, self.calls + self.ahead)
        bits = self.chance.bits(self.step, calls, -(-numbers // 4)).view(torch.int16)
        kept = (bits[:, :, :numbers] >= self.dropped - 2**15) * self.scale
        return [one.view(shape) for one in kept.unbind()]


class _DroppedInStack(torch.autograd.Function):
    """Lets dropout see all the seeds that `torch.vmap` shows a function one of."""

    @staticmethod
    def forward(values: Tensor, onto: Tensor | None, dropout: Dropout) -> Tensor:
        """Is not called: the values of several seeds come from `vmap`."""
        raise AssertionError("the dropout of several seeds works inside torch.vmap alone")

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:  # noqa: ANN401
        """There is nothing to keep: PyTorch differentiates what `vmap` does."""

    @staticmethod
    def vmap(
        info: Any,  # noqa: ANN401
        in_dims: tuple[int, int, None],
        values: Tensor,
        onto: Tensor | None,
        dropout: Dropout,
    ) -> tuple[Tensor, int]:
        """All seeds at once."""
        if onto is not None:
            onto = onto.movedim(in_dims[1], 0)
        return dropout.of_stack(values.movedim(in_dims[0], 0), onto), 0


def random_below(limits: Tensor, generator: torch.Generator) -> Tensor:
    """A whole number from 0 to below each limit; their bias is less than limit/2⁶²."""
    return torch.empty_like(limits).random_(0, 2**62, generator=generator) % limits


def no_dropout(values: Tensor, onto: Tensor | None = None) -> Tensor:
    """No dropout: how a model runs outside training."""
    return values if onto is None else onto + values


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
