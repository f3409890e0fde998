"""Recommenders as the engine trains them: their batches, their loss and their validation."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from whence.data.splits import Split
from whence.engine.loop import TrainedModel, Training
from whence.engine.optimizers import recordable_optimizer
from whence.engine.trainable import Trainable
from whence.errors import InputError
from whence.models import Recommender, build_model, fitted_model, model_spec, model_with
from whence.models.tasks import AnyBatch, Choices, WholeUsers
from whence.randomness import DropoutFunction, Randomness
from whence.training.blending import calibrate
from whence.training.choice_batches import ChoiceBatches, UserBatches
from whence.training.config import TrainingConfig, check_precision
from whence.training.evaluation import Evaluation, index_of_best
from whence.training.history_batches import HistoryBatches

TrainedRecommender = TrainedModel[Recommender]


def fit(
    split: Split,
    model_name: str,
    model_settings: Mapping[str, Any],
    config: TrainingConfig,
    seed: int,
    device: str = "cpu",
    show_progress: bool = True,
    checkpoint: Path | None = None,
) -> TrainedRecommender:
    """Train one seed. The same seed on the same machine gives the same bits.

    A model in closed form is computed at once, and nothing of `config` has a meaning for it.
    """
    if model_spec(model_name).closed_form:
        model = fitted_model(model_name, model_settings, split, device)
        calibrate(model, split)
        return TrainedRecommender(model, losses=[], validations={}, kept_step=0)
    training = new_training(split, model_name, model_settings, config, [seed], device)
    return training.run(show_progress=show_progress, checkpoint=checkpoint)[seed]


def new_training(
    split: Split,
    model_name: str,
    model_settings: Mapping[str, Any],
    config: TrainingConfig,
    seeds: Sequence[int],
    device: str = "cpu",
) -> Training[Recommender]:
    """Return a training of some seeds in step, before its first step."""
    task = TrainableRecommender(split, model_name, model_settings, config, device)
    training = Training(task, seeds)
    if config.validate_every:
        task.validation(max_len=1).check(config.metric, training.stack.models[0])
    return training


class TrainableRecommender(Trainable[Recommender]):
    """A recommender of the registry on the training events of a split."""

    recordable: ClassVar[bool] = True
    remedy: ClassVar[str] = "Lower learning_rate or set clip."

    def __init__(
        self,
        split: Split,
        model_name: str,
        model_settings: Mapping[str, Any],
        config: TrainingConfig,
        device: str,
    ) -> None:
        check_precision(config, device)
        if config.validate_every and not len(split.held[config.validate_on]):
            raise InputError(
                f"The split holds out no {config.validate_on} events. Leave out validate_every."
            )
        self.split, self.device, self.name = split, device, model_name
        self.model_settings, self.config = model_settings, config
        if config.epochs:
            source = self.batches(self.build(0), [0], recorded=device != "cpu")
            self.config = config.in_steps(source.steps_per_epoch)
        self.plan, self.metric = self.config.plan(), config.metric

    def build(self, seed: int) -> Recommender:
        """Return a model that knows the features of the split."""
        counts = self.split.interactions.counts
        generator = Randomness(seed).torch("init")
        model = build_model(self.name, self.model_settings, counts, generator).to(self.device)
        model.fit_features(self.split)
        return model

    def batches(self, model: Recommender, seeds: Sequence[int], *, recorded: bool) -> StackBatches:
        """Return the source that the model's task needs."""
        randomness = [Randomness(seed) for seed in seeds]
        return StackBatches(
            draws_for(model, self.split, self.config, randomness, self.device, recorded), len(seeds)
        )

    def loss(self, model: Recommender, batch: AnyBatch, dropout: DropoutFunction) -> Tensor:
        """Return the model's own loss."""
        return model.loss(batch, dropout)

    def learning_rate(self, step: int, validations: Sequence[float]) -> float:
        """Follow the schedule of the configuration."""
        return self.config.learning_rate * self.config.lr_factor(step)

    def optimizer(self, weights: Iterable[Tensor]) -> torch.optim.Optimizer:
        """Return the optimizer of the configuration."""
        config = self.config
        return recordable_optimizer(
            config.optimizer, weights, config.learning_rate, config.beta2, self.device
        )

    def dropout(self, model: Recommender) -> tuple[float, int]:
        """Return what the model declares."""
        return model.config.dropout, model.drops

    def restore(self, seed: int, weights: Mapping[str, Tensor]) -> Recommender:
        """Return a model with these weights."""
        counts = self.split.interactions.counts
        return model_with(weights, self.name, self.model_settings, counts, self.device)

    def validation(self, max_len: int) -> Evaluation:
        """Return the evaluation on the events that validations use."""
        return Evaluation(self.split, self.config.validate_on, max_len)

    def validate(self, model: Recommender) -> float:
        """Return the metric of the configuration."""
        return self.validation(model.config.max_len).mean(self.metric, model)

    def best(self, validations: Sequence[float]) -> int:
        """Return the index of the highest value, or of the lowest error."""
        return index_of_best(self.metric, validations)


class BatchDraws(Protocol):
    """Draws one batch per seed for any step; the step decides everything."""

    @property
    def steps_per_epoch(self) -> int:
        """How many steps draw as many questions as there are."""

    def prepare(self, step: int) -> Hashable:
        """Get a step ready; steps with equal answers have batches of equal shape."""

    def draw(self, step: Tensor) -> AnyBatch:
        """Return the batches `[S, …]` of the step that was prepared."""


class StackBatches:
    """Draws for the engine, which wants a batch without the dimension of seeds if there is one."""

    def __init__(self, draws: BatchDraws, seeds: int) -> None:
        self.draws, self.seeds = draws, seeds

    @property
    def steps_per_epoch(self) -> int:
        """How many steps draw as many questions as there are."""
        return self.draws.steps_per_epoch

    def prepare(self, step: int) -> Hashable:
        """Get a step ready."""
        return self.draws.prepare(step)

    def draw(self, step: Tensor) -> AnyBatch:
        """Return the batch of the step that was prepared."""
        batch = self.draws.draw(step)
        return batch.for_seed(0) if self.seeds == 1 else batch

    def position(self) -> Sequence[int]:
        """Return nothing: the step is enough."""
        return ()

    def seek(self, position: Sequence[int]) -> None:
        """Do nothing."""


def draws_for(
    model: Recommender,
    split: Split,
    config: TrainingConfig,
    randomness: Sequence[Randomness],
    device: str,
    recorded: bool = False,
) -> BatchDraws:
    """Return the draws for the model's task; recorded steps need few different shapes."""
    task = model.task
    if not isinstance(task, Choices):
        return HistoryBatches(
            split,
            model.config.max_len,
            config.batch_size,
            randomness,
            device,
            one_size=recorded,
            task=task,
            part_dropout=config.part_dropout,
        )
    if config.part_dropout:
        raise InputError(
            f"{type(model).__name__} does not learn from windows of histories, so part_dropout "
            "cannot remove items from them. Leave it out."
        )
    if split.weights is not None:
        raise InputError(
            f"{type(model).__name__} does not learn from windows of histories, so its events "
            "cannot be weighted. Leave out weights."
        )
    if isinstance(task, WholeUsers):
        return UserBatches(split, task, config.batch_size, randomness, device, few_sizes=recorded)
    return ChoiceBatches(split, task, config.batch_size, randomness, device)
