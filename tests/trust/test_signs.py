from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from conftest import lively_sasrec, ragged_batch
from whence.explainers import compare_batch
from whence.explanation import Explanation
from whence.trust import sign_agreement


@pytest.fixture(scope="module")
def found() -> dict[str, Explanation]:
    batch, targets = ragged_batch(20, 8, 30), torch.arange(20)
    return compare_batch(lively_sasrec(), batch, targets, ["rollout", "leave-one-out", "shapley"])


@pytest.fixture
def reference(found: dict[str, Explanation]) -> Explanation:
    """Three histories; in the last nothing is sure."""
    return replace(
        found["shapley"],
        scores=np.array([[0.0, 3.0, -1.0, 0.5], [4.0, -1.0, 2.0, -3.0], [0.0, 0.0, 0.1, 0.2]]),
        error=np.array([[0.0, 1.0, 0.1, 0.3], [1.0, 0.2, 0.1, 2.0], [0.0, 0.0, 1.0, 1.0]]),
        parts=np.array([[False, True, True, True], [True] * 4, [False, False, True, True]]),
    )


def test_worked_by_hand(reference: Explanation) -> None:
    """Sure are 3 and −1 of the first history, 4, −1 and 2 of the second, nothing of the third."""
    said = replace(
        reference,
        scores=np.array([[9.0, 1.0, 1.0, -9.0], [-1.0, -1.0, 0.0, 9.0], [0.0, 0.0, 1.0, 1.0]]),
    )
    plain = sign_agreement(said, reference)
    assert plain.value == pytest.approx((1 / 2 + 1 / 3) / 2)
    assert plain.n == 2, "the third has nothing to say"
    weighted = sign_agreement(said, reference, weighted=True)
    assert weighted.value == pytest.approx((3 / 4 + 1 / 7) / 2)
    assert "by their size" in weighted.protocol
    assert "by their size" not in plain.protocol


def test_a_method_without_a_sign_speaks_for_everything(reference: Explanation) -> None:
    silent = replace(reference, scores=np.zeros((3, 4)), signed=False)
    assert sign_agreement(silent, reference).value == pytest.approx((1 / 2 + 2 / 3) / 2)


def test_a_method_agrees_with_itself_and_never_with_its_opposite(
    found: dict[str, Explanation],
) -> None:
    exact = found["shapley"]
    turned = replace(exact, scores=-exact.scores)
    for weighted in (False, True):
        assert sign_agreement(exact, exact, weighted).value == 1.0
        assert sign_agreement(turned, exact, weighted).value == 0.0


def test_where_nothing_is_drawn_every_sign_is_sure(found: dict[str, Explanation]) -> None:
    left_out = found["leave-one-out"]
    assert left_out.error is None
    shares = (left_out.scores > 0).sum(axis=1) / (left_out.scores != 0).sum(axis=1)
    assert sign_agreement(found["rollout"], left_out).value == pytest.approx(shares.mean())
