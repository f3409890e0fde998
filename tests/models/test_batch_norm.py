"""Batch normalization whose statistics ignore filling."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.func import functional_call, vmap

from whence.models.deepicf import MaskedBatchNorm, RealRows

WIDTH = 3


def rows_of(count: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 3 * torch.randn(count, WIDTH, generator=generator, dtype=torch.float64) + 1


def all_real(count: int) -> RealRows:
    return RealRows.from_mask(torch.ones(count, dtype=torch.bool), torch.float64)


def pair() -> tuple[MaskedBatchNorm, nn.BatchNorm1d]:
    """Ours and PyTorch's, with the same scale and shift."""
    ours = MaskedBatchNorm(WIDTH, eps=1e-3, momentum=0.1).double()
    with torch.no_grad():
        ours.weight.copy_(torch.tensor([2.0, -1.0, 0.5]))
        ours.bias.copy_(torch.tensor([0.1, 0.2, -3.0]))
    theirs = nn.BatchNorm1d(WIDTH, eps=1e-3, momentum=0.1).double()
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


@given(st.lists(st.tuples(st.integers(2, 9), st.integers(0, 5), st.booleans()), max_size=4))
def test_real_rows_equal_pytorch_and_filling_is_ignored(
    batches: list[tuple[int, int, bool]],
) -> None:
    """Over several batches, values, gradients and what is remembered."""
    ours, theirs = pair()
    for number, (count, filled, first) in enumerate(batches):
        rows, filling = rows_of(count, number), 100 * rows_of(filled, 50 + number)
        real = torch.tensor([True] * count + [False] * filled)
        mixed = torch.cat((rows, filling))
        if first:
            mixed, real = mixed.flip(0), real.flip(0)
        mixed.requires_grad_()
        rows.requires_grad_()
        found, expected = (
            ours(mixed, RealRows.from_mask(real, mixed.dtype))[real],
            theirs(rows.flip(0) if first else rows),
        )
        torch.testing.assert_close(found, expected)
        (gradient,) = torch.autograd.grad((found**3).sum(), mixed)
        (other,) = torch.autograd.grad((expected**3).sum(), rows)
        torch.testing.assert_close(gradient[real], other.flip(0) if first else other)
        assert not gradient[~real].any()
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict())
    rows = rows_of(4, 99)
    torch.testing.assert_close(ours.eval()(rows), theirs.eval()(rows))


def test_running_statistics_keep_nine_tenths() -> None:
    ours, _ = pair()
    rows = rows_of(5, 0)
    ours(rows, all_real(5))
    torch.testing.assert_close(ours.running_mean, 0.1 * rows.mean(dim=0))
    torch.testing.assert_close(ours.running_var, 0.9 + 0.1 * rows.var(dim=0))


def test_without_momentum_statistics_are_means_over_batches() -> None:
    ours, theirs = pair()
    for one in (ours, theirs):
        one.momentum = None
    for number in range(5):
        rows = rows_of(4, number)
        ours(rows, all_real(4))
        theirs(rows)
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict())


def test_one_real_row_is_normalized_to_the_shift() -> None:
    """Which PyTorch refuses: a user of one event may be all of a batch."""
    ours, _ = pair()
    found = ours(
        rows_of(3, 0), RealRows.from_mask(torch.tensor([False, True, False]), torch.float64)
    )
    torch.testing.assert_close(found[1], ours.bias)
    assert all(value.isfinite().all() for value in ours.state_dict().values())


@pytest.mark.parametrize("momentum", [0.1, None])
def test_a_stack_of_seeds_equals_each_alone(momentum: float | None) -> None:
    each = [pair()[0] for _ in range(3)]
    for one in each:
        one.momentum = momentum
    together = {
        name: torch.stack([one.state_dict()[name] for one in each]) for name in each[0].state_dict()
    }
    rows = torch.stack([rows_of(6, seed) for seed in range(3)])
    real = torch.tensor([[True] * n + [False] * (6 - n) for n in (6, 3, 4)])
    shape = MaskedBatchNorm(WIDTH, 1e-3, momentum).double()
    counted = [RealRows.from_mask(one, torch.float64) for one in real]
    found = vmap(lambda state, rows, *real: functional_call(shape, state, (rows, RealRows(*real))))(
        together, rows, *(torch.stack(one) for one in zip(*counted, strict=True))
    )
    for seed, one in enumerate(each):
        torch.testing.assert_close(found[seed], one(rows[seed], counted[seed]))
        for name, value in one.state_dict().items():
            torch.testing.assert_close(together[name][seed], value)
