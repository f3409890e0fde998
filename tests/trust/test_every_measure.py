"""What every trust measure promises, asked of every measure there is."""

from __future__ import annotations

import pytest
import torch

from whence.explainers import compare_batch
from whence.run import Run
from whence.trust import MEASURES
from whence.worlds import World


@pytest.fixture
def arguments(world: World, run: Run) -> dict[str, tuple[object, object]]:
    """What to compute each measure on."""
    asked = world.questions("caused", 12, 100)
    batch, targets = map(torch.from_numpy, (asked.cases.histories(12), asked.cases.targets))
    found = compare_batch(run.first, batch, targets, ["rollout", "leave-one-out"])
    one, two = found.values()
    return {"agreement": (one, two), "precision-at-cause": (two, asked)}


@pytest.mark.parametrize("name", list(MEASURES))
def test_declares_what_it_returns(name: str, arguments: dict[str, tuple[object, object]]) -> None:
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
