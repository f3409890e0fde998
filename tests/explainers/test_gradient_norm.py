from __future__ import annotations

import numpy as np
import torch

from conftest import lively_sasrec, ragged_batch
from whence.explainers import explain_batch
from whence.explainers.base import make_request
from whence.explainers.gradients import score_gradient


def test_equals_finite_differences() -> None:
    model, batch, targets = lively_sasrec(), ragged_batch(3, 5, 30), torch.tensor([4, 11, 4])
    gradient = score_gradient(make_request(model, batch, targets))
    embedded = model.embed(batch).detach()
    step = 1e-6
    for place in np.ndindex(*embedded.shape):
        nudge = torch.zeros_like(embedded)
        nudge[place] = step
        above, below = (
            model.score(batch, targets[:, None], embedded=embedded + sign * nudge)[place[0], 0]
            for sign in (1, -1)
        )
        slope = (above - below) / (2 * step)
        torch.testing.assert_close(gradient[place], slope.detach(), rtol=1e-5, atol=1e-7)


def test_the_targets_own_embedding_is_held_fixed() -> None:
    """The target may be in the history; the shared table must not count it twice."""
    model, batch = lively_sasrec(), torch.tensor([[3, 9, 4]])
    gradient = score_gradient(make_request(model, batch, torch.tensor([9])))
    model.zero_grad()
    rows, _ = model.encode(batch)
    (rows[0, -1] @ model.item[10].detach()).backward()
    assert model.item.grad is not None
    torch.testing.assert_close(gradient[0], model.item.grad[batch[0] + 1])


def test_the_score_is_the_norm_of_each_slot() -> None:
    model, batch, targets = lively_sasrec(), ragged_batch(3, 8, 30), torch.tensor([4, 11, 4])
    found = explain_batch(model, batch, targets, "gradient-norm")
    gradient = score_gradient(make_request(model, batch, targets)).numpy()
    expected = np.sqrt((gradient**2).sum(-1)) * found.parts
    np.testing.assert_allclose(found.scores, expected)
