"""The training loop: one seed, and nothing lost by an interruption."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from whence.data.splits import Split
from whence.devices import deterministic
from whence.errors import InputError, OutOfTime
from whence.files import new_file, reason
from whence.models import Recommender, build_model
from whence.progress import progress_bar
from whence.randomness import Dropout, Randomness
from whence.training.batches import Batches
from whence.training.evaluation import Evaluation, check_measure
from whence.training.losses import sampled_bce
from whence.training.recording import Recorded
from whence.weights import save_weights

STEPS_BETWEEN_NEWS = 20
SECONDS_BETWEEN_CHECKPOINTS = 1.0
WORK_FOR_A_CHECKPOINT = 20
"""Time spent on training for every second that checkpoints take, where they take long."""
MOMENTS = ("step", "exp_avg", "exp_avg_sq")
"""What Adam remembers of every parameter."""

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
    snapshots: Path | None = None,
    until: float | None = None,
) -> Fitted:
    """Train one seed; same seed, same machine, same bits.

    With a `checkpoint`, a training that was stopped there goes on as if it had never been, and this
    one is kept there every second or, where that would take more than a twentieth of the time, less
    often, and at its end. Snapshots are files in the folder of that name, by their step. At
    `until`, by `time.monotonic()`, it stops with `OutOfTime`.
    """
    training = Training(split, model_name, model_settings, config, seed, device)
    if checkpoint is not None and checkpoint.exists():
        training.load(checkpoint)
    kept_at = config.snapshot_steps() if snapshots is not None else set()
    if snapshots is not None and training.step in kept_at:
        training.save_snapshot(snapshots)
    bar = progress_bar(f"training {model_name}, seed {seed}", config.steps, show_progress)
    due = time.monotonic() + SECONDS_BETWEEN_CHECKPOINTS
    try:
        for _ in bar.track(range(config.steps), done=training.step):
            if training.has_stopped:
                break
            if until is not None and time.monotonic() >= until:
                raise OutOfTime(f"Time is over after {training.step} of {config.steps} steps.")
            training.advance()
            if snapshots is not None and training.step in kept_at:
                training.save_snapshot(snapshots)
            if training.step % STEPS_BETWEEN_NEWS == 1 or training.validates_now:
                bar.say(training.news())
            if checkpoint is not None and time.monotonic() >= due:
                begun = time.monotonic()
                training.save(checkpoint)
                taken = time.monotonic() - begun
                due = begun + max(SECONDS_BETWEEN_CHECKPOINTS, WORK_FOR_A_CHECKPOINT * taken)
    finally:
        if checkpoint is not None and training.can_be_kept:
            training.save(checkpoint)
    training.check()
    return training.result()


class Training:
    """One seed on its way: all that decides what comes next."""

    def __init__(
        self,
        split: Split,
        model_name: str,
        model_settings: Mapping[str, Any],
        config: TrainingConfig,
        seed: int,
        device: str,
    ) -> None:
        check_precision(config, device)
        if config.validate_every and not len(split.held["validation"]):
            raise InputError("No validation events are held out; leave validate_every out.")
        randomness = Randomness(seed)
        item_count = split.interactions.item_count
        self.seed, self.config, self.device = seed, config, device
        self.model = build_model(model_name, model_settings, item_count, randomness.torch("init"))
        self.model.to(device).train()
        recorded = device != "cpu"
        self.batches = Batches(
            split, self.model.config.length, config.batch, randomness, device, one_size=recorded
        )
        self.drop = Dropout(self.model.config.dropout, randomness.torch("dropout", device))
        self.optimiser = torch.optim.Adam(
            self.model.parameters(),
            lr=torch.tensor(config.learning_rate, device=device),
            betas=(0.9, config.second_moment),
            fused=True,
            capturable=recorded,
        )
        generators = [*self.batches.generators.values(), self.drop.generator]
        self.recorded = Recorded(device, generators) if recorded else None
        self.split = split
        self.known_losses: list[float] = []
        self.new_losses = torch.zeros(STEPS_BETWEEN_NEWS, device=device)
        """Those of the last steps, which are still on the device."""
        self.new_count = 0
        self.validations: list[float] = []
        self.best: dict[str, Tensor] = {}
        """The weights of the best validation, where training stops by them."""
        self.can_be_kept = True
        """False while something is half done, and when it has gone wrong."""

    @property
    def step(self) -> int:
        """How many steps are done."""
        return len(self.known_losses) + self.new_count

    def advance(self) -> None:
        """One step."""
        self.can_be_kept = False
        if self.config.warmup or self.config.decay != "none":
            for group in self.optimiser.param_groups:
                group["lr"].fill_(self.config.learning_rate * self.config.pace(self.step))
        with deterministic(self.device):
            loss = self._step() if self.recorded is None else self.recorded(self._step)
            self.new_losses[self.new_count] = loss
        self.new_count += 1
        if self.new_count == len(self.new_losses):
            self.losses()
        if self.validates_now:
            self._validate()
        self.can_be_kept = True

    def _step(self) -> Tensor:
        """Draw a batch, go down its gradient, and return its loss."""
        half = self.config.precision == "bfloat16"
        with torch.autocast(
            torch.device(self.device).type, torch.bfloat16, enabled=half, cache_enabled=False
        ):
            loss = sampled_bce(self.model, self.batches.draw(), self.drop)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        if self.config.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip)
        self.optimiser.step()
        return loss.detach()

    def losses(self) -> list[float]:
        """The loss of every step, as long as it is a number."""
        new = self.new_losses[: self.new_count].tolist()
        self.new_count = 0
        for loss in new:
            self.known_losses.append(loss)
            if not math.isfinite(loss):
                self.can_be_kept = False
                raise InputError(
                    f"The loss of seed {self.seed} is no number after "
                    f"{len(self.known_losses)} steps; {self._advice}"
                )
        return self.known_losses

    @property
    def validates_now(self) -> bool:
        """Whether the step just done is followed by a validation."""
        every = self.config.validate_every
        return bool(every) and self.step % every == 0

    def _validate(self) -> None:
        validation = Evaluation(self.split, "validation", self.model.config.length)
        self.model.eval()
        with deterministic(self.device):
            found = validation.mean(self.config.measure, self.model)
        self.model.train()
        self.validations.append(found)
        if self.config.patience and self.validations[-1] > max(self.validations[:-1], default=-1):
            self.best = {name: value.clone() for name, value in self.model.state_dict().items()}

    @property
    def has_stopped(self) -> bool:
        """Whether too many validations have passed since the best one."""
        if not self.config.patience or not self.validations:
            return False
        best = self.validations.index(max(self.validations))
        return len(self.validations) - 1 - best >= self.config.patience

    def news(self) -> str:
        """For the progress bar."""
        loss = f"loss {self.losses()[-1]:.3f}"
        if not self.validations:
            return loss
        return f"{loss}, {self.config.measure} {self.validations[-1]:.3f}"

    def result(self) -> Fitted:
        """The model as it is or, where training stops by validations, as it was best."""
        every = self.config.validate_every
        validations = {every * (n + 1): one for n, one in enumerate(self.validations)}
        kept = self.step
        if self.best:
            self.model.load_state_dict(self.best)
            kept = max(validations, key=lambda step: validations[step])
        self.model.zero_grad(set_to_none=True)
        return Fitted(self.model.eval(), self.losses(), validations, kept)

    @property
    def _advice(self) -> str:
        return f"try a smaller learning rate than {self.config.learning_rate}."

    def check(self) -> None:
        """Refuse weights that are no longer numbers."""
        if not all(parameter.isfinite().all() for parameter in self.model.parameters()):
            raise InputError(
                f"The weights of seed {self.seed} are no longer numbers; {self._advice}"
            )

    def save(self, path: Path) -> None:
        """Everything into one file, whole or not at all."""
        self.check()
        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        for number, moments in self.optimiser.state_dict()["state"].items():
            tensors |= {f"adam.{number}.{name}": moments[name] for name in MOMENTS}
        tensors |= {f"best.{name}": value for name, value in self.best.items()}
        tensors["dropout"] = self.drop.generator.get_state()
        tensors |= {f"batches.{stream}": state for stream, state in self.batches.state().items()}
        tensors["losses"] = torch.tensor(self.losses(), dtype=torch.float64)
        tensors["validations"] = torch.tensor(self.validations, dtype=torch.float64)
        with new_file(path) as partial:
            save_weights(partial, tensors)

    def save_snapshot(self, folder: Path) -> None:
        """The weights alone, under the number of steps they have seen."""
        with new_file(folder / f"{self.step}.safetensors") as partial:
            save_weights(partial, self.model.state_dict())

    def load(self, path: Path) -> None:
        """Go on where `save` was called."""
        try:
            with safe_open(path, framework="pt", device=self.device) as file:
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            self.model.load_state_dict(_under("model.", tensors))
            self._load_moments(_under("adam.", tensors))
            self.drop.generator.set_state(tensors["dropout"].cpu())
            self.batches.restore(_under("batches.", tensors))
            self.best = _under("best.", tensors)
            self.known_losses = tensors["losses"].tolist()
            self.validations = tensors["validations"].tolist()
        except OSError as problem:
            raise InputError(f"{path} cannot be read: {reason(problem)}.") from None
        except torch.OutOfMemoryError:
            raise
        except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as problem:
            why = str(problem).partition("\n")[0]
            raise InputError(
                f"{path} does not hold this training ({why}); remove it to begin anew."
            ) from None

    def _load_moments(self, tensors: Mapping[str, Tensor]) -> None:
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in tensors.items():
            number, _, moment = name.partition(".")
            state.setdefault(int(number), {})[moment] = value
        groups = self.optimiser.state_dict()["param_groups"]
        self.optimiser.load_state_dict({"state": state, "param_groups": groups})


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Those whose name begins so, without it."""
    return {
        name.removeprefix(prefix): value
        for name, value in tensors.items()
        if name.startswith(prefix)
    }
