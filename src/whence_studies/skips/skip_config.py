"""The settings of training on sessions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from whence.errors import InputError
from whence_studies.sessions.session_batches import BATCH


@dataclass(frozen=True)
class SkipConfig:
    """How a session network is trained.

    The defaults are those of Afchar & Hennequin (2020), who take up to ten times the steps.
    """

    steps: int = 120_000
    """Number of training steps."""
    batch_size: int = BATCH
    """Sessions per step."""
    learning_rate: float = 1e-4
    """Initial learning rate of Adam. The authors' program starts with 1e-3."""
    warmup: int = 0
    """Steps over which the learning rate rises to its full value, for each level that trains in
    turn."""
    validate_every: int = 1_200
    """Steps between validations. 0 never validates."""
    validation_sessions: int = 5_000
    """Number of sessions in a validation."""
    lr_factor: float = 0.8
    """Factor by which the learning rate falls when the validation loss stops falling."""
    patience: int = 10
    """Validations without a lower loss before the learning rate falls."""
    cooldown: int = 2
    """Validations after a fall that do not count towards patience."""
    min_learning_rate: float = 1e-6
    """The learning rate never falls below it."""
    levels_in_turn: bool = False
    """Whether the levels of experts train one after another, each for an equal part of the
    steps and with its own learning rate."""

    def __post_init__(self) -> None:
        if min(self.steps, self.batch_size, self.validation_sessions) < 1:
            raise InputError("steps, batch_size and validation_sessions must be at least 1.")
        if min(self.warmup, self.validate_every, self.patience, self.cooldown) < 0:
            raise InputError("warmup, validate_every, patience and cooldown must be at least 0.")
        if not (0 < self.min_learning_rate <= self.learning_rate and 0 < self.lr_factor <= 1):
            raise InputError(
                "min_learning_rate must be above 0 and at most learning_rate, and lr_factor above "
                "0 and at most 1."
            )

    def rate(self, step: int, validations: Sequence[float]) -> float:
        """Return the learning rate of a step, counted from 0, after these validation losses."""
        warmup = min(1.0, (step + 1) / self.warmup) if self.warmup else 1.0
        return warmup * self._plateau_rate(validations)

    def _plateau_rate(self, validations: Sequence[float]) -> float:
        """Return the learning rate, reduced whenever the losses stopped falling."""
        rate, best, waited, cooling = self.learning_rate, float("inf"), 0, 0
        for loss in validations:
            waited = 0 if loss < best else waited + 1
            best = min(best, loss)
            if cooling:
                cooling, waited = cooling - 1, 0
            if waited > self.patience:
                rate, cooling, waited = (
                    max(rate * self.lr_factor, self.min_learning_rate),
                    self.cooldown,
                    0,
                )
        return rate
