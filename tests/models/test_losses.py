"""Losses of outcomes against scikit-learn, and the softmax in chunks against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch.func import vmap

from whence.models.losses import class_logits, liked_logit, log_sum_exp, outcome_loss
from whence.models.tasks import DISLIKED, LIKED, NO_QUESTION, NOTHING


def outputs_of(count: int, classes: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(count, classes, generator=generator, dtype=torch.float64)


@pytest.mark.needs("sklearn")
@given(
    outcomes=st.lists(st.sampled_from([LIKED, NOTHING, DISLIKED]), min_size=1, max_size=12),
    classes=st.sampled_from([1, 2, 3]),
    balanced=st.booleans(),
    seed=st.integers(0, 100),
)
def test_losses_are_those_of_scikit_learn(
    outcomes: list[int], classes: int, balanced: bool, seed: int
) -> None:
    """Also where a class, or two, are absent."""
    from sklearn.metrics import log_loss
    from sklearn.utils.class_weight import compute_class_weight

    kinds = max(2, classes)
    truth = np.minimum(outcomes, kinds - 1)
    outputs = outputs_of(len(truth), classes, seed)
    p = class_logits(outputs).softmax(dim=1).numpy()
    weight = np.ones(len(truth))
    if balanced:
        there = np.unique(truth)
        of_class = dict(
            zip(there, compute_class_weight("balanced", classes=there, y=truth), strict=True)
        )
        # scikit-learn counts the classes that are there, and Jain (2019) all.
        weight = np.array([of_class[one] for one in truth]) * len(there) / kinds
    if classes < 3:
        each = [log_loss([t], [row], labels=range(kinds)) for t, row in zip(truth, p, strict=True)]
    else:
        each = [
            np.mean([log_loss([t == c], [[1 - row[c], row[c]]], labels=[0, 1]) for c in range(3)])
            for t, row in zip(truth, p, strict=True)
        ]
    found = outcome_loss(outputs, torch.from_numpy(truth), balanced)
    assert float(found) == pytest.approx(np.mean(weight * each), rel=1e-9)


@pytest.mark.parametrize("classes", [1, 2, 3])
@pytest.mark.parametrize("balanced", [False, True])
def test_filling_has_no_loss(classes: int, balanced: bool) -> None:
    outputs = outputs_of(6, classes, 0)
    outcomes = torch.tensor([LIKED, NOTHING, NO_QUESTION, NOTHING, LIKED, NO_QUESTION])
    asked = outcomes != NO_QUESTION
    torch.testing.assert_close(
        outcome_loss(outputs, outcomes, balanced),
        outcome_loss(outputs[asked], outcomes[asked], balanced),
    )


def test_one_positive_in_five_weighs_as_in_the_published_code() -> None:
    """2.5 for positives and 0.625 for four times as many negatives."""
    outputs = torch.zeros(5, 2, dtype=torch.float64)
    outputs[0, 0] = 1.0
    outcomes = torch.tensor([LIKED, NOTHING, NOTHING, NOTHING, NOTHING])
    positive = np.log1p(np.exp(-1.0))
    expected = (2.5 * positive + 4 * 0.625 * np.log(2)) / 5
    assert float(outcome_loss(outputs, outcomes, balanced=True)) == pytest.approx(expected)


@pytest.mark.parametrize("classes", [1, 2, 3])
def test_certainty_rounded_to_1_has_a_finite_loss(classes: int) -> None:
    outputs = torch.full((2, classes), -300.0)
    outputs[:, 0] = 300.0
    outputs.requires_grad_()
    loss = outcome_loss(outputs, torch.tensor([LIKED, NOTHING]), balanced=False)
    (gradient,) = torch.autograd.grad(loss, outputs)
    assert 100 < float(loss.detach()) < 1000
    assert gradient.isfinite().all()


@pytest.mark.parametrize("classes", [1, 2, 3])
def test_the_logit_is_that_of_the_first_class(classes: int) -> None:
    outputs = outputs_of(7, classes, 3)
    p = class_logits(outputs).softmax(dim=1)[:, 0]
    torch.testing.assert_close(liked_logit(outputs), torch.logit(p))


def drawn(*shape: int, scale: float = 1.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    values = torch.randn(shape, generator=generator, dtype=torch.float64) * scale
    return values.requires_grad_()


def cross_entropy(
    rows: torch.Tensor, table: torch.Tensor, targets: torch.Tensor, at_once: int | None = None
) -> torch.Tensor:
    return log_sum_exp(rows, table, at_once) - (rows * table[1 + targets]).sum(dim=-1)


@given(
    count=st.integers(1, 9),
    items=st.integers(1, 40),
    dim=st.integers(1, 5),
    at_once=st.integers(1, 400),
    scale=st.sampled_from([0.1, 1.0, 30.0]),
)
def test_the_softmax_equals_that_of_pytorch(
    count: int, items: int, dim: int, at_once: int, scale: float
) -> None:
    """Whatever the shapes, the chunks, and the size of the numbers."""
    rows, table = drawn(count, dim, scale=scale), drawn(1 + items, dim)
    targets = torch.arange(count) * 7 % items
    mix = drawn(count).detach()
    found = cross_entropy(rows, table, targets, at_once)
    expected = F.cross_entropy(rows @ table[1:].T, targets, reduction="none")
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    gradients = torch.autograd.grad((found * mix).sum(), (rows, table))
    plain = torch.autograd.grad((expected * mix).sum(), (rows, table))
    torch.testing.assert_close(gradients, plain, rtol=1e-10, atol=1e-10)


@given(seeds=st.integers(1, 4), at_once=st.integers(1, 900))
def test_a_stack_of_softmaxes_equals_each_alone(seeds: int, at_once: int) -> None:
    rows, tables, mix = drawn(seeds, 6, 3), drawn(seeds, 30, 3), drawn(seeds, 6).detach()
    found = vmap(lambda one, table: log_sum_exp(one, table, at_once))(rows, tables)
    each = torch.stack(
        [(one @ own[1:].T).logsumexp(1) for one, own in zip(rows, tables, strict=True)]
    )
    torch.testing.assert_close(found, each, rtol=1e-10, atol=1e-10)
    gradients = torch.autograd.grad((found * mix).sum(), (rows, tables))
    plain = torch.autograd.grad((each * mix).sum(), (rows, tables))
    torch.testing.assert_close(gradients, plain, rtol=1e-10, atol=1e-10)
    assert (gradients[1][:, 0] == 0).all(), "padding learns nothing"


@pytest.mark.parametrize("at_once", [None, 1_000])
def test_large_logits_do_not_overflow(at_once: int | None) -> None:
    rows, table = torch.full((2, 1), 1e4), torch.linspace(-1, 1, 101)[:, None].requires_grad_()
    found = log_sum_exp(rows, table, at_once)
    assert found.tolist() == [1e4, 1e4]
    (gradient,) = torch.autograd.grad(found.sum(), table)
    assert gradient[-1].item() == pytest.approx(2e4)


def test_memory_is_limited_to_the_logits_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    largest = 0
    product = torch.bmm

    def measured(*factors: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        nonlocal largest
        largest = max(largest, factors[0].numel() if out is None else 0)
        found = product(*factors, out=out)
        largest = max(largest, found.numel() if out is None else 0)
        return found

    monkeypatch.setattr(torch, "bmm", measured)
    rows, table = drawn(10, 3), drawn(5_001, 3)
    log_sum_exp(rows, table, at_once=2_000).sum().backward()
    assert largest <= 2_000
