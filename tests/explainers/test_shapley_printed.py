"""Algorithm 1 of Baumhauer (2021), against NumPy's least squares and the true Shapley values."""

from __future__ import annotations

from itertools import product
from math import comb

import numpy as np
import pytest
import torch
from games import Played, Value, attention_like, history, shapley_by_orders
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import lively_sasrec, ragged_batch
from whence.arrays import Bools, Floats
from whence.contract import PAD
from whence.errors import InputError
from whence.explainers import explain_batch
from whence.explainers.base import make_request
from whence.explainers.game import Game
from whence.explainers.regression import kernel_regression
from whence.explainers.shapley_printed import PrintedShapley, toss
from whence.explanation import Explanation

TARGET = torch.tensor([0])


def estimate(value: Value, players: int, coalitions: int = 1024, seed: int = 0) -> Explanation:
    explainer = PrintedShapley(coalitions)
    return explain_batch(Played(value), history(players), TARGET, explainer, seed)


def tossed(batch: torch.Tensor, targets: torch.Tensor, count: int, seed: int = 0) -> torch.Tensor:
    """The coins of cases whose slots are all parts."""
    request = make_request(Played(attention_like(batch.shape[1])), batch, targets, seed)
    return toss(Game(request, torch.arange(batch.shape[1])), count)


def slow_fit(coalitions: Bools, values: Floats, heavy: float) -> Floats:
    """Weighted least squares with an intercept; an infinite weight is a huge one."""
    players = coalitions.shape[1]

    def weight(size: int) -> float:
        ways = comb(players, size) * size * (players - size)
        return (players - 1) / ways if ways else heavy

    root = np.sqrt([weight(int(one.sum())) for one in coalitions])
    rows = np.column_stack((np.ones(len(coalitions)), coalitions))
    found: Floats = np.linalg.lstsq(root[:, None] * rows, root * values)[0]
    return found[1:]


@pytest.mark.parametrize(
    ("players", "count", "ends"), [(4, 300, 2), (9, 200, None), (25, 1024, 0), (70, 1024, 0)]
)
def test_equals_plain_least_squares_on_the_same_coins(
    players: int, count: int, ends: int | None
) -> None:
    value = attention_like(players)
    drawn_ends = set()
    for seed in range(12):
        drawn = tossed(history(players), TARGET, count, seed)[0]
        drawn_ends.add(len({*drawn.sum(dim=1).tolist()} & {0, players}))
        # The kernel of 70 items is so small that weights of the ends need not be huge.
        expected = slow_fit(drawn.numpy(), value(drawn).numpy(), heavy=1e9)
        found = estimate(value, players, count, seed)
        assert found.evaluations.tolist() == [count]
        np.testing.assert_allclose(found.scores[0], expected, atol=1e-6 * np.abs(expected).max())
    assert drawn_ends == ({0, 1, 2} if ends is None else {ends})


@pytest.mark.parametrize("ends", list(product((False, True), repeat=2)))
def test_the_fit_passes_through_the_ends_that_are_drawn(ends: tuple[bool, bool]) -> None:
    """And through no end that is not: moving it changes nothing."""
    players, value = 6, attention_like(6)
    every = torch.tensor(list(product((False, True), repeat=players)))
    kept = torch.tensor([ends[0], *[True] * (len(every) - 2), ends[1]])
    coalitions = every[kept]
    values = value(coalitions)[None]
    moved = [torch.zeros(1, dtype=torch.float64) if here else TARGET + 5.0 for here in ends]
    at_ends = value(every[[0, -1]])
    phi, _ = kernel_regression(coalitions[None], values, at_ends[:1], at_ends[1:])
    again, _ = kernel_regression(
        coalitions[None], values, at_ends[:1] + moved[0], at_ends[1:] + moved[1]
    )
    assert torch.equal(phi, again)
    expected = slow_fit(coalitions.numpy(), values[0].numpy(), heavy=1e12)
    np.testing.assert_allclose(phi[0], expected, atol=1e-9)
    assert torch.isclose(phi.sum(), at_ends[1] - at_ends[0]) == all(ends)
    if all(ends):
        np.testing.assert_allclose(phi[0], shapley_by_orders(value, players), atol=1e-12)


@settings(max_examples=20, deadline=None)
@given(players=st.integers(1, 40), seed=st.integers(0, 2**20))
def test_an_additive_game_is_found_exactly(players: int, seed: int) -> None:
    worth = np.random.default_rng(seed).normal(size=players)

    def value(present: torch.Tensor) -> torch.Tensor:
        return 3 + present.double() @ torch.from_numpy(worth)

    found = estimate(value, players, 400, seed)
    np.testing.assert_allclose(found.scores[0], worth, atol=1e-9)
    assert found.error is not None
    assert found.error.max() < 1e-7


