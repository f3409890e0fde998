from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.arrays import Bools, Floats
from whence.trust import mu_lin, mu_log

Mu = Callable[[Floats, Floats, Bools], Floats]
Ranks = tuple[int, ...]

DIVISOR: dict[Mu, Callable[[int], float]] = {
    mu_log: lambda rank: math.log2(rank + 2),
    mu_lin: lambda rank: rank + 1,
}
both = pytest.mark.parametrize("mu", [mu_log, mu_lin])
tied_rows = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=2, max_size=5)


def of_ranks(mu: Mu, first: Ranks, second: Ranks) -> float:
    one, two = (-np.array([ranks], dtype=np.float64) for ranks in (first, second))
    return float(mu(one, two, np.ones(one.shape, dtype=np.bool_))[0])


def printed(mu: Mu, first: Ranks, second: Ranks) -> float:
    """The formulas of section 3.4.2 as they stand there, but for the offsets."""
    divisor, n = DIVISOR[mu], len(first)

    def gain(x: Ranks, y: Ranks) -> float:
        return sum((n - a) / divisor(b) for a, b in zip(x, y, strict=True))

    def normalised(x: Ranks, y: Ranks) -> float:
        up, down = tuple(range(1, n + 1)), tuple(range(n, 0, -1))
        most, least = gain(up, up), gain(up, down)
        return 2 * (gain(x, y) - least) / (most - least) - 1

    return normalised(first, second) / 2 + normalised(second, first) / 2


@pytest.mark.parametrize(
    ("mu", "second", "expected"),
    [
        (mu_log, (1, 2, 4, 3), 0.891),
        (mu_log, (2, 1, 3, 4), 0.673),
        (mu_lin, (1, 2, 4, 3), 0.898),
        (mu_lin, (2, 1, 3, 4), 0.661),
    ],
)
def test_the_papers_examples(mu: Mu, second: Ranks, expected: float) -> None:
    assert of_ranks(mu, (1, 2, 3, 4), second) == pytest.approx(expected, abs=5e-4)


@both
@pytest.mark.parametrize("n", [2, 4, 5])
def test_over_all_orders(mu: Mu, n: int) -> None:
    """Equals the print; 0 on average; 1 for the same order alone, −1 for the opposite alone."""
    ranks = tuple(range(1, n + 1))
    found = {order: of_ranks(mu, ranks, order) for order in permutations(ranks)}
    for order, value in found.items():
        assert value == pytest.approx(printed(mu, ranks, order), abs=1e-9)
    assert np.mean(list(found.values())) == pytest.approx(0, abs=1e-9)
    assert [order for order, value in found.items() if value >= 1] == [ranks]
    assert [order for order, value in found.items() if value <= -1] == [ranks[::-1]]
    assert (found[ranks], found[ranks[::-1]]) == (1.0, -1.0), "to the last bit"


@both
@given(
    orders=st.integers(2, 40).flatmap(lambda n: st.tuples(*[st.permutations(range(1, n + 1))] * 2))
)
def test_equals_the_print_and_is_symmetric(mu: Mu, orders: tuple[list[int], list[int]]) -> None:
    one, two = map(tuple, orders)
    found = of_ranks(mu, one, two)
    assert found == pytest.approx(printed(mu, one, two), abs=1e-9)
    assert found == of_ranks(mu, two, one)
    assert -1 <= found <= 1


def ways_to_break(values: list[int]) -> Iterator[Ranks]:
    """The ranks of every order in which no smaller value stands before a larger."""
    for order in permutations(range(len(values))):
        placed = [values[part] for part in order]
        if placed == sorted(values, reverse=True):
            yield tuple(order.index(part) + 1 for part in range(len(values)))


@both
@given(row=tied_rows, padding=st.integers(0, 2))
def test_a_tie_is_the_mean_over_its_orders(
    mu: Mu, row: list[tuple[int, int]], padding: int
) -> None:
    """Those of either side by themselves; where one side ties all, there is no ranking."""
    first, second = ([pair[side] for pair in row] for side in (0, 1))
    blank = [7] * padding
    one, two = (np.array([blank + side], dtype=np.float64) for side in (first, second))
    found = mu(one, two, np.array([[False] * padding + [True] * len(row)]))[0]
    if len(set(first)) < 2 or len(set(second)) < 2:
        assert np.isnan(found)
        return
    slow = [printed(mu, x, y) for x, y in product(ways_to_break(first), ways_to_break(second))]
    assert found == pytest.approx(np.mean(slow), abs=1e-9)


@both
def test_a_single_part_has_no_ranking(mu: Mu) -> None:
    parts = np.array([[False, True, False], [False, False, False], [True, True, False]])
    one = np.array([[3.0, 2.0, 1.0]] * 3)
    np.testing.assert_array_equal(mu(one, one, parts), [np.nan, np.nan, 1.0])


def test_agreement_at_the_top_makes_mu_lin_the_larger() -> None:
    """Ten parts: the same first three, and then chance; and the other way round."""
    rng = np.random.default_rng(0)
    one = np.tile(-np.arange(10.0), (200, 1))
    shuffled = rng.permuted(one[:, 3:], axis=1)
    parts = np.ones(one.shape, dtype=np.bool_)
    top = np.concatenate((one[:, :3], shuffled), axis=1)
    assert mu_log(one, top, parts).mean() < mu_lin(one, top, parts).mean()
    bottom = np.concatenate((rng.permuted(one[:, :7], axis=1), one[:, 7:]), axis=1)
    assert mu_log(one, bottom, parts).mean() > mu_lin(one, bottom, parts).mean()


@both
def test_slices_do_not_matter(mu: Mu, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    one, two = rng.integers(0, 5, (2, 20, 6)).astype(np.float64)
    parts = rng.random((20, 6)) < 0.8
    whole = mu(one, two, parts)
    monkeypatch.setattr("whence.memory.SCORES_AT_ONCE", 3 * 36)
    np.testing.assert_array_equal(mu(one, two, parts), whole)
