from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from conftest import lively_bert4rec, ragged_batch
from whence.errors import InputError
from whence.explainers import explain_batch
from whence.trust import importance_entropy
from whence.trust.permutation.entropy import entropy

rows = st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=12)


@given(row=rows)
def test_equals_scipys(row: list[tuple[int, bool]]) -> None:
    sizes = [size for size, is_part in row if is_part]
    values, parts = np.array([[size for size, _ in row]]), np.array([[part for _, part in row]])
    found = entropy(np.where(parts, values, -9.0), parts)[0]
    if not sizes:
        assert np.isnan(found)
    elif not any(sizes):
        assert found == pytest.approx(math.log2(len(sizes))), "all alike"
    else:
        assert found == pytest.approx(stats.entropy(sizes, base=2), abs=1e-12)


def test_from_one_part_to_all() -> None:
    sizes = np.array([[0.0, 3.0, 0.0, 0.0], [2.0, 2.0, 0.0, 0.0], [0.1] * 4])
    np.testing.assert_allclose(entropy(sizes, np.ones((3, 4), dtype=np.bool_)), [0, 1, 2])


def test_attention_to_a_models_own_slot_is_taken_off() -> None:
    """Row n of BERT4Rec's attention sums to 1 only with [CLS], which is no part."""
    model, batch = lively_bert4rec(heads=1), ragged_batch(12, 7, 30)
    found = explain_batch(model, batch, torch.arange(12), "attention-first")
    assert (found.scores.sum(axis=1) < 0.999).all()
    last = model.attentions(batch)[0][:, 0, -1].detach().numpy()
    slow, alike = [], []
    for row, parts in zip(last, (batch >= 0).numpy(), strict=True):
        p = row[:-1][parts] / row[:-1][parts].sum()
        slow.append(-(p * np.log2(p)).sum())
        alike.append(math.log2(len(p)))
    measure = importance_entropy(found)
    assert measure.value == pytest.approx(np.mean(slow))
    assert measure.value < np.mean(alike)
    assert measure.protocol.endswith(f"equal shares would have {np.mean(alike):.2f}")


def test_slices_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    sizes, parts = rng.random((20, 6)), rng.random((20, 6)) < 0.8
    whole = entropy(sizes, parts)
    monkeypatch.setattr("whence.memory.SCORES_AT_ONCE", 3 * 6)
    np.testing.assert_array_equal(entropy(sizes, parts), whole)


def test_what_has_no_shares_is_refused() -> None:
    parts = np.ones((1, 2), dtype=np.bool_)
    with pytest.raises(InputError, match="not negative"):
        entropy(np.array([[1.0, -1.0]]), parts)
    with pytest.raises(InputError, match="NaN or infinite"):
        entropy(np.array([[1.0, np.inf]]), parts)
