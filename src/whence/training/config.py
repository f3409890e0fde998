"""How a model is trained: every setting there is, checked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from whence.errors import InputError
from whence.training.evaluation import check_measure

Precision = Literal["float32", "bfloat16"]


@dataclass(frozen=True)
class TrainingConfig:
    """How long and how fast to learn; the defaults are those of Baumhauer (2021)."""

    steps: int = 2_500
    batch: int = 128
    """Histories a step."""
    learning_rate: float = 1e-3
    second_moment: float = 0.98
    """Adam's β₂, as in the first SASRec."""
    clip: float | None = None
    """The largest norm of the gradient; a larger one is scaled down to it."""
    warmup: int = 0
    """Steps in which the learning rate rises to its full height."""
    decay: Literal["none", "linear", "cosine"] = "none"
    """How the learning rate falls from there to 0 at the last step."""
    validate_every: int = 0
    """Steps between validations; 0 is never."""
    measure: str = "NDCG@10"
    """What a validation looks at: recall@k, NDCG@k, MRR or recall@k of 101."""
    patience: int = 0
    """Stop after so many validations without a better one, and keep the best; 0 is never."""
    snapshots: int = 0
    """Weights kept on the way, equally spaced: the first untrained, the last after all steps."""
    precision: Precision = "float32"
    """In which the products of matrices are computed; the weights are float32."""

    def __post_init__(self) -> None:
        if self.steps < 0 or self.batch < 1:
            raise InputError("Training needs steps from 0 on and a batch from 1 on.")
        if not 0 < self.learning_rate < math.inf:
            raise InputError(f"The learning rate is above 0, not {self.learning_rate}.")
        if not 0 <= self.second_moment < 1:
            raise InputError(f"second_moment is from 0 to below 1, not {self.second_moment}.")
        if self.clip is not None and not 0 < self.clip < math.inf:
            raise InputError(f"Gradients are clipped at a norm above 0, not {self.clip}.")
        if min(self.warmup, self.validate_every, self.patience, self.snapshots) < 0:
            raise InputError(
                "warmup, validate_every, patience and snapshots are whole numbers from 0 on."
            )
        if self.snapshots == 1 or self.snapshots > self.steps + 1:
            raise InputError(
                "snapshots are at least 2, the untrained weights and the last ones, and at most "
                "one more than steps."
            )
        if self.snapshots and self.patience:
            raise InputError(
                "snapshots are spaced over a known number of steps; leave patience out."
            )
        check_measure(self.measure)
        if self.patience and not self.validate_every:
            raise InputError("patience counts validations; say validate_every too.")

    def pace(self, step: int) -> float:
        """The share of the learning rate at this step, from 0 on."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        left = (self.steps - step) / max(1, self.steps - self.warmup)
        match self.decay:
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
