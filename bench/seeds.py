"""Seeds that train together or recommend as one, and the cost of averaging weights."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice

import numpy as np
import pyarrow as pa
import torch

from measuring import Record, in_turn
from whence.data import Interactions, Split, last_two, load
from whence.engine import Training
from whence.engine.averaging import AveragingRule
from whence.errors import InputError
from whence.everyone import Everyone
from whence.memory import reuse_freed_memory
from whence.models import Recommender, build_model
from whence.randomness import Randomness
from whence.recommendation import recommend
from whence.run import Run
from whence.training.config import TrainingConfig
from whence.training.recommenders import new_training
from whence.training.runs import describe

DATA, MAX_LEN, BATCH = "amazon-games-sasrec", 25, 128
LONG_DATA, LONG_MAX_LEN = "ml-1m-sasrec", 200
"""A setting whose steps are large compared with its weights, as in the original SASRec."""
SEEDS = 10
WARM_UP = 20
STEPS = {"cpu": 100, "cuda": 600}
LONG_STEPS = 30
THREADS = 2
AVERAGED: tuple[AveragingRule, ...] = ("swa", "aswa", "naswa")
MOST_PER_CENT = 5.0
TOGETHER, SERVED_MAX_LEN = 5, 50
"""Untrained seeds recommend as fast as trained ones."""
ONE_BY_ONE = 20
"""Users who are recommended to one after the other, with reasons."""
MOST_TIMES = 3.0
"""How many times longer five seeds may take than one."""


def measure() -> Iterator[Record]:
    """Yield the figures on the CPU, if the data are available."""
    torch.set_num_threads(THREADS)
    reuse_freed_memory()
    try:
        split, long = last_two(load(DATA)), last_two(load(LONG_DATA))
    except InputError as problem:
        print(f"Skipped: {problem}")
        return
    yield from measure_on(split, "cpu", "on 2 CPU cores", floor=1.0, goal=1.0)
    yield from measure_recommending(split.interactions)
    yield from costs(
        cost_on_cpu(long, LONG_MAX_LEN, LONG_STEPS), f"on 2 CPU cores with max_len {LONG_MAX_LEN}"
    )


def measure_recommending(data: Interactions) -> Iterator[Record]:
    """Yield how many times longer the seeds take than one of them."""
    seeds = {seed: untrained(data, seed) for seed in range(TOGETHER)}
    whole = Run("sasrec", {}, {}, describe(data), data.catalog, seeds, {}, loaded=data)
    one = replace(whole, models={0: seeds[0]})
    users = np.random.default_rng(0).integers(0, data.user_count, ONE_BY_ONE)
    names = data.users["user"].take(pa.array(users)).to_pylist()
    asked: dict[str, Callable[[Run], object]] = {
        "to a user, with reasons": lambda run: [recommend(run, user=name) for name in names],
        "to all users": lambda run: list(islice(Everyone(run).tables(), 20)),
    }
    for what, ask in asked.items():
        ask(whole)  # stacks the weights
        seconds = in_turn(
            {name: partial(seconds_of, ask, run) for name, run in (("whole", whole), ("one", one))}
        )
        yield Record(
            f"time in which {TOGETHER} seeds of SASRec recommend {what}, on 2 CPU cores",
            seconds["whole"] / seconds["one"],
            MOST_TIMES,
            "limit",
            "times that of one seed",
        )


def untrained(data: Interactions, seed: int) -> Recommender:
    """Return a model with new weights."""
    generator = Randomness(seed).torch("init")
    return build_model("sasrec", {"max_len": SERVED_MAX_LEN}, data.counts, generator).eval()


def seconds_of(ask: Callable[[Run], object], run: Run) -> float:
    """Return how long an answer takes."""
    start = time.perf_counter()
    ask(run)
    return time.perf_counter() - start


def measure_on(
    split: Split, device: str, where: str, floor: float, goal: float
) -> Iterator[Record]:
    """Yield the figures on one device."""
    rates = in_turn(
        {
            "stacked": lambda: SEEDS / step_of(split, device, SEEDS),
            "alone": lambda: 1 / step_of(split, device, 1),
        }
    )
    yield Record(
        f"ten seeds of SASRec trained together {where}",
        BATCH * rates["stacked"],
        BATCH * rates["alone"],
        "one after the other",
        "sequences/s",
        floor=floor,
        goal=goal,
        more_is_better=True,
    )
    yield from costs(cost_on_cpu(split) if device == "cpu" else cost_on_gpu(split), where)


def costs(shares: Mapping[str, float], where: str) -> Iterator[Record]:
    """Yield a record for each averaging rule."""
    for rule, share in shares.items():
        yield Record(
            f"cost of {rule.upper()} in training SASRec {where}",
            max(0.01, 100 * share),
            MOST_PER_CENT,
            "limit",
            "% of a step",
        )


def cost_on_gpu(split: Split) -> dict[str, float]:
    """Return the share of a step that each rule takes, from steps with and without it."""
    rules: tuple[AveragingRule, ...] = ("none", *AVERAGED)
    tasks: dict[str, Callable[[], float]] = {
        rule: partial(step_of, split, "cuda", 1, rule) for rule in rules
    }
    seconds = in_turn(tasks, runs=5)
    return {rule: seconds[rule] / seconds["none"] - 1 for rule in AVERAGED}


def cost_on_cpu(
    split: Split, max_len: int = MAX_LEN, steps: int = STEPS["cpu"]
) -> dict[str, float]:
    """Return the same shares from the time inside averaging, which varies less between runs."""
    tasks = {rule: partial(share_inside, split, rule, max_len, steps) for rule in AVERAGED}
    return in_turn(tasks, runs=5)


def share_inside(split: Split, rule: AveragingRule, max_len: int, steps: int) -> float:
    """Return the seconds of averaging per second of everything else."""
    training = warmed_up(split, "cpu", 1, rule, max_len)
    averaging = training.stack.averaging
    assert averaging is not None
    inside = 0.0

    def timed(work: Callable[[], None]) -> Callable[[], None]:
        def timed_work() -> None:
            nonlocal inside
            start = time.perf_counter()
            work()
            inside += time.perf_counter() - start

        return timed_work

    for name in ("before_step", "after_step"):
        setattr(averaging, name, timed(getattr(averaging, name)))
    start = time.perf_counter()
    for _ in range(steps):
        training.advance()
    return inside / (time.perf_counter() - start - inside)


def warmed_up(
    split: Split, device: str, seeds: int, rule: AveragingRule, max_len: int = MAX_LEN
) -> Training[Recommender]:
    """Return a training after its warm-up steps."""
    steps = STEPS[device]
    config = TrainingConfig(
        steps=10 * steps, batch_size=BATCH, averaging=rule, average_every=steps // 2
    )
    training = new_training(split, "sasrec", {"max_len": max_len}, config, range(seeds), device)
    for _ in range(WARM_UP):
        training.advance()
    return training


def step_of(split: Split, device: str, seeds: int, rule: AveragingRule = "none") -> float:
    """Return the seconds per step of stacked seeds, including the end of an epoch."""
    steps = STEPS[device]
    training = warmed_up(split, device, seeds, rule)
    if device != "cpu":
        torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(steps):
        training.advance()
    if device != "cpu":
        torch.cuda.synchronize()
    return (time.perf_counter() - start) / steps
