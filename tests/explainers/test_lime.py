from __future__ import annotations

import numpy as np
import pytest
import torch
from games import Played, attention_like, history

from whence.errors import InputError
from whence.explainers import explain_batch
from whence.explainers.lime import Lime, find_fit
from whence.explanation import Explanation

PLAYERS = 7


def asked(explainer: Lime, seed: int = 0, players: int = PLAYERS) -> Explanation:
    model = Played(attention_like(players))
    return explain_batch(model, history(players), torch.tensor([0]), explainer, seed)


def test_equals_a_ridge_regression_with_a_free_intercept() -> None:
    """One least squares with a column of ones and additional rows for the ridge."""
    drawn = find_fit(PLAYERS, 200, 3, 0.25, 2.0).present
    present = drawn.numpy()
    values = attention_like(PLAYERS)(drawn > 0).numpy()
    cosine = (
        present
        @ np.ones(PLAYERS)
        / np.maximum(np.linalg.norm(present, axis=1) * PLAYERS**0.5, 1e-9)
    )
    root = np.exp(-((1 - cosine) ** 2) / 0.25**2) ** 0.25  # √ of the weight √exp(…)
    top = root[:, None] * np.column_stack((present, np.ones(len(present))))
    held = np.column_stack((2.0**0.5 * np.eye(PLAYERS), np.zeros(PLAYERS)))
    right = np.concatenate((root * values, np.zeros(PLAYERS)))
    expected = np.linalg.lstsq(np.concatenate((top, held)), right)[0][:PLAYERS]
    found = asked(Lime(coalitions=200, ridge=2.0), seed=3)
    np.testing.assert_allclose(found.scores[0], expected, atol=1e-9)
    assert found.evaluations.tolist() == [200]


def test_numbers_of_missing_parts_are_uniform() -> None:
    present = find_fit(4, 20_000, 0, 0.25, 1.0).present
    assert (present[0] == 1).all(), "the whole history comes first"
    missing = torch.bincount((4 - present[1:].sum(dim=1)).long(), minlength=5) / 20_000
    np.testing.assert_allclose(missing, [0, 0.25, 0.25, 0.25, 0.25], atol=0.015)
    np.testing.assert_allclose(present[1:].mean(dim=0), 1.5 / 4, atol=0.015)


def test_errors_have_the_right_size() -> None:
    truth = asked(Lime(coalitions=60_000, ridge=0)).scores
    found = [asked(Lime(coalitions=200, ridge=0), seed) for seed in range(1, 41)]
    missed = np.concatenate([one.scores for one in found]) - truth
    reported = np.concatenate([one.error for one in found if one.error is not None])
    assert 0.7 < np.sqrt((missed**2).mean() / (reported**2).mean()) < 1.4


def test_a_linear_game_is_fitted_exactly() -> None:
    slopes = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    model = Played(lambda present: present.double() @ slopes + 4)
    found = explain_batch(model, history(3), torch.tensor([0]), Lime(ridge=0))
    np.testing.assert_allclose(found.scores, slopes[None], atol=1e-12)
    assert found.error is not None
    np.testing.assert_allclose(found.error, 0, atol=1e-12)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            "coalitions=20",
            "coalitions is 20, but LIME on 30 items needs at least 32.",
        ),
        ("kernel_width=0", "a kernel_width above 0"),
        ("ridge=-1", "a ridge of at least 0"),
    ],
)
def test_impossible_settings_are_errors(settings: str, sentence: str) -> None:
    model = Played(attention_like(30))
    with pytest.raises(InputError, match=sentence):
        explain_batch(model, history(30), torch.tensor([0]), f"lime:{settings}")
