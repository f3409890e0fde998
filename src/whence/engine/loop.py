"""The training loop: several seeds in step, validated, saved and resumed without losing a bit."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from typing import Generic, NamedTuple

import torch
from torch import Tensor
from torch.optim.swa_utils import update_bn

from whence.devices import deterministic
from whence.engine.averaging import has_batch_norm
from whence.engine.checkpoints import PeriodicSaver, restore_from
from whence.engine.stack import LossModule, Stack, State, with_prefix
from whence.engine.trainable import ModelT, OutOfBatches, Trainable
from whence.errors import InputError, OutOfTime
from whence.files import new_file, save_weights
from whence.progress import Bar, progress_bar

STEPS_BETWEEN_READINGS = 20
"""Losses stay on the device for this many steps, since reading them makes a GPU wait."""
BATCHES_FOR_NORMS = 100
"""Batches from which batch normalization computes the statistics of averaged weights."""
FORMAT = 2
"""The format of checkpoints. Those of Whence 0.1 have none."""


class DivergedError(InputError):
    """The loss of every seed is NaN or infinite."""


class TrainedModel(NamedTuple, Generic[ModelT]):
    """A trained model and the course of its training."""

    model: ModelT
    losses: list[float]
    """One per step."""
    validations: dict[int, float]
    """The metric, by the number of steps."""
    kept_step: int
    """The steps that the model has seen: all, or those up to the best validation."""


@dataclass
class SeedLog:
    """The course of one seed's training so far."""

    losses: list[float] = field(default_factory=list)
    validations: list[float] = field(default_factory=list)
    best: dict[str, Tensor] = field(default_factory=dict)
    """The weights of the best validation, if validations decide when to stop."""
    diverged: bool = False
    """Whether its loss or a weight is NaN or infinite."""


