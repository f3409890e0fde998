"""One history and its reasons, against the explainers asked by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy import stats

from conftest import lively_sasrec
from whence.contract import ALL
from whence.data import Split
from whence.errors import InputError
from whence.explainers import explain_batch
from whence.run import Run
from whence_studies.measurements.measurement import MeasuredRun, SeedColumn
from whence_studies.measurements.one_recommendation import (
    AGREEMENT,
    MEASUREMENT,
    POSITIONS,
    RANK,
    ROLLOUT,
    SHAPLEY,
    SIGNED,
    ExampleOptions,
    example,
)

LENGTH = 12


@pytest.fixture(scope="module")
def history(split: Split) -> list[int]:
    """All that the first user with twelve events before validation has met."""
    offsets = split.interactions.offsets.tolist()
    user = next(
        user for user, (start, end) in enumerate(pairwise(offsets)) if end - 2 - start >= LENGTH
    )
    return [int(one) for one in split.interactions.items[offsets[user] : offsets[user + 1] - 2]]


@pytest.fixture(scope="module")
def run(split: Split) -> Run:
    """Of two seeds, untrained."""
    catalog = split.interactions.catalog
    models = {
        seed: lively_sasrec(length=LENGTH, items=len(catalog), seed=seed) for seed in range(2)
    }
    return Run("sasrec", {}, {}, {}, catalog, models, metrics={})


@pytest.fixture(scope="module")
def found(run: Run, split: Split) -> dict[str, SeedColumn]:
    return example(MeasuredRun(run, split, "validation", False), ExampleOptions(64))


def test_every_column_has_one_value_per_seed(found: dict[str, SeedColumn]) -> None:
    assert sorted(found) == sorted(MEASUREMENT.all_columns)
    assert {len(one.per_seed) for one in found.values()} == {2}
    assert len(MEASUREMENT.bars["example"].columns) == 30


def test_the_explained_item_is_the_top_unseen_item_of_the_first_seed(
    run: Run, found: dict[str, SeedColumn], history: list[int]
) -> None:
    batch = torch.tensor([history[-LENGTH:]])
    scores = torch.cat([model.score(batch, ALL) for model in run.models.values()]).detach().numpy()
    unmet = np.setdiff1d(np.arange(scores.shape[1]), history)
    target = unmet[scores[0, unmet].argmax()]
    ranks = [1 + int((seed[unmet] > seed[target]).sum()) for seed in scores]
    assert found[RANK].per_seed == tuple(ranks)
    assert ranks[0] == 1
    (title,) = run.catalog.labels([int(target)])
    assert found[RANK].label == title
    assert f"the top recommendation of seed 0, “{title}”" in found[RANK].protocol


@pytest.mark.parametrize(
    ("name", "method"),
    [(SHAPLEY, "shapley:coalitions=64"), (ROLLOUT, "rollout"), (SIGNED, "signed-rollout")],
)
def test_bars_are_the_newest_items_in_order(
    name: str, method: str, run: Run, found: dict[str, SeedColumn], history: list[int]
) -> None:
    target = torch.tensor([run.catalog.find(found[RANK].label or "")])
    bars = [found[column] for column in POSITIONS[name].values()]
    assert [one.label for one in bars] == run.catalog.labels(history[: -len(bars) - 1 : -1])
    for place, (seed, model) in enumerate(run.models.items()):
        by_hand = explain_batch(model, torch.tensor([history[-LENGTH:]]), target, method, seed)
        values = [one.per_seed[place] for one in bars]
        np.testing.assert_allclose(values, by_hand.scores[0, : -len(bars) - 1 : -1])


def test_agreement_is_over_the_newest_items(found: dict[str, SeedColumn]) -> None:
    for place, rho in enumerate(found[AGREEMENT].per_seed):
        sizes = [abs(found[column].per_seed[place]) for column in POSITIONS[SHAPLEY].values()]
        reach = [found[column].per_seed[place] for column in POSITIONS[ROLLOUT].values()]
        assert rho == pytest.approx(stats.spearmanr(sizes, reach).statistic)


def test_histories_that_cannot_be_shown_raise(run: Run, split: Split) -> None:
    def asked(length: int) -> MeasuredRun:
        models = {0: lively_sasrec(length=length, items=len(run.catalog))}
        return MeasuredRun(replace(run, models=models), split, "validation", False)

    with pytest.raises(InputError, match="shows 10 items, but the model reads only 8"):
        example(asked(8), ExampleOptions())
    with pytest.raises(InputError, match="No validation event has a history of 500 items"):
        example(asked(500), ExampleOptions())
