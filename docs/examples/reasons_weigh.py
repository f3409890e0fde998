"""Do reasons improve a recommender in a synthetic world? Habit says little about taste.

    python docs/examples/reasons_weigh.py [--seeds 5] [--device cuda] [--json measured.json]

In a world with known causes, half of the events are only popular or noise. Two SASRecs, each
trained on half of the users, predict every event of the other half. Leave-one-out gives the
contribution of the history's films of the same genre, including the one that a sequel continues. If
the model has not learned a taste, the genre's share in the history may still reveal it. The weight
of an event is the share of its probability that would be lost without that reason.

A third SASRec then trains on the whole histories of all users with several weightings:

- equal weights;
- these weights;
- these weights shuffled among events, as a control;
- 1 only for events that truly follow an earlier film or a taste, as an upper bound.

The script prints how often each has such held-out events among its first ten.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from gains import ValuesBySeed, measure_and_print

from whence.arrays import Bools, Floats, Floats32, Ints32
from whence.contract import PAD
from whence.data import Interactions, Split, last_two
from whence.data.histories import Cases
from whence.explainers import explain_batch
from whence.models import Recommender
from whence.randomness import Randomness
from whence.training.config import TrainingConfig
from whence.training.evaluation import Evaluation
from whence.training.recommenders import fit
from whence.worlds import EventKind, World, WorldConfig, make_world

EQUAL, BY_MODEL, TRUE = "equal", "by leave-one-out", "by true cause"
ATTRIBUTED = "by leave-one-out or genre shares"
CONTROL = f"{ATTRIBUTED}, shuffled among events"
PRIOR_FILMS = 8
"""Pseudo-count of films with the usual genres, so that short histories prove little."""


@dataclass(frozen=True)
class Settings:
    """The world, and the length of all trainings."""

    users: int = 3_000
    items: int = 400
    events: int = 20
    caused: int = 20
    """Percentage of events that are sequels, if there is one to watch."""
    taste: int = 30
    """Percentage of events that follow taste; the rest are only popular."""
    noise: int = 10
    """Percentage of events of every kind that are random."""
    max_len: int = 20
    dim: int = 32
    steps: int = 600
    seeds: int = 5


HEADINGS = ("weight of events", "recall@10", "gain over equal weights")


def measure(settings: Settings, device: str, quiet: bool = False) -> ValuesBySeed:
    """Return one value per seed for each weighting; every seed has its own world."""
    found: ValuesBySeed = {name: [] for name in (EQUAL, CONTROL, BY_MODEL, ATTRIBUTED, TRUE)}
    for seed in range(settings.seeds):
        config = WorldConfig(
            users=settings.users,
            items=settings.items,
            events=settings.events,
            caused=settings.caused / 100,
            taste=settings.taste / 100,
            noise=settings.noise / 100,
            seed=seed,
        )
        for name, value in measure_seed(make_world(config), settings, seed, device, quiet).items():
            found[name].append(value)
    return found


def measure_seed(
    world: World, settings: Settings, seed: int, device: str, quiet: bool
) -> dict[str, float]:
    """Measure all weightings in the same world, with the same initial weights and order."""
    split = last_two(world.interactions)
    asked, reasoned = trained_events(split), has_reason(world)
    by_model = film_contribution(world, split, settings, seed, device, quiet)
    attributed = probability_lost(
        np.maximum(by_model, taste_contribution(world, split, settings.max_len))
    )
    weighing = {
        EQUAL: np.ones_like(attributed),
        CONTROL: shuffled(attributed, asked, Randomness(seed).numpy("explain")),
        BY_MODEL: probability_lost(by_model),
        ATTRIBUTED: attributed,
        TRUE: reasoned.astype(np.float32),
    }
    if not quiet:
        right, wrong = (attributed[asked & some].mean() for some in (reasoned, ~reasoned))
        print(
            f"seed {seed}: {reasoned[asked].mean():.0%} of the events have a reason and weigh "
            f"{right:.2f} on average; the others weigh {wrong:.2f}"
        )
    return {
        name: hits(
            _sasrec(replace(split, weights=weights), settings, seed, device, quiet),
            split,
            reasoned,
            settings,
        )
        for name, weights in weighing.items()
    }


def has_reason(world: World) -> Bools:
    """Return which events follow an earlier film or a taste."""
    return np.isin(world.kind, (EventKind.CAUSED, EventKind.TASTE))


def trained_events(split: Split) -> Bools:
    """Return which events are training targets: all but every user's first."""
    asked = split.trained()
    asked[split.interactions.offsets[:-1]] = False
    return asked


