"""Attention summed in tiles equals attention pair by pair."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.func import vmap

from whence.contract import PAD
from whence.models import pooling
from whence.models.fism import sum_of_squares, summed
from whence.models.pooling import AttentionNetwork, Tiled, attended

ITEMS, WIDTH, SIZE = 9, 3, 4


def numbers(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()


def look(*seeds: int) -> AttentionNetwork:
    return AttentionNetwork(
        numbers(*seeds, SIZE, WIDTH, seed=1),
        numbers(*seeds, SIZE, seed=2),
        numbers(*seeds, SIZE, seed=3),
    )


def tiles(histories: int, targets: int, pairs: int, width: int, wide: int, seed: int = 0) -> Tiled:
    rng = np.random.default_rng(seed)
    history = rng.integers(PAD, ITEMS, (histories, width))
    asked = np.where(
        rng.random((targets, wide)) < 0.2, PAD, rng.integers(0, ITEMS, (targets, wide))
    )
    firsts, seconds = rng.integers(0, histories, pairs), rng.integers(0, targets, pairs)
    return Tiled(*(torch.from_numpy(one) for one in (history, asked, firsts, seconds)))


def pair_by_pair(
    p: Tensor, q: Tensor, look: AttentionNetwork, tiled: Tiled
) -> tuple[Tensor, Tensor]:
    """Both sums, one item of a history and one target at a time; autograd knows its gradient."""
    total, pooled = torch.zeros(q.shape[:2], dtype=q.dtype), torch.zeros_like(q)
    for h, t in zip(tiled.history_tile.tolist(), tiled.target_tile.tolist(), strict=True):
        for j in range(p.shape[1]):
            for k in range(q.shape[1]):
                if tiled.history[h, j] in (PAD, tiled.targets[t, k]):
                    continue
                e = (look.out @ (look.weight @ (p[h, j] * q[t, k]) + look.bias).relu()).exp()
                here = torch.zeros_like(total)
                here[t, k] = 1
                total = total + here * e
                pooled = pooled + here[..., None] * e * p[h, j]
    return total, pooled


@given(
    histories=st.integers(1, 3),
    targets=st.integers(1, 3),
    pairs=st.integers(0, 6),
    width=st.integers(1, 3),
    wide=st.integers(1, 3),
    seed=st.integers(0, 1000),
)
def test_tiles_equal_pairs(
    histories: int, targets: int, pairs: int, width: int, wide: int, seed: int
) -> None:
    p, q = numbers(histories, width, WIDTH), numbers(targets, wide, WIDTH, seed=9)
    tiled = tiles(histories, targets, pairs, width, wide, seed)
    network = look()
    found, expected = attended(p, q, network, tiled), pair_by_pair(p, q, network, tiled)
    torch.testing.assert_close(found, expected)


def mixed(sums: tuple[Tensor, ...]) -> Tensor:
    total, pooled = sums
    return (total * numbers(*total.shape, seed=20)).sum() + (
        pooled * numbers(*pooled.shape, seed=21)
    ).sum()


@pytest.fixture(params=["by index", "by product"])
def adding(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums as processors add them up, and as GPUs do."""
    if request.param == "by product":
        monkeypatch.setattr(pooling, "ADDED_BY_PRODUCT", ("cpu",))


