from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy

from whence.errors import InputError
from whence.trust import DIVERGENCES, jensen_shannon, symmetrised_kl
from whence.trust.faithfulness.curves import find_divergence

logits = st.lists(st.tuples(st.floats(-9, 9), st.floats(-9, 9)), min_size=1, max_size=12)


def log_of(*probabilities: float) -> torch.Tensor:
    return torch.tensor(probabilities, dtype=torch.float64).log()


@given(drawn=logits)
def test_equal_scipys_both_ways(drawn: list[tuple[float, float]]) -> None:
    log_p, log_q = torch.tensor(drawn, dtype=torch.float64).log_softmax(dim=0).T
    p, q = log_p.exp().numpy(), log_q.exp().numpy()
    both = (entropy(p, q) + entropy(q, p)) / 2
    assert float(symmetrised_kl(log_p, log_q)) == pytest.approx(both, abs=1e-12)
    assert float(jensen_shannon(log_p, log_q)) == pytest.approx(jensenshannon(p, q) ** 2, abs=1e-12)
    for divergence in DIVERGENCES.values():
        found = float(divergence.between(log_p, log_q))
        assert found == float(divergence.between(log_q, log_p))
        assert float(divergence.between(log_p, log_p)) == 0 <= found <= divergence.most


def test_by_hand() -> None:
    """P = (½, ½), Q = (¼, ¾): KLs of ½ ln(4/3) and ¾ ln 3 − ln 2; M = (⅜, ⅝)."""
    p, q = log_of(0.5, 0.5), log_of(0.25, 0.75)
    there, back = math.log(4 / 3) / 2, 0.75 * math.log(3) - math.log(2)
    assert float(symmetrised_kl(p, q)) == pytest.approx((there + back) / 2)
    to_middle = math.log(4 / 3) / 2 + math.log(4 / 5) / 2
    from_q = math.log(2 / 3) / 4 + 3 * math.log(6 / 5) / 4
    assert float(jensen_shannon(p, q)) == pytest.approx((to_middle + from_q) / 2)


def test_impossible_items_are_no_nan() -> None:
    """What neither holds possible counts nothing; what one alone does is infinitely far by KL."""
    p, q = log_of(0.5, 0.5, 0.0), log_of(0.25, 0.75, 0.0)
    for divergence in (symmetrised_kl, jensen_shannon):
        assert float(divergence(p, q)) == pytest.approx(float(divergence(p[:2], q[:2])))
    here, there = log_of(1.0, 0.0), log_of(0.0, 1.0)
    assert float(symmetrised_kl(here, there)) == math.inf
    assert float(jensen_shannon(here, there)) == pytest.approx(math.log(2))
    tiny = torch.tensor([0.0, -300.0])  # too little for a number, and none at all
    none = torch.tensor([0.0, -math.inf])
    assert float(symmetrised_kl(tiny, none)) == float(jensen_shannon(tiny, none)) == 0.0


@pytest.mark.parametrize("nearness", [1e-3, 1.0, 30.0])
def test_single_precision_is_enough_for_large_catalogs(nearness: float) -> None:
    generator = torch.Generator().manual_seed(0)
    one = torch.randn(3, 60_000, generator=generator) * 3
    two = one + nearness * torch.randn(3, 60_000, generator=generator)
    for divergence in (symmetrised_kl, jensen_shannon):
        short = divergence(one.log_softmax(dim=1), two.log_softmax(dim=1))
        exact = divergence(one.double().log_softmax(dim=1), two.double().log_softmax(dim=1))
        np.testing.assert_allclose(short, exact, rtol=2e-3 if nearness < 1 else 1e-5)


def test_an_unknown_name() -> None:
    with pytest.raises(InputError, match="did you mean 'symmetrised KL'"):
        find_divergence("symmetrized KL")
