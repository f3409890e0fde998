from __future__ import annotations

import numpy as np
import pytest
import torch

from conftest import LIVELY, READING, ragged_batch
from whence.contract import ALL
from whence.errors import InputError
from whence.explainers import explain_batch
from whence.trust import deletion_curves
from whence.trust.faithfulness.deletion import flips

ITEMS, LENGTH, CASES = 30, 6, 12


@torch.no_grad()
@pytest.mark.parametrize("name", sorted({*READING} - {"ease", "recent-ease"}))  # they have ties
@pytest.mark.parametrize("top", [1, 10])
def test_equals_a_plain_loop(name: str, top: int) -> None:
    model, batch = LIVELY[name](items=ITEMS, length=LENGTH), ragged_batch(CASES, LENGTH, ITEMS)
    explanation = explain_batch(model, batch, torch.arange(CASES), "leave-one-out")
    (curves,) = deletion_curves(model, batch, [explanation]).values()
    found = flips(curves, top)
    slow = []
    for case in range(CASES):
        history, order = batch[case, None], explanation.strongest(case)
        before = set(model.score(history, ALL)[0].topk(top).indices.tolist())
        present = torch.ones_like(history, dtype=torch.bool)
        steps = 1
        for slot in order:
            present[0, slot] = False
            after = model.score(history, ALL, present=present)[0].topk(top).indices.tolist()
            if set(after) != before:
                break
            steps += 1
        slow.append(steps)
    np.testing.assert_array_equal(found.steps, slow)
    assert found.never() == np.mean(np.array(slow) > found.counts)
    measure = found.measure()
    assert measure.value == pytest.approx(np.mean(slow))
    assert measure.direction == "lower is better"


def test_a_list_that_holds_the_whole_catalog_never_changes() -> None:
    model, batch = LIVELY["bert4rec"](items=8, length=LENGTH), ragged_batch(CASES, LENGTH, 8)
    curves = deletion_curves(model, batch, ["random order"])["random order"]
    assert flips(curves, 10).never() == 1
    assert (flips(curves, 10).steps == curves.counts + 1).all()
    assert flips(curves).never() < 1


def test_what_has_no_flips() -> None:
    model, batch = LIVELY["sasrec"](), ragged_batch(4, 8, ITEMS)
    (inserted,) = deletion_curves(model, batch, ["random order"], kind="insertion").values()
    with pytest.raises(InputError, match="these are insertion curves"):
        flips(inserted)
    (deleted,) = deletion_curves(model, batch, ["random order"]).values()
    with pytest.raises(InputError, match="top of 1, 10; .* top is 5"):
        flips(deleted, 5)
