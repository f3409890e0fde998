"""Do reasons improve a recommender? What nothing speaks for says little about taste.

    python docs/examples/reasons_clean.py [--seeds 5] [--device cuda] [--json measured.json]

In a world where the cause of every event is known, many are only popular or mere noise. Two
SASRecs, each trained on half of the users, say of every event of the other half what they saw that
speaks for it: its log-probability given the user's history, less that of any item at all. A third
one then learns from all users: from all their events; without those that less speaks for than for
any item; without as many others, as a control; and, as far as one could come, without all that was
in truth popular or noise. Printed is how often each finds what the users did for a reason among the
first ten, all of them reading the same whole histories.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from gains import Found, measure_and_print

from whence.contract import ALL
from whence.data import Interactions, Split, leave_one_out
from whence.data.histories import Cases
from whence.memory import row_slices
from whence.models import Recommender
from whence.randomness import Randomness
from whence.training.config import TrainingConfig
from whence.training.evaluation import Evaluation
from whence.training.loop import fit
from whence.worlds import Kind, World, WorldConfig, make_world

EVERY, CONTROL = "all events", "without as many at random"
ATTRIBUTED, TRUE = "without what nothing speaks for", "without popular ones and noise"
AT_ONCE = 2_000
"""Cases."""

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Settings:
    """How much is made, and how long all learn."""

    users: int = 1_000
    items: int = 400
    events: int = 30
    noise: int = 30
    """Of a hundred events, how many are anything at all."""
    length: int = 30
    width: int = 32
    steps: int = 800
    seeds: int = 5


HEADINGS = ("learned from", "recall@10", "more than from all")


def measure(settings: Settings, device: str, quiet: bool = False) -> Found:
    """One value a seed, by what was left out; every seed has a world of its own."""
    found: Found = {EVERY: [], CONTROL: [], ATTRIBUTED: [], TRUE: []}
    for seed in range(settings.seeds):
        config = WorldConfig(
            users=settings.users,
            items=settings.items,
            events=settings.events,
            noise=settings.noise / 100,
            seed=seed,
        )
        for name, value in measure_seed(make_world(config), settings, seed, device, quiet).items():
            found[name].append(value)
    return found


def measure_seed(
    world: World, settings: Settings, seed: int, device: str, quiet: bool
) -> dict[str, float]:
    """All in the same world, from the same first weights."""
    split = leave_one_out(world.interactions)
    against = spoken_against(split, settings, seed, device, quiet)
    caused = np.isin(world.kind, (Kind.CAUSED, Kind.TASTE))
    free = learned_from(split)
    left_out = {
        EVERY: np.zeros_like(free),
        CONTROL: as_many(against, free, Randomness(seed).numpy("explain")),
        ATTRIBUTED: against,
        TRUE: free & ~caused,
    }
    if not quiet:
        right, usual = ((some & ~caused).sum() / max(1, some.sum()) for some in (against, free))
        print(
            f"seed {seed}: {against.sum():,} events are left out, {right:.0%} of them rightly, "
            f"where of all it would be {usual:.0%}"
        )
    return {
        name: hits(
            _sasrec(without(world.interactions, gone), settings, seed, device, quiet),
            split,
            caused,
            settings,
        )
        for name, gone in left_out.items()
    }


def learned_from(split: Split) -> Bools:
    """Which events may be left out: none that is held out, and no user's first."""
    data = split.interactions
    event, user = np.arange(len(data)), data.user_of_event()
    free: Bools = (event > data.offsets[user]) & (event < split.train_ends[user])
    return free


def spoken_against(split: Split, settings: Settings, seed: int, device: str, quiet: bool) -> Bools:
    """The events that nothing speaks for, by a model that was not taught by their users."""
    data = split.interactions
    half = data.user_of_event() % 2 == 0
    free = learned_from(split)
    against = np.zeros(len(data), dtype=bool)
    for own in (half, ~half):
        # Held-out events stay unseen: the other half's users end where their training does.
        model = _sasrec(without(data, ~own), settings, seed, device, quiet)
        asked = np.flatnonzero(free & ~own)
        against[asked] = (
            spoken_for(model, cases_at(data, asked), settings.length, data.item_count) < 0
        )
    return against


def cases_at(data: Interactions, events: npt.NDArray[np.int64]) -> Cases:
    """The history before each event, and the item that came."""
    users = data.user_of_event()[events].astype(np.int64)
    return Cases(
        data.items, users, data.offsets[users], events, data.items[events].astype(np.int64)
    )


@torch.no_grad()
def spoken_for(model: Recommender, cases: Cases, length: int, items: int) -> Floats:
    """`[B]`: ln p of what came, given its history, less that of any item, ln 1/N."""
    device = next(model.parameters()).device
    found = []
    for rows in row_slices(len(cases), AT_ONCE):
        batch = torch.from_numpy(cases[rows].histories(length)).to(device)
        targets = torch.from_numpy(cases[rows].targets).to(device)
        likely = model.score(batch, ALL).double().log_softmax(dim=1)
        found.append(likely.gather(1, targets[:, None])[:, 0].cpu().numpy() + math.log(items))
    return np.concatenate(found)


def as_many(gone: Bools, free: Bools, rng: np.random.Generator) -> Bools:
    """As many events, drawn from all that may be left out."""
    drawn = np.zeros_like(gone)
    drawn[rng.permutation(np.flatnonzero(free))[: gone.sum()]] = True
    return drawn


def without(data: Interactions, gone: Bools) -> Interactions:
    """The other events, with all items; users who have none left are no more."""
    counts = np.bincount(data.user_of_event()[~gone], minlength=data.user_count)
    kept = counts > 0
    return replace(
        data,
        items=data.items[~gone],
        offsets=np.concatenate(([0], np.cumsum(counts[kept]))),
        times=None if data.times is None else data.times[~gone],
        users=data.users.filter(kept),
    )


def _sasrec(
    data: Interactions, settings: Settings, seed: int, device: str, quiet: bool
) -> Recommender:
    network = {"length": settings.length, "width": settings.width}
    config = TrainingConfig(steps=settings.steps)
    split = leave_one_out(data)
    return fit(split, "sasrec", network, config, seed, device=device, show_progress=not quiet).model


def hits(model: Recommender, split: Split, caused: Bools, settings: Settings) -> float:
    """Of the test events that had a reason, how many are among the first ten."""
    found = Evaluation(split, "test", settings.length).full(model).values["recall@10"]
    return float(found[caused[split.held["test"].ends]].mean())


if __name__ == "__main__":
    measure_and_print(__doc__, Settings, measure, HEADINGS)
