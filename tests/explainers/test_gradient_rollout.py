from __future__ import annotations

import torch

from conftest import lively_sasrec, ragged_batch
from whence.explainers import explain_batch
from whence.explainers.base import make_request
from whence.explainers.fading import attention_gradients
from whence.explainers.rollout import _roll


def test_equals_the_whole_matrix_product() -> None:
    model, batch, targets = lively_sasrec(blocks=3), ragged_batch(6, 8, 30), torch.arange(6)
    one = torch.eye(8, dtype=torch.float64)
    product = one.expand(6, 8, 8)
    for weights, slope in attention_gradients(make_request(model, batch, targets)):
        speaking = (weights * slope).clamp(min=0).mean(dim=1)
        product = product + speaking @ product
    expected = (product - one)[:, -1] * model.parts(batch)
    found = explain_batch(model, batch, targets, "gradient-rollout")
    torch.testing.assert_close(torch.from_numpy(found.scores), expected)


def test_worked_by_hand() -> None:
    """(I + [0 0; .2 .3])(I + [.5 0; .1 0]) − I = [.5 0; .43 .3]."""
    first, second = (
        torch.tensor([[[0.5, 0.0], [0.1, 0.0]]]),
        torch.tensor([[[0.0, 0.0], [0.2, 0.3]]]),
    )
    torch.testing.assert_close(_roll([first, second]), torch.tensor([[0.43, 0.3]]))


def test_a_pooling_block_has_no_slot_of_its_own() -> None:
    first, pooling = torch.tensor([[[0.5, 0.0], [0.1, 0.0]]]), torch.tensor([[[0.2, 0.3]]])
    torch.testing.assert_close(_roll([first, pooling]), torch.tensor([[0.33, 0.3]]))


def test_negative_attention_gradients_do_not_count() -> None:
    model, batch, targets = lively_sasrec(blocks=1), ragged_batch(6, 8, 30), torch.arange(6)
    found = explain_batch(model, batch, targets, "gradient-rollout").scores
    assert (found >= 0).all()
    assert (found[:, :-1] == 0).any()
