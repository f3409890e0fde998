from __future__ import annotations

import pytest
import torch

from conftest import TRANSFORMERS, lively_sasrec, ragged_batch
from whence.errors import InputError
from whence.explainers import explain_batch
from whence.explainers.attention import Attention


@pytest.mark.parametrize("name", list(TRANSFORMERS))
def test_blocks_and_heads_are_counted_from_one(name: str) -> None:
    model, batch, targets = (
        TRANSFORMERS[name](blocks=3, heads=2),
        ragged_batch(4, 8, 30),
        torch.arange(4),
    )
    weights = [one[..., :8] for one in model.attentions(batch)]  # without slots of its own
    expected = {
        "attention-first": weights[0].mean(1)[:, -1],
        "attention-last": weights[2].mean(1)[:, -1],
        "attention-head": weights[2][:, 0, -1],
        "attention:block=2,head=2": weights[1][:, 1, -1],
        "attention:block=2": weights[1].mean(1)[:, -1],
    }
    for method, row in expected.items():
        found = explain_batch(model, batch, targets, method)
        torch.testing.assert_close(torch.from_numpy(found.scores), row.detach())


@pytest.mark.parametrize("explainer", [Attention(block=3), Attention(block=0), Attention(head=3)])
def test_an_unknown_block_or_head_is_an_error(explainer: Attention) -> None:
    with pytest.raises(InputError, match="this model has 1 to 2"):
        explain_batch(lively_sasrec(), ragged_batch(1, 8, 30), torch.tensor([1]), explainer)