class Training(Generic[ModelT]):
    """The training of some seeds in step, at any moment between its first step and its last."""

    def __init__(self, task: Trainable[ModelT], seeds: Sequence[int]) -> None:
        self.task, self.plan = task, task.plan
        self.logs = {seed: SeedLog() for seed in seeds}
        self.step = 0
        """The number of steps done."""
        self.can_be_saved = True
        """False during a step, and after an error."""
        self._stack_up(seeds, {})

    def _stack_up(self, seeds: Sequence[int], states: Mapping[int, State]) -> None:
        """Stack the seeds that are still training; the others live on in their logs."""
        self.stack = Stack(self.task, seeds)
        self.phase = self.task.phase(max(0, self.step - 1))
        for model in self.stack.models:
            self.task.start_phase(model, self.phase)
        if states:
            self.stack.restore(self.step, [states[seed] for seed in seeds])
        self._unread: list[Tensor] = []
        """`[S]` per step: the latest losses, which are still on the device."""

    def run(
        self,
        *,
        show_progress: bool = True,
        checkpoint: Path | None = None,
        snapshots: Callable[[int], Path] | None = None,
        until: float | None = None,
    ) -> dict[int, TrainedModel[ModelT]]:
        """Train to the end and return the models by seed, without those that diverged.

        If the file `checkpoint` exists, the training resumes from it. It is written about once a
        second, or less often if that would take more than a twentieth of the time. `snapshots`
        gives the folder of a seed's snapshots. At the time `until`, by `time.monotonic()`, the
        training stops with `OutOfTime`.
        """
        if checkpoint is not None and checkpoint.exists():
            self.load(checkpoint)
        if snapshots is not None and self.step in self.plan.snapshot_steps:
            self.save_snapshots(snapshots)
        saver = None if checkpoint is None else PeriodicSaver(lambda: self.save(checkpoint))
        bar = self._bar() if show_progress else None
        steps = count() if self.plan.steps is None else range(self.plan.steps)
        try:
            for _ in (
                islice(steps, self.step, None) if bar is None else bar.track(steps, done=self.step)
            ):
                if self.is_over:
                    break
                if until is not None and time.monotonic() >= until:
                    total = "" if self.plan.steps is None else f" of {self.plan.steps}"
                    raise OutOfTime(f"Time is up after {self.step}{total} steps.")
                if not self.advance():
                    break
                if snapshots is not None and self.step in self.plan.snapshot_steps:
                    self.save_snapshots(snapshots)
                if self._is_time_for_news:
                    news = self.news()
                    if bar is not None:
                        bar.say(news)
                if saver is not None:
                    saver()
        finally:
            if checkpoint is not None and self.can_be_saved:
                self.save(checkpoint)
        return self.result()

    def _bar(self) -> Bar:
        return progress_bar(self.title, self.plan.steps, may_end_early=bool(self.plan.patience))

    @property
    def title(self) -> str:
        """The title of the progress bar."""
        seeds = list(self.logs)
        which = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]}–{seeds[-1]}"
        return f"training {self.task.name}, {which}"

    @property
    def _is_time_for_news(self) -> bool:
        return self.step % STEPS_BETWEEN_READINGS == 1 or self.validates_now

    def news(self) -> str:
        """Return the mean loss and how good the seeds are on average, for the progress bar.

        With early stopping, each seed is as good as its best validation.
        """
        self.read_losses()
        logs = [self.logs[seed] for seed in self.stack.seeds]
        loss = f"loss {_mean([log.losses[-1] for log in logs]):.3f}"
        logs = [log for log in self.logs.values() if log.validations and not log.diverged]
        if not logs:
            return loss
        if not self.plan.patience:
            return f"{loss}, {self.task.metric} {_mean([log.validations[-1] for log in logs]):.3f}"
        best = _mean([log.validations[self.task.best(log.validations)] for log in logs])
        return f"best {self.task.metric} {best:.3f}, {loss}"

    @property
    def is_over(self) -> bool:
        """Whether every seed has ended early."""
        return not self._active()

    def _active(self) -> list[int]:
        """Return the seeds that have neither diverged nor stopped by their validations."""
        return [
            seed
            for seed, log in self.logs.items()
            if not log.diverged and not self._has_stopped(log)
        ]

    def _has_stopped(self, log: SeedLog) -> bool:
        """Return whether too many validations have passed since the best one."""
        if not self.plan.patience or not log.validations:
            return False
        since_best = len(log.validations) - 1 - self.task.best(log.validations)
        return since_best >= self.plan.patience

    @contextmanager
    def _atomic(self) -> Iterator[None]:
        """Keep an interruption from saving a half-done step."""
        before = self.can_be_saved
        self.can_be_saved = False
        yield
        self.can_be_saved = before

    def advance(self) -> bool:
        """Take one step, and validate if it is time. Return False if there is no batch left."""
        with self._atomic():
            self._enter_phase()
            validations = self.logs[self.stack.seeds[0]].validations
            rate = self.task.learning_rate(self.step, validations)
            try:
                losses = self.stack.advance(self.step, rate)
            except OutOfBatches:
                return False
            # The next recorded step writes its losses to the same address.
            self._unread.append(losses if self.stack.recorded is None else losses.clone())
            self.step += 1
            if len(self._unread) == STEPS_BETWEEN_READINGS:
                self.read_losses()
            if self.validates_now:
                self._validate()
        return True

    def _enter_phase(self) -> None:
        phase = self.task.phase(self.step)
        if phase != self.phase:
            self.phase = phase
            for model in self.stack.models:
                self.task.start_phase(model, phase)
            self.stack.reset_optimizer()

    def read_losses(self) -> None:
        """Fetch the latest losses from the device, and leave out the seeds that have diverged."""
        if not self._unread:
            return
        with self._atomic():
            latest = torch.stack(self._unread, dim=1).tolist()
            self._unread = []
            for seed, losses in zip(self.stack.seeds, latest, strict=True):
                log = self.logs[seed]
                bad = next((n for n, loss in enumerate(losses) if not math.isfinite(loss)), None)
                log.losses += losses if bad is None else losses[: bad + 1]
                log.diverged |= bad is not None
            self._leave_out()

    def _leave_out(self) -> None:
        """Continue without the seeds that have ended."""
        if all(log.diverged for log in self.logs.values()):
            log = next(iter(self.logs.values()))
            raise DivergedError(
                f"Training diverged at step {len(log.losses)} (loss is NaN or inf). "
                f"{self.task.remedy}"
            )
        active = self._active()
        if active and active != self.stack.seeds:
            self._stack_up(active, self.states())

    @property
    def validates_now(self) -> bool:
        """Whether a validation follows the step just done."""
        every = self.plan.validate_every
        return bool(every) and self.step % every == 0

    def _validate(self) -> None:
        self.read_losses()
        for number, seed in enumerate(self.stack.seeds):
            log = self.logs[seed]
            model = self._model(seed, self.stack.final_weights(number))
            with deterministic(self.task.device):
                log.validations.append(self.task.validate(model))
            if self.plan.patience and self.task.best(log.validations) == len(log.validations) - 1:
                log.best = {name: value.clone() for name, value in model.state_dict().items()}
        for model in self.stack.models:
            model.train()
        self._leave_out()

    def result(self) -> dict[int, TrainedModel[ModelT]]:
        """Return each seed's model as it is or, with patience, as it was at its best."""
        self.read_losses()
        self._check_weights()
        every = self.plan.validate_every
        final = {seed: self.stack.final_weights(n) for n, seed in enumerate(self.stack.seeds)}
        trained = {}
        for seed, log in self.logs.items():
            if log.diverged:
                continue
            validations = {every * (n + 1): one for n, one in enumerate(log.validations)}
            kept = len(log.losses)
            if log.best:
                kept = every * (1 + self.task.best(log.validations))
            model = self._model(seed, log.best or final[seed])
            trained[seed] = TrainedModel(model, log.losses, validations, kept)
        return trained

    def _model(self, seed: int, weights: Mapping[str, Tensor]) -> ModelT:
        """Return the model of one seed, outside the stack."""
        model = self.task.restore(seed, weights)
        if self.stack.averaging is not None and has_batch_norm(model):
            self._refresh_norms(model, seed)
        return model.eval()

    def _refresh_norms(self, model: ModelT, seed: int) -> None:
        """Recompute batch normalization's statistics for the averaged weights."""
        batches = self.task.batches(model, [seed], recorded=False)

        def drawn() -> Iterator[list[object]]:
            for step in range(BATCHES_FOR_NORMS):
                batches.prepare(step)
                yield [batches.draw(torch.tensor(step, device=self.task.device))]

        with deterministic(self.task.device):
            update_bn(drawn(), LossModule(self.task, model))

    def _check_weights(self) -> None:
        """Leave out the seeds whose weights are not finite, before anybody uses them."""
        with self._atomic():
            for seed, finite in zip(self.stack.seeds, self.stack.finite(), strict=True):
                self.logs[seed].diverged |= not finite
            self._leave_out()

    def states(self) -> dict[int, State]:
        """Return the states of all seeds in the stack."""
        return {seed: self.stack.state(n) for n, seed in enumerate(self.stack.seeds)}

    def save(self, path: Path) -> None:
        """Write everything that `load` needs to one file, completely or not at all."""
        self.read_losses()
        self._check_weights()
        tensors: State = {}
        for seed, state in self.states().items():
            tensors |= {f"{seed}.{name}": value for name, value in state.items()}
        for seed, log in self.logs.items():
            tensors |= {f"{seed}.best.{name}": value for name, value in log.best.items()}
            tensors[f"{seed}.losses"] = torch.tensor(log.losses, dtype=torch.float64)
            tensors[f"{seed}.validations"] = torch.tensor(log.validations, dtype=torch.float64)
            tensors[f"{seed}.diverged"] = torch.tensor(log.diverged)
        tensors["format"] = torch.tensor(FORMAT)
        tensors["step"] = torch.tensor(self.step)
        tensors["position"] = torch.tensor([*self.stack.batches.position()], dtype=torch.int64)
        tensors["identity"] = torch.tensor([*self.task.identity().values()], dtype=torch.int64)
        with new_file(path, durable=False) as partial:
            save_weights(partial, tensors)

    def save_snapshots(self, folder_of: Callable[[int], Path]) -> None:
        """Write the weights of every seed to a file named after the number of steps."""
        for number, seed in enumerate(self.stack.seeds):
            model = self._model(seed, self.stack.final_weights(number))
            path = folder_of(seed) / f"{self.step}.safetensors"
            with new_file(path, durable=False) as partial:
                save_weights(partial, model.state_dict())

    def load(self, path: Path) -> None:
        """Resume from a file that `save` wrote."""
        restore_from(path, self.task.device, self._restore)

    def _restore(self, tensors: dict[str, Tensor]) -> None:
        if "format" not in tensors:
            raise ValueError("an older version of Whence wrote it")
        saved = tensors["identity"].tolist()
        for (name, now), then in zip(self.task.identity().items(), saved, strict=True):
            if now != then:
                raise ValueError(f"it was started with {name} {then}, now it is {now}")
        step = int(tensors["step"])
        if not 0 <= step <= (math.inf if self.plan.steps is None else self.plan.steps):
            raise ValueError(f"it has taken {step} of {self.plan.steps} steps")
        states = {seed: with_prefix(f"{seed}.", tensors) for seed in self.logs}
        logs = {seed: _log(state, step) for seed, state in states.items()}
        self.step, self.logs = step, logs
        active = [seed for seed, state in states.items() if with_prefix("model.", state)]
        if active:
            self._stack_up(active, states)
            if not all(self.stack.finite()):
                raise ValueError("its weights are not finite")
            self.stack.batches.seek(tensors["position"].tolist())


def _log(state: State, step: int) -> SeedLog:
    """Return the course of a seed after that many steps, if it can be that of one."""
    losses, validations = state["losses"], state["validations"]
    if losses.ndim != 1 or validations.ndim != 1:
        raise ValueError("its losses are not a list")
    diverged, trains = bool(state["diverged"]), any(name.startswith("model.") for name in state)
    if len(losses) > step or (trains and len(losses) < step):
        raise ValueError(f"it has {len(losses)} losses of {step} steps")
    if not diverged and not losses.isfinite().all():
        raise ValueError("its losses are not finite")
    best = with_prefix("best.", state)
    return SeedLog(losses.tolist(), validations.tolist(), best, diverged)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
