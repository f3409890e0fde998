"""Several seeds in step: one computation for all of them, and each as if it were alone.

The weights of all seeds stand side by side, `[S, …]` for a parameter of shape `…`, and `torch.vmap`
turns a model written for one seed into one for all. Each seed has its own initial weights, batches,
negatives and dropout. A stack of one is the model itself, with nothing around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.optim.swa_utils import update_bn

from whence.data.splits import Split
from whence.devices import deterministic
from whence.models import Recommender, build_model
from whence.models.tasks import AnyBatch
from whence.randomness import CounterRandom, Dropout, DropoutFunction, Randomness, no_dropout
from whence.run import Run
from whence.training.averaging import Averaging, in_one_row
from whence.training.config import TrainingConfig
from whence.training.drawing import batches_for
from whence.training.layers import ForManySeeds
from whence.training.optimisers import optimiser_for
from whence.training.recording import Recorded

State = dict[str, Tensor]
"""All of one seed that decides what comes next."""


class Stack:
    """The seeds' models, what they learn from, and the step that they take together."""

    def __init__(
        self,
        split: Split,
        model_name: str,
        model_settings: Mapping[str, Any],
        config: TrainingConfig,
        seeds: Sequence[int],
        device: str,
    ) -> None:
        chance = [Randomness(seed) for seed in seeds]
        self.seeds, self.config, self.device = list(seeds), config, device
        self.models = [
            build_model(
                model_name, model_settings, split.interactions.counts, one.torch("init")
            ).to(device)
            for one in chance
        ]
        for model in self.models:
            model.fit_features(split)
            model.train()
        self.loss = _Loss(self.models[0])
        self.weights = self._side_by_side(dict(self.models[0].named_parameters()))
        self.buffers = self._side_by_side(dict(self.models[0].named_buffers()))
        self._share_out()
        self.on_gpu = device != "cpu"
        first = self.models[0].config
        self.batches = batches_for(self.models[0], split, config, chance, device, self.on_gpu)
        self.steps = 0
        """How many are done."""
        keys = CounterRandom([one.key("dropout") for one in chance], device)
        self.drop = Dropout(first.dropout, keys, self.models[0].drops)
        self.clock = torch.zeros((), dtype=torch.int64, device=device)
        """The number of the step, where chance can read it."""
        self.optimiser = optimiser_for(config, self.weights.values(), device)
        self.averaging: Averaging | None = None
        if config.averaging != "none":
            weights = list(self.weights.values())
            # A GPU takes all tensors in one go anyway, and one row has numbers of one kind.
            alike = len({weight.dtype for weight in weights}) == 1
            row = in_one_row(weights) if alike and not self.on_gpu else None
            self._share_out()
            self.averaging = Averaging(
                weights,
                config.averaging,
                config.steps_of_an_epoch,
                config.first_average,
                len(seeds),
                row,
            )
        self.pace = 1.0
        """The share of the learning rate that the optimiser knows of."""
        self.recorded = Recorded(device) if self.on_gpu else None

    def __len__(self) -> int:
        return len(self.seeds)

    def _side_by_side(self, first: dict[str, Tensor]) -> dict[str, Tensor]:
        """What every model has, in one tensor of which each model holds its own part."""
        if len(self) == 1:
            return first
        together = {
            name: torch.stack([attrgetter(name)(model).data for model in self.models])
            for name in first
        }
        for name, stacked in together.items():
            stacked.requires_grad_(first[name].requires_grad)
        return together

    def _share_out(self) -> None:
        """Let every model hold its part of what is stacked."""
        if len(self) > 1:
            for name, stacked in {**self.weights, **self.buffers}.items():
                for part, model in zip(stacked.data, self.models, strict=True):
                    attrgetter(name)(model).data = part

    def init_from(self, runs: Sequence[Run]) -> None:
        """Begin with the weights of these runs' models: of the same seed, where they have it."""
        for seed, model in zip(self.seeds, self.models, strict=True):
            model.init_from({run.model: run.models.get(seed, run.first) for run in runs})

    def part(self, values: Tensor, number: int) -> Tensor:
        """What of a stacked tensor belongs to one seed."""
        return values if len(self) == 1 else values[number]

    def advance(self, pace: float) -> Tensor:
        """One step at that share of the learning rate; `[S]`, the losses before it."""
        if pace != self.pace:
            self.pace = pace
            for group in self.optimiser.param_groups:
                group["lr"].fill_(self.config.learning_rate * pace)
        with deterministic(self.device):
            size = self.batches.begin(self.steps)
            if self.averaging is not None and not self.averaging.asks_no_number:
                self.averaging.before_step()
            losses = self.step() if self.recorded is None else self.recorded(self.step, size)
            if self.averaging is not None:
                self.averaging.after_step()
        self.steps += 1
        return losses

    def step(self) -> Tensor:
        """Draw batches, go down their gradients, and return their losses."""
        if self.averaging is not None and self.averaging.asks_no_number:
            with self._beside("average"):  # which reads the weights, until they change
                self.averaging.before_step()
        half = self.config.precision == "bfloat16"
        with torch.autocast(
            torch.device(self.device).type, torch.bfloat16, enabled=half, cache_enabled=False
        ):
            losses = self.losses()
        self.optimiser.zero_grad(set_to_none=True)
        losses.sum().backward()
        if self.config.clip is not None:
            self._clip(self.config.clip)
        self._join("average")
        self.optimiser.step()
        self.clock += 1
        return losses.detach()

    def _beside(self, lane: str) -> AbstractContextManager[None]:
        """On a GPU, work at the same time as what follows."""
        return nullcontext() if self.recorded is None else self.recorded.beside(lane)

    def _join(self, lane: str) -> None:
        if self.recorded is not None:
            self.recorded.join(lane)

    def losses(self) -> Tensor:
        """`[S]`: each seed's loss on its next batch."""
        batch = self._draw()
        if len(self) == 1:
            return self.models[0].loss(batch.of(0), self.drop)[None]
        with ForManySeeds() if self.on_gpu else nullcontext():
            of_each = vmap(self._loss_of_one, in_dims=(0, _first_of(batch)))
            return of_each({**self.weights, **self.buffers}, batch)

    def _draw(self) -> AnyBatch:
        """All chance of a step; on a GPU, what to drop is drawn beside the batch."""
        with self._beside("dropout"):
            # Batches of one size have dropouts of one shape, known from the step before.
            self.drop.begin(self.clock, self.drop.shape if self.recorded else None)
        batch = self.batches.draw(self.clock)
        self._join("dropout")
        return batch

    def _loss_of_one(self, weights: Mapping[str, Tensor], batch: AnyBatch) -> Tensor:
        named = {f"model.{name}": values for name, values in weights.items()}
        loss: Tensor = functional_call(self.loss, named, (batch, self.drop))
        return loss

    def _clip(self, limit: float) -> None:
        """No seed's gradient is longer than the limit."""
        gradients = [weight.grad for weight in self.weights.values()]
        each = [one.view(len(self), -1) for one in gradients if one is not None]
        norms = torch.stack([torch.linalg.vector_norm(one, dim=1) for one in each])
        scale = (limit / (torch.linalg.vector_norm(norms, dim=0) + 1e-6)).clamp_(max=1)
        for one in each:
            one.mul_(scale[:, None])

    def finite(self) -> list[bool]:
        """Whether all weights of each seed are numbers."""
        each = [weight.detach().view(len(self), -1) for weight in self.weights.values()]
        return torch.stack([one.isfinite().all(dim=1) for one in each]).all(dim=0).tolist()

    def state(self, number: int) -> State:
        """Of one seed; parts of the stack, not copies."""
        kept = {f"model.{name}": value for name, value in self.models[number].state_dict().items()}
        for name, weight in self.weights.items():
            for moment, value in self.optimiser.state[weight].items():
                own = value if moment == "step" else self.part(value, number)
                kept[f"optimiser.{name}.{moment}"] = own
        if self.averaging is not None:
            average = self.averaging.state(number)
            kept |= {f"average.{name}": value for name, value in average.items()}
        return kept

    def outcome(self, number: int) -> State:
        """The weights that training would end with now: the average, where there is one."""
        found = self.models[number].state_dict()
        if self.averaging is not None and self.averaging.has_begun:
            average = zip(self.weights, self.averaging.average, strict=True)
            found |= {name: self.part(values, number) for name, values in average}
        return found

    def restore(self, step: int, states: Sequence[State]) -> None:
        """Go on where the seeds were, each as `state` told it."""
        self.steps = step
        self.clock.fill_(step)
        for model, state in zip(self.models, states, strict=True):
            model.load_state_dict(under("model.", state))
        if self.averaging is not None:
            self.averaging.restore(step, [under("average.", state) for state in states])
        for name, weight in self.weights.items():
            moments = [under(f"optimiser.{name}.", state) for state in states]
            if moments[0]:
                self.optimiser.state[weight] = self._moments(moments)

    def _moments(self, each: Sequence[State]) -> dict[str, Tensor]:
        """What the optimiser remembers of a parameter; the number of steps is that of all."""
        first = each[0]
        if len(self) == 1:
            return {moment: values.clone() for moment, values in first.items()}
        return {
            moment: values.clone()
            if moment == "step"
            else torch.stack([one[moment] for one in each])
            for moment, values in first.items()
        }