def probability_lost(contribution: Floats) -> Floats32:
    """Return the share of an event's probability lost without this contribution to its logit."""
    return (1 - np.exp(-np.maximum(contribution, 0))).astype(np.float32)


def film_contribution(
    world: World, split: Split, settings: Settings, seed: int, device: str, quiet: bool
) -> Floats:
    """Return the films' contribution to each event's logit, by the model of the other users."""
    data, asked = split.interactions, trained_events(split)
    contribution = np.zeros(len(data))
    for half in (0, 1):
        model = _sasrec(train_on_half(split, half), settings, seed, device, quiet)
        events = np.flatnonzero(asked & (data.user_of_event() % 2 != half))
        contribution[events] = genre_contribution(
            model, cases_at(data, events), world.genre, settings.max_len
        )
    return contribution


def taste_contribution(world: World, split: Split, max_len: int) -> Floats:
    """Return for each event ln of how much more common its genre is in the history than overall."""
    events = np.flatnonzero(trained_events(split))
    cases = cases_at(split.interactions, events)
    trained = world.genre[split.interactions.items[split.trained()]]
    usual = (np.bincount(trained, minlength=world.config.genres) / len(trained))[world.genre]
    expected = usual[cases.targets]
    there, same = same_genre(cases, world.genre, max_len)
    share = (same.sum(axis=1) + PRIOR_FILMS * expected) / (there.sum(axis=1) + PRIOR_FILMS)
    contribution = np.zeros(len(split.interactions))
    contribution[events] = np.log(share / expected)
    return contribution


def train_on_half(split: Split, half: int) -> Split:
    """Return the split with training events for every second user only."""
    begins = split.interactions.offsets[:-1]
    own = np.arange(len(begins)) % 2 == half
    return replace(split, train_ends=np.where(own, split.train_ends, begins))


def cases_at(data: Interactions, events: npt.NDArray[np.int64]) -> Cases:
    """Return the history before each event, and the event's item."""
    users = data.user_of_event()[events].astype(np.int64)
    return Cases(
        data.items, users, data.offsets[users], events, data.items[events].astype(np.int64)
    )


def same_genre(cases: Cases, genre: Ints32, max_len: int) -> tuple[Bools, Bools]:
    """Return where the history has a film, and where one of the target's genre, `[B, max_len]`."""
    histories = cases.histories(max_len)
    there = histories != PAD
    return there, there & (genre[histories] == genre[cases.targets][:, None])


def genre_contribution(model: Recommender, cases: Cases, genre: Ints32, max_len: int) -> Floats:
    """Return the contribution of films of the target's genre to its logit, by leave-one-out."""
    device = next(model.parameters()).device
    batch = torch.from_numpy(cases.histories(max_len)).to(device)
    targets = torch.from_numpy(cases.targets).to(device)
    found = explain_batch(model, batch, targets, "leave-one-out")
    _, same = same_genre(cases, genre, max_len)
    contribution: Floats = np.where(same, found.scores, 0).sum(axis=1)
    return contribution


def shuffled(weights: Floats32, asked: Bools, rng: np.random.Generator) -> Floats32:
    """Shuffle the weights among events: a control without reasons."""
    moved = weights.copy()
    moved[asked] = rng.permutation(weights[asked])
    return moved


def _sasrec(split: Split, settings: Settings, seed: int, device: str, quiet: bool) -> Recommender:
    network = {"max_len": settings.max_len, "dim": settings.dim}
    config = TrainingConfig(steps=settings.steps, learning_rate=3e-3)
    return fit(split, "sasrec", network, config, seed, device=device, show_progress=not quiet).model


def hits(model: Recommender, split: Split, reasoned: Bools, settings: Settings) -> float:
    """Return the share of test events with a reason that are among the first ten."""
    found = Evaluation(split, "test", settings.max_len).full(model).values["recall@10"]
    return float(found[reasoned[split.held["test"].ends]].mean())


if __name__ == "__main__":
    measure_and_print(__doc__, Settings, measure, HEADINGS)
