"""Averages of weights along training, for weights that vary less from seed to seed.

There are three rules, for any optimizer and any model:

* SWA (Izmailov et al. 2018): late in training, the weights at the end of every epoch are averaged.
  Training itself is not affected, and ends with the average.
* ASWA (Jain 2019): the weights before every step are averaged from the first steps on. At the end
  of every epoch, training continues from the average.
* NASWA (Jain 2019): the same, but weights count only if they have moved further from the average
  than they recently did.

Jain's algorithms are printed differently from the program that was run. Both forms are here, and
`docs/averaging.md` explains the difference. In your own training loop, add one line before it:

    averaging = average_weights(model, optimizer, "aswa", epoch=len(loader))
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_swa_multi_avg_fn, update_bn

from whence.errors import InputError, did_you_mean

AveragingRule = Literal["none", "swa", "aswa", "naswa", "aswa-printed", "naswa-printed"]
AVERAGING_RULES: tuple[AveragingRule, ...] = (
    "swa",
    "aswa",
    "naswa",
    "aswa-printed",
    "naswa-printed",
)

_average_in = get_swa_multi_avg_fn()
LARGE = 100_000
"""Numbers in a tensor from which a dot product is the fastest norm on a processor."""
ALIGNED = 64
"""Numbers to whose multiple every weight is padded in one row of memory."""


class Averaging:
    """The average of some weights, updated before and after every step.

    The weights of several seeds may be stacked, `[S, …]`; each seed has its own average. Weights
    that all lie in one `row` of memory are averaged in one operation.
    """

    def __init__(
        self,
        weights: Sequence[Tensor],
        rule: AveragingRule,
        epoch: int,
        start: int = 0,
        seeds: int = 1,
        row: Tensor | None = None,
    ) -> None:
        if rule not in AVERAGING_RULES:
            raise InputError(
                f"There is no averaging rule '{rule}': {did_you_mean(rule, AVERAGING_RULES)}"
            )
        if epoch < 1 or start < 0:
            raise InputError("Averaging needs epoch ≥ 1 (steps) and start ≥ 0.")
        self.rule, self.epoch, self.start, self.seeds = rule, epoch, start, seeds
        self.weights = [weight.detach() for weight in weights]
        self.whole = self.weights if row is None else [row]
        """The same numbers in as few tensors as possible."""
        self.whole_average = [one.clone() for one in self.whole]  # as printed, W_swa := W_0
        self.average = self._by_tensor(self.whole_average)
        self.difference = [torch.empty_like(one) for one in self.whole if rule.startswith("naswa")]
        difference = self._by_tensor(self.difference) if self.difference else []
        self.difference_by_seed = [self._seed_values(difference, seed) for seed in range(seeds)]
        """The weights less their average, in the same memory at every step."""
        self.steps = 0
        """Steps of the optimizer so far."""
        first = 1.0 if rule.endswith("printed") else 0.0
        precise = torch.promote_types(self.weights[0].dtype, torch.float32)
        self.count = self.weights[0].new_full((seeds,), first, dtype=precise)
        """How many weights count in the average; as printed, W_0 and then all, far or near."""
        self.norms, self.norm_count = self.count.new_zeros((2, seeds))
        """The sum and the size of N_s, the norms since weights last counted. The mean of an empty
        list is 0, so it starts as a list that holds one 0."""
        self.norm_count.fill_(1)

    @property
    def has_started(self) -> bool:
        """Whether there is an average yet."""
        if self.rule == "swa":
            return self.steps >= self.start
        return self.rule.endswith("printed") or self.steps > 2

    @property
    def is_recordable(self) -> bool:
        """Whether it needs only data on the device, so that it can be recorded with a step."""
        return self.rule.startswith("naswa")

    def before_step(self) -> None:
        """Average the weights that the optimizer is about to change."""
        if self.rule.startswith("naswa"):
            self._average_if_far()
        elif self.rule == "aswa-printed":
            _average_in(self.whole_average, self.whole, self.steps + 1)  # 1/(e·n + i + 1)
        elif self.rule == "aswa" and self.steps > 1:
            # In the program that was run the first one counted twice: 2, 3, 4, … are there already.
            _average_in(self.whole_average, self.whole, self.steps - 1 if self.steps > 2 else 0)

    def after_step(self) -> None:
        """Count the step; at the end of an epoch, average or continue from the average."""
        self.steps += 1
        if self.rule == "swa":
            if self.steps >= self.start and (self.steps - self.start) % self.epoch == 0:
                count = (self.steps - self.start) // self.epoch
                _average_in(self.whole_average, self.whole, count)
        elif self.steps % self.epoch == 0 and self.has_started:
            torch._foreach_copy_(self.whole, self.whole_average)  # W ← W_swa
            if self.rule == "naswa":
                self.norms.zero_()
                self.norm_count.fill_(1)

    def _average_if_far(self) -> None:
        """Average the weights if N_cur > mean(N_s); otherwise add N_cur to N_s."""
        printed = self.rule == "naswa-printed"
        if not printed and self.steps < 2:
            return
        if not printed and self.steps == 2:  # the average starts here, at a distance of 0
            torch._foreach_copy_(self.whole_average, self.whole)
            self.count.fill_(1)
            return
        for weights, average, difference in zip(
            self.whole, self.whole_average, self.difference, strict=True
        ):
            torch.sub(weights, average, out=difference)
        each = self.difference_by_seed
        current = torch.stack([_norm(one, printed) for one in each])  # N_cur
        far = current > self.norms / self.norm_count
        # In place, as a recorded step requires.
        self.norms.masked_fill_(far, 0).add_(current)
        self.norm_count.masked_fill_(far, 0).add_(1)
        share = far / (self.count + 1)
        self.count += 1 if printed else far
        if share.is_cuda:  # reading a number would make everything wait
            for one, own in zip(each, share, strict=True):
                torch._foreach_mul_(one, own)
            torch._foreach_add_(self.whole_average, self.difference)
            return
        shares = share.tolist()
        if len(set(shares)) == 1:  # as for one seed
            if shares[0]:
                torch._foreach_add_(self.whole_average, self.difference, alpha=shares[0])
            return
        for seed, own in enumerate(shares):
            if own:
                torch._foreach_add_(self._seed_values(self.average, seed), each[seed], alpha=own)

    def _by_tensor(self, whole: Sequence[Tensor]) -> list[Tensor]:
        """Cut what has the size of all weights into one tensor per weight."""
        if self.whole is self.weights:
            return list(whole)
        first = self.whole[0].storage_offset()
        return [
            whole[0].as_strided(one.shape, one.stride(), one.storage_offset() - first)
            for one in self.weights
        ]

    def _seed_values(self, values: Sequence[Tensor], seed: int) -> list[Tensor]:
        return list(values) if self.seeds == 1 else [value[seed] for value in values]

    def state(self, seed: int = 0) -> dict[str, Tensor]:
        """Return the average of one seed and what decides how it continues."""
        average = {
            f"{number}": one for number, one in enumerate(self._seed_values(self.average, seed))
        }
        counts = torch.stack((self.count, self.norms, self.norm_count))[:, seed]
        return {**average, "counts": counts}

    def restore(self, steps: int, states: Sequence[Mapping[str, Tensor]]) -> None:
        """Continue after this number of steps from the states of all seeds."""
        self.steps = steps
        for seed, state in enumerate(states):
            for number, one in enumerate(self._seed_values(self.average, seed)):
                one.copy_(state[f"{number}"])
        counts = torch.stack([state["counts"] for state in states], dim=1)
        for own, saved in zip((self.count, self.norms, self.norm_count), counts, strict=True):
            own.copy_(saved)


def in_one_row(weights: Sequence[Tensor]) -> Tensor:
    """Move all weights into one row of memory, and return it."""
    sizes = [-(-weight.numel() // ALIGNED) * ALIGNED for weight in weights]
    row = weights[0].data.new_zeros(sum(sizes))
    for weight, place in zip(weights, row.split(sizes), strict=True):
        weight.data = place[: weight.numel()].view(weight.shape).copy_(weight.data)
    return row


def _norm(values: list[Tensor], printed: bool) -> Tensor:
    """Return ‖·‖₁ of all numbers, as printed, or the mean over tensors of ‖·‖₂, as run."""
    if printed:
        return torch.stack(torch._foreach_norm(values, 1)).sum()
    large = [one.flatten() for one in values if one.numel() > LARGE and not one.is_cuda]
    small = [one for one in values if one.numel() <= LARGE or one.is_cuda]
    each = [one.dot(one).sqrt() for one in large]
    if small:
        each += torch._foreach_norm(small)
    return torch.stack(each).mean()


class AveragedTraining(Averaging):
    """Averaging that hooks into an optimizer."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        rule: AveragingRule,
        epoch: int,
        start: int,
    ) -> None:
        super().__init__(list(model.parameters()), rule, epoch, start)
        self.model = model
        self.hooks = (
            optimizer.register_step_pre_hook(lambda *_: self.before_step()),
            optimizer.register_step_post_hook(lambda *_: self.after_step()),
        )

    def finish(self, loader: Iterable[Any] | None = None) -> None:
        """Give the model its average, and unhook from the optimizer.

        Batch normalization's statistics then belong to other weights. The inputs of the loader
        recompute them.
        """
        if loader is None and has_batch_norm(self.model):
            raise InputError(
                "The statistics of batch normalization do not belong to the averaged weights. "
                "Recompute them with finish(loader)."
            )
        for hook in self.hooks:
            hook.remove()
        if self.has_started:
            torch._foreach_copy_(self.weights, self.average)
        update_bn(() if loader is None else loader, self.model)


def average_weights(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    rule: AveragingRule,
    *,
    epoch: int,
    start: int = 0,
) -> AveragedTraining:
    """Average the model's weights from now on, at every step of the optimizer.

    An epoch is a number of steps. SWA starts after the step `start`.
    """
    return AveragedTraining(model, optimizer, rule, epoch, start)


def has_batch_norm(model: nn.Module) -> bool:
    """Return whether the model keeps statistics of its inputs, which belong to its weights."""
    return any(isinstance(one, nn.modules.batchnorm._BatchNorm) for one in model.modules())
