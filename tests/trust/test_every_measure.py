"""What every trust measure promises, asked of every measure there is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from whence.explainers import compare_batch
from whence.measure import Measure
from whence.run import Run
from whence.trust import MEASURES
from whence.worlds import World


@pytest.fixture
def computed(world: World, run: Run) -> dict[str, Callable[[], Measure]]:
    asked = world.questions("caused", 12, 100)
    batch, targets = map(torch.from_numpy, (asked.cases.histories(12), asked.cases.targets))
    found = compare_batch(run.first, batch, targets, ["rollout", "leave-one-out"])
    one, two = found.values()
    return {
        "agreement": lambda: MEASURES["agreement"].compute(one, two),
        "precision-at-cause": lambda: MEASURES["precision-at-cause"].compute(two, asked),
    }


@pytest.mark.parametrize("name", list(MEASURES))
def test_declares_what_it_returns(name: str, computed: dict[str, Callable[[], Measure]]) -> None:
    declared, found = MEASURES[name], computed[name]()
    assert (found.direction, found.range) == (declared.direction, declared.range)
    low, high = declared.range
    assert low <= found.interval[0] <= found.value <= found.interval[1] <= high
    assert found.protocol
    assert declared.question.endswith("?")
    assert computed[name]() == found, "the same question has the same answer"
