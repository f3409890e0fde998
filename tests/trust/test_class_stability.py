from __future__ import annotations

import itertools
import math
from statistics import fmean

import numpy as np
import pytest
from liking import ITEMS, Liking, candidates, items_of, plain_probabilities, plain_weights

from conftest import NO_MODEL, ragged_batch
from whence.errors import CapabilityError, InputError
from whence.measure import mean_over_seeds
from whence.trust import ClassStability
from whence.trust.stability.class_stability import DEVIATION, DIFFERENCE, class_stability

CASES, COUNT, LENGTH, SEEDS = 8, 3, 12, 4
MODELS = [Liking(seed=seed) for seed in range(SEEDS)]


def top(weights: list[float], fraction: float) -> set[int]:
    count = math.ceil(fraction * len(weights))
    return set(sorted(range(len(weights)), key=lambda slot: -weights[slot])[:count])


def apart(one: list[float], two: list[float]) -> dict[str, float]:
    """Of two seeds' weights."""
    p, q = ([weight / sum(row) for weight in row] for row in (one, two))

    def index(fraction: float) -> float:
        first, second = top(one, fraction), top(two, fraction)
        return len(first & second) / len(first | second)

    return {
        "Jaccard index": index(0.1),
        "Jaccard distance %": 100 * (1 - index(0.2)),
        "KL": sum(a * math.log((a + 1e-10) / (b + 1e-10)) for a, b in zip(p, q, strict=True)),
    }


@pytest.mark.parametrize("classes", [2, 3])
def test_equals_a_plain_loop(classes: int) -> None:
    models = [Liking(classes, seed) for seed in range(SEEDS)]
    batch, (targets, _) = ragged_batch(CASES, LENGTH, ITEMS), candidates(CASES, COUNT)
    found = class_stability(models, batch, targets)
    assert set(found.pairs) == {"Jaccard index", "Jaccard distance %", "KL", DIFFERENCE}
    for case, candidate in itertools.product(range(CASES), range(COUNT)):
        items, target = items_of(batch[case]), int(targets[case, candidate])
        weights = [plain_weights(model, items, target) for model in models]
        liked = [
            plain_probabilities(model, items, target, own)[0]
            for model, own in zip(models, weights, strict=True)
        ]
        at, row = (case, candidate), case * COUNT + candidate
        assert found.liked[at] == pytest.approx(fmean(liked))
        assert found.deviation[at] == pytest.approx(fmean(abs(p - fmean(liked)) for p in liked))
        pairs = list(itertools.combinations(range(SEEDS), 2))
        assert found.pairs[DIFFERENCE].cases[row] == pytest.approx(
            fmean(abs(liked[i] - liked[j]) for i, j in pairs)
        )
        compared = [apart(weights[i], weights[j]) for i, j in pairs]
        for name in compared[0]:
            expected = fmean(one[name] for one in compared) if len(items) > 1 else np.nan
            np.testing.assert_allclose(
                found.pairs[name].cases[row], expected, atol=1e-9, err_msg=name
            )


def same(found: ClassStability, expected: ClassStability) -> None:
    np.testing.assert_allclose(found.liked, expected.liked, atol=1e-9)
    for name, pairs in expected.pairs.items():
        np.testing.assert_allclose(found.pairs[name].cases, pairs.cases, atol=1e-9)
        np.testing.assert_allclose(found.pairs[name].pairs, pairs.pairs, atol=1e-9)


@pytest.mark.parametrize("memory", [1, 5 * LENGTH * 4096])
def test_little_memory_changes_nothing(memory: int) -> None:
    batch, (targets, _) = ragged_batch(CASES, LENGTH, ITEMS), candidates(CASES, COUNT)
    whole = class_stability(MODELS, batch, targets)
    same(class_stability(MODELS, batch, targets, memory=memory), whole)


def test_by_the_mean_prediction() -> None:
    batch, (targets, _) = ragged_batch(60, LENGTH, ITEMS), candidates(60, COUNT)
    found = class_stability(MODELS, batch, targets)
    drawn = found.by_prediction()
    assert set(drawn) == {*found.pairs, DEVIATION}
    for name, line in drawn.items():
        cases = found.deviation.ravel() if name == DEVIATION else found.pairs[name].cases
        np.testing.assert_allclose(line.edges, np.arange(11) / 10)
        for tenth in range(10):
            rows = (found.liked.ravel() * 10).astype(int) == tenth
            rows &= ~np.isnan(cases)
            assert line.count[tenth] == rows.sum()
            expected = cases[rows].mean() if rows.any() else np.nan
            np.testing.assert_allclose(line.mean[tenth], expected)
        assert "4 seeds" in line.protocol
    over_seeds = mean_over_seeds(found.pairs["KL"].over_seeds())
    assert over_seeds.value == pytest.approx(found.pairs["KL"].measure().value)


def test_the_same_model_under_every_seed() -> None:
    """Whatever the sum of its attention is."""
    batch, (targets, _) = ragged_batch(CASES, LENGTH, ITEMS), candidates(CASES, COUNT)
    found = class_stability([Liking(beta=1.0), Liking(beta=1.0)], batch, targets)
    assert found.pairs["Jaccard index"].measure().value == 1
    for name in ("Jaccard distance %", "KL", DIFFERENCE):
        assert found.pairs[name].measure().value == pytest.approx(0, abs=1e-9)
    scaled = class_stability([Liking(beta=1.0), Liking(beta=0.5)], batch, targets)
    assert scaled.pairs["KL"].measure().value == pytest.approx(0, abs=1e-9)
    assert scaled.pairs[DIFFERENCE].measure().value > 0.01


def test_what_cannot_be_compared_is_refused() -> None:
    batch, (targets, _) = ragged_batch(CASES, LENGTH, ITEMS), candidates(CASES, COUNT)
    with pytest.raises(InputError, match="at least 2 seeds, not 1"):
        class_stability(MODELS[:1], batch, targets)
    with pytest.raises(InputError, match="No history has two parts"):
        class_stability(MODELS, batch[:, -1:], targets)
    with pytest.raises(CapabilityError, match="'parts', which the stability of classes needs"):
        class_stability([*MODELS, NO_MODEL], batch, targets)


@pytest.mark.needs("cuda")
def test_on_a_gpu() -> None:
    batch, (targets, _) = ragged_batch(CASES, LENGTH, ITEMS), candidates(CASES, COUNT)
    there = [Liking(seed=seed).cuda() for seed in range(SEEDS)]
    same(
        class_stability(there, batch.cuda(), targets.cuda()),
        class_stability(MODELS, batch, targets),
    )


def test_without_attention_predictions_alone_are_compared() -> None:
    class Plain(Liking):
        attentions = None  # type: ignore[assignment]

    models = [Plain(seed=seed) for seed in range(2)]
    targets, _ = candidates(3, 1)
    batch = ragged_batch(3, 5, ITEMS)
    found = class_stability(models, batch, targets)
    assert set(found.pairs) == {"difference of predictions"}
    whole = class_stability([Liking(seed=seed) for seed in range(2)], batch, targets)
    np.testing.assert_array_equal(found.liked, whole.liked)
