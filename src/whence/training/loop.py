"""The training loop: one seed, and nothing lost by an interruption."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from whence.data.splits import Split
from whence.devices import deterministic
from whence.errors import InputError, did_you_mean
from whence.files import new_file
from whence.models import Recommender, build_model
from whence.progress import progress_bar
from whence.randomness import Dropout, Randomness
from whence.training.batches import Batches
from whence.training.evaluation import evaluate
from whence.training.losses import sampled_bce
from whence.weights import save_weights

STEPS_BETWEEN_NEWS = 20
SECONDS_BETWEEN_CHECKPOINTS = 20.0
MOMENTS = ("step", "exp_avg", "exp_avg_sq")
"""What Adam remembers of every parameter."""


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
    """What a validation looks at."""
    patience: int = 0
    """Stop after so many validations without a better one, and keep the best; 0 is never."""

    def __post_init__(self) -> None:
        if self.steps < 0 or self.batch < 1:
            raise InputError("Training needs steps from 0 on and a batch from 1 on.")
        if not 0 < self.learning_rate < math.inf or not 0 <= self.second_moment < 1:
            raise InputError("The learning rate is above 0; second_moment is below 1.")
        if self.clip is not None and not self.clip > 0:
            raise InputError(f"Gradients are clipped at a norm above 0, not {self.clip}.")
        if min(self.warmup, self.validate_every, self.patience) < 0:
            raise InputError("warmup, validate_every and patience are whole numbers from 0 on.")
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


def fit(
    split: Split,
    model_name: str,
    model_settings: Mapping[str, Any],
    config: TrainingConfig,
    seed: int,
    device: str = "cpu",
    show_progress: bool = True,
    checkpoint: Path | None = None,
) -> tuple[Recommender, list[float]]:
    """A trained model and its loss at every step; same seed, same machine, same bits.

    With a `checkpoint`, a training that was stopped there goes on as if it had never been, and this
    one is kept there every 20 seconds, at an interruption and at its end.
    """
    training = Training(split, model_name, model_settings, config, seed, device)
    if checkpoint is not None and checkpoint.exists():
        training.load(checkpoint)
    bar = progress_bar(f"training {model_name}, seed {seed}", config.steps, show_progress)
    saved = time.monotonic()
    try:
        for _ in bar.track(range(config.steps), done=training.step):
            if training.has_stopped:
                break
            training.advance()
            if training.step % STEPS_BETWEEN_NEWS == 1 or training.validates_now:
                bar.say(training.news())
            if checkpoint and time.monotonic() - saved > SECONDS_BETWEEN_CHECKPOINTS:
                training.save(checkpoint)
                saved = time.monotonic()
    finally:
        if checkpoint is not None and training.between_steps:
            training.save(checkpoint)
    training.check()
    return training.result(), training.losses


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
        randomness = Randomness(seed)
        item_count = split.interactions.item_count
        self.seed, self.config, self.device = seed, config, device
        self.model = build_model(model_name, model_settings, item_count, randomness.torch("init"))
        self.model.to(device).train()
        self.batches = Batches(split, self.model.config.length, config.batch, randomness)
        self.drop = Dropout(self.model.config.dropout, randomness.torch("dropout", device))
        self.optimiser = torch.optim.Adam(
            self.model.parameters(),
            lr=config.learning_rate,
            betas=(0.9, config.second_moment),
            fused=True,
        )
        self.split = split
        self.losses: list[float] = []
        self.validations: list[float] = []
        self.best: dict[str, Tensor] = {}
        """The weights of the best validation, where training stops by them."""
        self.between_steps = True
        """False while something is half done, and must not be kept."""

    @property
    def step(self) -> int:
        """How many steps are done."""
        return len(self.losses)

    def advance(self) -> None:
        """One step."""
        self.between_steps = False
        for group in self.optimiser.param_groups:
            group["lr"] = self.config.learning_rate * self.config.pace(self.step)
        with deterministic(self.device):
            loss = sampled_bce(self.model, self.batches.draw().to(self.device), self.drop)
            self.optimiser.zero_grad(set_to_none=True)
            loss.backward()
            if self.config.clip is not None:
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip)
            self.optimiser.step()
        self.losses.append(loss.item())
        if self.validates_now:
            self._validate()
        self.between_steps = True

    @property
    def validates_now(self) -> bool:
        """Whether the step just done is followed by a validation."""
        every = self.config.validate_every
        return bool(every) and self.step % every == 0

    def _validate(self) -> None:
        found = evaluate(self.model.eval(), self.split, "validation", self.model.config.length)
        self.model.train()
        if self.config.measure not in found:
            raise InputError(
                f"Validation knows no measure '{self.config.measure}': "
                f"{did_you_mean(self.config.measure, found)}"
            )
        self.validations.append(found[self.config.measure].value)
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
        loss = f"loss {self.losses[-1]:.3f}"
        if not self.validations:
            return loss
        return f"{loss}, {self.config.measure} {self.validations[-1]:.3f}"

    def result(self) -> Recommender:
        """The model as it is or, where training stops by validations, as it was best."""
        if self.best:
            self.model.load_state_dict(self.best)
        return self.model.eval()

    def check(self) -> None:
        """Refuse weights that are no longer numbers."""
        if not all(parameter.isfinite().all() for parameter in self.model.parameters()):
            raise InputError(
                f"The weights of seed {self.seed} are no longer numbers; try a smaller learning "
                f"rate than {self.config.learning_rate}."
            )

    def save(self, path: Path) -> None:
        """Everything into one file, whole or not at all."""
        self.check()
        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        for number, moments in self.optimiser.state_dict()["state"].items():
            tensors |= {f"adam.{number}.{name}": moments[name] for name in MOMENTS}
        tensors |= {f"best.{name}": value for name, value in self.best.items()}
        tensors["dropout"] = self.drop.generator.get_state()
        tensors["losses"] = torch.tensor(self.losses, dtype=torch.float64)
        tensors["validations"] = torch.tensor(self.validations, dtype=torch.float64)
        chance = json.dumps(self.batches.state())
        with new_file(path) as partial:
            save_weights(partial, tensors, {"batches": chance})

    def load(self, path: Path) -> None:
        """Go on where `save` was called."""
        try:
            with safe_open(path, framework="pt", device=self.device) as file:
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                chance = json.loads(file.metadata()["batches"])
            self.model.load_state_dict(_under("model.", tensors))
            self._load_moments(_under("adam.", tensors))
            self.drop.generator.set_state(tensors["dropout"].cpu())
            self.batches.restore(chance)
            self.best = _under("best.", tensors)
            self.losses = tensors["losses"].tolist()
            self.validations = tensors["validations"].tolist()
        except (OSError, SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as problem:
            raise InputError(
                f"{path} does not hold this training ({problem}); remove it to begin anew."
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
