from __future__ import annotations

import numpy as np
import pytest
import torch

from conftest import lively_sasrec, ragged_batch
from whence.data import Split
from whence.explainers import explain_batch
from whence.explainers.base import make_request
from whence.explainers.fading import attention_gradients
from whence.models.sasrec import SASRec
from whence.run import Run

BATCH, TARGETS = ragged_batch(4, 6, 30), torch.tensor([4, 11, 4, 20])


def faded(weights: torch.Tensor, slot: int, strength: float) -> torch.Tensor:
    """Multiply the column, and normalize every row that sees anything to a sum of 1."""
    scale = torch.ones(weights.shape[-1], dtype=torch.float64)
    scale[slot] = strength
    altered = weights * scale
    total = altered.sum(dim=-1, keepdim=True)
    return torch.where(total > 0, altered / total.clamp(min=1e-12), altered)


def score_as_it_fades(model: SASRec, slot: int, strength: float) -> torch.Tensor:
    """Fade block by block: each computes its weights from the faded blocks below."""
    given: list[torch.Tensor | None] = [None] * model.config.n_blocks
    for depth in range(model.config.n_blocks):
        _, used = model.encode(BATCH, attention=given)
        given[depth] = faded(used[depth], slot, strength)
    return model.score(BATCH, TARGETS[:, None], attention=given)[:, 0]


@pytest.mark.parametrize("blocks", [1, 2, 3])
@torch.no_grad()
def test_equals_finite_differences_of_a_fading_column(blocks: int) -> None:
    model, step = lively_sasrec(blocks=blocks, length=6), 1e-5
    found = explain_batch(model, BATCH, TARGETS, "fading")
    assert found.evaluations.tolist() == [blocks] * 4
    for slot in range(6):
        above, below = (score_as_it_fades(model, slot, 1 + sign * step) for sign in (1, -1))
        slope = (above - below) / (2 * step)
        np.testing.assert_allclose(found.scores[:, slot], slope, rtol=1e-5, atol=1e-7)


@torch.no_grad()
def test_a_fully_faded_item_is_left_out() -> None:
    """At strength 0 the item is gone, as in leave-one-out, if a row sees another."""
    model = lively_sasrec(length=6)
    full = model.score(BATCH, TARGETS[:, None])[:, 0]
    lost = explain_batch(model, BATCH, TARGETS, "leave-one-out").scores[0]
    gone = [float((full - score_as_it_fades(model, slot, 0.0))[0]) for slot in range(1, 6)]
    np.testing.assert_allclose(gone, lost[1:], atol=1e-9)


def test_the_derivative_includes_later_blocks() -> None:
    """By finite differences of single weights of the first block."""
    model, step = lively_sasrec(length=6), 1e-6
    with torch.no_grad():
        (first, slope), _ = attention_gradients(make_request(model, BATCH, TARGETS))
        for place in ((0, 1, 5, 2), (1, 0, 5, 5), (0, 0, 3, 1)):
            nudge = torch.zeros_like(first)
            nudge[place] = step
            above, below = (
                model.score(BATCH, TARGETS[:, None], attention=[first + sign * nudge, None])
                for sign in (1, -1)
            )
            expected = (above - below)[place[0], 0] / (2 * step)
            torch.testing.assert_close(slope[place], expected, rtol=1e-5, atol=1e-7)


def test_fading_is_close_to_leave_one_out_in_a_trained_model(run: Run, split: Split) -> None:
    cases = split.held["test"][:100]
    batch, targets = torch.from_numpy(cases.histories(12)), torch.from_numpy(cases.targets)
    one, other = (
        explain_batch(run.first, batch, targets, method).scores.ravel()
        for method in ("fading", "leave-one-out")
    )
    assert np.corrcoef(one, other)[0, 1] > 0.85
