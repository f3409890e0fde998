"""How a network learns to predict skips."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from whence.errors import InputError
from whence_studies.sessions.session_batches import BATCH


@dataclass(frozen=True)
class SkipConfig:
    """The defaults are those of Afchar & Hennequin (2020), who take up to ten times the steps."""

    steps: int = 120_000
    batch_size: int = BATCH
    """Sessions a step."""
    learning_rate: float = 1e-4
    """Of Adam; their program begins with 1e-3."""
    warmup: int = 0
    """Steps in which the learning rate rises to its full height, of every level where they learn in
    turn."""
    validate_every: int = 1_200
    """Steps between looks at the validation loss; 0 is never."""
    validation_sessions: int = 5_000
    """How many of them are looked at."""
    lr_factor: float = 0.8
    """To which share the learning rate falls when the validation loss falls no more."""
    patience: int = 10
    """Validations without a lower loss that are waited for."""
    cooldown: int = 2
    """Validations after a fall that do not count."""
    min_learning_rate: float = 1e-6
    levels_in_turn: bool = False
    """Whether one level of experts learns after the other instead of all at once, each in its share
    of the steps, with a learning rate that begins anew."""

    def __post_init__(self) -> None:
        if min(self.steps, self.batch_size, self.validation_sessions) < 1:
            raise InputError("Training needs a step, and batches and validations a session.")
        if min(self.warmup, self.validate_every, self.patience, self.cooldown) < 0:
            raise InputError("Warmup, validations, patience and cooldown count from 0.")
        if not (0 < self.min_learning_rate <= self.learning_rate and 0 < self.lr_factor <= 1):
            raise InputError(
                "A learning rate lies above 0, the least at most as high as the first, and falls "
                "by a factor of at most 1."
            )

    def rate(self, step: int, validations: Sequence[float]) -> float:
        """Of this step, from 0 on, after these validation losses."""
        rising = min(1.0, (step + 1) / self.warmup) if self.warmup else 1.0
        return rising * self._plateau_rate(validations)

    def _plateau_rate(self, validations: Sequence[float]) -> float:
        """Reduced whenever the losses stay."""
        rate, best, waited, resting = self.learning_rate, float("inf"), 0, 0
        for loss in validations:
            waited = 0 if loss < best else waited + 1
            best = min(best, loss)
            if resting:
                resting, waited = resting - 1, 0
            if waited > self.patience:
                rate, resting, waited = (
                    max(rate * self.lr_factor, self.min_learning_rate),
                    self.cooldown,
                    0,
                )
        return rate
