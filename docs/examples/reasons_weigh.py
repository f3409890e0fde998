"""Do reasons improve a recommender in a world? What is watched from habit says little about taste.

    python docs/examples/reasons_weigh.py [--seeds 5] [--device cuda] [--json measured.json]

In a world where the cause of every event is known, half are only popular or mere noise. Two
SASRecs, each trained on half of the users, foretell every event of the other half, and
leave-one-out says what the films of the same genre in the history bring: the one that a sequel
continues is among them. Where the model has not learned a taste, the genre's share in the history
may still tell of one. The weight of an event is the share of its chance that would be gone without
that reason. A third SASRec then learns to foretell the events of all users, from whole histories:
all events alike; each by its weight; by the weight of some other event, as a control; and, as far
as one could come, only those that in truth follow an earlier film or a taste. Printed is how often
each finds such events, held out, among the first ten.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from gains import Found, measure_and_print

from whence.arrays import Bools, Floats, Ints32
from whence.contract import PAD
from whence.data import Interactions, Split, last_two
from whence.data.histories import Cases
from whence.explainers import explain_batch
from whence.models import Recommender
from whence.randomness import Randomness
from whence.training.config import TrainingConfig
from whence.training.evaluation import Evaluation
from whence.training.recommenders import fit
from whence.worlds import Kind, World, WorldConfig, make_world

ALIKE, BY_MODEL, TRUE = "all alike", "by leave-one-out", "by true cause"
ATTRIBUTED = "by leave-one-out or genre shares"
CONTROL = f"{ATTRIBUTED}, shuffled among events"
AS_USUAL = 8
"""Films of the usual genres that are thought into every history, so that few prove little."""

Weights = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Settings:
    """What the world is like, and how long all learn."""

    users: int = 3_000
    items: int = 400
    events: int = 20
    caused: int = 20
    """Of a hundred events, how many are sequels, as long as there is one to watch."""
    taste: int = 30
    """The same of those that follow taste; the rest are only popular."""
    noise: int = 10
    """Of a hundred events of every kind, how many are anything at all."""
    max_len: int = 20
    dim: int = 32
    steps: int = 600
    seeds: int = 5


HEADINGS = ("events count", "recall@10", "more than all alike")


def measure(settings: Settings, device: str, quiet: bool = False) -> Found:
    """One value a seed, by how events were weighed; every seed has a world of its own."""
    found: Found = {name: [] for name in (ALIKE, CONTROL, BY_MODEL, ATTRIBUTED, TRUE)}
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
    """All in the same world, from the same first weights and in the same order."""
    split = last_two(world.interactions)
    asked, reasoned = learned_from(split), has_reason(world)
    by_model = brought_by_films(world, split, settings, seed, device, quiet)
    attributed = share_gone(np.maximum(by_model, brought_by_taste(world, split, settings.max_len)))
    weighing = {
        ALIKE: np.ones_like(attributed),
        CONTROL: shuffled(attributed, asked, Randomness(seed).numpy("explain")),
        BY_MODEL: share_gone(by_model),
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
    """Which events follow an earlier film or a taste."""
    return np.isin(world.kind, (Kind.CAUSED, Kind.TASTE))


def learned_from(split: Split) -> Bools:
    """Which events training asks for: all for training but every user's first."""
    asked = split.trained()
    asked[split.interactions.offsets[:-1]] = False
    return asked


def share_gone(brought: Floats) -> Weights:
    """The share of an event's chance that is gone without what brings so much to its logit."""
    return (1 - np.exp(-np.maximum(brought, 0))).astype(np.float32)


def brought_by_films(
    world: World, split: Split, settings: Settings, seed: int, device: str, quiet: bool
) -> Floats:
    """Of every event, to the logit of a model that was not taught by its user."""
    data, asked = split.interactions, learned_from(split)
    brought = np.zeros(len(data))
    for half in (0, 1):
        model = _sasrec(taught_by(split, half), settings, seed, device, quiet)
        events = np.flatnonzero(asked & (data.user_of_event() % 2 != half))
        brought[events] = left_out(model, cases_at(data, events), world.genre, settings.max_len)
    return brought


def brought_by_taste(world: World, split: Split, max_len: int) -> Floats:
    """Of every event: ln of how much commoner its genre is in the history than it is with all."""
    events = np.flatnonzero(learned_from(split))
    cases = cases_at(split.interactions, events)
    trained = world.genre[split.interactions.items[split.trained()]]
    usual = (np.bincount(trained, minlength=world.config.genres) / len(trained))[world.genre]
    expected = usual[cases.targets]
    there, same = of_genre(cases, world.genre, max_len)
    share = (same.sum(axis=1) + AS_USUAL * expected) / (there.sum(axis=1) + AS_USUAL)
    brought = np.zeros(len(split.interactions))
    brought[events] = np.log(share / expected)
    return brought


def taught_by(split: Split, half: int) -> Split:
    """The same where every second user has events for training, and the others have none."""
    begins = split.interactions.offsets[:-1]
    own = np.arange(len(begins)) % 2 == half
    return replace(split, train_ends=np.where(own, split.train_ends, begins))


def cases_at(data: Interactions, events: npt.NDArray[np.int64]) -> Cases:
    """The history before each event, and the item that came."""
    users = data.user_of_event()[events].astype(np.int64)
    return Cases(
        data.items, users, data.offsets[users], events, data.items[events].astype(np.int64)
    )


def of_genre(cases: Cases, genre: Ints32, max_len: int) -> tuple[Bools, Bools]:
    """`[B, max_len]`: where a film is in the history, and where one of the genre of what came."""
    histories = cases.histories(max_len)
    there = histories != PAD
    return there, there & (genre[histories] == genre[cases.targets][:, None])


def left_out(model: Recommender, cases: Cases, genre: Ints32, max_len: int) -> Floats:
    """`[B]`: what the films of its genre bring to the logit of what came, by leave-one-out."""
    device = next(model.parameters()).device
    batch = torch.from_numpy(cases.histories(max_len)).to(device)
    targets = torch.from_numpy(cases.targets).to(device)
    found = explain_batch(model, batch, targets, "leave-one-out")
    _, same = of_genre(cases, genre, max_len)
    brought: Floats = np.where(same, found.scores, 0).sum(axis=1)
    return brought


def shuffled(weights: Weights, asked: Bools, rng: np.random.Generator) -> Weights:
    """The same weights, each of some other event: a control without reasons."""
    moved = weights.copy()
    moved[asked] = rng.permutation(weights[asked])
    return moved


def _sasrec(split: Split, settings: Settings, seed: int, device: str, quiet: bool) -> Recommender:
    network = {"max_len": settings.max_len, "dim": settings.dim}
    config = TrainingConfig(steps=settings.steps, learning_rate=3e-3)
    return fit(split, "sasrec", network, config, seed, device=device, show_progress=not quiet).model


def hits(model: Recommender, split: Split, reasoned: Bools, settings: Settings) -> float:
    """Of the test events that had a reason, how many are among the first ten."""
    found = Evaluation(split, "test", settings.max_len).full(model).values["recall@10"]
    return float(found[reasoned[split.held["test"].ends]].mean())


if __name__ == "__main__":
    measure_and_print(__doc__, Settings, measure, HEADINGS)
