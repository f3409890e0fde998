from __future__ import annotations

import numpy as np
import pytest
import torch
from captum.attr import FeatureAblation

from conftest import lively_sasrec, ragged_batch
from whence.contract import ALL
from whence.explainers import explain_batch


def test_equals_captum_ablation_in_logits_and_probability() -> None:
    model, batch, targets = lively_sasrec(), ragged_batch(4, 8, 30), torch.tensor([4, 11, 2, 7])
    parts = model.parts(batch)

    def logit(present: torch.Tensor) -> torch.Tensor:
        return model.score(batch, targets[:, None], present=present > 0)[:, 0]

    def probability(present: torch.Tensor) -> torch.Tensor:
        chances = model.score(batch, ALL, present=present > 0).softmax(dim=1)
        return chances.gather(1, targets[:, None])[:, 0]

    for method, function in (
        ("leave-one-out", logit),
        ("leave-one-out-probability", probability),
    ):
        with torch.no_grad():
            theirs = FeatureAblation(function).attribute(parts.double(), baselines=0.0)
        ours = explain_batch(model, batch, targets, method)
        np.testing.assert_allclose(ours.scores, (theirs * parts).numpy(), atol=1e-12)
        assert (ours.scores < 0).any(), "some items argue against"


def test_a_single_item_is_the_whole_history() -> None:
    model = lively_sasrec()
    found = explain_batch(model, torch.tensor([[5]]), torch.tensor([8]), "leave-one-out")
    np.testing.assert_allclose(found.scores[:, 0], found.full_score - found.empty_score)


def test_slices_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch, targets = lively_sasrec(), ragged_batch(30, 8, 30), torch.arange(30)
    whole = explain_batch(model, batch, targets, "leave-one-out-probability").scores
    monkeypatch.setattr("whence.memory.SCORES_AT_ONCE", 30 * 7)
    sliced = explain_batch(model, batch, targets, "leave-one-out-probability").scores
    np.testing.assert_allclose(sliced, whole, atol=1e-12)
