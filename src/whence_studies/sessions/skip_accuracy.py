"""Accuracy of skip predictions: over all tracks, over first tracks, and averaged over sessions."""

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
PROTOCOL: Final = "skips in the second half of sessions, predicted from the first"


@dataclass(frozen=True, eq=False)
class SkipScores:
    """What each session contributes to the measures, one number per session."""

    tracks: npt.NDArray[np.int64]
    """Number of tracks to predict, the paper's T."""
    right: npt.NDArray[np.int64]
    first: Bools
    """Whether the first track was predicted correctly."""
    average: npt.NDArray[np.float64]
    """Average accuracy, the paper's AA."""

    def __len__(self) -> int:
        return len(self.tracks)

    def measures(self, seed: int = 0) -> dict[str, Measure]:
        """Return the measures by name, with 95 % bootstrap intervals over sessions."""
        if not len(self):
            raise InputError("There are no sessions to measure.")
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
    """Score predicted skips `[B, slots]` of a batch."""
    mask = batch.upcoming_mask
    if predicted.shape != mask.shape:
        raise InputError(
            f"Predictions have the shape {list(predicted.shape)}, not {list(mask.shape)}."
        )
    right = (predicted == batch.skipped) & mask
    so_far = right.cumsum(axis=1) / np.maximum(mask.cumsum(axis=1), 1)
    tracks = mask.sum(axis=1)
    return SkipScores(
        tracks=tracks,
        right=right.sum(axis=1),
        first=right[:, 0],
        average=(so_far * right).sum(axis=1) / tracks,
    )


def concat_scores(parts: Sequence[SkipScores]) -> SkipScores:
    """Concatenate the scores of all batches."""
    if not parts:
        raise InputError("There are no sessions to measure.")
    return SkipScores(
        tracks=np.concatenate([part.tracks for part in parts]),
        right=np.concatenate([part.right for part in parts]),
        first=np.concatenate([part.first for part in parts]),
        average=np.concatenate([part.average for part in parts]),
    )


def ratio_interval(
    parts: npt.NDArray[np.int64], wholes: npt.NDArray[np.int64], seed: int = 0
) -> tuple[float, float]:
    """Return a 95 % bootstrap interval of Σ parts / Σ wholes over sessions.

    Sessions with the same pair of numbers are interchangeable, so the draw is of how often each
    pair occurs.
    """
    pairs, counts = np.unique(np.stack([parts, wholes]), axis=1, return_counts=True)
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    drawn = rng.multinomial(len(parts), counts / len(parts), RESAMPLES)
    low, high = np.percentile(drawn @ pairs[0] / (drawn @ pairs[1]), [2.5, 97.5])
    return float(low), float(high)


def last(batch: SessionBatch) -> Bools:
    """Predict every track like the last known one (equation 17 of Afchar & Hennequin 2020)."""
    final = batch.known_mask.sum(axis=1) - 1
    skipped = np.take_along_axis(batch.known_skipped, final[:, None], axis=1)
    return np.broadcast_to(skipped, batch.upcoming_mask.shape)


def mean(batch: SessionBatch) -> Bools:
    """Predict every track like the majority of the first half (equation 18); a tie is a skip."""
    skipped = (batch.known_skipped & batch.known_mask).sum(axis=1, keepdims=True)
    often = 2 * skipped >= batch.known_mask.sum(axis=1, keepdims=True)
    return np.broadcast_to(often, batch.upcoming_mask.shape)


def coin(seed: int = 0) -> Callable[[SessionBatch], Bools]:
    """Return a predictor that skips at random; every call draws again."""
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    return lambda batch: rng.integers(0, 2, batch.upcoming_mask.shape).astype(bool)


BASELINES: Final[Mapping[str, Callable[[SessionBatch], Bools]]] = {"last": last, "mean": mean}
