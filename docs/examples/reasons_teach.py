"""Do reasons improve a recommender? A skip from habit says little about taste.

    python docs/examples/reasons_teach.py [--seeds 5] [--device cuda] [--json measured.json]

On sessions with known causes, an interpretable network learns to predict skips and says which
evidence each rests on. A second network sees only the music and should learn which tracks a
listener dislikes. It trains on the same skips with four weightings:

- equal weights;
- the share of the attribution that goes to the track;
- the same shares shuffled among skips, as a control;
- 1 only if the true cause is the track, as an upper bound.

The script prints how well each ranks disliked tracks above the others.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from gains import ValuesBySeed, measure_and_print
from scipy import stats

from whence.arrays import Floats32
from whence.devices import deterministic
from whence.experts import Family, OrdinaryTransformer, SequentialModel
from whence.randomness import Randomness
from whence_studies.sessions import (
    KNOWN_SPANS,
    Cause,
    ListeningConfig,
    SessionBatch,
    SessionSplit,
    Tracks,
    batches,
    read_tracks,
    split_files,
    write_sessions,
)
from whence_studies.skips import EXPERTS, NetworkConfig, SkipConfig, evaluate, fit_skips
from whence_studies.skips.networks import UPCOMING
from whence_studies.skips.skip_evaluation import session_tensors

MUSIC = KNOWN_SPANS["music"]
TASTE = Family.of({"music": range(MUSIC.start, MUSIC.stop)}, {"music": ["music"]})
"""What the second network sees."""
ABOUT_THE_TRACK = [EXPERTS.index(name) for name in ("S3", "S4", "S6")]
"""Experts that see the track and nothing about the listener."""
EQUAL, ATTRIBUTED, TRUE = "equal", "by attributed cause", "by true cause"
CONTROL = "by attributed cause, shuffled among skips"

Weigh = Callable[[SessionBatch], Floats32]


@dataclass(frozen=True)
class Settings:
    """The amount of data, and the length of both trainings."""

    sessions: int = 3_000
    """For training, and as many for testing."""
    off_genre: int = 20
    """Percentage of tracks from another genre than their session."""
    dim: int = 8
    steps: int = 800
    taste_steps: int = 200
    batch_size: int = 100
    seeds: int = 5


HEADINGS = ("weight of skips", "AUC of disliked tracks", "gain over equal weights")


def measure(settings: Settings, device: str, quiet: bool = False) -> ValuesBySeed:
    """Return one value per seed for each weighting; every seed has its own sessions."""
    found: ValuesBySeed = {EQUAL: [], CONTROL: [], ATTRIBUTED: [], TRUE: []}
    for seed in range(settings.seeds):
        with tempfile.TemporaryDirectory() as folder:
            listening = ListeningConfig(
                sessions=settings.sessions,
                logs=3,
                off_genre=settings.off_genre / 100,
                seed=seed,
            )
            split = split_files(write_sessions(Path(folder) / "sessions", listening))
            for name, value in measure_seed(split, settings, seed, device, quiet).items():
                found[name].append(value)
    return found


def measure_seed(
    split: SessionSplit, settings: Settings, seed: int, device: str, quiet: bool
) -> dict[str, float]:
    """Measure all weightings with the same sessions, initial weights and order."""
    tracks = read_tracks(split.train.tracks)
    network = NetworkConfig(dim=settings.dim, n_heads=2, n_layers=1)
    training = SkipConfig(settings.steps, settings.batch_size, learning_rate=3e-3, validate_every=0)
    fitted = fit_skips(
        split, tracks, network, training, seed, device=device, show_progress=not quiet
    )
    if not quiet:
        print(evaluate(fitted.model, split.test, tracks).scores.measures()["accuracy"])
    attributed = by_attribution(fitted.model)
    weighing = {
        EQUAL: equal,
        CONTROL: shuffled(attributed, Randomness(seed).numpy("explain")),
        ATTRIBUTED: attributed,
        TRUE: by_cause,
    }
    return {
        name: ranking(learn_taste(split, tracks, settings, seed, device, weigh), split, tracks)
        for name, weigh in weighing.items()
    }


def equal(batch: SessionBatch) -> Floats32:
    """Weight every track equally."""
    return np.ones(batch.labels.shape, dtype=np.float32)


def by_cause(batch: SessionBatch) -> Floats32:
    """Weight a skip by whether the track caused it; played tracks have weight 1."""
    about = np.isin(batch.causes, (Cause.MUSIC, Cause.POPULARITY))
    return np.where(batch.skipped, about, True).astype(np.float32)


def by_attribution(model: SequentialModel) -> Weigh:
    """Weight a skip by the share of its attribution that goes to the track."""

    @torch.no_grad()
    def weigh(batch: SessionBatch) -> Floats32:
        device = next(model.parameters()).device
        tensors = session_tensors(batch, device)
        selected = model.attribute(tensors.known, tensors.upcoming).cpu().numpy()
        share = selected[..., ABOUT_THE_TRACK].sum(axis=-1) / (selected.sum(axis=-1) + 1e-9)
        return np.where(batch.skipped, share, 1.0).astype(np.float32)

    return weigh


def shuffled(weigh: Weigh, rng: np.random.Generator) -> Weigh:
    """Shuffle the weights among the skips of a batch: a control without reasons."""

    def weigh_shuffled(batch: SessionBatch) -> Floats32:
        weights = weigh(batch)
        skips = batch.skipped & batch.upcoming_mask
        weights[skips] = rng.permutation(weights[skips])
        return weights

    return weigh_shuffled


def learn_taste(
    split: SessionSplit, tracks: Tracks, settings: Settings, seed: int, device: str, weigh: Weigh
) -> SequentialModel:
    """Train a network that sees only the music of both halves."""
    model = OrdinaryTransformer(
        TASTE,
        {"music": UPCOMING["music"]},
        32,
        Randomness(seed).torch("init"),
        n_layers=1,
        n_heads=4,
    ).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    step = epoch = 0
    while step < settings.taste_steps:
        for batch in batches(split.train, tracks, settings.batch_size, seed=1_000 * seed + epoch):
            weights = torch.from_numpy(weigh(batch)).to(device)
            with deterministic(device):
                loss = model.loss(*session_tensors(batch, device), weights)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            step += 1
            if step == settings.taste_steps:
                break
        epoch += 1
    return model


@torch.no_grad()
def ranking(model: SequentialModel, split: SessionSplit, tracks: Tracks) -> float:
    """Return how often a track disliked for its music is ranked above one that was not."""
    device = next(model.parameters()).device
    scores, disliked = [], []
    for batch in batches(split.test, tracks):
        tensors = session_tensors(batch, device)
        logits = model.scores(tensors.known, tensors.upcoming)[..., 1].cpu().numpy()
        scores.append(logits[batch.upcoming_mask])
        assert batch.causes is not None
        disliked.append(batch.causes[batch.upcoming_mask] == Cause.MUSIC)
    return area(np.concatenate(scores), np.concatenate(disliked))


def area(scores: Floats32, right: npt.NDArray[np.bool_]) -> float:
    """Return the area under the ROC curve: the share of pairs in order, ties counting half."""
    ranks = stats.rankdata(scores)
    hits, misses = int(right.sum()), int((~right).sum())
    return float((ranks[right].sum() - hits * (hits + 1) / 2) / (hits * misses))


if __name__ == "__main__":
    measure_and_print(__doc__, Settings, measure, HEADINGS)
