from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

from conftest import LIVELY, STEPPED, lively_sasrec, ragged_batch
from whence.contract import Explainable, HasItemVectors
from whence.errors import CapabilityError
from whence.explainers import explain_batch
from whence.explainers.neighbours import mean_square_distance
from whence.models import MODELS

TARGETS = torch.tensor([4, 11, 4])


@pytest.mark.parametrize("name", [name for name in STEPPED if not MODELS[name].known_users_only])
def test_scores_follow_from_the_distance(name: str) -> None:
    model, batch = LIVELY[name](items=30), ragged_batch(3, 8, 30)
    assert isinstance(model, HasItemVectors)
    vectors = model.item_vectors().detach().numpy()
    distances = cdist(vectors, vectors)
    far = np.mean(distances**2)
    found = explain_batch(model, batch, TARGETS, "neighbours")
    for case, slot in np.ndindex(*batch.shape):
        item, target = int(batch[case, slot]), int(TARGETS[case])
        expected = math.exp(-(distances[item, target] ** 2) / far) if item >= 0 else 0.0
        assert found.scores[case, slot] == pytest.approx(expected)


def test_the_target_itself_is_nearest() -> None:
    found = explain_batch(
        lively_sasrec(), torch.tensor([[3, 9, 4]]), torch.tensor([9]), "neighbours"
    )
    assert found.scores[0, 1] == 1
    assert found.scores[0].argmax() == 1


def test_scale_shift_and_rotation_change_nothing() -> None:
    """Scores depend on relative distances only."""
    model, batch = lively_sasrec(), ragged_batch(3, 8, 30)
    before = explain_batch(model, batch, TARGETS, "neighbours").scores
    turn = torch.linalg.qr(torch.randn(8, 8, generator=torch.Generator().manual_seed(0)).double())
    with torch.no_grad():
        model.item[1:] = 7 * model.item[1:] @ turn.Q + 3
    np.testing.assert_allclose(explain_batch(model, batch, TARGETS, "neighbours").scores, before)


def test_equal_vectors_all_score_one() -> None:
    model = lively_sasrec()
    with torch.no_grad():
        model.item[1:] = 1.0
    assert mean_square_distance(model.item_vectors()) == 1
    found = explain_batch(model, torch.tensor([[1, 2]]), torch.tensor([3]), "neighbours")
    assert found.scores.tolist() == [[1.0, 1.0]]


def test_a_model_without_vectors_is_an_error() -> None:
    offered = {
        name: getattr(LIVELY["sasrec"]().__class__, name) for name in ("parts", "score", "embed")
    }
    poorer = type("Poorer", (Explainable,), offered)()
    with pytest.raises(CapabilityError, match="no 'item_vectors', which neighbours needs"):
        explain_batch(poorer, torch.tensor([[1]]), torch.tensor([2]), "neighbours")
