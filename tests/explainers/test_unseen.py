"""An item that the model ignores scores 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from conftest import lively_sasrec, ragged_batch
from whence.contract import Explainable
from whence.explainers import EXPLAINERS, able, explain_batch
from whence.models.sasrec import SASRec

UNSEEN = -3
METHODS = [name for name in able(lively_sasrec(), EXPLAINERS) if EXPLAINERS[name].cost != "0"]
"""Those that ask the model."""


class IgnoresOneItem(SASRec):
    """Ignores the third newest item, in every block and row."""

    def encode(
        self,
        batch: torch.Tensor,
        *,
        present: torch.Tensor | None = None,
        **more: Any,  # noqa: ANN401
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        seen = torch.ones_like(batch, dtype=torch.bool) if present is None else present.clone()
        seen[:, UNSEEN] = False
        return super().encode(batch, present=seen, **more)

    score_coalitions = Explainable.score_coalitions


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("method", METHODS)
def test_an_unattended_item_scores_zero(method: str, blocks: int) -> None:
    model = lively_sasrec(blocks=blocks)
    model.__class__ = IgnoresOneItem
    batch = ragged_batch(6, 8, 30).clamp(min=0)
    found = explain_batch(model, batch, torch.arange(6), method)
    unseen, others = found.scores[:, UNSEEN], np.delete(found.scores, UNSEEN % 8, axis=1)
    allowed = 0.0 if found.error is None else 4 * found.error[:, UNSEEN]
    assert (np.abs(unseen) <= allowed + 1e-9).all()
    assert np.abs(others).max() > 1e-3
