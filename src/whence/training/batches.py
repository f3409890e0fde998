"""Training batches: windows of histories with what came next and what did not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from whence.data.negatives import Unseen
from whence.data.splits import Split
from whence.errors import InputError
from whence.models.packed import Packed
from whence.randomness import Randomness

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Batch:
    """Packed histories and, for each of the `T` items, what came next and what did not."""

    inputs: Packed
    positives: Tensor
    negatives: Tensor

    def to(self, device: str) -> Batch:
        """The same on another device."""
        return Batch(self.inputs.to(device), self.positives.to(device), self.negatives.to(device))


class Batches:
    """Draws users with replacement, a window of each one's training events, and negatives."""

    def __init__(self, split: Split, length: int, size: int, randomness: Randomness) -> None:
        starts = split.interactions.offsets[:-1]
        self.users = np.flatnonzero(split.train_ends - starts >= 2)
        if not len(self.users):
            raise InputError(
                "No user has two events to learn from besides those held out; there is nothing "
                "to train on."
            )
        self.items = split.interactions.items
        self.starts, self.ends = starts, split.train_ends
        self.length, self.size = length, size
        self.unseen = Unseen(split)
        self.rng = randomness.numpy("batches")
        self.negatives_rng = randomness.numpy("negatives")

    def draw(self) -> Batch:
        """The next batch."""
        users = self.users[self.rng.integers(0, len(self.users), self.size)]
        starts, ends = self._windows(users)
        sizes = ends - starts - 1  # the last event of a window is only a target
        history = np.repeat(np.arange(len(users)), sizes)
        behind = np.repeat(sizes.cumsum(), sizes) - np.arange(sizes.sum())
        event = ends[history] - 1 - behind
        negatives = self.unseen.draw(users[history], 1, self.negatives_rng)[:, 0]
        items, slots, histories, positives = (
            torch.from_numpy(np.asarray(values, dtype=np.int64))
            for values in (self.items[event], self.length - behind, history, self.items[event + 1])
        )
        return Batch(Packed(items, slots, histories), positives, torch.from_numpy(negatives))

    def state(self) -> dict[str, Any]:
        """Where the two streams of chance stand, as plain numbers."""
        return {
            "batches": self.rng.bit_generator.state,
            "negatives": self.negatives_rng.bit_generator.state,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Stand where `state` was taken."""
        self.rng.bit_generator.state = state["batches"]
        self.negatives_rng.bit_generator.state = state["negatives"]

    def _windows(self, users: Ints) -> tuple[Ints, Ints]:
        """From where to where: n + 1 events a user, beginning anywhere when there are more."""
        starts, ends = self.starts[users], self.ends[users]
        spare = np.maximum(ends - starts - (self.length + 1), 0)
        ends = ends - self.rng.integers(0, spare + 1)
        return np.maximum(starts, ends - (self.length + 1)), ends
