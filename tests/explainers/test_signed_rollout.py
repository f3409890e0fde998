from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from conftest import lively_sasrec, ragged_batch
from whence.contract import PAD, All, Explainable
from whence.errors import CapabilityError
from whence.explainers import compare_batch, explain_batch

BATCH, TARGETS = ragged_batch(6, 8, 30), torch.arange(6)


@pytest.mark.parametrize("side", ["fading", "leave-one-out", "gradient-input"])
def test_size_is_from_rollout_and_sign_from_the_other(side: str) -> None:
    method = f"signed-rollout:sign={side}"
    found = compare_batch(lively_sasrec(), BATCH, TARGETS, [method, "rollout", side])
    expected = found["rollout"].scores * np.sign(found[side].scores)
    np.testing.assert_allclose(found[method].scores, expected)
    assert (expected < 0).any()
    cost = found["rollout"].evaluations + found[side].evaluations
    assert np.array_equal(found[method].evaluations, cost)


def test_both_is_the_product() -> None:
    method = "signed-rollout:sign=both"
    found = compare_batch(lively_sasrec(), BATCH, TARGETS, [method, "rollout", "leave-one-out"])
    expected = found["rollout"].scores * found["leave-one-out"].scores
    np.testing.assert_allclose(found[method].scores, expected)


class Unembedded(Explainable):
    """A model without embeddings."""

    removal = "masked"

    def __init__(self) -> None:
        self.inner = lively_sasrec()

    def parts(self, batch: torch.Tensor) -> torch.Tensor:
        return batch != PAD

    def score(
        self,
        batch: torch.Tensor,
        targets: torch.Tensor | All,
        *,
        present: torch.Tensor | None = None,
        embedded: torch.Tensor | None = None,
        attention: Sequence[torch.Tensor | None] | None = None,
    ) -> torch.Tensor:
        return self.inner.score(batch, targets, present=present, attention=attention)

    def attentions(
        self, batch: torch.Tensor, targets: torch.Tensor | None = None
    ) -> list[torch.Tensor]:
        return self.inner.attentions(batch)


def test_needs_depend_on_the_sign() -> None:
    explain_batch(Unembedded(), BATCH, TARGETS, "signed-rollout")
    with pytest.raises(CapabilityError, match="has no 'embed'"):
        explain_batch(Unembedded(), BATCH, TARGETS, "signed-rollout:sign=gradient-input")
