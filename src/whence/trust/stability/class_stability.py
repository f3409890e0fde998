"""Stability of predicted classes: do models of other seeds predict and attend the same?

As in chapter 3 of Jain (2019), every target's prediction and attention are compared over seeds, by
the mean prediction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch
from torch import Tensor

from whence.arrays import Bools, Floats, Ints
from whence.capabilities import require
from whence.contract import Explainable, HasAttentions
from whence.errors import InputError
from whence.memory import cases_at_once, inputs_at_once, memory_for, row_slices
from whence.trust.bins import Binned, Bins, EqualWidth, binned
from whence.trust.stability.seed_pairs import (
    SeedPairs,
    attention_kl,
    deviation,
    jaccard_distance,
    jaccard_index,
    joined,
    prediction_difference,
)
from whence.trust.target_classes import LIKED, TargetPairs, attention_to_parts, pair_classes

DIFFERENCE: Final = "difference of predictions"
DEVIATION: Final = "deviation of predictions"
OF_ATTENTION: Final[dict[str, Callable[[Floats, Bools], SeedPairs]]] = {
    "Jaccard index": jaccard_index,
    "Jaccard distance %": jaccard_distance,
    "KL": attention_kl,
}
"""As in the thesis: the index uses the top 10 % of a history, the distance the top 20 %."""


@dataclass(frozen=True, eq=False)
class ClassStability:
    """How similar models of several seeds are on `t` targets of `B` histories."""

    liked: Floats
    """`[B, t]`: the mean over seeds of the probability that the target is liked."""
    deviation: Floats
    """`[B, t]`: the mean over seeds of the distance from that mean, as in the thesis."""
    seeds: int
    pairs: dict[str, SeedPairs]
    """By name, one case per target: the Jaccard index, Jaccard distance and KL of attention, and
    the difference of predictions."""

    def by_prediction(self, bins: Bins | None = None, seed: int = 0) -> dict[str, Binned]:
        """Return all by the mean prediction, by default in tenths (Figures 3.10 and 3.11)."""
        users = np.repeat(np.arange(len(self.liked)), self.liked.shape[1])
        said = f"mean over {self.seeds} seeds of |p − the mean over seeds|"
        values = {DEVIATION: (self.deviation.ravel(), said)}
        values |= {name: (one.cases, one.protocol) for name, one in self.pairs.items()}
        return {
            name: binned(
                one, self.liked.ravel(), bins or EqualWidth(10), users, protocol=said, seed=seed
            )
            for name, (one, said) in values.items()
        }


@torch.no_grad()
def class_stability(
    models: Sequence[Explainable], batch: Tensor, targets: Tensor, *, memory: int | None = None
) -> ClassStability:
    """Compare all models on the targets `[B, t]`; the thesis uses the one that came next.

    Attention is that of the last block, averaged over heads and normalized if its sum is not 1, as
    in DeepICF. Histories with fewer than two parts are NaN there. For models without attention only
    the predictions are compared.
    """
    if len(models) < 2:
        raise InputError(f"Stability needs at least 2 seeds, not {len(models)}.")
    for model in models:
        require(model, ("parts", "classes"), who="the stability of classes")
    asked = TargetPairs(batch, targets)
    memory = memory or memory_for(batch.device)
    attentive = [model for model in models if isinstance(model, HasAttentions)]
    every = len(attentive) == len(models)
    liked = np.stack([_liked(model, asked, memory) for model in models])
    return ClassStability(
        liked.mean(axis=0).reshape(targets.shape),
        deviation(liked).reshape(targets.shape),
        len(models),
        {
            **(_attention(models, attentive, asked, memory) if every else {}),
            DIFFERENCE: prediction_difference(liked),
        },
    )


def _liked(model: Explainable, asked: TargetPairs, memory: int) -> Floats:
    """Return the probability that each target is liked `[B · t]`."""
    found = [
        pair_classes(model, *asked.pairs(rows)).double().softmax(dim=1)[:, LIKED].cpu()
        for rows in asked.slices(memory)
    ]
    return np.asarray(torch.cat(found).numpy(), dtype=np.float64)


def _attention(
    models: Sequence[Explainable],
    attentive: Sequence[HasAttentions],
    asked: TargetPairs,
    memory: int,
) -> dict[str, SeedPairs]:
    """Compare attention on the targets whose histories have at least two parts."""
    several = models[0].parts(asked.batch).sum(dim=1) >= 2
    usable = several[asked.histories(slice(None))].nonzero()[:, 0]
    if not len(usable):
        raise InputError("No history has two parts, so attention cannot be compared.")
    slots = asked.batch.shape[1]
    at_once = min(inputs_at_once(slots, memory), cases_at_once(len(models) * slots))
    pieces: dict[str, list[SeedPairs]] = {name: [] for name in OF_ATTENTION}
    for some in row_slices(len(usable), at_once):
        batch, targets = asked.pairs(usable[some])
        parts = models[0].parts(batch)
        weights = [
            attention_to_parts(model.attentions(batch, targets), parts) for model in attentive
        ]
        sizes = torch.stack(weights).double().cpu().numpy()
        for name, compare in OF_ATTENTION.items():
            pieces[name].append(compare(sizes, parts.cpu().numpy()))
    place = usable.cpu().numpy()
    return {name: _spread_out(joined(some), place, len(asked)) for name, some in pieces.items()}


def _spread_out(pairs: SeedPairs, place: Ints, count: int) -> SeedPairs:
    """Return the pairs with NaN for the cases that were not compared."""
    cases = np.full(count, np.nan)
    cases[place] = pairs.cases
    return replace(pairs, cases=cases)
