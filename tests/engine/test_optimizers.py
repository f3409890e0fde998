"""Adagrad beside PyTorch's own and by hand."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from whence.data import Split
from whence.engine.optimizers import FIRST_SUM, Adagrad, recordable_optimizer
from whence.errors import InputError
from whence.training import TrainingConfig, fit
from whence.training.recommenders import new_training

BY_ADAGRAD = TrainingConfig(steps=12, batch_size=2, optimizer="adagrad", learning_rate=0.01)


def test_it_is_pytorchs_own_without_what_that_adds_to_the_root() -> None:
    chance = torch.Generator().manual_seed(0)
    first = [torch.randn(shape, generator=chance, dtype=torch.float64) for shape in ((3, 2), (4,))]
    ours, theirs = ([one.clone().requires_grad_() for one in first] for _ in range(2))
    own = Adagrad(ours, torch.tensor(0.05, dtype=torch.float64))
    other = torch.optim.Adagrad(theirs, lr=0.05, initial_accumulator_value=FIRST_SUM, eps=0)
    for number in range(20):
        for weights, optimiser in ((ours, own), (theirs, other)):
            optimiser.zero_grad()
            (weights[0].prod() + (weights[1] ** 2).sum() * math.sin(number)).backward()
            optimiser.step()
    torch.testing.assert_close(ours, theirs)


def test_it_goes_as_by_hand() -> None:
    """From 1 with η = 0.1 by gradients of 3 and then 4, whose squares add up to 25."""
    weight = torch.tensor([1.0, 5.0], dtype=torch.float64, requires_grad=True)
    optimiser = Adagrad([weight], torch.tensor(0.1, dtype=torch.float64))
    at = [1.0]
    for gradient in (3.0, 4.0):
        weight.grad = torch.tensor([gradient, 0.0], dtype=torch.float64)
        optimiser.step()
        at.append(float(weight.detach()[0]))
    assert at == pytest.approx([1.0, 1 - 0.1, 1 - 0.1 - 0.1 * 4 / 5], abs=1e-8)
    assert float(weight.detach()[1]) == 5, "without a gradient nothing moves"
    assert optimiser.state[weight]["sum"].tolist() == pytest.approx([25 + 1e-8, 1e-8])


def test_its_pace_can_be_changed_between_steps() -> None:
    weight = torch.zeros(1, requires_grad=True)
    optimiser = recordable_optimizer("adagrad", [weight], 0.01, 0.98, "cpu")
    optimiser.param_groups[0]["lr"].fill_(0.5)
    weight.grad = torch.ones(1)
    optimiser.step()
    assert float(weight.detach()) == pytest.approx(-0.5)


@pytest.mark.parametrize("seeds", [[3], [3, 5]])
def test_its_sums_are_saved_and_gone_on_with(
    seeds: list[int], split: Split, tmp_path: Path
) -> None:
    sizes = {"max_len": 12, "dim": 4}
    whole = new_training(split, "fism", sizes, BY_ADAGRAD, seeds, "cpu")
    part = new_training(split, "fism", sizes, BY_ADAGRAD, seeds, "cpu")
    for _ in range(12):
        whole.advance()
    for _ in range(5):
        part.advance()
    part.save(tmp_path / "kept")
    kept = load_file(tmp_path / "kept")
    again = new_training(split, "fism", sizes, BY_ADAGRAD, seeds, "cpu")
    again.load(tmp_path / "kept")
    for number, seed in enumerate(seeds):
        state = part.stack.state(number)
        name = "optimizer.history.sum"
        assert (state[name] > FIRST_SUM).any()
        assert torch.equal(kept[f"{seed}.{name}"], state[name])
        assert torch.equal(again.stack.state(number)[name], state[name])
    for _ in range(7):
        again.advance()
    for number in range(len(seeds)):
        expected = whole.stack.state(number)
        for name, value in again.stack.state(number).items():
            assert torch.equal(value, expected[name])


def test_without_the_sums_it_would_go_elsewhere(split: Split) -> None:
    """So the test above can fail."""
    sizes = {"max_len": 12, "dim": 4}
    adam = TrainingConfig(steps=12, batch_size=2, learning_rate=0.01)
    one, other = (fit(split, "fism", sizes, c, 3, show_progress=False) for c in (BY_ADAGRAD, adam))
    assert one.losses[0] == other.losses[0]
    assert one.losses[5:] != other.losses[5:]


def test_an_unknown_optimiser_is_one_sentence() -> None:
    with pytest.raises(InputError, match="optimizer cannot be 'adagrid': did you mean 'adagrad'"):
        TrainingConfig(optimizer="adagrid")  # type: ignore[arg-type]
