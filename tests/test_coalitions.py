from __future__ import annotations

from math import comb

import numpy as np
import pytest
import torch
from scipy import stats

from whence.coalitions import SizeSampler, size_shares
from whence.randomness import CounterRandom, Randomness


@pytest.mark.parametrize("count", [2, 3, 10, 50])
def test_the_shares_are_the_kernel_times_the_number_of_coalitions(count: int) -> None:
    kernel = [
        comb(count, size) * (count - 1) / (comb(count, size) * size * (count - size))
        for size in range(1, count)
    ]
    shares = size_shares(count)
    assert shares.shape == (count + 1,)
    assert shares[0] == shares[-1] == 0
    np.testing.assert_allclose(shares[1:-1], np.array(kernel) / sum(kernel))


@pytest.mark.parametrize("count", [3, 7, 50])
def test_sizes_are_drawn_by_their_shares(count: int) -> None:
    numbers = CounterRandom([Randomness(3).key("part_dropout")]).integers(
        torch.tensor(0), range(1), 50_000
    )[0, 0]
    drawn = SizeSampler(50).draw(torch.full((50_000,), count), numbers)
    found = np.bincount(drawn.numpy(), minlength=count + 1)
    expected = 50_000 * size_shares(count)
    assert found[0] == found[count] == 0
    assert stats.chisquare(found[1:count], expected[1:count]).pvalue > 0.01


def test_sizes_fit_their_numbers_of_parts() -> None:
    counts = torch.tensor([[0, 1, 2, 3], [50, 2, 1, 0]])
    for number in (0, 1, 2**62 - 1, 2**62 - 2, 2**61 + 1):
        drawn = SizeSampler(50).draw(counts, torch.full_like(counts, number))
        assert drawn[0, :3].tolist() == [0, 1, 1]
        assert drawn[1, 1:].tolist() == [1, 1, 0]
        assert 1 <= drawn[0, 3] <= 2
        assert 1 <= drawn[1, 0] <= 49