@pytest.mark.usefixtures("adding")
@pytest.mark.parametrize("at_once", [1, 2**22])
@pytest.mark.parametrize(
    "counts", [(3, 2, 5), (1, 1, 1), (1, 1, 3), (2, 1, 3), (1, 2, 3), (1, 1, 0)]
)
@pytest.mark.parametrize("learned_by", ["both", "total", "pooled"])
def test_the_gradient_of_tiles_equals_that_of_pairs(
    at_once: int, counts: tuple[int, int, int], learned_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few pairs are computed at a time, of one user alone too, and by either sum."""
    monkeypatch.setattr(pooling, "BYTES_AT_ONCE", at_once)
    histories, targets, pairs = counts
    tiled, network = tiles(histories, targets, pairs, 3, 2), look()
    p, q = numbers(histories, 3, WIDTH), numbers(targets, 2, WIDTH, seed=9)
    given = (p, q, *network)

    def gradient(sums: tuple[Tensor, Tensor]) -> tuple[Tensor, ...]:
        learned = {"both": mixed(sums), "total": sums[0].sum(), "pooled": sums[1].sum()}[learned_by]
        if not learned.requires_grad:
            return tuple(torch.zeros_like(one) for one in given)
        found = torch.autograd.grad(learned, given, allow_unused=True)
        return tuple(
            torch.zeros_like(one) if own is None else own
            for one, own in zip(given, found, strict=True)
        )

    found = gradient(attended(p, q, network, tiled))
    torch.testing.assert_close(found, gradient(pair_by_pair(p, q, network, tiled)))


def test_the_gradient_is_the_slope() -> None:
    tiled = tiles(3, 2, 5, 3, 2)

    def sums(p: Tensor, q: Tensor, *network: Tensor) -> tuple[Tensor, Tensor]:
        return attended(p, q, AttentionNetwork(*network), tiled)

    given = (numbers(3, 3, WIDTH), numbers(2, 2, WIDTH, seed=9), *look())
    assert torch.autograd.gradcheck(sums, given)


@pytest.mark.usefixtures("adding")
def test_a_stack_of_seeds_equals_each_alone() -> None:
    """Values and gradients, where every seed has tiles and a network of its own."""
    each = [tiles(3, 2, 5, 3, 2, seed) for seed in range(4)]
    tiled = Tiled(*(torch.stack(one) for one in zip(*each, strict=True)))
    p, q, network = numbers(4, 3, 3, WIDTH), numbers(4, 2, 2, WIDTH, seed=9), look(4)
    given = (p, q, *network)
    found = vmap(lambda p, q, look, tiled: attended(p, q, AttentionNetwork(*look), Tiled(*tiled)))(
        p, q, tuple(network), tuple(tiled)
    )
    alone = [
        attended(p[s], q[s], AttentionNetwork(*(one[s] for one in network)), each[s])
        for s in range(4)
    ]
    expected = tuple(torch.stack(one) for one in zip(*alone, strict=True))
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(
        torch.autograd.grad(mixed(found), given), torch.autograd.grad(mixed(expected), given)
    )


@pytest.mark.usefixtures("adding")
def test_a_seed_with_nan_does_not_spoil_the_others() -> None:
    each = [tiles(3, 2, 5, 3, 2, seed) for seed in range(2)]
    tiled = Tiled(*(torch.stack(one) for one in zip(*each, strict=True)))
    p, q, network = numbers(2, 3, 3, WIDTH), numbers(2, 2, 2, WIDTH, seed=9), look(2)
    with torch.no_grad():
        network.out[0] = 1e6
    found = vmap(lambda p, q, look, tiled: attended(p, q, AttentionNetwork(*look), Tiled(*tiled)))(
        p, q, tuple(network), tuple(tiled)
    )
    gradients = torch.autograd.grad(mixed(found), (p, q, *network))
    for values in (*found, *gradients):
        assert values[1].isfinite().all()
    assert not found[0][0].isfinite().all(), "one does"


def test_shared_inputs_need_not_be_stacked() -> None:
    tiled, network = tiles(3, 2, 5, 3, 2), look(4)
    p, q = numbers(3, 3, WIDTH), numbers(2, 2, WIDTH, seed=9)
    found, _ = vmap(lambda *own: attended(p, q, AttentionNetwork(*own), tiled))(*network)
    for seed, total in enumerate(found):
        alone, _ = attended(p, q, AttentionNetwork(*(one[seed] for one in network)), tiled)
        torch.testing.assert_close(total, alone)


@given(
    histories=st.integers(1, 3),
    targets=st.integers(1, 3),
    pairs=st.integers(0, 6),
    power=st.sampled_from([0.0, 0.5, 1.0]),
    seed=st.integers(0, 1000),
)
def test_plain_sums_of_tiles_equal_those_of_pairs(
    histories: int, targets: int, pairs: int, power: float, seed: int
) -> None:
    """n^−α Σ p_j, of the pairs there are."""
    p, tiled = numbers(histories, 3, WIDTH), tiles(histories, targets, pairs, 3, 2, seed)
    total, count = torch.zeros(targets, 2, WIDTH, dtype=p.dtype), torch.zeros(targets, 2)
    for h, t in zip(tiled.history_tile.tolist(), tiled.target_tile.tolist(), strict=True):
        for j in range(3):
            for k in range(2):
                if tiled.history[h, j] not in (PAD, tiled.targets[t, k]):
                    total[t, k] += p[h, j].detach()
                    count[t, k] += 1
    expected = total / count.clamp(min=1)[..., None] ** power
    torch.testing.assert_close(summed(p, tiled, power).detach(), expected.double())


def test_sums_of_squares_have_full_precision() -> None:
    """Also under autocast, which halves the precision of products."""
    weights = [one.detach().float() for one in (numbers(40, 3), numbers(7, seed=4))]
    expected = sum(float((one.double() ** 2).sum()) for one in weights)
    with torch.autocast("cpu", torch.bfloat16):
        assert float(sum_of_squares(*weights)) == pytest.approx(expected, rel=1e-6)
