"""How well skips are predicted: of all tracks, of the first, and on average over the session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from whence.arrays import Bools
from whence.errors import InputError
from whence.measure import RESAMPLES, Measure, mean_measure
from whence_studies.sessions.session_batches import SessionBatch

ACCURACY, FIRST, AVERAGE = "accuracy", "accuracy of the first track", "mean average accuracy"
COLUMNS: Final = (ACCURACY, FIRST, AVERAGE)
PROTOCOL: Final = "skips of the second half of sessions, from the first half"


@dataclass(frozen=True, eq=False)
class SkipScores:
    """What each session adds to the measures, one number a session."""

    tracks: npt.NDArray[np.int64]
    """Tracks to predict, the paper's T."""
    right: npt.NDArray[np.int64]
    first: Bools
    """Whether the first track was predicted rightly."""
    average: npt.NDArray[np.float64]
    """Average accuracy, the paper's AA."""

    def __len__(self) -> int:
        return len(self.tracks)

    def measures(self, seed: int = 0) -> dict[str, Measure]:
        """By name, with 95 % bootstrap intervals over sessions."""
        if not len(self):
            raise InputError("Predictions of no session cannot be measured.")
        share = float(self.right.sum() / self.tracks.sum())
        interval = ratio_interval(self.right, self.tracks, seed)
        protocol = f"{PROTOCOL}; share of all tracks, bootstrap over sessions"
        return {
            ACCURACY: Measure(share, interval, len(self), protocol, "higher is better", (0.0, 1.0)),
            FIRST: mean_measure(self.first, f"{PROTOCOL}; first track", seed=seed),
            AVERAGE: mean_measure(
                self.average, f"{PROTOCOL}; mean over sessions of Σ acc(j) L(j) / T", seed=seed
            ),
        }


def score_skips(predicted: Bools, batch: SessionBatch) -> SkipScores:
    """Of a batch: `predicted` says `[B, slots]` whether each asked track is skipped."""
    there = batch.upcoming_mask
    if predicted.shape != there.shape:
        raise InputError(
            f"Predictions are {list(predicted.shape)}, and {list(there.shape)} are asked for."
        )
    right = (predicted == batch.skipped) & there
    so_far = right.cumsum(axis=1) / np.maximum(there.cumsum(axis=1), 1)
    tracks = there.sum(axis=1)
    return SkipScores(
        tracks=tracks,
        right=right.sum(axis=1),
        first=right[:, 0],
        average=(so_far * right).sum(axis=1) / tracks,
    )


def concat_scores(parts: Sequence[SkipScores]) -> SkipScores:
    """Of all batches together."""
    if not parts:
        raise InputError("Predictions of no session cannot be measured.")
    return SkipScores(
        tracks=np.concatenate([part.tracks for part in parts]),
        right=np.concatenate([part.right for part in parts]),
        first=np.concatenate([part.first for part in parts]),
        average=np.concatenate([part.average for part in parts]),
    )


def ratio_interval(
    parts: npt.NDArray[np.int64], wholes: npt.NDArray[np.int64], seed: int = 0
) -> tuple[float, float]:
    """95 % of Σ parts / Σ wholes over resampled sessions.

    A session counts only by its pair of small numbers, so what is drawn is how often each occurs.
    """
    pairs, counts = np.unique(np.stack([parts, wholes]), axis=1, return_counts=True)
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    drawn = rng.multinomial(len(parts), counts / len(parts), RESAMPLES)
    low, high = np.percentile(drawn @ pairs[0] / (drawn @ pairs[1]), [2.5, 97.5])
    return float(low), float(high)


# Predictions that need no learning.


def last(batch: SessionBatch) -> Bools:
    """Every track as the last one of the first half (equation 17 of Afchar & Hennequin 2020)."""
    final = batch.known_mask.sum(axis=1) - 1
    skipped = np.take_along_axis(batch.known_skipped, final[:, None], axis=1)
    return np.broadcast_to(skipped, batch.upcoming_mask.shape)


def mean(batch: SessionBatch) -> Bools:
    """Every track as most of the first half (equation 18); a tie is a skip."""
    skipped = (batch.known_skipped & batch.known_mask).sum(axis=1, keepdims=True)
    often = 2 * skipped >= batch.known_mask.sum(axis=1, keepdims=True)
    return np.broadcast_to(often, batch.upcoming_mask.shape)


def coin(seed: int = 0) -> Callable[[SessionBatch], Bools]:
    """Heads is a skip; every call tosses anew."""
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    return lambda batch: rng.integers(0, 2, batch.upcoming_mask.shape).astype(bool)


BASELINES: Final[Mapping[str, Callable[[SessionBatch], Bools]]] = {"last": last, "mean": mean}
