"""Reasons of recommendations: how long a user waits for them, and how many users a second get them.

The data are synthetic and of the sizes of MovieLens-1M. Untrained seeds take as long as trained
ones, whose altered histories are more alike.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import torch

from measuring import Record, in_turn
from seeds import untrained
from whence.data import Catalog, Interactions
from whence.everyone import recommend_all
from whence.memory import reuse_freed_memory
from whence.reasons.smallest import smallest_sets
from whence.recommendation import recommend
from whence.run import Run
from whence.training.runs import describe

ITEMS, USERS, GENRES = 3_416, 6_040, 18
LOGARITHM_OF_SIZES, SHORTEST, LONGEST = (4.57, 0.98), 18, 2_277
"""The mean and the standard deviation; 165 events on average, as in MovieLens-1M."""
SEEDS: Final = 5
LIMITS: Final = {1: 40.0, SEEDS: 150.0}
"""Milliseconds for ten recommendations with reasons, by the number of seeds."""
ONE_BY_ONE = 20
MOST_FOR_PAIRS = 200.0
EVERYONE_ON_CPU, RATE_ON_CPU, RATE_ON_GPU = 600, 100.0, 5_000.0
THREADS = 2


def measure() -> Iterator[Record]:
    """Yield the figures on the CPU."""
    torch.set_num_threads(THREADS)
    reuse_freed_memory()
    data = like_movielens()
    runs = {count: untrained_run(data, count) for count in LIMITS}
    users = np.flatnonzero(np.diff(data.offsets) >= 50)[:ONE_BY_ONE].tolist()
    one = runs[1]
    tasks: dict[str, Callable[[], float]] = {
        str(count): partial(milliseconds_each, run, users) for count, run in runs.items()
    }
    tasks["pairs"] = partial(milliseconds_of_pairs, one, users[0])
    some = replace(one, loaded=first_users(data, EVERYONE_ON_CPU))
    tasks["everyone"] = partial(users_per_second, some)
    for task in tasks.values():
        task()  # stacks the weights, and asks for what does not depend on the user
    found = in_turn(tasks)
    for count, limit in LIMITS.items():
        yield Record(
            f"ten recommendations with reasons, {count} seed{'s' if count > 1 else ''} of SASRec, "
            "on 2 CPU cores",
            found[str(count)],
            limit,
            "limit",
            "ms",
        )
    yield Record(
        "all pairs of 50 items searched for what ten recommendations need, on 2 CPU cores",
        found["pairs"],
        MOST_FOR_PAIRS,
        "limit",
        "ms",
    )
    yield of_everyone(found["everyone"], RATE_ON_CPU, "on 2 CPU cores", goal=2.0)


def measure_on_gpu() -> Iterator[Record]:
    """Yield the rate on a GPU, if there is one."""
    if not torch.cuda.is_available():
        print("Skipped: this machine has no GPU.")
        return
    run = untrained_run(like_movielens(), 1)
    run = replace(run, models={seed: model.cuda() for seed, model in run.models.items()})
    users_per_second(run)
    found = in_turn({"everyone": partial(users_per_second, run)})
    yield of_everyone(found["everyone"], RATE_ON_GPU, "on a GPU")


def of_everyone(rate: float, limit: float, where: str, goal: float = 1.0) -> Record:
    """Return the record of writing the reasons of all users."""
    return Record(
        f"ten recommendations with reasons for each of all users, written as Parquet, {where}",
        rate,
        limit,
        "limit",
        "users/s",
        goal=goal,
        more_is_better=True,
    )


def like_movielens() -> Interactions:
    """Return events with as many users, items and genres as MovieLens-1M, and similar sizes."""
    rng = np.random.default_rng(0)
    sizes = rng.lognormal(*LOGARITHM_OF_SIZES, USERS).clip(SHORTEST, LONGEST).astype(int)
    popularity = 1 / (np.arange(ITEMS) + 20)
    # The items with the largest keys are a weighted sample without replacement.
    items = [
        np.argpartition(-rng.exponential(size=ITEMS) / popularity, -size)[-size:] for size in sizes
    ]
    names = np.array([f"Genre {number}" for number in range(GENRES)])
    genres = ["|".join(names[rng.choice(GENRES, 2, replace=False)]) for _ in range(ITEMS)]
    titles = [f"Film {number} (1999)" for number in range(ITEMS)]
    table = pa.table({"item": np.arange(ITEMS), "title": titles, "genres": genres})
    return Interactions(
        np.concatenate(items).astype(np.int32),
        np.concatenate(([0], sizes.cumsum())),
        None,
        None,
        Catalog(table),
        pa.table({"user": np.arange(USERS)}),
        verb="watched",
    )


def first_users(data: Interactions, count: int) -> Interactions:
    """Return the events of the first users."""
    offsets = data.offsets[: count + 1]
    return replace(
        data, items=data.items[: offsets[-1]], offsets=offsets, users=data.users.slice(0, count)
    )


def untrained_run(data: Interactions, count: int) -> Run:
    """Return a run of some seeds with new weights."""
    models = {seed: untrained(data, seed) for seed in range(count)}
    return Run("sasrec", {}, {}, describe(data), data.catalog, models, {}, loaded=data)


def milliseconds_each(run: Run, users: list[int]) -> float:
    """Return how long a user waits, one after the other."""
    start = time.perf_counter()
    for user in users:
        recommend(run, user=user)
    return 1e3 * (time.perf_counter() - start) / len(users)


def milliseconds_of_pairs(run: Run, user: int) -> float:
    """Return how long all single items and all pairs of a user take."""
    history = torch.from_numpy(run.interactions.history(user).astype(np.int64))
    targets = [pick.item for pick in recommend(run, user=user).picks]
    slots = run.first.config.max_len
    start = time.perf_counter()
    smallest_sets(run.first, history, torch.tensor(targets), slots, len(targets), most=2)
    return 1e3 * (time.perf_counter() - start)


def users_per_second(run: Run) -> float:
    """Return the rate at which the reasons of all users are written."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        rows = recommend_all(run, Path(folder) / "all.parquet", show_progress=False)
        seconds = time.perf_counter() - start
    assert rows == 10 * run.interactions.user_count
    return run.interactions.user_count / seconds
