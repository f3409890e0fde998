"""Stability over seeds: do models recommend the same items, for the same reasons?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from whence.arrays import Floats, Ints
from whence.contract import PAD
from whence.data.histories import Cases
from whence.data.splits import HeldOut, Split
from whence.errors import InputError, did_you_mean
from whence.explainers import compare_batch
from whence.measure import Measure
from whence.memory import cases_at_once, row_slices
from whence.models import Recommender
from whence.randomness import Randomness
from whence.ranking import batch_and_targets, top_unseen
from whence.trust.stability.seed_pairs import (
    attention_kl,
    check_interval_over,
    jaccard_distance,
    overlap,
)

TOP = 10
METHODS = ("attention-first", "attention-last", "rollout", "gradient-norm", "random")
"""With random importances, to show how similar unrelated ones are."""


def seed_stability(
    models: Mapping[int, Recommender],
    split: Split,
    held: HeldOut,
    methods: Sequence[str] = METHODS,
    *,
    cases: int = 1_000,
    seed: int = 0,
    memory: int | None = None,
) -> dict[str, tuple[list[float], Measure]]:
    """Return, by column, a pseudo-value for each model and the mean over cases.

    The columns are "top-10 overlap", and "KL" and "Jaccard distance %" of each method. The held-out
    item is explained, which is the same for every model. `seed` draws at most `cases` held-out
    cases; random explainers start from the seed of each model. About `memory` bytes are used at a
    time.
    """
    check_interval_over(len(models))
    lengths = {model.config.max_len for model in models.values()}
    if len(lengths) > 1:
        read = ", ".join(map(str, sorted(lengths)))
        raise InputError(
            f"All models must have the same max_len to be compared; these have {read}."
        )
    asked = _draw(split, held, cases, seed)
    lists = np.stack([_best(model, asked, split) for model in models.values()])
    sizes = [_sizes(model, asked, methods, own, memory) for own, model in models.items()]
    model = next(iter(models.values()))
    parts = model.parts(batch_and_targets(model, asked, model.config.max_len)[0]).cpu().numpy()
    found = {f"top-{TOP} overlap": overlap(lists)}
    for method in methods:
        of_seeds = np.stack([of_seed[method] for of_seed in sizes])
        found[f"{method} KL"] = attention_kl(of_seeds, parts)
        found[f"{method} Jaccard distance %"] = jaccard_distance(of_seeds, parts)
    events = f"{len(asked):,} {held} events, {split.protocol}"
    return {
        column: (
            pairs.over_seeds(),
            replace(pairs, protocol=f"{events}; {pairs.protocol}").measure(),
        )
        for column, pairs in found.items()
    }


def _draw(split: Split, held: HeldOut, most: int, seed: int) -> Cases:
    """Return at most `most` of the held-out cases, in their order."""
    if held not in split.held:
        raise InputError(f"The split has no part '{held}': {did_you_mean(held, split.held)}")
    every = split.held[held]
    if most < 1 or not len(every):
        raise InputError(
            f"Stability needs at least one case; the split holds out {len(every):,} {held} events, "
            f"and cases is {most:,}."
        )
    order = Randomness(seed).numpy("evaluation").permutation(len(every))
    return every[np.sort(order[:most])]


def _best(model: Recommender, cases: Cases, split: Split) -> Ints:
    """Return the recommendations `[B, 10]`; `PAD` for users with too few unseen items."""
    pieces = []
    for some in row_slices(len(cases), cases_at_once(split.interactions.item_count)):
        items, scores = top_unseen(model, cases[some], model.config.max_len, TOP)
        pieces.append(np.where(np.isfinite(scores), items, PAD))
    return np.concatenate(pieces)


def _sizes(
    model: Recommender, cases: Cases, methods: Sequence[str], seed: int, memory: int | None
) -> dict[str, Floats]:
    """Return, by method, the magnitudes of the importances `[B, n]` for this model."""
    pieces = []
    for some in row_slices(len(cases), cases_at_once(model.config.max_len**2)):
        batch, targets = batch_and_targets(model, cases[some], model.config.max_len)
        pieces.append(compare_batch(model, batch, targets, methods, seed, memory=memory))
    return {
        method: np.concatenate([piece[method].magnitude() for piece in pieces])
        for method in methods
    }
