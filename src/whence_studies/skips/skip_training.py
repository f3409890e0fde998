"""Train networks on sessions that are streamed from their files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from whence.arrays import Floats32
from whence.devices import check_device
from whence.engine import BatchStream, Plan, Trainable, TrainedModel, Training
from whence.errors import InputError
from whence.experts import SequentialModel, diagram_of
from whence.files import make_parent
from whence.memory import reuse_freed_memory
from whence.randomness import DropoutFunction, Randomness
from whence_studies.sessions.logs import SLOTS
from whence_studies.sessions.session_batches import SessionBatch, batches
from whence_studies.sessions.session_files import SessionSplit
from whence_studies.sessions.tracks import Tracks
from whence_studies.skips.networks import NetworkConfig, make_network
from whence_studies.skips.skip_config import SkipConfig
from whence_studies.skips.skip_evaluation import session_tensors

TrackWeights = Callable[[SessionBatch], Floats32]
"""How much each track in question counts in training, `[B, slots]`."""
TrainedSkips = TrainedModel[SequentialModel]


def fit_skips(
    parts: SessionSplit,
    tracks: Tracks,
    network: NetworkConfig,
    config: SkipConfig,
    seed: int,
    *,
    device: str = "cpu",
    show_progress: bool = True,
    checkpoint: Path | None = None,
    until: float | None = None,
    weigh: TrackWeights | None = None,
    slots: int = SLOTS,
) -> TrainedSkips:
    """Train one seed. The same seed on the same machine gives the same bits.

    If the file `checkpoint` exists, the training resumes from it. At the time `until`, by
    `time.monotonic()`, it stops with `OutOfTime`. `weigh` lets some tracks count less. Sessions of
    more than 2 × `SLOTS` tracks need more `slots` for each half.
    """
    training = new_skip_training(parts, tracks, network, config, seed, device, weigh, slots)
    if checkpoint is not None:
        make_parent(checkpoint)
    trained = training.run(show_progress=show_progress, checkpoint=checkpoint, until=until)[seed]
    trained.model.trainable = None
    return trained


def new_skip_training(
    parts: SessionSplit,
    tracks: Tracks,
    network: NetworkConfig,
    config: SkipConfig,
    seed: int,
    device: str = "cpu",
    weigh: TrackWeights | None = None,
    slots: int = SLOTS,
) -> Training[SequentialModel]:
    """Return a training before its first step."""
    reuse_freed_memory()
    model = make_network(network, seed).to(check_device(device))
    task = TrainableSessions(parts, tracks, model, config, seed, device, weigh, slots)
    task.name = network.kind
    return Training(task, [seed])


class TrainableSessions(Trainable[SequentialModel]):
    """A network on sessions; its levels of experts can train in turn, each as a phase."""

    def __init__(
        self,
        parts: SessionSplit,
        tracks: Tracks,
        model: SequentialModel,
        config: SkipConfig,
        seed: int,
        device: str,
        weigh: TrackWeights | None,
        slots: int,
    ) -> None:
        self.parts, self.tracks, self.model, self.config = parts, tracks, model, config
        self.seed, self.device, self.weigh, self.slots = seed, device, weigh, slots
        self.plan = Plan(config.steps, validate_every=config.validate_every)
        everyone = (tuple(range(len(model.family))),)
        self.levels = diagram_of(model.family).levels if config.levels_in_turn else everyone
        """Experts that train at the same time."""
        if config.steps < len(self.levels):
            raise InputError(
                f"{len(self.levels)} levels in turn need at least {len(self.levels)} steps, not "
                f"{config.steps}."
            )

    @property
    def steps_per_level(self) -> int:
        """The steps of every level but the last, which has the rest too."""
        return self.config.steps // len(self.levels)

    def build(self, seed: int) -> SequentialModel:
        """Return the network itself, which is trained in place."""
        return self.model

    def restore(self, seed: int, weights: Mapping[str, Tensor]) -> SequentialModel:
        """Return the network itself, which has these weights."""
        return self.model

    def batches(
        self, model: SequentialModel, seeds: Sequence[int], *, recorded: bool
    ) -> BatchStream[SessionBatch]:
        """Read the training sessions, in another order every epoch."""
        return BatchStream(self._epoch, nothing="There are no sessions to learn from.")

    def _epoch(self, epoch: int) -> Iterator[SessionBatch]:
        stream = Randomness(self.seed).sequence("batches")
        child = np.random.SeedSequence(self.seed, spawn_key=(*stream.spawn_key, epoch))
        order = int(child.generate_state(1)[0])
        return batches(self.parts.train, self.tracks, self.config.batch_size, order, self.slots)

    def loss(self, model: SequentialModel, batch: SessionBatch, dropout: DropoutFunction) -> Tensor:
        """Return the network's own loss."""
        weights = None
        if self.weigh is not None:
            weights = torch.from_numpy(self.weigh(batch)).to(self.device)
        return model.loss(*session_tensors(batch, self.device), weights)

    def learning_rate(self, step: int, validations: Sequence[float]) -> float:
        """Follow the warmup and the validations of the level that trains."""
        started = self.phase(step) * self.steps_per_level
        every = self.config.validate_every
        own = validations[started // every if every else 0 :]
        return self.config.rate(step - started, own)

    @torch.no_grad()
    def validate(self, model: SequentialModel) -> float:
        """Return the mean loss over the first validation sessions."""
        total, count = 0.0, 0
        size = self.config.batch_size
        every = batches(self.parts.validation, self.tracks, size, slots=self.slots)
        for halves in islice(every, -(-self.config.validation_sessions // size)):
            loss = model.loss(*session_tensors(halves, self.device))
            total, count = total + float(loss) * len(halves), count + len(halves)
        return total / count

    def phase(self, step: int) -> int:
        """Return the level that trains."""
        return min(step // self.steps_per_level, len(self.levels) - 1)

    def start_phase(self, model: SequentialModel, phase: int) -> None:
        """Train this level alone."""
        if self.config.levels_in_turn:
            model.train_only(self.levels[phase])

    def identity(self) -> Mapping[str, int]:
        """Return what decides which tracks are in a batch, and which level trains."""
        return {
            "seed": self.seed,
            "batch_size": self.config.batch_size,
            "slots": self.slots,
            "steps per level": self.steps_per_level if self.config.levels_in_turn else 0,
        }
