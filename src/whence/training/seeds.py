"""Train several seeds, as many together as memory holds and as is faster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from whence.data.splits import Split
from whence.engine.checkpoints import CheckpointFolder
from whence.engine.loop import DivergedError, Training
from whence.engine.stack import Stack
from whence.errors import InputError
from whence.memory import free_memory, is_out_of_memory, reuse_freed_memory
from whence.models import Recommender, model_spec
from whence.run import Run
from whence.training.config import TrainingConfig
from whence.training.recommenders import (
    TrainableRecommender,
    TrainedRecommender,
    fit,
    new_training,
)

FEW_ROWS = 2_000
"""With more rows in a batch, one seed keeps a processor busy, and a stack overflows its caches.

With fewer, calling kernels takes most of a step, and a stack calls them once for all seeds.
"""
FEW_PRODUCTS = 200_000_000
"""Multiplications and additions in the losses of a step: about what that many rows need.

A softmax over all items needs more for few rows.
"""
COPIES = 6
"""Copies of the weights: themselves, gradients, two moments, an average and its difference."""
MEMORY_SHARE = 0.5
"""The share of the free memory for a stack. The rest is a reserve."""


def fit_seeds(
    split: Split,
    model_name: str,
    model_settings: Mapping[str, Any],
    config: TrainingConfig,
    seeds: Sequence[int],
    device: str = "cpu",
    *,
    show_progress: bool = True,
    checkpoints: CheckpointFolder | None = None,
    at_once: int | None = None,
    until: float | None = None,
    init_from: Sequence[Run] = (),
) -> dict[int, TrainedRecommender]:
    """Train all seeds, in stacks. A stack that does not fit into memory is halved."""
    if model_spec(model_name).closed_form:
        return {
            seed: fit(split, model_name, model_settings, config, seed, device) for seed in seeds
        }
    if device == "cpu":
        reuse_freed_memory()

    def training_of(some: Sequence[int]) -> Training[Recommender]:
        training = new_training(split, model_name, model_settings, config, some, device)
        for seed, model in zip(some, training.stack.models, strict=True):
            if init_from:
                model.init_from({run.model: run.models.get(seed, run.first) for run in init_from})
        return training

    if len(seeds) == 1:
        at_once = 1
    if at_once is None and checkpoints is not None:
        at_once = checkpoints.seeds_at_once()
    if at_once is None:
        at_once = seeds_at_once(split, model_name, model_settings, config, device)
    waiting = [seeds[start : start + at_once] for start in range(0, len(seeds), at_once)]
    trained: dict[int, TrainedRecommender] = {}
    diverged: list[DivergedError] = []
    while waiting:
        some = waiting.pop(0)
        try:
            trained |= training_of(some).run(
                show_progress=show_progress,
                checkpoint=checkpoints.checkpoint(some) if checkpoints else None,
                snapshots=checkpoints.snapshots if checkpoints else None,
                until=until,
            )
        except DivergedError as problem:
            diverged.append(problem)
        except RuntimeError as problem:
            if not is_out_of_memory(problem):
                raise
            if len(some) == 1:
                raise InputError(
                    f"One seed needs more memory than {device} has. Lower batch_size, max_len or "
                    "dim."
                ) from None
            halves = [some[: len(some) // 2], some[len(some) // 2 :]]
            if checkpoints is not None:
                checkpoints.divide(some, halves)
            waiting = [*halves, *waiting]
    if not trained:
        raise diverged[0]
    return trained


def seeds_at_once(
    split: Split,
    model_name: str,
    model_settings: Mapping[str, Any],
    config: TrainingConfig,
    device: str,
    free: int | None = None,
) -> int:
    """Return how many seeds to train together with that many bytes of free memory."""
    if not model_spec(model_name).stacks:
        return 1
    free = free_memory(device) if free is None else free
    try:
        task = TrainableRecommender(split, model_name, model_settings, config, device)
        alone = Stack(task, [0])
        if device == "cpu" and _keeps_processor_busy(alone):
            return 1
        return max(1, int(MEMORY_SHARE * free / _bytes_of(alone)))
    except RuntimeError as problem:
        if not is_out_of_memory(problem):
            raise
        return 1


def _keeps_processor_busy(alone: Stack[Recommender]) -> bool:
    """Return whether a stack of one seed gives a processor enough to do."""
    alone.batches.prepare(0)
    if alone.batches.draw(alone.clock).size > FEW_ROWS:
        return True
    with FlopCounterMode(display=False) as counter:
        alone.losses()
    return int(counter.get_total_flops()) > FEW_PRODUCTS


def _bytes_of(alone: Stack[Recommender]) -> int:
    """Return what one seed needs for its weights, and for what a step keeps for its gradient."""
    kept: dict[int, int] = {}

    def note(values: Tensor) -> Tensor:
        storage = values.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return values

    with torch.autograd.graph.saved_tensors_hooks(note, lambda values: values):
        alone.losses()
    weights = sum(weight.nbytes for weight in alone.weights.values())
    return COPIES * weights + sum(kept.values())
