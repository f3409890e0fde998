from __future__ import annotations

import pytest
import torch

from conftest import TRANSFORMERS, ragged_batch
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


@pytest.mark.parametrize("name", list(TRANSFORMERS))
def test_equals_the_whole_matrix_product(name: str) -> None:
    """Attention passes through slots of the model, which are then left out."""
    model, batch = TRANSFORMERS[name](blocks=3, heads=2), ragged_batch(6, 8, 30)
    blocks = model.attentions(batch)
    itself = torch.eye(blocks[0].shape[-1], dtype=torch.float64)
    product = itself
    for weights in blocks:
        product = (weights.mean(1) + itself) / 2 @ product
    found = explain_batch(model, batch, torch.zeros(6, dtype=torch.int64), "rollout")
    torch.testing.assert_close(torch.from_numpy(found.scores), product[:, -1, :8].detach())


@pytest.mark.parametrize("name", list(TRANSFORMERS))
def test_rollout_sums_to_one(name: str) -> None:
    model, batch = TRANSFORMERS[name](blocks=3, heads=2), ragged_batch(6, 8, 30)
    total = rollout(model.attentions(batch)).sum(dim=1)
    torch.testing.assert_close(total, torch.ones_like(total))


def test_a_pooling_block_has_no_slot_of_its_own() -> None:
    pooling = torch.tensor([[[[0.2, 0.8]]]])
    torch.testing.assert_close(rollout([pooling]), torch.tensor([[0.2, 0.8]]))
