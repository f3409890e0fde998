"""The probability that each possible reason of a recommendation is the right one.

A small network gives every possible reason a score from its evidence, and a softmax compares them:
each item of the history, some pairs of items, the taste for a group, popularity, and none of these.
It is learned on worlds whose true reasons are known, so its probabilities can be tested there.
"""

from __future__ import annotations

import copy
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from safetensors.torch import save as safetensors_bytes
from torch import Tensor, nn

from whence.errors import InputError
from whence.reasons.features import FeatureNames, Features

GENERAL: Final = ("taste", "popularity", "none")
"""The reasons that name no item, in the order of their probabilities."""
KINDS: Final = 4
"""Items, pairs, taste and popularity."""
HIDDEN: Final = 32
LARGEST: Final = 5.0
"""A standardized feature beyond this counts as this, so that the unusual is not overrated."""
SMALLEST_STD: Final = 1e-3


class Beliefs(NamedTuple):
    """The probabilities of all reasons of each target; they sum to 1."""

    items: Tensor
    """`[U, k, c]`."""
    sets: Tensor
    """`[U, k, p]`."""
    general: Tensor
    """`[U, k, 3]`, in the order of `GENERAL`."""

    def joined(self) -> Tensor:
        """Return `[U, k, c + p + 3]`."""
        return torch.cat(self, dim=-1)

    def kinds(self) -> Tensor:
        """Return `[U, k, 4]`: the probability of each kind, all its reasons together."""
        named = torch.stack((self.items.sum(dim=-1), self.sets.sum(dim=-1)), dim=-1)
        return torch.cat((named, self.general[..., :-1]), dim=-1)


class Calibrator(nn.Module):
    """One network each for items, pairs and what names no item."""

    def __init__(self, names: FeatureNames, generator: torch.Generator) -> None:
        super().__init__()
        self.names = names
        self.kind_shares: Tensor
        of_item, of_set, of_general = sizes = [len(some) for some in names]
        self.items = _Scorer(of_item + of_general, 1, generator)
        self.sets = _Scorer(of_set + of_general, 1, generator)
        self.general = _Scorer(of_general, len(GENERAL), generator)
        for name, size in zip(FeatureNames._fields, sizes, strict=True):
            self.register_buffer(f"{name}_mean", torch.zeros(size))
            self.register_buffer(f"{name}_std", torch.ones(size))
        self.register_buffer("kind_shares", torch.ones(KINDS))

    @torch.no_grad()
    def standardize_by(self, features: Features) -> None:
        """Learn the mean and the standard deviation of every feature."""
        everywhere = torch.ones_like(features.general[..., 0], dtype=torch.bool)
        for name, known in (
            ("items", features.known_items),
            ("sets", features.known_sets),
            ("general", everywhere),
        ):
            values = getattr(features, name)[known]
            if len(values) > 1:
                getattr(self, f"{name}_mean").copy_(values.mean(dim=0))
                getattr(self, f"{name}_std").copy_(values.std(dim=0).clamp(min=SMALLEST_STD))

    def forward(self, features: Features) -> Tensor:
        """Return the log-probabilities of all reasons `[U, k, c + p + 3]`."""
        if features.names != self.names:
            raise InputError(
                "The calibrator of this run was learned with other figures than this version of "
                "Whence computes. Train the run again."
            )
        general = self._standardized("general", features)
        each = (
            self._scores("items", features, features.known_items, general),
            self._scores("sets", features, features.known_sets, general),
            self.general(general),
        )
        return torch.cat(each, dim=-1).log_softmax(dim=-1)

    @torch.no_grad()
    def believe(self, features: Features) -> Beliefs:
        """Return the probabilities of all reasons."""
        found = self(features).exp()
        return Beliefs(*found.split((*_sizes(features), len(GENERAL)), dim=-1))

    def to_bytes(self) -> bytes:
        """Return the weights as a safetensors file."""
        about = {"features": json.dumps(self.names)}
        return safetensors_bytes(dict(self.state_dict()), about)

    @classmethod
    def from_bytes(cls, content: bytes, source: str) -> Calibrator:
        """Return the calibrator that `to_bytes` wrote; `source` is named in errors."""
        try:
            weights = load(content)
            listed = json.loads(_about(content)["features"])
            found = cls(FeatureNames(*map(tuple, listed)), torch.Generator())
            found.load_state_dict(weights)
        except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError) as problem:
            raise InputError(f"{source} holds no calibrator of reasons: {problem}.") from None
        return found.eval()

    def _scores(self, name: str, features: Features, known: Tensor, general: Tensor) -> Tensor:
        own = self._standardized(name, features)
        context = general[..., None, :].expand(*own.shape[:-1], general.shape[-1])
        scores: Tensor = getattr(self, name)(torch.cat((own, context), dim=-1))[..., 0]
        return scores.masked_fill(~known, -torch.inf)

    def _standardized(self, name: str, features: Features) -> Tensor:
        mean, std = getattr(self, f"{name}_mean"), getattr(self, f"{name}_std")
        found: Tensor = (getattr(features, name) - mean) / std
        return found.nan_to_num(0.0).clamp(-LARGEST, LARGEST)


