"""Training on sessions that are streamed from their files; an interruption loses nothing."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice, zip_longest
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from whence.devices import check_device, deterministic
from whence.errors import InputError, OutOfTime
from whence.experts import SequentialModel, diagram_of
from whence.files import make_parent, new_file, save_weights
from whence.memory import reuse_freed_memory
from whence.progress import progress_bar
from whence.randomness import Randomness
from whence.training.checkpoints import NowAndThen, go_on
from whence.training.loop import STEPS_BETWEEN_NEWS, DivergedError
from whence_studies.sessions.halves import Halves
from whence_studies.sessions.logs import SLOTS, Rows
from whence_studies.sessions.session_batches import batches
from whence_studies.sessions.session_files import Parts
from whence_studies.sessions.tracks import Tracks
from whence_studies.skips.networks import (
    NetworkConfig,
    make_network,
    named_weights,
    restore_weights,
)
from whence_studies.skips.skip_config import SkipConfig
from whence_studies.skips.skip_evaluation import question_of

MOMENTS: Final = ("step", "exp_avg", "exp_avg_sq")
"""What Adam keeps of every weight."""

Weigh = Callable[[Halves], Rows]
"""How much each asked track counts in training, `[B, slots]`."""


class FittedSkips(NamedTuple):
    """A trained network, and how it came about."""

    model: SequentialModel
    losses: list[float]
    """One a step."""
    validations: list[float]
    """Losses of the validation sessions, one every so many steps."""


def fit_skips(
    parts: Parts,
    tracks: Tracks,
    network: NetworkConfig,
    config: SkipConfig,
    seed: int,
    *,
    device: str = "cpu",
    show_progress: bool = True,
    checkpoint: Path | None = None,
    until: float | None = None,
    weigh: Weigh | None = None,
    slots: int = SLOTS,
) -> FittedSkips:
    """Train one seed; same seed, same machine, same bits.

    With a `checkpoint`, a training that was stopped there goes on as if it had never been. `until`
    is the moment of `time.monotonic()` to stop at. With `weigh` some tracks count for less.
    Sessions of more than 2 × `SLOTS` tracks need more `slots` for each half.
    """
    training = SkipTraining(
        parts, tracks, network, config, seed, check_device(device), weigh, slots
    )
    if checkpoint is not None and checkpoint.exists():
        training.load(checkpoint)
    elif checkpoint is not None:
        make_parent(checkpoint)
    bar = progress_bar(f"training {network.kind}, seed {seed}", config.steps, show_progress)
    keep = NowAndThen(lambda: training.save(checkpoint)) if checkpoint is not None else None
    try:
        for _ in bar.track(range(config.steps), done=training.step):
            if until is not None and time.monotonic() >= until:
                raise OutOfTime(f"Time is over after {training.step} of {config.steps} steps.")
            training.advance()
            if training.step % STEPS_BETWEEN_NEWS == 1:
                bar.say(training.news())
            if keep is not None:
                keep()
    finally:
        if checkpoint is not None and training.can_be_kept:
            training.save(checkpoint)
    return training.result()


class SkipTraining:
    """A seed on its way: all that decides what comes next."""

    def __init__(
        self,
        parts: Parts,
        tracks: Tracks,
        network: NetworkConfig,
        config: SkipConfig,
        seed: int,
        device: str,
        weigh: Weigh | None = None,
        slots: int = SLOTS,
    ) -> None:
        reuse_freed_memory()
        self.parts, self.tracks, self.config = parts, tracks, config
        self.seed, self.device, self.weigh, self.slots = seed, device, weigh, slots
        self.model = make_network(network, seed).to(device)
        family = self.model.family
        self.levels = (
            diagram_of(family).levels if config.levels_in_turn else (tuple(range(len(family))),)
        )
        """Experts that learn at once."""
        if config.steps < len(self.levels):
            raise InputError(
                f"Where {len(self.levels)} levels learn in turn, {config.steps} steps are too few."
            )
        self.optimizer = self._new_optimizer()
        self.losses: list[float] = []
        self.new_losses: list[Tensor] = []
        """Those of the last steps, which are still on the device."""
        self.validations: list[float] = []
        self.epoch = self.place = 0
        """How often all sessions have been seen, and the batches seen since."""
        self.can_be_kept = True
        """False while something is half done, and when it has gone wrong."""
        self.stream = self._stream()

    @property
    def order(self) -> dict[str, int]:
        """What decides where a training goes on: which tracks stand in a batch, and whose turn."""
        turn = self.steps_of_a_level if self.config.levels_in_turn else 0
        return {
            "seed": self.seed,
            "batch": self.config.batch_size,
            "slots": self.slots,
            "steps a level": turn,
        }

    @property
    def step(self) -> int:
        """How many steps are done."""
        return len(self.losses) + len(self.new_losses)

    @property
    def level(self) -> int:
        """Whose turn it is; what is left of the steps is the last level's."""
        return min(self.step // self.steps_of_a_level, len(self.levels) - 1)

    @property
    def steps_of_a_level(self) -> int:
        """Before it is the next one's turn."""
        return self.config.steps // len(self.levels)

    def _teach(self) -> None:
        """Let those learn whose turn it is."""
        if self.config.levels_in_turn:
            self.model.train_only(self.levels[self.level])

    def _new_optimizer(self) -> torch.optim.Adam:
        return torch.optim.Adam(self.model.parameters(), lr=self.config.learning_rate, fused=True)

    def _stream(self) -> Iterator[Halves]:
        """The batches of this epoch that have not been seen."""
        stream = Randomness(self.seed).sequence("batches")
        epoch = np.random.SeedSequence(self.seed, spawn_key=(*stream.spawn_key, self.epoch))
        order = int(epoch.generate_state(1)[0])
        every = batches(self.parts.train, self.tracks, self.config.batch_size, order, self.slots)
        return islice(every, self.place, None)

    def _next(self) -> Halves:
        found = next(self.stream, None)
        if found is None:
            self.epoch, self.place = self.epoch + 1, 0
            self.stream = self._stream()
            found = next(self.stream, None)
        if found is None:
            raise InputError("There are no sessions to learn from.")
        self.place += 1
        return found

    @contextmanager
    def _in_one_go(self) -> Iterator[None]:
        """What an interruption must not keep the half of."""
        could = self.can_be_kept
        self.can_be_kept = False
        yield
        self.can_be_kept = could

    def advance(self) -> None:
        """One step, and a validation where it is time."""
        with self._in_one_go():
            halves = self._next()
            weights = None if self.weigh is None else torch.from_numpy(self.weigh(halves))
            loss = self._learn(halves, weights)
            self.new_losses.append(loss)
            if len(self.new_losses) >= STEPS_BETWEEN_NEWS:
                self.read_losses()
            every = self.config.validate_every
            if every and self.step % every == 0:
                self._validate()

    def _learn(self, halves: Halves, weights: Tensor | None) -> Tensor:
        weights = None if weights is None else weights.to(self.device)
        begun = self.level * self.steps_of_a_level
        if self.step == begun:  # the optimiser would go on with the level before
            self._teach()
            self.optimizer = self._new_optimizer()
        every = self.config.validate_every
        validations = self.validations[begun // every if every else 0 :]
        self.optimizer.param_groups[0]["lr"] = self.config.rate(self.step - begun, validations)
        with deterministic(self.device):
            loss = self.model.loss(*question_of(halves, self.device), weights)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loss.detach()

    @torch.no_grad()
    def _validate(self) -> None:
        """The mean loss over the first validation sessions, which the learning rate follows."""
        total, count = 0.0, 0
        batch = self.config.batch_size
        some = -(-self.config.validation_sessions // batch)
        every = batches(self.parts.validation, self.tracks, batch, slots=self.slots)
        with deterministic(self.device):
            for halves in islice(every, some):
                loss = self.model.loss(*question_of(halves, self.device))
                total, count = total + float(loss) * len(halves), count + len(halves)
        self.validations.append(total / count)

    def read_losses(self) -> None:
        """Fetch the newest from the device, and stop where they are no numbers any more."""
        new = torch.stack(self.new_losses).tolist() if self.new_losses else []
        if not all(map(math.isfinite, new)):
            self.can_be_kept = False
            raise DivergedError(
                f"Training seed {self.seed} has gone beyond all numbers by step {self.step}; try "
                f"a smaller learning rate than {self.config.learning_rate}."
            )
        self.losses, self.new_losses = self.losses + new, []

    def news(self) -> str:
        """For the progress bar."""
        self.read_losses()
        loss = f"loss {self.losses[-1]:.3f}"
        return f"{loss}, validation {self.validations[-1]:.3f}" if self.validations else loss

    def result(self) -> FittedSkips:
        """The network as it is."""
        self.read_losses()
        self.model.trainable = None
        return FittedSkips(self.model.eval(), self.losses, self.validations)

    def save(self, path: Path) -> None:
        """Everything into one file, whole or not at all."""
        self.read_losses()
        tensors = named_weights(self.model)
        for number, state in self.optimizer.state_dict()["state"].items():
            tensors |= {f"adam.{number}.{name}": state[name] for name in MOMENTS}
        tensors["losses"] = torch.tensor(self.losses, dtype=torch.float64)
        tensors["validations"] = torch.tensor(self.validations, dtype=torch.float64)
        tensors["at"] = torch.tensor([self.epoch, self.place])
        tensors["order"] = torch.tensor([*self.order.values()])
        with new_file(path) as partial:
            save_weights(partial, tensors)

    def load(self, path: Path) -> None:
        """Go on where `save` was called."""
        go_on(path, self.device, self._restore)

    def _restore(self, tensors: dict[str, Tensor]) -> None:
        # Former versions had no levels that learn in turn.
        begun = dict(zip_longest(self.order, tensors["order"].tolist(), fillvalue=0))
        for name, now in self.order.items():
            if begun[name] != now:
                raise ValueError(f"it was begun with {name} {begun[name]}, now it is {now}")
        restore_weights(self.model, tensors)
        self.losses = tensors["losses"].tolist()
        self.validations = tensors["validations"].tolist()
        adam = self.optimizer.state_dict()
        if self.losses:
            adam["state"] = {
                number: {name: tensors[f"adam.{number}.{name}"] for name in MOMENTS}
                for number in adam["param_groups"][0]["params"]
            }
        self.optimizer.load_state_dict(adam)
        self._teach()
        self.epoch, self.place = tensors["at"].tolist()
        self.stream = self._stream()
