"""The training loop: several seeds in step, and nothing lost by an interruption."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from whence.data.splits import Split
from whence.devices import deterministic
from whence.errors import InputError, OutOfTime
from whence.files import new_file, save_weights
from whence.models import Recommender, model_with
from whence.progress import progress_bar
from whence.training.averaging import has_batch_norm
from whence.training.checkpoints import NowAndThen, go_on
from whence.training.config import TrainingConfig, check_precision
from whence.training.evaluation import Evaluation, best_of
from whence.training.stack import Stack, State, refresh_norms, under

STEPS_BETWEEN_NEWS = 20


class DivergedError(InputError):
    """No seed of a training computes with numbers any more."""


class Fitted(NamedTuple):
    """A trained model, and how it came about."""

    model: Recommender
    losses: list[float]
    """One a step."""
    validations: dict[int, float]
    """The measure of choice, by step."""
    kept: int
    """The steps that the model has seen: all, or those up to the best validation."""


def fit(
    split: Split,
    model_name: str,
    model_settings: Mapping[str, Any],
    config: TrainingConfig,
    seed: int,
    device: str = "cpu",
    show_progress: bool = True,
    checkpoint: Path | None = None,
) -> Fitted:
    """Train one seed; same seed, same machine, same bits."""
    training = Training(split, model_name, model_settings, config, [seed], device)
    return fit_together(training, show_progress, checkpoint)[seed]


def fit_together(
    training: Training,
    show_progress: bool = True,
    checkpoint: Path | None = None,
    snapshots: Callable[[int], Path] | None = None,
    until: float | None = None,
) -> dict[int, Fitted]:
    """Train all seeds in step; a seed whose loss is no longer a number is left out.

    With a `checkpoint`, a training that was stopped there goes on as if it had never been, and this
    one is kept there every second or, where that would take more than a twentieth of the time, less
    often, and at its end. Snapshots are files in each seed's folder, by their step. `until` is the
    moment of `time.monotonic()` to stop at.
    """
    config = training.config
    if checkpoint is not None and checkpoint.exists():
        training.load(checkpoint)
    kept_at = config.snapshot_steps() if snapshots is not None else set()
    if snapshots is not None and training.step in kept_at:
        training.save_snapshots(snapshots)
    bar = progress_bar(training.title, config.steps, show_progress)
    keep = NowAndThen(lambda: training.save(checkpoint)) if checkpoint is not None else None
    try:
        for _ in bar.track(range(config.steps), done=training.step):
            if training.is_over:
                break
            if until is not None and time.monotonic() >= until:
                raise OutOfTime(f"Time is over after {training.step} of {config.steps} steps.")
            training.advance()
            if snapshots is not None and training.step in kept_at:
                training.save_snapshots(snapshots)
            if training.step % STEPS_BETWEEN_NEWS == 1 or training.validates_now:
                bar.say(training.news())
            if keep is not None:
                keep()
    finally:
        if checkpoint is not None and training.can_be_kept:
            training.save(checkpoint)
    return training.result()


@dataclass
class Log:
    """What became of one seed so far."""

    losses: list[float] = field(default_factory=list)
    validations: list[float] = field(default_factory=list)
    best: dict[str, Tensor] = field(default_factory=dict)
    """The weights of the best validation, where training stops by them."""
    lost: bool = False
    """Whether its loss or its weights are no longer numbers."""

    def has_stopped(self, config: TrainingConfig) -> bool:
        """Whether too many validations have passed since the best one."""
        if not config.patience or not self.validations:
            return False
        best = best_of(config.metric, self.validations)
        return len(self.validations) - 1 - best >= config.patience


class Training:
    """Seeds on their way: all that decides what comes next."""

    def __init__(
        self,
        split: Split,
        model_name: str,
        model_settings: Mapping[str, Any],
        config: TrainingConfig,
        seeds: Sequence[int],
        device: str,
    ) -> None:
        check_precision(config, device)
        if config.validate_every and not len(split.held[config.validate_on]):
            raise InputError(
                f"No {config.validate_on} events are held out; leave validate_every out."
            )
        self.split, self.device = split, device
        self.model_name, self.model_settings = model_name, model_settings
        self.config = self._in_steps(config, seeds[0])
        self.logs = {seed: Log() for seed in seeds}
        self.step = 0
        """How many steps are done."""
        self.can_be_kept = True
        """False while something is half done, and when it has gone wrong."""
        self._pile(seeds, {})
        if config.validate_every:
            validation = Evaluation(split, config.validate_on, length=1)
            validation.check(config.metric, self.stack.models[0])

    def _in_steps(self, config: TrainingConfig, seed: int) -> TrainingConfig:
        if not config.epochs:
            return config
        stack = Stack(self.split, self.model_name, self.model_settings, config, [seed], self.device)
        return config.in_steps(stack.batches.steps_of_an_epoch)

    @contextmanager
    def _in_one_go(self) -> Iterator[None]:
        """What an interruption must not keep the half of."""
        could = self.can_be_kept
        self.can_be_kept = False
        yield
        self.can_be_kept = could

    def _pile(self, seeds: Sequence[int], states: Mapping[int, State]) -> None:
        """Stack the seeds that train on; those that have ended live on in their logs."""
        self.stack = Stack(
            self.split, self.model_name, self.model_settings, self.config, seeds, self.device
        )
        if states:
            self.stack.restore(self.step, [states[seed] for seed in seeds])
        self.new_losses = torch.zeros((STEPS_BETWEEN_NEWS, len(seeds)), device=self.device)
        """Those of the last steps, which are still on the device."""
        self.new_count = 0

    @property
    def title(self) -> str:
        """For the progress bar."""
        seeds = list(self.logs)
        which = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]}–{seeds[-1]}"
        return f"training {self.model_name}, {which}"

    @property
    def is_over(self) -> bool:
        """Whether every seed has ended before its time."""
        return not self._going_on()

    def _going_on(self) -> list[int]:
        return [
            seed
            for seed, log in self.logs.items()
            if not log.lost and not log.has_stopped(self.config)
        ]

    def advance(self) -> None:
        """One step."""
        with self._in_one_go():
            self.new_losses[self.new_count] = self.stack.advance(self.config.pace(self.step))
            self.new_count += 1
            self.step += 1
            if self.new_count == len(self.new_losses):
                self.read_losses()
            if self.validates_now:
                self._validate()

    def read_losses(self) -> None:
        """Fetch the newest from the device, and leave out the seeds that have none any more."""
        with self._in_one_go():
            new = self.new_losses[: self.new_count].T.tolist()
            self.new_count = 0
            for seed, losses in zip(self.stack.seeds, new, strict=True):
                log = self.logs[seed]
                bad = next((n for n, loss in enumerate(losses) if not math.isfinite(loss)), None)
                log.losses += losses if bad is None else losses[: bad + 1]
                log.lost |= bad is not None
            self._leave_out()

    def _leave_out(self) -> None:
        """Go on without the seeds that have ended."""
        going_on = self._going_on()
        if all(log.lost for log in self.logs.values()):
            seed, log = next(iter(self.logs.items()))
            raise DivergedError(
                f"Training seed {seed} has gone beyond all numbers after {len(log.losses)} steps; "
                f"try a smaller learning rate than {self.config.learning_rate}."
            )
        if going_on and going_on != self.stack.seeds:
            self._pile(going_on, self.states())

    @property
    def validates_now(self) -> bool:
        """Whether the step just done is followed by a validation."""
        every = self.config.validate_every
        return bool(every) and self.step % every == 0

    def _validate(self) -> None:
        self.read_losses()
        validation = Evaluation(
            self.split, self.config.validate_on, self.stack.models[0].config.max_len
        )
        for number, seed in enumerate(self.stack.seeds):
            log = self.logs[seed]
            model = self._model(seed, self.stack.outcome(number))
            with deterministic(self.device):
                found = validation.mean(self.config.metric, model)
            log.validations.append(found)
            best = best_of(self.config.metric, log.validations)
            if self.config.patience and best == len(log.validations) - 1:
                log.best = model.state_dict()
        self._leave_out()

    def news(self) -> str:
        """For the progress bar."""
        self.read_losses()
        logs = [self.logs[seed] for seed in self.stack.seeds]
        loss = f"loss {_mean([log.losses[-1] for log in logs]):.3f}"
        if not logs[0].validations:
            return loss
        return f"{loss}, {self.config.metric} {_mean([log.validations[-1] for log in logs]):.3f}"

    def result(self) -> dict[int, Fitted]:
        """Each seed's model as it is or, where training stops by validations, as it was best."""
        self.read_losses()
        self._check_weights()
        outcomes = {seed: self.stack.outcome(n) for n, seed in enumerate(self.stack.seeds)}
        fitted = {}
        for seed, log in self.logs.items():
            if log.lost:
                continue
            every = self.config.validate_every
            validations = {every * (n + 1): one for n, one in enumerate(log.validations)}
            kept = len(log.losses)
            if log.best:
                kept = every * (1 + best_of(self.config.metric, log.validations))
            model = self._model(seed, log.best or outcomes[seed])
            fitted[seed] = Fitted(model, log.losses, validations, kept)
        return fitted

    def _model(self, seed: int, weights: Mapping[str, Tensor]) -> Recommender:
        """A model of its own, outside the stack."""
        model = model_with(
            weights,
            self.model_name,
            self.model_settings,
            self.split.interactions.counts,
            self.device,
        )
        if self.stack.averaging is not None and has_batch_norm(model):
            refresh_norms(model, self.split, self.config, seed, self.device)
        return model.eval()

    def _check_weights(self) -> None:
        """Leave out seeds whose weights are no longer numbers, before anybody uses them."""
        with self._in_one_go():
            for seed, finite in zip(self.stack.seeds, self.stack.finite(), strict=True):
                self.logs[seed].lost |= not finite
            self._leave_out()

    def states(self) -> dict[int, State]:
        """Of all seeds in the stack."""
        return {seed: self.stack.state(n) for n, seed in enumerate(self.stack.seeds)}

    def save(self, path: Path) -> None:
        """Everything into one file, whole or not at all."""
        self.read_losses()
        self._check_weights()
        tensors: State = {}
        for seed, state in self.states().items():
            tensors |= {f"{seed}.{name}": value for name, value in state.items()}
        for seed, log in self.logs.items():
            tensors |= {f"{seed}.best.{name}": value for name, value in log.best.items()}
            tensors[f"{seed}.losses"] = torch.tensor(log.losses, dtype=torch.float64)
            tensors[f"{seed}.validations"] = torch.tensor(log.validations, dtype=torch.float64)
            tensors[f"{seed}.lost"] = torch.tensor(log.lost)
        tensors["step"] = torch.tensor(self.step)
        with new_file(path) as partial:
            save_weights(partial, tensors)

    def save_snapshots(self, folder_of: Callable[[int], Path]) -> None:
        """The weights alone, under the number of steps they have seen."""
        for number, seed in enumerate(self.stack.seeds):
            model = self._model(seed, self.stack.outcome(number))
            with new_file(folder_of(seed) / f"{self.step}.safetensors") as partial:
                save_weights(partial, model.state_dict())

    def load(self, path: Path) -> None:
        """Go on where `save` was called."""
        go_on(path, self.device, self._restore)

    def _restore(self, tensors: dict[str, Tensor]) -> None:
        self.step = int(tensors["step"])
        states = {seed: under(f"{seed}.", tensors) for seed in self.logs}
        self.logs = {seed: _log(state) for seed, state in states.items()}
        piled = [seed for seed, state in states.items() if under("model.", state)]
        if piled:
            self._pile(piled, states)


def _log(state: State) -> Log:
    return Log(
        state["losses"].tolist(),
        state["validations"].tolist(),
        under("best.", state),
        bool(state["lost"]),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
