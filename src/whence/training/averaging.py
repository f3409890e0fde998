"""Averages of weights along training: for weights that hold still from seed to seed.

Three ways, all on top of any optimiser and any model:

* SWA (Izmailov et al. 2018): late in training, the weights at the end of every epoch are averaged;
  training itself does not notice, and ends with the average.
* ASWA (Jain 2019): from the first steps on, the weights before every step are averaged, and at the
  end of every epoch training goes on from the average.
* NASWA (Jain 2019): the same, but weights count only when they have moved further from the average
  than they lately did.

Jain's algorithms are printed differently from how they were run; both forms are here, and
`docs/averaging.md` tells them apart. In a loop of one's own it takes one line before it:

    averaging = average_weights(model, optimiser, "aswa", epoch=len(loader))
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_swa_multi_avg_fn, update_bn

from whence.errors import InputError, did_you_mean

Rule = Literal["none", "swa", "aswa", "naswa", "aswa-printed", "naswa-printed"]
RULES: tuple[Rule, ...] = ("swa", "aswa", "naswa", "aswa-printed", "naswa-printed")

_average_in = get_swa_multi_avg_fn()
LARGE = 100_000
ALIGNED = 64


class Averaging:
    """The average of some weights, which is told of every step.

    The weights of several seeds may stand side by side, `[S, …]`; each seed has its own average.
    Weights that all lie in one `row` of memory are averaged by one operation.
    """

    def __init__(
        self,
        weights: Sequence[Tensor],
        rule: Rule,
        epoch: int,
        start: int = 0,
        seeds: int = 1,
        row: Tensor | None = None,
    ) -> None:
        if rule not in RULES:
            raise InputError(f"Weights are not averaged by '{rule}': {did_you_mean(rule, RULES)}")
        if epoch < 1 or start < 0:
            raise InputError("Averaging needs an epoch of at least 1 step, and a start from 0 on.")
        self.rule, self.epoch, self.start, self.seeds = rule, epoch, start, seeds
        self.weights = [weight.detach() for weight in weights]
        self.whole = self.weights if row is None else [row]
        """The same numbers in as few tensors as there can be."""
        self.whole_average = [one.clone() for one in self.whole]  # as printed: W_swa := W_0
        self.average = self._by_tensor(self.whole_average)
        self.apart = [torch.empty_like(one) for one in self.whole if rule.startswith("naswa")]
        apart = self._by_tensor(self.apart) if self.apart else []
        self.apart_by_seed = [self._of_seed(apart, seed) for seed in range(seeds)]
        """How far the weights are from their average: the same memory in every step."""
        self.steps = 0
        """Of the optimiser, so far."""
        first = 1.0 if rule.endswith("printed") else 0.0
        precise = torch.promote_types(self.weights[0].dtype, torch.float32)
        self.count = self.weights[0].new_full((seeds,), first, dtype=precise)
        """Weights that count in the average; as printed, W_0 and then all, far or not."""
        self.norms, self.norm_count = self.count.new_zeros((2, seeds))
        """The sum and the size of N_s, the norms since weights last counted; its mean is 0 when it
        is empty, so an empty list is as good as one that holds a 0."""
        self.norm_count.fill_(1)

    @property
    def has_begun(self) -> bool:
        """Whether there is an average yet."""
        if self.rule == "swa":
            return self.steps >= self.start
        return self.rule.endswith("printed") or self.steps > 2

    @property
    def asks_no_number(self) -> bool:
        """Whether it needs nothing that is not on the device, and can be recorded with a step."""
        return self.rule.startswith("naswa")

    def before_step(self) -> None:
        """Take the weights that the optimiser is about to change."""
        if self.rule.startswith("naswa"):
            self._take_far_ones()
        elif self.rule == "aswa-printed":
            _average_in(self.whole_average, self.whole, self.steps + 1)  # 1/(e·n + i + 1)
        elif self.rule == "aswa" and self.steps > 1:
            # The first one counted twice where this was run: 2, 3, 4, … are there already.
            _average_in(self.whole_average, self.whole, self.steps - 1 if self.steps > 2 else 0)

    def after_step(self) -> None:
        """Count the step; at the end of an epoch, do what is done then."""
        self.steps += 1
        if self.rule == "swa":
            if self.steps >= self.start and (self.steps - self.start) % self.epoch == 0:
                count = (self.steps - self.start) // self.epoch
                _average_in(self.whole_average, self.whole, count)
        elif self.steps % self.epoch == 0 and self.has_begun:
            torch._foreach_copy_(self.whole, self.whole_average)  # W ← W_swa
            if self.rule == "naswa":
                self.norms.zero_()
                self.norm_count.fill_(1)

    def _take_far_ones(self) -> None:
        """Where N_cur > mean(N_s), the weights count; where not, N_s grows."""
        printed = self.rule == "naswa-printed"
        if not printed and self.steps < 2:
            return
        if not printed and self.steps == 2:  # the average begins here, at a distance of 0
            torch._foreach_copy_(self.whole_average, self.whole)
            self.count.fill_(1)
            return
        for weights, average, apart in zip(self.whole, self.whole_average, self.apart, strict=True):
            torch.sub(weights, average, out=apart)
        each = self.apart_by_seed
        current = torch.stack([_length(one, printed) for one in each])  # N_cur
        far = current > self.norms / self.norm_count
        # In place, as a recorded step needs it.
        self.norms.masked_fill_(far, 0).add_(current)
        self.norm_count.masked_fill_(far, 0).add_(1)
        share = far / (self.count + 1)
        self.count += 1 if printed else far
        if share.is_cuda:  # where asking for a number would make everything wait
            for one, own in zip(each, share, strict=True):
                torch._foreach_mul_(one, own)
            torch._foreach_add_(self.whole_average, self.apart)
            return
        shares = share.tolist()
        if len(set(shares)) == 1:  # as of one seed alone
            if shares[0]:
                torch._foreach_add_(self.whole_average, self.apart, alpha=shares[0])
            return
        for seed, own in enumerate(shares):
            if own:
                torch._foreach_add_(self._of_seed(self.average, seed), each[seed], alpha=own)

    def _by_tensor(self, whole: Sequence[Tensor]) -> list[Tensor]:
        """Whatever is of the size of all weights, tensor by tensor."""
        if self.whole is self.weights:
            return list(whole)
        first = self.whole[0].storage_offset()
        return [
            whole[0].as_strided(one.shape, one.stride(), one.storage_offset() - first)
            for one in self.weights
        ]

    def _of_seed(self, values: Sequence[Tensor], seed: int) -> list[Tensor]:
        return list(values) if self.seeds == 1 else [value[seed] for value in values]

    def state(self, seed: int = 0) -> dict[str, Tensor]:
        """Of one seed: its average and all that decides how it goes on."""
        average = {f"{number}": one for number, one in enumerate(self._of_seed(self.average, seed))}
        counts = torch.stack((self.count, self.norms, self.norm_count))[:, seed]
        return {**average, "counts": counts}

    def restore(self, steps: int, states: Sequence[Mapping[str, Tensor]]) -> None:
        """Go on where `state` was told, after so many steps."""
        self.steps = steps
        for seed, state in enumerate(states):
            for number, one in enumerate(self._of_seed(self.average, seed)):
                one.copy_(state[f"{number}"])
        counts = torch.stack([state["counts"] for state in states], dim=1)
        for own, told in zip((self.count, self.norms, self.norm_count), counts, strict=True):
            own.copy_(told)


def in_one_row(weights: Sequence[Tensor]) -> Tensor:
    """Move the numbers of all weights into one row of memory, and return it."""
    sizes = [-(-weight.numel() // ALIGNED) * ALIGNED for weight in weights]
    row = weights[0].data.new_zeros(sum(sizes))
    for weight, place in zip(weights, row.split(sizes), strict=True):
        weight.data = place[: weight.numel()].view(weight.shape).copy_(weight.data)
    return row


def _length(values: list[Tensor], printed: bool) -> Tensor:
    """‖·‖₁ of all numbers, as printed; as it was run, the mean over tensors of ‖·‖₂."""
    if printed:
        return torch.stack(torch._foreach_norm(values, 1)).sum()
    # Of a large tensor on a processor, a product with itself is the fastest way.
    large = [one.flatten() for one in values if one.numel() > LARGE and not one.is_cuda]
    small = [one for one in values if one.numel() <= LARGE or one.is_cuda]
    each = [one.dot(one).sqrt() for one in large]
    if small:
        each += torch._foreach_norm(small)
    return torch.stack(each).mean()


class AveragedTraining(Averaging):
    """Averaging that follows an optimiser by itself."""

    def __init__(
        self, model: nn.Module, optimiser: torch.optim.Optimizer, rule: Rule, epoch: int, start: int
    ) -> None:
        super().__init__(list(model.parameters()), rule, epoch, start)
        self.model = model
        self.hooks = (
            optimiser.register_step_pre_hook(lambda *_: self.before_step()),
            optimiser.register_step_post_hook(lambda *_: self.after_step()),
        )

    def finish(self, loader: Iterable[Any] | None = None) -> None:
        """Give the model its average, and let go of the optimiser.

        A model with batch normalisation has statistics of other weights then: the loader's inputs
        go through it once, and they are taken anew.
        """
        if loader is None and has_batch_norm(self.model):
            raise InputError(
                "The model's batch normalisation has statistics of other weights than the average; "
                "finish with training data, finish(loader)."
            )
        for hook in self.hooks:
            hook.remove()
        if self.has_begun:
            torch._foreach_copy_(self.weights, self.average)
        update_bn(() if loader is None else loader, self.model)


def average_weights(
    model: nn.Module, optimiser: torch.optim.Optimizer, rule: Rule, *, epoch: int, start: int = 0
) -> AveragedTraining:
    """From now on, average the model's weights as the optimiser steps.

    An epoch is a number of steps; SWA starts after the step `start`.
    """
    return AveragedTraining(model, optimiser, rule, epoch, start)


def has_batch_norm(model: nn.Module) -> bool:
    """Whether the model remembers statistics of its inputs, which belong to its weights."""
    return any(isinstance(one, nn.modules.batchnorm._BatchNorm) for one in model.modules())
