"""EASE, compared with an inverse in double precision and with loops."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conftest import interactions_of
from whence.contract import ALL, PAD
from whence.data import Split, last_two
from whence.errors import InputError
from whence.models import ease, fitted_model
from whence.models.ease import EASE

Table = npt.NDArray[np.float64]


def ease_of(split: Split, name: str = "ease", **settings: float) -> EASE:
    found = fitted_model(name, settings, split)
    assert isinstance(found, EASE)
    return found


def stored(model: EASE) -> Table:
    """The weights that it has, as a whole matrix."""
    every = torch.arange(model.terms.item_count)
    return model.terms.at(every[:, None], every).double().numpy()


def by_inverse(split: Split, regularization: float = 5.0) -> Table:
    """Return B, from a loop over the users and an inverse of the whole matrix."""
    data = split.interactions
    chosen = np.zeros((data.user_count, data.item_count))
    for user in range(data.user_count):
        chosen[user, data.items[data.offsets[user] : split.train_ends[user]]] = 1
    sizes = chosen.sum(axis=1)
    ridge = regularization * sizes[sizes > 0].mean()
    inverse = np.linalg.inv(chosen.T @ chosen + ridge * np.eye(data.item_count))
    weights: Table = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0)
    return weights


@pytest.mark.parametrize("at_once", [4_000_000, 1_000, 1])
@pytest.mark.parametrize("regularization", [0.5, 5.0])
def test_weights_are_those_of_an_inverse_in_double_precision(
    split: Split, regularization: float, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many rows are read at a time."""
    monkeypatch.setattr(ease, "cases_at_once", lambda count: max(1, at_once // count))
    ease._COMPUTED.clear()
    found = stored(ease_of(split, regularization=regularization))
    np.testing.assert_allclose(found, by_inverse(split, regularization), atol=2e-6)


@given(
    users=st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=8), min_size=1, max_size=12),
    regularization=st.floats(0.1, 100),
)
def test_any_data(users: list[list[int]], regularization: float) -> None:
    split = last_two(interactions_of(users))
    found = stored(ease_of(split, regularization=regularization))
    np.testing.assert_allclose(found, by_inverse(split, regularization), atol=1e-5)


def test_weights_minimize_the_loss(split: Split) -> None:
    """‖X − XB‖² + λ‖B‖² with a diagonal of 0: no small change of one column is better."""
    data, weights = split.interactions, by_inverse(split)
    chosen = np.zeros((data.user_count, data.item_count))
    for user in range(data.user_count):
        chosen[user, data.items[data.offsets[user] : split.train_ends[user]]] = 1
    ridge = 5 * chosen.sum(axis=1).mean()
    slope = chosen.T @ (chosen @ weights - chosen) + ridge * weights
    np.fill_diagonal(slope, 0)
    np.testing.assert_allclose(slope, 0, atol=1e-9)


def test_the_largest_weights_are_stored(split: Split) -> None:
    found, whole = stored(ease_of(split, neighbours=7)), by_inverse(split)
    for row, expected in zip(found, whole, strict=True):
        assert np.count_nonzero(row) == 7
        least = np.sort(np.abs(expected))[-7]
        np.testing.assert_allclose(row, np.where(np.abs(expected) >= least, expected, 0), atol=2e-6)


def test_the_most_frequent_items_take_part(split: Split) -> None:
    """As if the other items were not there, except in the mean that λ is a multiple of."""
    kept = np.argsort(-split.item_counts(), kind="stable")[:40]
    found = stored(ease_of(split, max_items=40))
    data = split.interactions
    chosen = np.zeros((data.user_count, data.item_count))
    for user in range(data.user_count):
        chosen[user, data.items[data.offsets[user] : split.train_ends[user]]] = 1
    ridge, some = 5 * chosen.sum(axis=1).mean(), chosen[:, kept]
    inverse = np.linalg.inv(some.T @ some + ridge * np.eye(40))
    expected = np.zeros_like(found)
    expected[np.ix_(kept, kept)] = -inverse / np.diag(inverse)
    np.fill_diagonal(expected, 0)
    np.testing.assert_allclose(found, expected, atol=2e-6)


@pytest.mark.parametrize(("name", "recency"), [("ease", 1.0), ("recent-ease", 0.8)])
def test_scores_by_loops(name: str, recency: float, split: Split) -> None:
    model, weights = ease_of(split, name), by_inverse(split)
    assert model.removal == ("dropped" if name == "ease" else "zeroed")
    batch = torch.tensor([[PAD, 3, 5, 3, 8], [PAD, PAD, PAD, 9, 1], [2, 4, 6, 8, 10]])
    present = torch.tensor(
        [[True] * 5, [True, True, True, True, False], [False, True] * 2 + [True]]
    )
    for seen in (torch.ones_like(present), present):
        found = model.score(batch, ALL, present=seen).numpy()
        for row, history, there in zip(found, batch.tolist(), seen.tolist(), strict=True):
            expected, counted = np.zeros(len(row)), set()
            for back, (item, here) in enumerate(zip(history[::-1], there[::-1], strict=True)):
                if here and item != PAD and item not in counted:
                    expected += recency**back * weights[item]
                    counted.add(item)
            np.testing.assert_allclose(row, expected, atol=1e-5)


def test_both_models_share_one_matrix(split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    ease._COMPUTED.clear()
    one = ease_of(split)
    monkeypatch.setattr(ease, "_compute_weights", None)
    other = ease_of(split, "recent-ease")
    assert torch.equal(one.terms.values, other.terms.values)
    assert one.terms.values.data_ptr() != other.terms.values.data_ptr()


def test_a_regularization_too_small_is_one_sentence() -> None:
    users = [list(range(40)) for _ in range(60)]  # all columns are equal
    with pytest.raises(InputError, match=r"cannot invert .* Raise regularization\.$"):
        ease_of(last_two(interactions_of(users)), regularization=1e-12)