BATCHES_FOR_NORMS = 100


def refresh_norms(
    model: Recommender, split: Split, config: TrainingConfig, seed: int, device: str
) -> None:
    """Take batch normalisation's statistics anew, for averaged weights, as training draws."""
    batches = batches_for(model, split, config, [Randomness(seed)], device)

    def drawn() -> Iterator[list[AnyBatch]]:
        for step in range(BATCHES_FOR_NORMS):
            batches.begin(step)
            yield [batches.draw(torch.tensor(step, device=device)).of(0)]

    with deterministic(device):
        update_bn(drawn(), _Loss(model))


class _Loss(nn.Module):
    """A model's loss as a module, whose weights can be lent to it."""

    def __init__(self, model: Recommender) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: AnyBatch, drop: DropoutFunction = no_dropout) -> Tensor:
        """Of one seed on its batch."""
        return self.model.loss(batch, drop)


def _first_of(values: Any) -> Any:  # noqa: ANN401
    """That the first dimension of all tensors counts the seeds, as `vmap` wants to be told it."""
    if isinstance(values, tuple):
        return type(values)(*map(_first_of, values))
    return None if values is None else 0


def under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Those whose name begins so, without it."""
    return {
        name.removeprefix(prefix): value
        for name, value in tensors.items()
        if name.startswith(prefix)
    }
