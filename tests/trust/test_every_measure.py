"""What every trust measure promises, tested for every measure in the registry."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from whence.contract import offers
from whence.errors import CapabilityError, InputError
from whence.measure import Measure
from whence.run import Run
from whence.trust import MEASURES, logits_of, predictions_from_logits
from whence.trust.small_case import SmallCase
from whence.worlds import World

PAIRS = [name for name, one in MEASURES.items() if one.symmetric]
"""Measures that compare two explanations."""
SEEDS = [name for name, one in MEASURES.items() if one.pairs is not None]
"""Measures that compare seeds."""
PREDICTIONS = MEASURES.tagged("predictions")
"""Measures of confidence and accuracy."""
ATTENTION = "attention-permutation"


@pytest.fixture(scope="module")
def small(world: World, run: Run) -> SmallCase:
    return SmallCase(world, run)


@pytest.mark.parametrize("name", list(MEASURES))
def test_declaration_and_result_agree(name: str, small: SmallCase) -> None:
    declared = MEASURES[name]
    given = declared.example(small)
    found = declared.compute(*given)
    assert (found.direction, found.range) == (declared.direction, declared.range)
    low, high = declared.range
    assert low <= found.interval[0] <= found.value <= found.interval[1] <= high
    assert found.protocol
    assert json.loads(json.dumps(found.as_dict(), allow_nan=False))["value"] == found.value
    assert Measure.from_json(found.to_json()) == found
    assert declared.question.endswith("?")
    assert declared.compute(*given) == found, "the same question has the same answer"
    if declared.symmetric:
        assert declared.compute(*reversed(given)) == found


@pytest.mark.parametrize("name", PAIRS)
def test_measures_that_compare_two_explanations(name: str, small: SmallCase) -> None:
    compute, (one, two) = MEASURES[name].compute, small.two
    assert compute(one, two).value < compute(one, one).value == pytest.approx(1.0)
    with pytest.raises(InputError, match="by 'rollout' and 'leave-one-out' are of different cases"):
        compute(one, two[0])
    no_parts = replace(one, parts=np.zeros_like(one.parts))
    with pytest.raises(InputError, match="None of the 100 cases can be measured"):
        compute(no_parts, no_parts)


@pytest.mark.parametrize("name", [name for name, one in MEASURES.items() if one.needs])
def test_measures_that_use_a_model(name: str, small: SmallCase) -> None:
    """They name the capability that a model lacks, and leave the model and the batch unchanged."""
    declared = MEASURES[name]
    model, batch, *rest = declared.example(small)
    for lacking in declared.needs:
        offered = {one: getattr(type(model), one) for one in declared.needs if one != lacking}
        poorer = type("Poorer", (), offered)()
        assert not offers(poorer, lacking)
        with pytest.raises(CapabilityError, match=f"Poorer has no '{lacking}', which"):
            declared.compute(poorer, batch, *rest)
    weights = {key: value.clone() for key, value in model.state_dict().items()}
    before = batch.clone()
    declared.compute(model, batch, *rest)
    assert torch.equal(batch, before)
    assert all(torch.equal(value, weights[key]) for key, value in model.state_dict().items())


@pytest.mark.parametrize("name", SEEDS)
def test_measures_that_compare_seeds(name: str, small: SmallCase) -> None:
    declared = MEASURES[name]
    compare = declared.pairs
    assert compare is not None
    seeds, *rest = declared.example(small)
    found = compare(seeds, *rest)
    low, high = declared.range
    assert low < found.measure().value < high, "neither the same nor unrelated"
    assert np.mean(found.over_seeds()) == pytest.approx(found.measure().value)
    same = compare(np.stack([seeds[0]] * 3), *rest).measure()
    best = high if declared.direction == "higher is better" else low
    assert same.value == pytest.approx(best, abs=1e-9)
    assert "3 seeds" in same.protocol
    with pytest.raises(InputError, match="at least 2 seeds, not 1"):
        compare(seeds[:1], *rest)
    with pytest.raises(InputError, match="at least 3 seeds, not 2"):
        compare(seeds[:2], *rest).over_seeds()


@pytest.mark.parametrize("name", PREDICTIONS)
def test_measures_of_predictions(name: str, small: SmallCase) -> None:
    """They are worse for a model that is always wrong, and need at least one case."""
    compute = MEASURES[name].compute
    logits = np.tile([8.0, 0.0, 0.0], (50, 1))
    right, wrong = (
        compute(predictions_from_logits(logits_of(logits, np.full(50, true)))) for true in (0, 1)
    )
    assert right.value < wrong.value
    with pytest.raises(InputError, match="at least one case; there are none"):
        compute(small.predictions[:0])


def test_a_single_case_has_no_interval(small: SmallCase, tmp_path: Path) -> None:
    one = small.explanations[0][:1]
    found = MEASURES["entropy"].compute(one)
    assert found.n == 1
    assert all(map(math.isnan, found.interval))
    assert found.bounds == (None, None)
    assert str(found).endswith("[–]")
    assert found.as_dict()["interval"] is None
    assert Measure.load(found.save(tmp_path / "measure.json")) == found
    old = {**found.as_dict(), "interval": [found.value, found.value]}
    assert Measure.from_dict(old) == found, "as version 0.1 wrote it"


def test_a_measure_shows_itself(capsys: pytest.CaptureFixture[str]) -> None:
    found = Measure(0.5, (0.4, 0.6), 30, "by hand", "higher is better", (0.0, math.inf))
    assert repr(found) == "Measure(0.500 [0.400–0.600], n=30, higher is better)"
    found.show()
    assert "by hand" in capsys.readouterr().out
    assert "by hand" in found._repr_html_()
    assert Measure.from_json(found.to_json()) == found
