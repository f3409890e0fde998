"""What every trust measure promises, asked of every measure there is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from whence.contract import Explainable
from whence.errors import CapabilityError, InputError
from whence.explainers import compare_batch, explain_batch
from whence.ranking import top_unseen
from whence.run import Run
from whence.trust import (
    MEASURES,
    SEED_MEASURES,
    coalition_values,
    logits_of,
    next_item_logits,
    predictions_from_logits,
)
from whence.worlds import World

Arguments = Mapping[str, tuple[Any, ...]]
PAIRS = [name for name in MEASURES if name.startswith("agreement")]
"""Those that compare two explanations."""
PREDICTIONS = [
    *(name for name in MEASURES if name.startswith("calibration-error")),
    "brier-score",
    "negative-log-likelihood",
]
"""Those of how sure a model was and whether it was right."""


@pytest.fixture(scope="module")
def arguments(world: World, run: Run) -> Arguments:
    """What to compute each measure on; for those of seeds, three things that stand for seeds."""
    asked = world.questions("caused", 12, 100)
    batch, targets = map(torch.from_numpy, (asked.cases.histories(12), asked.cases.targets))
    found = compare_batch(run.first, batch, targets, ["rollout", "leave-one-out", "gradient-norm"])
    one, two, _ = found.values()
    trusted = explain_batch(run.first, batch, targets, "shapley:coalitions=64,exact_up_to=0")
    sizes = np.stack([explanation.magnitude() for explanation in found.values()])
    values = coalition_values(run.first, batch, targets, 32)
    few = explain_batch(run.first, batch[:20], targets[:20], "leave-one-out")
    lists = [top_unseen(model, asked.cases, 12, 10)[0] for model in run.models.values()]
    predicted = predictions_from_logits(next_item_logits(run.first, asked.cases, 12))
    sure = np.stack([predicted.confidence**power for power in (0.5, 1, 2)])
    counts = np.bincount(world.interactions.items, minlength=world.interactions.item_count)
    return {
        **dict.fromkeys(PAIRS, (one, two)),
        **dict.fromkeys(PREDICTIONS, (predicted,)),
        "entropy": (one,),
        "value-correlation": (two, values),
        "value-fit": (trusted, values),
        "sign-agreement": (two, trusted),
        "sign-agreement-weighted": (two, trusted),
        "precision-at-cause": (two, asked),
        "sign-at-cause": (two, asked),
        "popularity-bias": (one, batch.numpy(), counts),
        "popularity-correlation": (one, batch.numpy(), counts),
        "attention-kl": (sizes, one.parts),
        "jaccard-index": (sizes, one.parts),
        "jaccard-distance": (sizes, one.parts),
        "overlap": (np.stack([*lists, np.roll(lists[0], 1, axis=0)]),),
        **dict.fromkeys(("prediction-difference", "prediction-deviation"), (sure,)),
        "deletion-area": (run.first, batch[:20], few),
        "deletion-area-normalised": (run.first, batch[:20], few),
        "deletion-shape": (run.first, batch[:20], few),
        "insertion-area": (run.first, batch[:20], few),
        "deletions-to-flip": (run.first, batch[:20], few),
        "deletions-to-flip-ten": (run.first, batch[:20], few),
        "attention-permutation": (run.first, batch[:20]),
        "attention-permutation-divergence": (run.first, batch[:20]),
    }


@pytest.mark.parametrize("name", list(MEASURES))
def test_declares_what_it_returns(name: str, arguments: Arguments) -> None:
    declared, given = MEASURES[name], arguments[name]
    found = declared.compute(*given)
    assert (found.direction, found.range) == (declared.direction, declared.range)
    low, high = declared.range
    assert low <= found.interval[0] <= found.value <= found.interval[1] <= high
    assert found.protocol
    assert json.loads(json.dumps(found.as_dict(), allow_nan=False))["value"] == found.value
    assert declared.question.endswith("?")
    assert declared.compute(*given) == found, "the same question has the same answer"
    if declared.symmetric:
        assert declared.compute(*reversed(given)) == found


@pytest.mark.parametrize("name", PAIRS)
def test_what_compares_two_explanations(name: str, arguments: Arguments) -> None:
    compute, (one, two) = MEASURES[name].compute, arguments[name]
    assert compute(one, two).value < compute(one, one).value == pytest.approx(1.0)
    with pytest.raises(InputError, match="the same cases, which those by 'rollout' and 'leave-one"):
        compute(one, two[0])
    no_parts = replace(one, parts=np.zeros_like(one.parts))
    with pytest.raises(InputError, match="None of the 100 cases can be measured"):
        compute(no_parts, no_parts)


@pytest.mark.parametrize("name", [name for name, one in MEASURES.items() if one.needs])
def test_what_asks_a_model(name: str, arguments: Arguments) -> None:
    """It says what a model lacks, and leaves the model and the batch as they were."""
    declared, (model, batch, *rest) = MEASURES[name], arguments[name]
    for lacking in declared.needs:
        offered = {one: getattr(type(model), one) for one in declared.needs if one != lacking}
        poorer = type("Poorer", (Explainable,), offered)()
        with pytest.raises(CapabilityError, match=f"Poorer has no '{lacking}', which"):
            declared.compute(poorer, batch, *rest)
    weights = {key: value.clone() for key, value in model.state_dict().items()}
    before = batch.clone()
    declared.compute(model, batch, *rest)
    assert torch.equal(batch, before)
    assert all(torch.equal(value, weights[key]) for key, value in model.state_dict().items())


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


@pytest.mark.parametrize("name", PREDICTIONS)
def test_what_is_asked_of_predictions(name: str, arguments: Arguments) -> None:
    """It gets worse when a model that is always right is always wrong, and refuses no cases."""
    compute, (predicted,) = MEASURES[name].compute, arguments[name]
    logits = np.tile([8.0, 0.0, 0.0], (50, 1))
    right, wrong = (
        compute(predictions_from_logits(logits_of(logits, np.full(50, true)))) for true in (0, 1)
    )
    assert right.value < wrong.value
    with pytest.raises(InputError, match="at least one case; there is none"):
        compute(predicted[:0])