def _about(content: bytes) -> dict[str, str]:
    """Return the metadata of a safetensors file: its header says how long the JSON is."""
    (length,) = struct.unpack_from("<Q", content)
    found: dict[str, str] = json.loads(content[8 : 8 + length])["__metadata__"]
    return found


class _Scorer(nn.Sequential):
    """Two hidden layers."""

    def __init__(self, inputs: int, outputs: int, generator: torch.Generator) -> None:
        layers = [
            nn.Linear(inputs, HIDDEN),
            nn.Linear(HIDDEN, HIDDEN),
            nn.Linear(HIDDEN, outputs),
        ]
        for layer in layers:
            nn.init.xavier_uniform_(layer.weight, generator=generator)
            nn.init.zeros_(layer.bias)
        super().__init__(layers[0], nn.GELU(), layers[1], nn.GELU(), layers[2])


@dataclass(frozen=True, eq=False)
class Examples:
    """Recommendations of models on worlds, with the true probability of every reason."""

    features: Features
    truth: Tensor
    """`[U, k, c + p + 3]`, in the order of `Beliefs`; sums to 1."""

    @staticmethod
    def joined(each: Sequence[Examples]) -> Examples:
        """Return the examples of several worlds, one target after the other: `[N, 1, …]`."""
        return Examples(
            Features.joined([one.features for one in each]),
            torch.cat([one.truth.flatten(0, 1) for one in each])[:, None],
        )


def _sizes(features: Features) -> tuple[int, int]:
    """Return the number of items and that of pairs."""
    return features.known_items.shape[-1], features.known_sets.shape[-1]


def cross_entropy(truth: Tensor, log_probability: Tensor) -> Tensor:
    """Return how improbable the truth was on average: minus the mean log-probability of it."""
    # What cannot be a reason has a probability of 0, whose logarithm counts 0 times.
    return -(truth * log_probability.where(truth > 0, 0.0)).sum(dim=-1).mean()


def fit(
    each: Sequence[Examples],
    *,
    start: Calibrator | None = None,
    steps: int = 3_000,
    batch_size: int = 1_024,
    learning_rate: float = 3e-3,
    weight_decay: float = 0.1,
    seed: int = 0,
) -> Calibrator:
    """Learn a calibrator by the cross-entropy with the true probabilities.

    It keeps how common each kind was. Each world counts the same, whatever its number of examples.
    Learning continues from the weights of `start`, if it is given, and with its standardization,
    for which those weights were learned.
    """
    if not each:
        raise InputError("A calibrator needs the examples of at least one world.")
    generator = torch.Generator().manual_seed(seed)
    first = each[0].features
    joined = Examples.joined(each)
    if start is None:
        found = Calibrator(first.names, generator).to(first.items.device)
        found.standardize_by(joined.features)
    else:
        found = copy.deepcopy(start).to(first.items.device).train()
    counts = torch.tensor([one.truth.shape[0] * one.truth.shape[1] for one in each])
    weights = (1.0 / counts).repeat_interleave(counts)
    truth = Beliefs(*joined.truth.split((*_sizes(joined.features), len(GENERAL)), dim=-1))
    shares = truth.kinds()[:, 0].double() * weights.to(joined.truth)[:, None].double()
    found.kind_shares.copy_(shares.sum(dim=0) / len(each))
    optimizer = torch.optim.AdamW(found.parameters(), learning_rate, weight_decay=weight_decay)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        rows = weights.multinomial(batch_size, replacement=True, generator=generator)
        rows = rows.to(joined.truth.device)
        loss = cross_entropy(joined.truth[rows], found(joined.features[rows]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return found.eval()
