"""The settings of training, each with its help text, and their checks."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from whence.config import require_choice
from whence.data.splits import HeldOut
from whence.engine.averaging import AveragingRule
from whence.engine.optimizers import OptimizerName
from whence.engine.trainable import Plan, Precision
from whence.errors import InputError
from whence.training.evaluation import check_metric

LrDecay = Literal["none", "linear", "cosine"]


@dataclass(frozen=True)
class TrainingConfig:
    """How a recommender is trained. The defaults are those of Baumhauer (2021)."""

    steps: int = 2_500
    """Number of training steps."""
    epochs: int = 0
    """Passes over the data, instead of steps. validate_every then counts epochs."""
    batch_size: int = 128
    """Histories per step, or users, or single questions, depending on the model."""
    optimizer: OptimizerName = "adam"
    """adam or adagrad."""
    learning_rate: float = 1e-3
    """Highest learning rate."""
    beta2: float = 0.98
    """Adam's β₂. The default is that of the original SASRec."""
    clip: float | None = None
    """Largest gradient norm. Longer gradients are scaled down to it."""
    warmup: int = 0
    """Steps over which the learning rate rises to its full value."""
    lr_decay: LrDecay = "none"
    """How the learning rate then falls to 0 at the last step: none, linear or cosine."""
    validate_every: int = 0
    """Steps between validations. 0 never validates."""
    metric: str = "NDCG@10"
    """Metric of validations: recall@k, NDCG@k, MRR, recall@k of 101, HR@k of 100 published, NDCG@k
    of 100 published, or rating error for models that predict ratings."""
    validate_on: HeldOut = "validation"
    """Held-out events that validations use. "test" chooses weights on the test events, as Jain
    (2019) did."""
    patience: int = 0
    """Stop after this many validations without an improvement and keep the best weights. 0 never
    stops early."""
    snapshots: int = 0
    """Number of snapshots of the weights, equally spaced from the untrained to the final ones."""
    averaging: AveragingRule = "none"
    """How weights are averaged: none, swa, aswa, naswa, aswa-printed or naswa-printed."""
    average_every: int = 0
    """Steps in an epoch of averaging. 0 is a tenth of all steps."""
    swa_start: float = 0.75
    """Fraction of all steps after which SWA starts."""
    swa_lr_factor: float = 1.0
    """Factor to which the learning rate falls within each epoch of SWA. 1 keeps it constant."""
    part_dropout: float = 0.0
    """Fraction of histories from which random items are removed in training, as explainers do."""
    precision: Precision = "float32"
    """Precision of matrix products: float32, or bfloat16 on a GPU. Weights are float32."""

    def __post_init__(self) -> None:
        self._check_ranges()
        require_choice("optimizer", self.optimizer, OptimizerName)
        require_choice("validate_on", self.validate_on, HeldOut)
        check_metric(self.metric)
        if self.snapshots == 1 or (self.snapshots > self.steps + 1 and not self.epochs):
            raise InputError(
                "snapshots must be at least 2 (the untrained and the final weights) and at most "
                f"steps + 1, not {self.snapshots}."
            )
        if self.snapshots and self.patience:
            raise InputError(
                "snapshots are spaced over a fixed number of steps. Leave out patience."
            )
        if self.averaging == "swa" and not self.epochs and self.first_average == self.steps > 0:
            raise InputError(
                f"No epoch of {self.averaging_epoch} steps is left for SWA after "
                f"{self.swa_start:g} of {self.steps} steps. Lower swa_start or average_every."
            )
        if self.patience and not self.validate_every:
            raise InputError("patience counts validations. Set validate_every too.")

    def _check_ranges(self) -> None:
        for name in (
            "steps",
            "epochs",
            "warmup",
            "validate_every",
            "patience",
            "snapshots",
            "average_every",
        ):
            if getattr(self, name) < 0:
                raise InputError(f"{name} must be at least 0, not {getattr(self, name)}.")
        for holds, rule, value in (
            (self.batch_size >= 1, "batch_size must be at least 1", self.batch_size),
            (
                0 < self.learning_rate < math.inf,
                "learning_rate must be above 0",
                self.learning_rate,
            ),
            (0 <= self.beta2 < 1, "beta2 must be at least 0 and below 1", self.beta2),
            (self.clip is None or 0 < self.clip < math.inf, "clip must be above 0", self.clip),
            (0 <= self.part_dropout <= 1, "part_dropout must be from 0 to 1", self.part_dropout),
            (0 <= self.swa_start < 1, "swa_start must be at least 0 and below 1", self.swa_start),
            (
                0 < self.swa_lr_factor <= 1,
                "swa_lr_factor must be above 0 and at most 1",
                self.swa_lr_factor,
            ),
        ):
            if not holds:
                raise InputError(f"{rule}, not {value}.")

    @property
    def selection_note(self) -> str:
        """What to add to the protocol of a run whose weights are chosen on its test events."""
        if self.validate_on != "test" or not self.patience:
            return ""
        return f"; weights chosen by {self.metric} on the test events themselves"

    def in_steps(self, steps_per_epoch: int) -> TrainingConfig:
        """Return the same configuration with epochs converted to steps."""
        if not self.epochs:
            return self
        return replace(
            self,
            epochs=0,
            steps=self.epochs * steps_per_epoch,
            validate_every=self.validate_every * steps_per_epoch,
            average_every=self.average_every or steps_per_epoch,
        )

    def plan(self) -> Plan:
        """Return what the engine needs to know."""
        return Plan(
            steps=self.steps,
            validate_every=self.validate_every,
            patience=self.patience,
            clip=self.clip,
            precision=self.precision,
            averaging=self.averaging,
            average_every=self.averaging_epoch,
            average_start=self.first_average,
            snapshot_steps=frozenset(self.snapshot_steps()),
        )

    @property
    def averaging_epoch(self) -> int:
        """The steps in an epoch of averaging."""
        return self.average_every or max(1, self.steps // 10)

    @property
    def first_average(self) -> int:
        """The step after which SWA starts, such that whole epochs follow."""
        epochs = round((1 - self.swa_start) * self.steps / self.averaging_epoch, 9)
        return self.steps - math.floor(epochs) * self.averaging_epoch

    def lr_factor(self, step: int) -> float:
        """Return the factor of the learning rate at a step, counted from 0."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        if self.averaging == "swa" and step >= self.first_average:
            t = ((step - self.first_average) % self.averaging_epoch + 1) / self.averaging_epoch
            return 1 - t + t * self.swa_lr_factor  # (1 − t)·α₁ + t·α₂
        left = (self.steps - step) / max(1, self.steps - self.warmup)
        match self.lr_decay:
            case "linear":
                return left
            case "cosine":
                return (1 - math.cos(math.pi * left)) / 2
        return 1.0

    def snapshot_steps(self) -> set[int]:
        """Return the numbers of steps after which the weights are saved."""
        last = self.snapshots - 1
        return {round(number * self.steps / last) for number in range(self.snapshots)}


def check_precision(config: TrainingConfig, device: str) -> None:
    """Refuse a precision that the device computes slowly or not at all."""
    if config.precision == "bfloat16" and device == "cpu":
        raise InputError("bfloat16 is for GPUs. Set precision=float32.")
