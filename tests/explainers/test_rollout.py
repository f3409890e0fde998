from __future__ import annotations

import torch

from conftest import lively_sasrec, ragged_batch
from whence.explainers import explain_batch
from whence.explainers.rollout import rollout


def test_worked_by_hand() -> None:
    """Two slots, two blocks.

    Ā⁽¹⁾ = ½([1 0; .5 .5] + I) = [1 0; .25 .75], Ā⁽²⁾ = ½([1 0; .2 .8] + I) = [1 0; .1 .9];
    the last row of Ā⁽²⁾Ā⁽¹⁾ is .1·[1 0] + .9·[.25 .75] = [.325 .675].
    """
    first = torch.tensor([[[[1.0, 0.0], [0.5, 0.5]]]])
    second = torch.tensor([[[[1.0, 0.0], [0.2, 0.8]]]])
    torch.testing.assert_close(rollout([first, second]), torch.tensor([[0.325, 0.675]]))


def test_heads_are_averaged_first() -> None:
    heads = torch.tensor([[[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]]])
    torch.testing.assert_close(rollout([heads]), torch.tensor([[0.25, 0.75]]))


def test_equals_the_whole_matrix_product() -> None:
    model, batch = lively_sasrec(blocks=3, heads=2), ragged_batch(6, 8, 30)
    product = torch.eye(8, dtype=torch.float64)
    for weights in model.attentions(batch):
        product = (weights.mean(1) + torch.eye(8)) / 2 @ product
    found = explain_batch(model, batch, torch.zeros(6, dtype=torch.int64), "rollout")
    torch.testing.assert_close(torch.from_numpy(found.scores), product[:, -1].detach())


def test_the_whole_reaches_the_answer() -> None:
    model, batch = lively_sasrec(blocks=3, heads=2), ragged_batch(6, 8, 30)
    total = rollout(model.attentions(batch)).sum(dim=1)
    torch.testing.assert_close(total, torch.ones_like(total))


def test_a_pooling_block_has_no_slot_of_its_own() -> None:
    pooling = torch.tensor([[[[0.2, 0.8]]]])
    torch.testing.assert_close(rollout([pooling]), torch.tensor([[0.2, 0.8]]))
