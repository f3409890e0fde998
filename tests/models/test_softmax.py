"""The softmax in chunks against PyTorch's own, in double precision."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch.func import vmap

from whence.models.losses import log_sum_exp


def drawn(*shape: int, spread: float = 1.0) -> torch.Tensor:
    chance = torch.Generator().manual_seed(sum(shape))
    values = torch.randn(shape, generator=chance, dtype=torch.float64) * spread
    return values.requires_grad_()


def cross_entropy(
    rows: torch.Tensor, table: torch.Tensor, targets: torch.Tensor, at_once: int | None = None
) -> torch.Tensor:
    return log_sum_exp(rows, table, at_once) - (rows * table[1 + targets]).sum(dim=-1)


@given(
    count=st.integers(1, 9),
    items=st.integers(1, 40),
    width=st.integers(1, 5),
    at_once=st.integers(1, 400),
    spread=st.sampled_from([0.1, 1.0, 30.0]),
)
def test_equals_pytorchs_own(
    count: int, items: int, width: int, at_once: int, spread: float
) -> None:
    """Whatever the shapes, the chunks, and the size of the numbers."""
    rows, table = drawn(count, width, spread=spread), drawn(1 + items, width)
    targets = torch.arange(count) * 7 % items
    mix = drawn(count).detach()
    found = cross_entropy(rows, table, targets, at_once)
    expected = F.cross_entropy(rows @ table[1:].T, targets, reduction="none")
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    gradients = torch.autograd.grad((found * mix).sum(), (rows, table))
    plain = torch.autograd.grad((expected * mix).sum(), (rows, table))
    torch.testing.assert_close(gradients, plain, rtol=1e-10, atol=1e-10)


@given(seeds=st.integers(1, 4), at_once=st.integers(1, 900))
def test_a_stack_equals_its_loop(seeds: int, at_once: int) -> None:
    rows, tables, mix = drawn(seeds, 6, 3), drawn(seeds, 30, 3), drawn(seeds, 6).detach()
    found = vmap(lambda one, table: log_sum_exp(one, table, at_once))(rows, tables)
    each = torch.stack(
        [(one @ own[1:].T).logsumexp(1) for one, own in zip(rows, tables, strict=True)]
    )
    torch.testing.assert_close(found, each, rtol=1e-10, atol=1e-10)
    gradients = torch.autograd.grad((found * mix).sum(), (rows, tables))
    plain = torch.autograd.grad((each * mix).sum(), (rows, tables))
    torch.testing.assert_close(gradients, plain, rtol=1e-10, atol=1e-10)
    assert (gradients[1][:, 0] == 0).all(), "padding learns nothing"


@pytest.mark.parametrize("at_once", [None, 1_000])
def test_large_logits_overflow_nothing(at_once: int | None) -> None:
    rows, table = torch.full((2, 1), 1e4), torch.linspace(-1, 1, 101)[:, None].requires_grad_()
    found = log_sum_exp(rows, table, at_once)
    assert found.tolist() == [1e4, 1e4]
    (gradient,) = torch.autograd.grad(found.sum(), table)
    assert gradient[-1].item() == pytest.approx(2e4)


def test_no_more_logits_than_asked_are_ever_there(monkeypatch: pytest.MonkeyPatch) -> None:
    largest = 0
    product = torch.bmm

    def measured(*factors: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        nonlocal largest
        largest = max(largest, factors[0].numel() if out is None else 0)
        found = product(*factors, out=out)
        largest = max(largest, found.numel() if out is None else 0)
        return found

    monkeypatch.setattr(torch, "bmm", measured)
    rows, table = drawn(10, 3), drawn(5_001, 3)
    log_sum_exp(rows, table, at_once=2_000).sum().backward()
    assert largest <= 2_000
