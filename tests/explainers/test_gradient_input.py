from __future__ import annotations

import numpy as np
import pytest
import torch
from captum.attr import InputXGradient
from captum.attr import IntegratedGradients as CaptumIntegratedGradients

from conftest import lively_sasrec, ragged_batch
from whence.errors import InputError
from whence.explainers import explain_batch
from whence.explainers.gradients import IntegratedGradients
from whence.models.sasrec import SASRec

BATCH, TARGETS = ragged_batch(4, 8, 30), torch.tensor([4, 11, 4, 20])


@pytest.fixture
def model() -> SASRec:
    return lively_sasrec()


def scores_at(model: SASRec, embedded: torch.Tensor) -> torch.Tensor:
    """A function as captum calls it, with any number of copies of the cases."""
    copies = len(embedded) // len(BATCH)
    batch, targets = BATCH.repeat(copies, 1), TARGETS.repeat(copies)
    return model.score(batch, targets[:, None], embedded=embedded)[:, 0]


def test_gradient_times_input_equals_captum(model: SASRec) -> None:
    captum = InputXGradient(lambda embedded: scores_at(model, embedded))
    theirs = captum.attribute(model.embed(BATCH).detach().requires_grad_()).sum(dim=-1)
    ours = explain_batch(model, BATCH, TARGETS, "gradient-input")
    np.testing.assert_allclose(ours.scores, theirs.detach(), atol=1e-12)
    assert (ours.scores < 0).any()


def test_gradient_times_input_is_the_slope_as_an_embedding_shrinks(model: SASRec) -> None:
    found = explain_batch(model, BATCH, TARGETS, "gradient-input").scores
    embedded, step = model.embed(BATCH).detach(), 1e-6
    for slot in range(8):
        scale = torch.zeros(8, 1, dtype=torch.float64)
        scale[slot] = step
        above, below = (scores_at(model, embedded * (1 + sign * scale)) for sign in (1, -1))
        slope = (above - below) / (2 * step)
        np.testing.assert_allclose(found[:, slot], slope.detach(), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("steps", [8, 32])
def test_integrated_gradients_equal_captum(model: SASRec, steps: int) -> None:
    captum = CaptumIntegratedGradients(
        lambda embedded: scores_at(model, embedded), multiply_by_inputs=True
    )
    theirs = captum.attribute(
        model.embed(BATCH).detach(), n_steps=steps, method="gausslegendre"
    ).sum(dim=-1)
    ours = explain_batch(model, BATCH, TARGETS, IntegratedGradients(steps))
    np.testing.assert_allclose(ours.scores, theirs.detach(), atol=1e-10)
    assert ours.evaluations.tolist() == [steps] * 4


def test_integrated_gradients_add_up(model: SASRec) -> None:
    embedded = model.embed(BATCH).detach()
    whole = (scores_at(model, embedded) - scores_at(model, 0 * embedded)).detach()
    gaps = []
    for steps in (4, 32, 1024):
        found = explain_batch(model, BATCH, TARGETS, IntegratedGradients(steps))
        gaps.append(np.abs(found.scores.sum(axis=1) - whole.numpy()).max())
    assert gaps[0] > gaps[1] > gaps[2], "more steps approximate the integral better"
    assert gaps[2] < 0.005 * float(whole.abs().max())


def test_slices_change_nothing(model: SASRec) -> None:
    whole = explain_batch(model, BATCH, TARGETS, "integrated-gradients")
    sliced = explain_batch(model, BATCH, TARGETS, "integrated-gradients", memory=4 * 8 * 4096 * 9)
    np.testing.assert_allclose(sliced.scores, whole.scores, atol=1e-12)


def test_no_steps_is_an_error(model: SASRec) -> None:
    with pytest.raises(InputError, match="n_steps is 0; integrated gradients need at least 1"):
        explain_batch(model, BATCH, TARGETS, "integrated-gradients:n_steps=0")
