"""What every trust measure promises, asked of every measure there is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch

from whence.errors import InputError
from whence.explainers import compare_batch, explain_batch
from whence.ranking import best_unmet
from whence.run import Run
from whence.trust import MEASURES, SEED_MEASURES
from whence.worlds import World

Arguments = Mapping[str, tuple[Any, ...]]


@pytest.fixture
def arguments(world: World, run: Run) -> Arguments:
    """What to compute each measure on; for those of seeds, three things that stand for seeds."""
    asked = world.questions("caused", 12, 100)
    batch, targets = map(torch.from_numpy, (asked.cases.histories(12), asked.cases.targets))
    found = compare_batch(run.first, batch, targets, ["rollout", "leave-one-out", "gradient-norm"])
    one, two, _ = found.values()
    trusted = explain_batch(run.first, batch, targets, "shapley:coalitions=64,exact_up_to=0")
    sizes = np.stack([explanation.magnitude() for explanation in found.values()])
    lists = [best_unmet(model, asked.cases, 12, 10)[0] for model in run.models.values()]
    return {
        "agreement": (one, two),
        "sign-agreement": (two, trusted),
        "sign-agreement-weighted": (two, trusted),
        "precision-at-cause": (two, asked),
        "sign-at-cause": (two, asked),
        "attention-kl": (sizes, one.parts),
        "jaccard-index": (sizes, one.parts),
        "jaccard-distance": (sizes, one.parts),
        "overlap": (np.stack([*lists, np.roll(lists[0], 1, axis=0)]),),
    }


@pytest.mark.parametrize("name", list(MEASURES))
def test_declares_what_it_returns(name: str, arguments: Arguments) -> None:
    declared, given = MEASURES[name], arguments[name]
    found = declared.compute(*given)
    assert (found.direction, found.range) == (declared.direction, declared.range)
    low, high = declared.range
    assert low <= found.interval[0] <= found.value <= found.interval[1] <= high
    assert found.protocol
    assert declared.question.endswith("?")
    assert declared.compute(*given) == found, "the same question has the same answer"
    if declared.symmetric:
        assert declared.compute(*reversed(given)) == found


@pytest.mark.parametrize("name", list(SEED_MEASURES))
def test_what_compares_seeds(name: str, arguments: Arguments) -> None:
    seeds, *rest = arguments[name]
    compute, declared = SEED_MEASURES[name], MEASURES[name]
    found = compute(seeds, *rest)
    low, high = declared.range
    assert low < found.measure().value < high, "these are neither the same nor strangers"
    assert np.mean(found.over_seeds()) == pytest.approx(found.measure().value)
    same = compute(np.stack([seeds[0]] * 3), *rest).measure()
    best = high if declared.direction == "higher is better" else low
    assert same.value == pytest.approx(best, abs=1e-9)
    assert "3 seeds" in same.protocol
    with pytest.raises(InputError, match="at least 2 seeds, not 1"):
        compute(seeds[:1], *rest)
    with pytest.raises(InputError, match="at least 3 seeds, not 2"):
        compute(seeds[:2], *rest).over_seeds()
