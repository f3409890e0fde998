"""Several seeds trained as one computation, each as if it were alone.

The weights of all seeds are stacked, `[S, …]` for a parameter of shape `…`, and `torch.vmap` turns
a model written for one seed into one for all. Each seed has its own initial weights, batches and
dropout. A stack of one seed is the model itself, with nothing around it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from operator import attrgetter
from typing import Any, Generic

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from whence.devices import deterministic
from whence.engine.averaging import Averaging, in_one_row
from whence.engine.gpu import RecordedStep, StackedLayers
from whence.engine.trainable import ModelT, Trainable
from whence.randomness import CounterRandom, Dropout, DropoutFunction, Randomness, no_dropout

State = dict[str, Tensor]
"""Everything of one seed that decides how its training continues."""


class Stack(Generic[ModelT]):
    """The models of several seeds, their batches, and the step that they take together."""

    def __init__(self, task: Trainable[ModelT], seeds: Sequence[int]) -> None:
        self.task, self.plan, self.device = task, task.plan, task.device
        self.seeds = list(seeds)
        self.models = [task.build(seed).train() for seed in seeds]
        first = self.models[0]
        self.loss = LossModule(task, first)
        self.weights = self._stacked(dict(first.named_parameters()))
        self.buffers = self._stacked(dict(first.named_buffers()))
        self._share_out()
        self.on_gpu = self.device != "cpu"
        recorded = self.on_gpu and task.recordable
        self.batches = task.batches(first, seeds, recorded=recorded)
        self.clock = torch.zeros((), dtype=torch.int64, device=self.device)
        """The number of the step, where batches and dropout can read it on the device."""
        keys = CounterRandom([Randomness(seed).key("dropout") for seed in seeds], self.device)
        rate, per_step = task.dropout(first)
        self.dropout = Dropout(rate, keys, per_step)
        self.averaging = self._averaging() if self.plan.averaging != "none" else None
        self.reset_optimizer()
        self.recorded = RecordedStep(self.device) if recorded else None

    def __len__(self) -> int:
        return len(self.seeds)

    def _stacked(self, first: dict[str, Tensor]) -> dict[str, Tensor]:
        """Stack what every model has into one tensor, of which each model holds its part."""
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
        """Let every model hold its part of the stacked tensors."""
        if len(self) > 1:
            for name, stacked in {**self.weights, **self.buffers}.items():
                for part, model in zip(stacked.data, self.models, strict=True):
                    attrgetter(name)(model).data = part

    def _averaging(self) -> Averaging:
        weights = list(self.weights.values())
        # A GPU processes all tensors in one operation anyway, and one row has one data type.
        same_type = len({weight.dtype for weight in weights}) == 1
        row = in_one_row(weights) if same_type and not self.on_gpu else None
        self._share_out()
        plan = self.plan
        return Averaging(
            weights, plan.averaging, plan.average_every, plan.average_start, len(self), row
        )

    def reset_optimizer(self) -> None:
        """Start with a new optimizer."""
        self.optimizer = self.task.optimizer(self.weights.values())
        self.learning_rate: float | None = None
        """The learning rate that the optimizer has."""

    def part(self, values: Tensor, number: int) -> Tensor:
        """Return the part of a stacked tensor that belongs to one seed."""
        return values if len(self) == 1 else values[number]

    def advance(self, step: int, learning_rate: float) -> Tensor:
        """Take one step, and return the losses before it, `[S]`."""
        if learning_rate != self.learning_rate:
            self.learning_rate = learning_rate
            for group in self.optimizer.param_groups:
                if isinstance(group["lr"], Tensor):
                    group["lr"].fill_(learning_rate)
                else:
                    group["lr"] = learning_rate
        with deterministic(self.device):
            shape = self.batches.prepare(step)
            if self.averaging is not None and not self.averaging.is_recordable:
                self.averaging.before_step()
            losses = self.step() if self.recorded is None else self.recorded(self.step, shape)
            if self.averaging is not None:
                self.averaging.after_step()
        return losses

    def step(self) -> Tensor:
        """Draw batches, follow their gradients, and return their losses."""
        if self.averaging is not None and self.averaging.is_recordable:
            with self._in_parallel("average"):  # it reads the weights before they change
                self.averaging.before_step()
        with self._autocast():
            losses = self.losses()
        self.optimizer.zero_grad(set_to_none=True)
        (losses if len(self) == 1 else losses.sum()).backward()
        if self.plan.clip is not None:
            self._clip(self.plan.clip)
        self._wait_for("average")
        self.optimizer.step()
        self.clock += 1
        return losses.detach()

    def _autocast(self) -> AbstractContextManager[None]:
        if self.plan.precision == "float32":
            return nullcontext()
        kind = torch.device(self.device).type
        autocast: AbstractContextManager[None] = torch.autocast(
            kind, torch.bfloat16, cache_enabled=False
        )
        return autocast

    def _in_parallel(self, name: str) -> AbstractContextManager[None]:
        """On a GPU, run at the same time as what follows."""
        return nullcontext() if self.recorded is None else self.recorded.in_parallel(name)

    def _wait_for(self, name: str) -> None:
        if self.recorded is not None:
            self.recorded.wait_for(name)

    def losses(self) -> Tensor:
        """Return each seed's loss on its next batch, `[S]`."""
        batch = self._draw()
        if len(self) == 1:
            return self.task.loss(self.models[0], batch, self.dropout)[None]
        with StackedLayers() if self.on_gpu else nullcontext():
            every_loss = vmap(self._loss_of_one, in_dims=(0, _seeds_first(batch)))
            return every_loss({**self.weights, **self.buffers}, batch)

    def _draw(self) -> Any:  # noqa: ANN401
        """Draw the batch and the dropout of a step, on a GPU at the same time."""
        with self._in_parallel("dropout"):
            # Batches of one shape have dropouts of one shape, known from the step before.
            self.dropout.start_step(self.clock, self.dropout.shape if self.recorded else None)
        batch = self.batches.draw(self.clock)
        self._wait_for("dropout")
        return batch

    def _loss_of_one(self, weights: Mapping[str, Tensor], batch: Any) -> Tensor:  # noqa: ANN401
        named = {f"model.{name}": values for name, values in weights.items()}
        loss: Tensor = functional_call(self.loss, named, (batch, self.dropout))
        return loss

    def _clip(self, limit: float) -> None:
        """Scale down every seed's gradient whose norm is above the limit."""
        gradients = [weight.grad for weight in self.weights.values()]
        each = [one.view(len(self), -1) for one in gradients if one is not None]
        norms = torch.stack([torch.linalg.vector_norm(one, dim=1) for one in each])
        scale = (limit / (torch.linalg.vector_norm(norms, dim=0) + 1e-6)).clamp_(max=1)
        for one in each:
            one.mul_(scale[:, None])

    def finite(self) -> list[bool]:
        """Return whether all weights of each seed are finite."""
        each = [weight.detach().view(len(self), -1) for weight in self.weights.values()]
        return torch.stack([one.isfinite().all(dim=1) for one in each]).all(dim=0).tolist()

    def state(self, number: int) -> State:
        """Return the state of one seed, as parts of the stack and not as copies."""
        kept = {f"model.{name}": value for name, value in self.models[number].state_dict().items()}
        for name, weight in self.weights.items():
            for moment, value in self.optimizer.state[weight].items():
                own = value if moment == "step" else self.part(value, number)
                kept[f"optimizer.{name}.{moment}"] = own
        if self.averaging is not None:
            average = self.averaging.state(number)
            kept |= {f"average.{name}": value for name, value in average.items()}
        return kept

    def final_weights(self, number: int) -> State:
        """Return the weights that training would end with now: the average, if there is one."""
        found = self.models[number].state_dict()
        if self.averaging is not None and self.averaging.has_started:
            average = zip(self.weights, self.averaging.average, strict=True)
            found |= {name: self.part(values, number) for name, values in average}
        return found

    def restore(self, step: int, states: Sequence[State]) -> None:
        """Continue after that many steps from the states of all seeds."""
        self.clock.fill_(step)
        for model, state in zip(self.models, states, strict=True):
            model.load_state_dict(with_prefix("model.", state))
        if self.averaging is not None:
            self.averaging.restore(step, [with_prefix("average.", state) for state in states])
        for name, weight in self.weights.items():
            moments = [with_prefix(f"optimizer.{name}.", state) for state in states]
            if moments[0]:
                stacked = self._stacked_moments(moments)
                for moment, one in stacked.items():
                    wanted = (torch.Size(), one.dtype) if moment == "step" else _kind(weight)
                    if _kind(one) != wanted or not one.is_floating_point():
                        raise ValueError(f"{moment} of {name} has another shape or type")
                self.optimizer.state[weight] = stacked

    def _stacked_moments(self, each: Sequence[State]) -> dict[str, Tensor]:
        """Stack the optimizer's state of a weight; all seeds have taken the same steps."""
        first = each[0]
        if len(self) == 1:
            return {moment: values.clone() for moment, values in first.items()}
        return {
            moment: values.clone()
            if moment == "step"
            else torch.stack([one[moment] for one in each])
            for moment, values in first.items()
        }


class LossModule(nn.Module):
    """A model's loss as a module, to be called with other weights than its own."""

    def __init__(self, task: Trainable[ModelT], model: ModelT) -> None:
        super().__init__()
        self.task, self.model = task, model

    def forward(self, batch: Any, dropout: DropoutFunction = no_dropout) -> Tensor:  # noqa: ANN401
        """Return the loss of one seed on its batch."""
        return self.task.loss(self.model, batch, dropout)


def _seeds_first(values: Any) -> Any:  # noqa: ANN401
    """Tell `vmap` that the first dimension of all tensors in nested named tuples is the seed."""
    if isinstance(values, tuple):
        return type(values)(*map(_seeds_first, values))
    return None if values is None else 0


def _kind(values: Tensor) -> tuple[torch.Size, torch.dtype]:
    return values.shape, values.dtype


def with_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> State:
    """Return the tensors whose name has the prefix, without it."""
    return {
        name.removeprefix(prefix): value
        for name, value in tensors.items()
        if name.startswith(prefix)
    }
