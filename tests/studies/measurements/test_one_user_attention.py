"""The attention map of one user, against the explainers asked by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest
import torch

from conftest import lively_of
from whence.contract import ALL, PAD
from whence.data import Split
from whence.data.histories import Cases
from whence.errors import InputError
from whence.explainers import explain_batch
from whence.run import Run
from whence_studies.measurements.measurement import MeasuredRun, NoOptions, SeedColumn
from whence_studies.measurements.one_user_attention import (
    ALIKE,
    CELLS,
    DATASETS,
    LARGEST,
    MEASUREMENT,
    OTHER,
    PLACES,
    RANDOM_PICK,
    UNIFORM,
    attention_map,
)

LENGTH = 16


@pytest.fixture(scope="module")
def history(split: Split) -> list[int]:
    """The first of the shortest of ten items or more before validation."""
    items = split.interactions.items
    spans = pairwise(split.interactions.offsets.tolist())
    every = [items[start : end - 2].tolist() for start, end in spans]
    return min((one for one in every if len(one) >= 10), key=len)


@pytest.fixture(scope="module")
def run(split: Split) -> Run:
    """Of three seeds, untrained."""
    catalog = split.interactions.catalog
    models = {
        seed: lively_of("deepicf-a")(length=LENGTH, items=len(catalog), seed=seed)
        for seed in range(3)
    }
    return Run("deepicf-a", {}, {}, {}, catalog, models, metrics={})


@pytest.fixture(scope="module")
def found(run: Run, split: Split) -> dict[str, SeedColumn]:
    return attention_map(MeasuredRun(run, split, "validation", False), NoOptions())


@pytest.fixture(scope="module")
def targets(run: Run, found: dict[str, SeedColumn]) -> list[int]:
    return [run.catalog.find(found[column].label or "") for column in LARGEST.values()]


def by_hand(run: Run, targets: list[int], history: list[int], method: str) -> np.ndarray:
    """`[seeds, targets, items]`."""
    padded = [PAD] * (LENGTH - len(history)) + history
    batch = torch.tensor([padded] * len(targets))
    said = [
        explain_batch(model, batch, torch.tensor(targets), method) for model in run.models.values()
    ]
    return np.stack([one.scores[:, -len(history) :] for one in said])


def test_every_column_has_one_value_per_seed(found: dict[str, SeedColumn]) -> None:
    assert sorted(found) == sorted(MEASUREMENT.all_columns)
    assert {len(one.per_seed) for one in found.values()} == {3}
    assert len(CELLS) == 50


def test_the_first_seeds_recommendations_are_explained(
    run: Run, targets: list[int], history: list[int]
) -> None:
    padded = [PAD] * (LENGTH - len(history)) + history
    scores = run.first.score(torch.tensor([padded]), ALL)[0].detach()
    best = [item for item in scores.argsort(descending=True).tolist() if item not in history]
    assert targets == best[: len(PLACES)]


def test_cells_are_shares_of_attention_in_descending_order(
    run: Run, found: dict[str, SeedColumn], targets: list[int], history: list[int]
) -> None:
    weights = by_hand(run, targets, history, "attention-last")
    shares = weights / weights.sum(axis=2, keepdims=True)
    mean, in_sentence = shares.mean(axis=(0, 1)), set(shares[0].argmax(axis=1).tolist())
    rest = [slot for slot in np.argsort(-mean).tolist() if slot not in in_sentence]
    order = sorted([*in_sentence, *rest][:10], key=lambda slot: -mean[slot])
    for number, slot in enumerate(order, start=1):
        for target, place in enumerate(PLACES):
            cell = found[CELLS[f"{number}", place]]
            assert cell.label == run.catalog.labels([history[slot]])[0]
            np.testing.assert_allclose(cell.per_seed, shares[:, target, slot])
    for target, column in enumerate(LARGEST.values()):
        np.testing.assert_allclose(found[column].per_seed, shares[:, target].max(axis=1))
    assert found[UNIFORM].per_seed == (1 / len(history),) * 3


def test_score_drops_and_agreement_of_named_items(
    run: Run, found: dict[str, SeedColumn], targets: list[int], history: list[int]
) -> None:
    named = by_hand(run, targets, history, "attention-last").argmax(axis=2)
    falls = by_hand(run, targets, history, "leave-one-out")
    for seed in range(3):
        own = [falls[seed, target, named[seed, target]] for target in range(len(targets))]
        rest = [
            np.delete(falls[seed, target], named[seed, target]).mean()
            for target in range(len(targets))
        ]
        assert found[DATASETS].per_seed[seed] == pytest.approx(np.mean(own))
        assert found[OTHER].per_seed[seed] == pytest.approx(np.mean(rest))
    pairs = [np.mean(named[one] == named[other]) for one, other in combinations(range(3), 2)]
    assert np.mean(found[ALIKE].per_seed) == pytest.approx(np.mean(pairs))
    assert found[RANDOM_PICK].per_seed == (1 / len(history),) * 3


def test_the_protocol_contains_the_sentences(
    run: Run, found: dict[str, SeedColumn], targets: list[int], history: list[int]
) -> None:
    weights = by_hand(run, targets, history, "attention-last")[0, 0]
    a, b = run.catalog.labels([targets[0], history[weights.argmax()]])
    share = 100 * weights.max() / weights.sum()
    assert f"sentences: “{a}” because of “{b}” ({share:.1f} %), “" in found[UNIFORM].protocol


def test_histories_that_cannot_be_shown_raise(run: Run, split: Split) -> None:
    def ask(length: int, held: Split = split) -> None:
        models = {0: lively_of("deepicf-a")(length=length, items=len(run.catalog))}
        attention_map(
            MeasuredRun(replace(run, models=models), held, "validation", False), NoOptions()
        )

    with pytest.raises(InputError, match="has a history of 10 to 9 items to show as a map"):
        ask(9)
    count = len(run.catalog)
    items = np.arange(count, dtype=np.int32)
    every = Cases(items, *(np.array([one]) for one in (0, 0, count - 4, count - 4)))
    with pytest.raises(InputError, match="needs 5 recommendations, and fewer items are unseen"):
        ask(count, replace(split, held={**split.held, "validation": every}))
