from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conftest import lively_sasrec, ragged_batch
from whence.errors import InputError
from whence.explainers import compare_batch
from whence.trust import top_agreement, top_jaccard

rows = st.lists(
    st.tuples(st.integers(-3, 3), st.integers(-3, 3), st.booleans()), min_size=1, max_size=9
)


def test_the_papers_arithmetic() -> None:
    """Two of three shared are 2/4, one is 1/5 (section 4.2.2)."""
    first = np.array([[9.0, 8.0, 7.0, 0.0, 0.0, 0.0]] * 4)
    second = np.array(
        [
            [7.0, 9.0, 8.0, 0.0, 0.0, 0.0],
            [7.0, 9.0, 0.0, 8.0, 0.0, 0.0],
            [7.0, 0.0, 0.0, 8.0, 9.0, 0.0],
            [0.0, 0.0, 0.0, 8.0, 9.0, 7.0],
        ]
    )
    parts = np.ones(first.shape, dtype=np.bool_)
    np.testing.assert_allclose(top_jaccard(first, second, parts), [1, 0.5, 0.2, 0])


@given(row=rows, k=st.integers(1, 5))
def test_equals_sets(row: list[tuple[int, int, bool]], k: int) -> None:
    """Ties in slot order; all parts where there are fewer than k; no set without parts."""
    slots = [slot for slot, (*_, is_part) in enumerate(row) if is_part]
    one, two = (set(sorted(slots, key=lambda slot: -row[slot][side])[:k]) for side in (0, 1))
    first, second = (np.array([[pair[side] for pair in row]], dtype=np.float64) for side in (0, 1))
    parts = np.array([[pair[2] for pair in row]])
    found = top_jaccard(first, second, parts, k)[0]
    assert np.isnan(found) if not slots else found == pytest.approx(len(one & two) / len(one | two))


def test_the_measure_asks_for_the_strongest() -> None:
    """As `Explanation.strongest` names them, by size and whatever the sign."""
    model, batch, targets = lively_sasrec(), ragged_batch(40, 8, 30), torch.arange(40) % 30
    found = compare_batch(model, batch, targets, ["rollout", "leave-one-out"])
    one, two = found.values()
    for k in (1, 3, 5):
        sets = [({*one.strongest(case, k)}, {*two.strongest(case, k)}) for case in range(40)]
        slow = [len(first & second) / len(first | second) for first, second in sets]
        measure = top_agreement(one, two, k)
        assert measure.value == pytest.approx(np.mean(slow))
        assert f"top {k} parts" in measure.protocol
    turned = replace(two, scores=-two.scores)
    assert top_agreement(two, turned).value == 1.0
    assert top_agreement(one, two) == top_agreement(one, two, 3)


def test_slices_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    one, two, parts = rng.random((20, 6)), rng.random((20, 6)), rng.random((20, 6)) < 0.8
    whole = top_jaccard(one, two, parts)
    monkeypatch.setattr("whence.memory.SCORES_AT_ONCE", 3 * 6)
    np.testing.assert_array_equal(top_jaccard(one, two, parts), whole)


def test_a_top_of_nothing_is_refused() -> None:
    one = np.ones((2, 3))
    with pytest.raises(InputError, match="k must be at least 1, not 0"):
        top_jaccard(one, one, one > 0, 0)
