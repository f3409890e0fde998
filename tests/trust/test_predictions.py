"""The users of predictions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch

from whence.errors import InputError
from whence.trust import (
    Predictions,
    predictions_of,
)


def four_cases() -> Predictions:
    return predictions_of(np.full((4, 2), 0.5), np.array([0, 1, 0, 1]))


@pytest.mark.parametrize(
    ("users", "said"),
    [
        (np.zeros(3, dtype=np.int64), r"int64 of shape \[3\]"),
        (np.zeros((4, 1), dtype=np.int64), r"int64 of shape \[4, 1\]"),
        (np.zeros(4), r"float64 of shape \[4\]"),
        ([1, 2, 3], r"int64 of shape \[3\]"),
        ([[1], [2], [3], [4]], r"int64 of shape \[4, 1\]"),
        ([1, 2, 3, 4.5], r"float64 of shape \[4\]"),
        ([True, True, False, False], r"bool of shape \[4\]"),
        ("abcd", r"<U4 of shape \[\]"),
        (7, r"int64 of shape \[\]"),
        (torch.zeros(4, requires_grad=True), r"float32 of shape \[4\]"),
        (torch.zeros(2, 2, dtype=torch.int64), r"int64 of shape \[2, 2\]"),
    ],
)
def test_users_that_do_not_fit_the_cases(users: npt.ArrayLike, said: str) -> None:
    with pytest.raises(
        InputError, match=f"^Users must be 4 whole numbers, one per case, not {said}\\.$"
    ):
        four_cases().with_users(users)


@pytest.mark.parametrize("users", [[[1], [2, 3], [4], [5]], torch.zeros(4, dtype=torch.bfloat16)])
def test_users_that_are_no_array(users: npt.ArrayLike) -> None:
    with pytest.raises(InputError, match=r"^Users must be whole numbers, one per case"):
        four_cases().with_users(users)


@pytest.mark.parametrize(
    "users",
    [[3, 3, 8, 3], (3, 3, 8, 3), torch.tensor([3, 3, 8, 3]), np.array([3, 3, 8, 3], np.uint8)],
    ids=["list", "tuple", "tensor", "small numbers"],
)
def test_users_in_any_container(users: npt.ArrayLike) -> None:
    found = four_cases().with_users(users)
    np.testing.assert_array_equal(found.users, np.array([3, 3, 8, 3]))
    assert found.users is not None
    assert found.users.dtype == np.int64
    assert found.user_count == 2
    assert four_cases()[:0].with_users([]).user_count == 0
