from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.spatial import distance_matrix

from whence.errors import InputError
from whence.maps import nearest


def vectors(count: int = 50, width: int = 6) -> torch.Tensor:
    return torch.randn(count, width, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("k", [1, 7, 49])
def test_it_is_the_sorted_distance_matrix(k: int) -> None:
    """As Jain (2019) computes it."""
    distances = distance_matrix(vectors(), vectors())
    np.fill_diagonal(distances, np.inf)
    found = nearest(vectors(), k)
    assert (found.numbers == np.argsort(distances, axis=1)[:, :k]).all()
    np.testing.assert_allclose(found.distances, np.sort(distances, axis=1)[:, :k], rtol=1e-6)


def test_a_few_at_a_time_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = nearest(vectors(), 5)
    for numbers in (1, 170):
        monkeypatch.setattr("whence.memory.SCORES_AT_ONCE", numbers)
        pieces = nearest(vectors(), 5)
        assert (pieces.numbers == whole.numbers).all()
        np.testing.assert_allclose(pieces.distances, whole.distances, rtol=1e-12)


def test_far_from_0_and_equal_ones_are_still_told_apart() -> None:
    line = torch.tensor([[0.0], [1.0], [3.0], [3.0], [7.0]]) + 1e6
    found = nearest(line, 3)
    assert found.numbers.tolist() == [[1, 2, 3], [0, 2, 3], [3, 1, 0], [2, 1, 0], [2, 3, 1]]
    assert found.distances.tolist() == [[1, 3, 3], [1, 2, 2], [0, 2, 3], [0, 2, 3], [4, 4, 6]]


@pytest.mark.parametrize(("shape", "k"), [((5, 2), 5), ((5, 2), 0), ((1, 2), 1), ((5,), 1)])
def test_who_has_no_neighbours_is_told(shape: tuple[int, ...], k: int) -> None:
    with pytest.raises(InputError, match=f"have no {k} neighbours each"):
        nearest(torch.zeros(shape), k)


def test_what_is_no_number_is_said() -> None:
    with pytest.raises(InputError, match="finite"):
        nearest(torch.tensor([[1.0], [torch.inf]]), 1)
