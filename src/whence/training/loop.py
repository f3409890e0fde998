"""The training loop: one seed, a fixed number of steps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from whence.data.splits import Split
from whence.devices import deterministic
from whence.errors import InputError
from whence.models import Recommender, build_model
from whence.progress import progress_bar
from whence.randomness import Dropout, Randomness
from whence.training.batches import Batches
from whence.training.losses import sampled_bce

STEPS_BETWEEN_NEWS = 20


@dataclass(frozen=True)
class TrainingConfig:
    """How long and how fast to learn; the defaults are those of Baumhauer (2021)."""

    steps: int = 2_500
    batch: int = 128
    """Histories a step."""
    learning_rate: float = 1e-3
    second_moment: float = 0.98
    """Adam's β₂, as in the first SASRec."""

    def __post_init__(self) -> None:
        if self.steps < 0 or self.batch < 1:
            raise InputError("Training needs steps from 0 on and a batch from 1 on.")
        if not 0 < self.learning_rate < math.inf or not 0 <= self.second_moment < 1:
            raise InputError("The learning rate is above 0; second_moment is below 1.")


def fit(
    split: Split,
    model_name: str,
    model_settings: Mapping[str, Any],
    config: TrainingConfig,
    seed: int,
    device: str = "cpu",
    show_progress: bool = True,
) -> tuple[Recommender, list[float]]:
    """A trained model and its loss at every step; same seed, same machine, same bits."""
    randomness = Randomness(seed)
    item_count = split.interactions.item_count
    model = build_model(model_name, model_settings, item_count, randomness.torch("init"))
    model.to(device).train()
    batches = Batches(split, model.config.length, config.batch, randomness)
    drop = Dropout(model.config.dropout, randomness.torch("dropout", device))
    optimiser = torch.optim.Adam(
        model.parameters(),
        lr=config.learning_rate,
        betas=(0.9, config.second_moment),
        fused=True,
    )
    losses: list[float] = []
    bar = progress_bar(f"training {model_name}, seed {seed}", config.steps, show_progress)
    for step in bar.track(range(config.steps)):
        with deterministic(device):
            loss = sampled_bce(model, batches.draw().to(device), drop)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
        losses.append(loss.item())
        if step % STEPS_BETWEEN_NEWS == 0:
            bar.say(f"loss {losses[-1]:.3f}")
    if not all(parameter.isfinite().all() for parameter in model.parameters()):
        raise InputError(
            f"The weights of seed {seed} are no longer numbers; try a smaller learning rate than "
            f"{config.learning_rate}."
        )
    return model.eval(), losses
