"""Which seeds train together: as many as memory holds, where that is faster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from whence.data.splits import Split
from whence.errors import InputError
from whence.memory import free_memory, is_out_of_memory, reuse_freed_memory
from whence.models import model_spec
from whence.run import Run
from whence.training.checkpoints import Unfinished
from whence.training.config import TrainingConfig
from whence.training.loop import DivergedError, Fitted, Training, fit_together
from whence.training.stack import Stack

FEW_ROWS = 2_000
"""In a batch with more, a processor is busy with one seed, and a stack would only spill its caches.

With fewer, most of a step is spent on calling kernels, which a stack calls once for all seeds.
"""
FEW_PRODUCTS = 200_000_000
"""Additions and multiplications in the losses of a step: about what that many rows need, if wide.

A softmax over all items needs more for few rows already.
"""
COPIES = 6
"""Of the weights: themselves, their gradients, two moments, an average, and its difference."""
SHARE = 0.5
"""Of the free memory that a stack may take; the rest is for what was not foreseen."""


def fit_seeds(
    split: Split,
    model_name: str,
    model_settings: Mapping[str, Any],
    config: TrainingConfig,
    seeds: Sequence[int],
    device: str = "cpu",
    *,
    show_progress: bool = True,
    unfinished: Unfinished | None = None,
    at_once: int | None = None,
    until: float | None = None,
    init_from: Sequence[Run] = (),
) -> dict[int, Fitted]:
    """Train all seeds, in stacks; a stack for which memory turns out too short is halved."""
    if device == "cpu":
        reuse_freed_memory()

    def training_of(some: Sequence[int]) -> Training:
        training = Training(split, model_name, model_settings, config, some, device)
        if init_from:
            training.stack.init_from(init_from)
        return training

    if len(seeds) == 1:
        at_once = 1
    if at_once is None and unfinished is not None:
        at_once = unfinished.at_once()
    if at_once is None:
        at_once = seeds_at_once(split, model_name, model_settings, config, device)
    waiting = [seeds[start : start + at_once] for start in range(0, len(seeds), at_once)]
    fitted: dict[int, Fitted] = {}
    diverged: list[DivergedError] = []
    while waiting:
        some = waiting.pop(0)
        try:
            fitted |= fit_together(
                training_of(some),
                show_progress,
                checkpoint=unfinished.checkpoint(some) if unfinished else None,
                snapshots=unfinished.snapshots if unfinished else None,
                until=until,
            )
        except DivergedError as problem:
            diverged.append(problem)
        except RuntimeError as problem:
            if not is_out_of_memory(problem):
                raise
            if len(some) == 1:
                raise InputError(
                    f"One seed alone needs more memory than {device} has; a smaller batch, length "
                    "or width needs less."
                ) from None
            halves = [some[: len(some) // 2], some[len(some) // 2 :]]
            if unfinished is not None:
                unfinished.divide(some, halves)
            waiting = [*halves, *waiting]
    if not fitted:
        raise diverged[0]
    return fitted


def seeds_at_once(
    split: Split,
    model_name: str,
    model_settings: Mapping[str, Any],
    config: TrainingConfig,
    device: str,
    free: int | None = None,
) -> int:
    """How many seeds to train as one, with so many bytes of free memory."""
    if not model_spec(model_name).stacks:
        return 1
    free = free_memory(device) if free is None else free
    try:
        alone = Stack(split, model_name, model_settings, config, [0], device)
        if device == "cpu" and _is_busy_with(alone):
            return 1
        return max(1, int(SHARE * free / _bytes_of(alone)))
    except RuntimeError as problem:
        if not is_out_of_memory(problem):
            raise
        return 1


def _is_busy_with(alone: Stack) -> bool:
    """Whether one seed has enough to do for a processor."""
    if alone.batches.draw(alone.clock).size > FEW_ROWS:
        return True
    with FlopCounterMode(display=False) as counter:
        alone.losses()
    return int(counter.get_total_flops()) > FEW_PRODUCTS


def _bytes_of(alone: Stack) -> int:
    """What one seed needs: for its weights, and for what a step keeps until its gradient."""
    kept: dict[int, int] = {}

    def note(values: Tensor) -> Tensor:
        storage = values.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return values

    with torch.autograd.graph.saved_tensors_hooks(note, lambda values: values):
        alone.losses()
    weights = sum(weight.nbytes for weight in alone.weights.values())
    return COPIES * weights + sum(kept.values())
