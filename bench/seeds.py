"""Ten seeds as one computation beside ten one after the other, and what averaging weights costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import torch

from measuring import Record, in_turn
from whence.data import Split, last_two, load
from whence.engine import Training
from whence.engine.averaging import AveragingRule
from whence.errors import InputError
from whence.memory import reuse_freed_memory
from whence.models import Recommender
from whence.training.config import TrainingConfig
from whence.training.recommenders import new_training

DATA, LENGTH, BATCH = "amazon-games-sasrec", 25, 128
LONG_DATA, LONG_LENGTH = "ml-1m-sasrec", 200
"""Whose steps are large beside the weights, as in the first SASRec."""
SEEDS = 10
WARM_UP = 20
STEPS = {"cpu": 100, "cuda": 600}
LONG_STEPS = 30
THREADS = 2
AVERAGED: tuple[AveragingRule, ...] = ("swa", "aswa", "naswa")
MOST_PER_CENT = 5.0


def measure() -> Iterator[Record]:
    """On the processor, where the data are found."""
    torch.set_num_threads(THREADS)
    reuse_freed_memory()
    try:
        split, long = last_two(load(DATA)), last_two(load(LONG_DATA))
    except InputError as problem:
        print(f"not measured: {problem}")
        return
    yield from on(split, "cpu", "on 2 CPU cores", floor=1.0, goal=1.0)
    yield from costs(
        cost_on_cpu(long, LONG_LENGTH, LONG_STEPS), f"on 2 CPU cores at length {LONG_LENGTH}"
    )


def on(split: Split, device: str, where: str, floor: float, goal: float) -> Iterator[Record]:
    """The same figures on any device."""
    rates = in_turn(
        {
            "stacked": lambda: SEEDS / step_of(split, device, SEEDS),
            "alone": lambda: 1 / step_of(split, device, 1),
        }
    )
    yield Record(
        f"ten seeds of SASRec as one {where}",
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
    """Of each rule."""
    for rule, share in shares.items():
        yield Record(
            f"{rule.upper()} in a step of SASRec {where}",
            max(0.01, 100 * share),
            MOST_PER_CENT,
            "limit",
            "% of a step",
        )


def cost_on_gpu(split: Split) -> dict[str, float]:
    """Of each rule the share of a step, by steps with it and without."""
    rules: tuple[AveragingRule, ...] = ("none", *AVERAGED)
    tasks: dict[str, Callable[[], float]] = {
        rule: partial(step_of, split, "cuda", 1, rule) for rule in rules
    }
    seconds = in_turn(tasks, runs=5)
    return {rule: seconds[rule] / seconds["none"] - 1 for rule in AVERAGED}


def cost_on_cpu(split: Split, length: int = LENGTH, steps: int = STEPS["cpu"]) -> dict[str, float]:
    """The same by the time inside of averaging, which differs less from run to run."""
    tasks = {rule: partial(share_inside, split, rule, length, steps) for rule in AVERAGED}
    return in_turn(tasks, runs=5)


def share_inside(split: Split, rule: AveragingRule, length: int, steps: int) -> float:
    """Seconds in averaging for each second of all else."""
    training = begun(split, "cpu", 1, rule, length)
    averaging = training.stack.averaging
    assert averaging is not None
    inside = 0.0

    def timed(work: Callable[[], None]) -> Callable[[], None]:
        def and_timed() -> None:
            nonlocal inside
            start = time.perf_counter()
            work()
            inside += time.perf_counter() - start

        return and_timed

    for name in ("before_step", "after_step"):
        setattr(averaging, name, timed(getattr(averaging, name)))
    start = time.perf_counter()
    for _ in range(steps):
        training.advance()
    return inside / (time.perf_counter() - start - inside)


def begun(
    split: Split, device: str, seeds: int, rule: AveragingRule, length: int = LENGTH
) -> Training[Recommender]:
    """A training that has warmed up."""
    steps = STEPS[device]
    config = TrainingConfig(
        steps=10 * steps, batch_size=BATCH, averaging=rule, average_every=steps // 2
    )
    training = new_training(split, "sasrec", {"max_len": length}, config, range(seeds), device)
    for _ in range(WARM_UP):
        training.advance()
    return training


def step_of(split: Split, device: str, seeds: int, rule: AveragingRule = "none") -> float:
    """Seconds that a step of so many seeds takes, within an epoch and across its end."""
    steps = STEPS[device]
    training = begun(split, device, seeds, rule)
    if device != "cpu":
        torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(steps):
        training.advance()
    if device != "cpu":
        torch.cuda.synchronize()
    return (time.perf_counter() - start) / steps
