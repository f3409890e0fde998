"""Do reasons improve a recommender? A skip from habit says little about taste.

    python docs/examples/reasons_teach.py [--seeds 5] [--device cuda] [--json measured.json]

On sessions whose causes are known, an interpretable network learns to predict skips and says which
evidence each rests on. A second network, which sees the music alone and is to know which tracks a
listener dislikes, then learns from the same skips: all alike; a skip by the share of its
attribution that goes to the track itself; by such a share of some other skip, as a control; and, as
far as one could come, a skip only where the true cause is the track. Printed is how well each ranks
the tracks disliked above the others.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from gains import Found, measure_and_print
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
"""Experts that know the track and nothing of the listener's doings."""
ALIKE, ATTRIBUTED, TRUE = "all alike", "by attributed cause", "by true cause"
CONTROL = "by attributed cause, shuffled among skips"

Weigh = Callable[[SessionBatch], Floats32]


@dataclass(frozen=True)
class Settings:
    """How much is made, and how long both learn."""

    sessions: int = 3_000
    """To learn from, and as many to test on."""
    off_genre: int = 20
    """Of a hundred tracks, how many are of another genre than their session."""
    dim: int = 8
    steps: int = 800
    taste_steps: int = 200
    batch_size: int = 100
    seeds: int = 5


HEADINGS = ("skips count", "disliked ranked above others", "more than all alike")


def measure(settings: Settings, device: str, quiet: bool = False) -> Found:
    """One value a seed, by how skips were weighed; every seed has sessions of its own."""
    found: Found = {ALIKE: [], CONTROL: [], ATTRIBUTED: [], TRUE: []}
    for seed in range(settings.seeds):
        with tempfile.TemporaryDirectory() as folder:
            listening = ListeningConfig(
                sessions=settings.sessions,
                logs=3,
                off_genre=settings.off_genre / 100,
                seed=seed,
            )
            parts = split_files(write_sessions(Path(folder) / "sessions", listening))
            for name, value in measure_seed(parts, settings, seed, device, quiet).items():
                found[name].append(value)
    return found


def measure_seed(
    parts: SessionSplit, settings: Settings, seed: int, device: str, quiet: bool
) -> dict[str, float]:
    """All on the same sessions, from the same first weights and in the same order."""
    tracks = read_tracks(parts.train.tracks)
    network = NetworkConfig(dim=settings.dim, n_heads=2, n_layers=1)
    training = SkipConfig(settings.steps, settings.batch_size, learning_rate=3e-3, validate_every=0)
    fitted = fit_skips(
        parts, tracks, network, training, seed, device=device, show_progress=not quiet
    )
    if not quiet:
        print(evaluate(fitted.model, parts.test, tracks).scores.measures()["accuracy"])
    attributed = by_attribution(fitted.model)
    weighing = {
        ALIKE: alike,
        CONTROL: shuffled(attributed, Randomness(seed).numpy("explain")),
        ATTRIBUTED: attributed,
        TRUE: by_cause,
    }
    return {
        name: ranking(learn_taste(parts, tracks, settings, seed, device, weigh), parts, tracks)
        for name, weigh in weighing.items()
    }


def alike(halves: SessionBatch) -> Floats32:
    """Every track counts the same."""
    return np.ones(halves.labels.shape, dtype=np.float32)


def by_cause(halves: SessionBatch) -> Floats32:
    """A skip counts where the track was its cause; what was played always does."""
    about = np.isin(halves.causes, (Cause.MUSIC, Cause.POPULARITY))
    return np.where(halves.skipped, about, True).astype(np.float32)


def by_attribution(model: SequentialModel) -> Weigh:
    """A skip counts by the share of its attribution that goes to the track."""

    @torch.no_grad()
    def weigh(halves: SessionBatch) -> Floats32:
        device = next(model.parameters()).device
        tensors = session_tensors(halves, device)
        selected = model.attribute(tensors.known, tensors.upcoming).cpu().numpy()
        share = selected[..., ABOUT_THE_TRACK].sum(axis=-1) / (selected.sum(axis=-1) + 1e-9)
        return np.where(halves.skipped, share, 1.0).astype(np.float32)

    return weigh


def shuffled(weigh: Weigh, rng: np.random.Generator) -> Weigh:
    """The same weights, each of some other skip of the batch: a control without reasons."""

    def weigh_anew(halves: SessionBatch) -> Floats32:
        weights = weigh(halves)
        skips = halves.skipped & halves.upcoming_mask
        weights[skips] = rng.permutation(weights[skips])
        return weights

    return weigh_anew


def learn_taste(
    parts: SessionSplit, tracks: Tracks, settings: Settings, seed: int, device: str, weigh: Weigh
) -> SequentialModel:
    """A network that sees the music of both halves and nothing else."""
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
        for halves in batches(parts.train, tracks, settings.batch_size, seed=1_000 * seed + epoch):
            weights = torch.from_numpy(weigh(halves)).to(device)
            with deterministic(device):
                loss = model.loss(*session_tensors(halves, device), weights)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            step += 1
            if step == settings.taste_steps:
                break
        epoch += 1
    return model


@torch.no_grad()
def ranking(model: SequentialModel, parts: SessionSplit, tracks: Tracks) -> float:
    """How often a track that was disliked for its music is ranked above one that was not."""
    device = next(model.parameters()).device
    scores, disliked = [], []
    for halves in batches(parts.test, tracks):
        tensors = session_tensors(halves, device)
        logits = model.scores(tensors.known, tensors.upcoming)[..., 1].cpu().numpy()
        scores.append(logits[halves.upcoming_mask])
        assert halves.causes is not None
        disliked.append(halves.causes[halves.upcoming_mask] == Cause.MUSIC)
    return area(np.concatenate(scores), np.concatenate(disliked))


def area(scores: Floats32, right: npt.NDArray[np.bool_]) -> float:
    """Under the curve of hits against false alarms: the share of pairs in order, ties a half."""
    ranks = stats.rankdata(scores)
    hits, misses = int(right.sum()), int((~right).sum())
    return float((ranks[right].sum() - hits * (hits + 1) / 2) / (hits * misses))


if __name__ == "__main__":
    measure_and_print(__doc__, Settings, measure, HEADINGS)
