"""Confidence of next items as a measurement, case by case."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import optimize, stats

from whence.contract import ALL, HasAttentions
from whence.data import Interactions, Split
from whence.data.histories import Cases
from whence.models import Recommender
from whence.ranking import batch_and_targets
from whence.run import Run
from whence.trust import attention_permutation
from whence_studies.cache import StudyCache
from whence_studies.measurements.between_seeds import deviation_over_seeds
from whence_studies.measurements.candidates import draw_cases
from whence_studies.measurements.measurement import MeasuredRun, SeedColumn
from whence_studies.measurements.next_item_confidence import MEASUREMENT, confidence
from whence_studies.measurements.permutation_by_class import ShuffleOptions
from whence_studies.runner import run_study
from whence_studies.study import StudyDataset, find_study

Followed = Callable[..., Run]
LENGTH = 8
HOW = ShuffleOptions(60, shuffles=3)


def log_p_of(model: Recommender, cases: Cases) -> np.ndarray:
    with torch.no_grad():
        scores = model.score(model.read(cases, LENGTH), ALL)
    return scores.double().log_softmax(dim=1).numpy()


@pytest.fixture(scope="module", params=["sasrec", "bert4rec"])
def measured(
    request: pytest.FixtureRequest, followed: Followed, split: Split
) -> tuple[Run, dict[str, SeedColumn]]:
    run = followed(request.param)
    return run, confidence(MeasuredRun(run, split, "test", show_progress=False), HOW)


def test_every_column_is_declared(measured: tuple[Run, dict[str, SeedColumn]]) -> None:
    _, found = measured
    assert set(found) <= set(MEASUREMENT.all_columns)
    assert set(MEASUREMENT.columns) <= set(found)
    assert all(len(one.per_seed) == 3 for one in found.values())


def test_calibration_and_temperature(
    measured: tuple[Run, dict[str, SeedColumn]], split: Split
) -> None:
    run, found = measured
    test, validation = split.held["test"], split.held["validation"]
    for place, model in enumerate(run.models.values()):
        log_p, before = log_p_of(model, test), log_p_of(model, validation)
        gap = np.exp(log_p.max(axis=1)).mean() - (log_p.argmax(axis=1) == test.targets).mean()
        assert found["confidence minus accuracy"].per_seed[place] == pytest.approx(gap, abs=1e-5)

        def cost(log_t: float, logits: np.ndarray, true: np.ndarray) -> float:
            scaled = logits / math.exp(log_t)
            own = scaled[np.arange(len(true)), true]
            return float((np.logaddexp.reduce(scaled, axis=1) - own).mean())

        best = optimize.minimize_scalar(
            cost, args=(before, validation.targets), bounds=(-5, 8), method="bounded"
        ).x
        assert found["temperature"].per_seed[place] == pytest.approx(math.exp(best), rel=1e-2)
        after = found["negative log-likelihood, after scaling"].per_seed[place]
        assert after == pytest.approx(cost(best, log_p, test.targets), rel=1e-4)
        plain = found["negative log-likelihood"].per_seed[place]
        assert plain == pytest.approx(cost(0.0, log_p, test.targets), rel=1e-4)


def test_shuffling_by_decile(measured: tuple[Run, dict[str, SeedColumn]], split: Split) -> None:
    run, found = measured
    cases = draw_cases(split, "test", 60)
    for place, model in enumerate(run.models.values()):
        permuted = attention_permutation(model, model.read(cases, LENGTH), repeats=3)
        share = permuted.top / permuted.confidence
        rho = stats.spearmanr(share, permuted.confidence).statistic
        column = "ρ(|Δp| / p of the top item, confidence)"
        assert found[column].per_seed[place] == pytest.approx(rho)
        order = np.argsort(permuted.confidence)
        for tenth in (1, 4, 10):
            rows = order[6 * (tenth - 1) : 6 * tenth]
            for name, values in (("|Δp|", permuted.top), ("|Δp| / p", share)):
                column = f"{name} of the top item, decile {tenth}"
                assert found[column].per_seed[place] == pytest.approx(values[rows].mean())


def test_seeds_are_compared_by_decile(
    measured: tuple[Run, dict[str, SeedColumn]], split: Split
) -> None:
    run, found = measured
    cases = draw_cases(split, "test", 60)
    log_p = np.stack([log_p_of(model, cases) for model in run.models.values()])
    came = np.exp(log_p[:, np.arange(60), cases.targets])
    order = np.argsort(np.exp(log_p.max(axis=2)).mean(axis=0))
    tops = []
    for model in run.models.values():
        assert isinstance(model, HasAttentions)
        batch, targets = batch_and_targets(model, cases, LENGTH)
        with torch.no_grad():
            last = model.attentions(batch, targets)[-1][:, :, -1, :LENGTH].mean(dim=1)
        last = last.masked_fill(~model.parts(batch), -1)
        tops.append(last.argmax(dim=1).numpy())  # ⌈0.1 · 8⌉ = 1
    same = np.mean([one == other for one, other in combinations(tops, 2)], axis=0)
    assert np.mean(found["Jaccard index"].per_seed) == pytest.approx(same.mean())
    for tenth in (1, 5, 10):
        rows = order[6 * (tenth - 1) : 6 * tenth]
        index = found[f"Jaccard index, decile {tenth}"]
        assert index.n == 6
        assert np.mean(index.per_seed) == pytest.approx(same[rows].mean())
        expected = deviation_over_seeds(came[:, rows])
        ours = found[f"deviation of predictions, decile {tenth}"].per_seed
        assert ours == pytest.approx(expected, abs=1e-6)


def test_without_validation_every_other_event_fits(followed: Followed, split: Split) -> None:
    alone = replace(split, held={"test": split.held["test"]})
    found = confidence(MeasuredRun(followed(), alone, "test", show_progress=False), HOW)
    half = len(split.held["test"]) // 2
    assert found["temperature"].n == half
    assert found["ECE"].n == len(split.held["test"])


def test_the_study_runs_from_end_to_end(
    interactions: Interactions, data_folder: Path, tmp_path: Path
) -> None:
    assert interactions.item_count == 120
    declared = find_study("sequential-confidence")
    study = replace(
        declared,
        seeds=3,
        datasets={"ML-1M": StudyDataset(str(data_folder), {"dim": 8}, {"steps": 4})},
        models={
            name: replace(one, settings={"max_len": LENGTH}, on={})
            for name, one in declared.models.items()
        },
        training={"batch_size": 16},
        measuring={"confidence": {"users": 40, "shuffles": 2}},
    )
    records = run_study(study, cache=StudyCache(tmp_path / "cache"), show_progress=False)
    none = {one.column for one in records if one.row == "b=2 h=1" and one.value is None}
    scaling = {column for column in none if "scaling" in column} | {"temperature"}
    assert none <= scaling, "so short a training may leave no temperature best"
