"""How a model is trained: every setting there is, checked."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, get_args

from whence.config import require_choice
from whence.data.splits import HeldOut
from whence.errors import InputError, did_you_mean
from whence.training.averaging import Rule
from whence.training.evaluation import check_measure

Precision = Literal["float32", "bfloat16"]
OptimiserName = Literal["adam", "adagrad"]


@dataclass(frozen=True)
class TrainingConfig:
    """How long and how fast to learn; the defaults are those of Baumhauer (2021)."""

    steps: int = 2_500
    epochs: int = 0
    """Instead of steps: how often to go through the data; validate_every counts epochs then."""
    batch_size: int = 128
    """Histories a step, or whatever the model learns from: users, or single questions."""
    optimizer: OptimiserName = "adam"
    learning_rate: float = 1e-3
    beta2: float = 0.98
    """Adam's β₂, as in the first SASRec."""
    clip: float | None = None
    """The largest norm of the gradient; a larger one is scaled down to it."""
    warmup: int = 0
    """Steps in which the learning rate rises to its full height."""
    lr_decay: Literal["none", "linear", "cosine"] = "none"
    """How the learning rate falls from there to 0 at the last step."""
    validate_every: int = 0
    """Steps between validations; 0 is never."""
    metric: str = "NDCG@10"
    """What a validation looks at: recall@k, NDCG@k, MRR, recall@k of 101, HR@k of 100 published.

    And of models that foretell ratings, the rating error, of which the lowest is the best.
    """
    validate_on: HeldOut = "validation"
    """The events that validations look at; by "test" weights are chosen as Jain (2019) did."""
    patience: int = 0
    """Stop after so many validations without a better one, and keep the best; 0 is never."""
    snapshots: int = 0
    """Weights kept on the way, equally spaced: the first untrained, the last after all steps."""
    averaging: Rule = "none"
    """How weights are averaged: swa, aswa, naswa, or the last two as they are printed."""
    average_every: int = 0
    """Steps after which an average is taken (SWA) or gone on from; 0 is a tenth of all."""
    swa_start: float = 0.75
    """The share of all steps after which SWA begins."""
    swa_lr_factor: float = 1.0
    """To which share the learning rate falls in each of SWA's epochs; 1 is constant."""
    part_dropout: float = 0.0
    """The share of histories that are trained with some items absent, as explainers ask them."""
    precision: Precision = "float32"
    """In which the products of matrices are computed; the weights are float32."""

    def __post_init__(self) -> None:
        if min(self.steps, self.epochs) < 0 or self.batch_size < 1:
            raise InputError("Training needs steps or epochs from 0 on and a batch from 1 on.")
        if self.optimizer not in get_args(OptimiserName):
            known = get_args(OptimiserName)
            raise InputError(
                f"There is no optimiser '{self.optimizer}': {did_you_mean(self.optimizer, known)}"
            )
        if not 0 < self.learning_rate < math.inf:
            raise InputError(f"The learning rate is above 0, not {self.learning_rate}.")
        if not 0 <= self.beta2 < 1:
            raise InputError(f"second_moment is from 0 to below 1, not {self.beta2}.")
        if self.clip is not None and not 0 < self.clip < math.inf:
            raise InputError(f"Gradients are clipped at a norm above 0, not {self.clip}.")
        if not 0 <= self.part_dropout <= 1:
            raise InputError(f"absence is a share from 0 to 1, not {self.part_dropout}.")
        if min(self.warmup, self.validate_every, self.patience, self.snapshots) < 0:
            raise InputError(
                "warmup, validate_every, patience and snapshots are whole numbers from 0 on."
            )
        if self.snapshots == 1 or (self.snapshots > self.steps + 1 and not self.epochs):
            raise InputError(
                "snapshots are at least 2, the untrained weights and the last ones, and at most "
                "one more than steps."
            )
        if self.snapshots and self.patience:
            raise InputError(
                "snapshots are spaced over a known number of steps; leave patience out."
            )
        if self.average_every < 0 or not 0 <= self.swa_start < 1 or not 0 < self.swa_lr_factor <= 1:
            raise InputError(
                "An epoch is a whole number of steps, swa_start is from 0 to below 1, and swa_pace "
                "above 0 and up to 1."
            )
        if self.averaging == "swa" and not self.epochs and self.first_average == self.steps > 0:
            raise InputError(
                f"After a share of {self.swa_start} of {self.steps} steps, no epoch of "
                f"{self.steps_of_an_epoch} is left; begin SWA earlier or say a shorter epoch."
            )
        check_measure(self.metric)
        if self.patience and not self.validate_every:
            raise InputError("patience counts validations; say validate_every too.")
        require_choice("validate_on", self.validate_on, HeldOut)

    @property
    def chosen_on(self) -> str:
        """What to add to the protocol of a run whose weights are chosen by what it is tested on."""
        if self.validate_on != "test" or not self.patience:
            return ""
        return f"; weights chosen by {self.metric} on the test events themselves"

    def in_steps(self, of_an_epoch: int) -> TrainingConfig:
        """The same with epochs as steps, where epochs were asked for."""
        if not self.epochs:
            return self
        return replace(
            self,
            epochs=0,
            steps=self.epochs * of_an_epoch,
            validate_every=self.validate_every * of_an_epoch,
            average_every=self.average_every or of_an_epoch,
        )

    @property
    def steps_of_an_epoch(self) -> int:
        """As averaging counts them."""
        return self.average_every or max(1, self.steps // 10)

    @property
    def first_average(self) -> int:
        """The step after which SWA begins: so that whole epochs follow."""
        epochs = round((1 - self.swa_start) * self.steps / self.steps_of_an_epoch, 9)
        return self.steps - math.floor(epochs) * self.steps_of_an_epoch

    def pace(self, step: int) -> float:
        """The share of the learning rate at this step, from 0 on."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        if self.averaging == "swa" and step >= self.first_average:
            t = ((step - self.first_average) % self.steps_of_an_epoch + 1) / self.steps_of_an_epoch
            return 1 - t + t * self.swa_lr_factor  # (1 − t)·α₁ + t·α₂
        left = (self.steps - step) / max(1, self.steps - self.warmup)
        match self.lr_decay:
            case "linear":
                return left
            case "cosine":
                return (1 - math.cos(math.pi * left)) / 2
        return 1.0

    def snapshot_steps(self) -> set[int]:
        """After how many steps the weights are kept."""
        last = self.snapshots - 1
        return {round(number * self.steps / last) for number in range(self.snapshots)}


def check_precision(config: TrainingConfig, device: str) -> None:
    """Refuse what the device cannot do well."""
    if config.precision == "bfloat16" and device == "cpu":
        raise InputError("bfloat16 is for GPUs; on a processor say precision=float32.")
