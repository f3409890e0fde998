from __future__ import annotations

import numpy as np
import pytest
from liking import ITEMS, Liking, candidates, items_of, plain_probabilities, plain_weights

from conftest import NO_MODEL, ragged_batch
from whence.errors import CapabilityError, InputError
from whence.trust import (
    JainBins,
    class_logits,
    class_predictions,
    positives_and_negatives,
    reliability,
    temperature_scaling,
)

CASES, COUNT, LENGTH = 7, 4, 5


@pytest.mark.parametrize("classes", [2, 3])
def test_equals_a_plain_loop(classes: int) -> None:
    model, batch = Liking(classes), ragged_batch(CASES, LENGTH, ITEMS)
    targets, true = candidates(CASES, COUNT, classes)
    found = class_predictions(model, batch, targets, true)
    for case in range(CASES):
        for candidate in range(COUNT):
            items, target = items_of(batch[case]), int(targets[case, candidate])
            weights = plain_weights(model, items, target)
            p = plain_probabilities(model, items, target, weights)
            label, row = int(true[case, candidate]), case * COUNT + candidate
            assert found.confidence[row] == pytest.approx(max(p))
            assert found.correct[row] == (p.index(max(p)) == label)
            assert found.true[row] == label
            assert found.log_likelihood[row] == pytest.approx(np.log(p[label]))
    assert found.classes == classes
    assert found.protocol.startswith("Liking, softmax of the predicted class, 28 cases of")


def test_positives_and_negatives_apart() -> None:
    """Of three classes what is disliked is negative too, and confidence may be below a half."""
    batch, (targets, true) = ragged_batch(50, LENGTH, ITEMS), candidates(50, 9, 3)
    every = class_predictions(Liking(3), batch, targets, true)
    apart = positives_and_negatives(every)
    assert {name: set(one.true.tolist()) for name, one in apart.items()} == {
        "positives": {0},
        "negatives": {1, 2},
    }
    assert sum(map(len, apart.values())) == len(every)
    for name, some in apart.items():
        assert some.protocol.endswith(f"{name} alone")
        diagram = reliability(some, JainBins(some.classes))
        assert diagram.edges[0] == 0.3
        assert diagram.count.sum() == len(some)


@pytest.mark.parametrize("memory", [1, 3 * LENGTH * 4096, 2**29])
def test_memory_is_bounded(memory: int) -> None:
    model, batch = Liking(), ragged_batch(CASES, LENGTH, ITEMS)
    targets, true = candidates(CASES, COUNT)
    pieces = [
        len(logits) for logits, _ in class_logits(model, batch, targets, true, memory=memory)()
    ]
    assert max(pieces) == {1: 1, 3 * LENGTH * 4096: 3}.get(memory, CASES * COUNT)
    found = class_predictions(model, batch, targets, true, memory=memory)
    whole = class_predictions(model, batch, targets, true)
    np.testing.assert_allclose(found.log_likelihood, whole.log_likelihood)


def test_a_temperature_can_be_fitted() -> None:
    """On cases of which the model, however sure, is wrong about every fourth."""
    batch, (targets, _) = ragged_batch(60, LENGTH, ITEMS), candidates(60, 4)
    true = Liking().classes(batch, targets).argmax(dim=2)
    true[:, 0] = 1 - true[:, 0]
    logits = class_logits(Liking(), batch, targets, true)
    found = temperature_scaling(logits, logits)
    before, after = found.measures()["negative log-likelihood"]
    assert after.value < before.value
    cooled = class_predictions(Liking(), batch, targets, true, temperature=found.temperature)
    assert -cooled.log_likelihood.mean() == pytest.approx(after.value)


def test_what_cannot_be_asked_is_refused() -> None:
    batch, (targets, true) = ragged_batch(CASES, LENGTH, ITEMS), candidates(CASES, COUNT)
    with pytest.raises(CapabilityError, match="has no 'classes', which the calibration of classes"):
        class_predictions(NO_MODEL, batch, targets, true)
    with pytest.raises(
        InputError, match=r"must be \[7, t\] with at least one target per history, not \[6, 4\]"
    ):
        class_predictions(Liking(), batch, targets[1:], true[1:])
    with pytest.raises(
        InputError, match=r"must be \[7, t\] with at least one target per history, not \[7, 0\]"
    ):
        class_predictions(Liking(), batch, targets[:, :0], true[:, :0])
    with pytest.raises(
        InputError, match=r"shape \[7, 4\], one per target, not torch.int64 of shape \[7, 3\]"
    ):
        class_predictions(Liking(), batch, targets, true[:, 1:])
    with pytest.raises(InputError, match=r"whole numbers .* not torch.float32"):
        class_predictions(Liking(), batch, targets, true.float())
    with pytest.raises(InputError, match="numbered 0 to 1; there is no 2"):
        class_predictions(Liking(), batch, targets, true + 1)


@pytest.mark.needs("cuda")
def test_on_a_gpu() -> None:
    model, batch = Liking(), ragged_batch(CASES, LENGTH, ITEMS)
    targets, true = candidates(CASES, COUNT)
    here = class_predictions(model, batch, targets, true)
    moved = (one.cuda() for one in (batch, targets, true))
    there = class_predictions(model.cuda(), *moved)
    np.testing.assert_allclose(there.log_likelihood, here.log_likelihood, rtol=1e-6)
