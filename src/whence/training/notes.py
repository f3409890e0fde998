"""What the default recipe chose for some data, and why, in sentences for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whence.training.config import TrainingConfig
from whence.training.recipes import (
    BUDGETS,
    ENOUGH_TO_STOP,
    FEW_EVENTS,
    SHORT_HISTORIES,
    DataShape,
    Effort,
    more_seeds_cost_little,
    softmax_items,
)


def loss_note(
    settings: Mapping[str, Any], training: TrainingConfig, shape: DataShape, device: str
) -> str:
    """Say how many items the loss of a recipe compares the next item with."""
    length = min(shape.mean_length, settings["max_len"])
    most = softmax_items(training.batch_size, length, device)
    if settings["loss"] == "softmax":
        return (
            f"Loss: softmax over all items, because the catalog has {shape.items:,} items, not "
            f"more than {most:,}."
        )
    return (
        f"Loss: sampled softmax with {settings['n_negatives']:,} negatives, because the catalog "
        f"has {shape.items:,} items, more than {most:,}."
    )


def seeds_note(seeds: int, shape: DataShape, effort: Effort, device: str) -> str:
    """Say how many seeds there are, and why."""
    allowed = BUDGETS[effort].seeds
    if allowed == 1:
        return f"One seed (effort {effort})."
    if not more_seeds_cost_little(shape, device):
        return (
            f"One seed: on a processor, {allowed} take long with {shape.events:,} events in "
            f"histories of {shape.mean_length:.0f}. --seeds {allowed} trains them all."
        )
    if device != "cpu":
        return f"{seeds} seeds recommend together: a GPU trains them together."
    if shape.mean_length <= SHORT_HISTORIES:
        why = f"histories are short, {shape.mean_length:.0f} items on average"
    else:
        why = f"there are at most {FEW_EVENTS:,} training events"
    return (
        f"{seeds} seeds recommend together: {why}. They take up to {seeds} times as long as one. "
        "--seeds 1 trains one."
    )


def stopping_note(training: TrainingConfig, shape: DataShape) -> str:
    """Say when the training ends."""
    if shape.can_validate:
        return (
            f"Training ends after {training.patience} validations without a better "
            f"{training.metric}, or after {training.steps:,} steps."
        )
    count = f"only {shape.validation} of them" if shape.validation else "none"
    return (
        "Training takes a fixed number of steps, and nothing is chosen by validation: that needs "
        f"{ENOUGH_TO_STOP} validation events, and there are {count}."
    )