@pytest.mark.parametrize("players", [1, 2, 3, 6])
def test_many_coins_give_the_shapley_values_of_a_short_history(players: int) -> None:
    """Both ends are drawn, so the fit converges to the definition."""
    value = attention_like(players, seed=3)
    found = estimate(value, players, 20_000)
    truth = shapley_by_orders(value, players)
    assert found.error is not None
    assert (np.abs(found.scores[0] - truth) <= 4 * found.error[0] + 1e-9).all()
    assert found.error.max() < 0.03


def test_a_long_history_stays_biased() -> None:
    """More coins do not lead to Shapley values, since they draw neither end.

    The first item of any coalition is worth 1, which 25 items share; item 0 adds another 1.
    """
    players = 25

    def value(present: torch.Tensor) -> torch.Tensor:
        return (present.sum(dim=1) > 0).double() + present[:, 0]

    found = estimate(value, players, 20_000)
    np.testing.assert_allclose(found.scores[0], [1, *[0] * (players - 1)], atol=1e-6)
    assert found.full_score - found.empty_score == 2, "which Shapley values would sum to"


@pytest.mark.parametrize("players", [6, 12, 50])
def test_errors_have_the_right_size(players: int) -> None:
    """Over seeds, estimates vary as much as they report, also with few heavy coalitions."""
    value = attention_like(players)
    found = [estimate(value, players, 1024, seed) for seed in range(40)]
    scores = np.concatenate([one.scores for one in found])
    reported = np.concatenate([one.error for one in found if one.error is not None])
    ratio = np.sqrt(scores.var(axis=0, ddof=1).mean() / (reported**2).mean())
    assert 0.8 < ratio < 1.15


def test_coins_are_fair_and_independent() -> None:
    batch = torch.arange(140).view(2, 70)
    drawn = tossed(batch, torch.zeros(2, dtype=torch.int64), 20_000).double()
    assert torch.allclose(drawn.mean(dim=1), torch.tensor(0.5, dtype=torch.float64), atol=0.02)
    both = torch.cat(drawn.unbind(), dim=1)
    correlations = torch.corrcoef(both.T) - torch.eye(140)
    assert correlations.abs().max() < 0.04


def test_every_history_target_and_seed_has_its_own_coins() -> None:
    """And the same ones again, whatever else is in the batch."""
    batch = torch.tensor([[1, 2, 3, 4], [1, 2, 3, 5], [1, 2, 3, 4], [4, 3, 2, 1]])
    targets = torch.tensor([7, 7, 8, 7])
    drawn = tossed(batch, targets, 100)
    other = tossed(batch, targets, 100, seed=1)
    different = {tuple(one.flatten().tolist()) for one in (*drawn, *other)}
    assert len(different) == 8
    assert torch.equal(tossed(batch[[2]], targets[[2]], 100), drawn[[2]])
    assert torch.equal(tossed(batch, targets, 300)[:, :100], drawn)


def test_the_same_seed_gives_the_same_bits_alone_and_padded() -> None:
    model, batch, targets = lively_sasrec(), ragged_batch(6, 8, 30), torch.arange(6)
    found = explain_batch(model, batch, targets, "shapley-printed", seed=3)
    again = explain_batch(model, batch, targets, "shapley-printed", seed=3)
    assert np.array_equal(found.scores, again.scores)
    assert not np.array_equal(
        found.scores, explain_batch(model, batch, targets, "shapley-printed", seed=4).scores
    )
    for case in range(6):
        items = batch[case][batch[case] != PAD][None]
        alone = explain_batch(model, items, targets[[case]], "shapley-printed", seed=3)
        own = found.scores[case, -items.shape[1] :]
        np.testing.assert_allclose(alone.scores[0], own, rtol=1e-7, atol=1e-12)


def test_too_few_coalitions_are_an_error() -> None:
    with pytest.raises(InputError, match="on 50 items needs at least 52. Set coalitions=52 or"):
        estimate(attention_like(50), 50, 51)
    coalitions = torch.tensor([[[True, False], [False, True]] * 2])
    values, ends = torch.zeros(1, 4, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    with pytest.raises(InputError, match="The 4 coalitions drawn cannot tell 2 items apart. Draw"):
        kernel_regression(coalitions, values, ends, ends)
