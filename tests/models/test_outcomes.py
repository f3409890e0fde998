"""Losses of what comes of an item."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from whence.models.losses import class_logits, liked_logit, outcome_loss
from whence.models.tasks import DISLIKED, LIKED, NO_QUESTION, NOTHING


def outputs_of(count: int, classes: int, seed: int) -> torch.Tensor:
    chance = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(count, classes, generator=chance, dtype=torch.float64)


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
def test_filling_costs_nothing(classes: int, balanced: bool) -> None:
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
def test_certainty_beyond_all_rounding_stays_a_number(classes: int) -> None:
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
