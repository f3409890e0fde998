"""Several seeds together, against a slow loop over users and ensembles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch

import whence
from whence.contract import ALL
from whence.data import Interactions, Split
from whence.errors import InputError
from whence.models import Recommender, fitted_model
from whence.models.ensemble import Ensemble, Member
from whence.run import Run
from whence.training.evaluation import Evaluation
from whence_studies.measurements import seed_ensembles
from whence_studies.measurements.measurement import MeasuredRun
from whence_studies.measurements.seed_ensembles import (
    MEASUREMENT,
    TogetherOptions,
    ensemble_ranks,
    ensembles,
    together,
)

Followed = Callable[..., Run]


@pytest.fixture(scope="module")
def four(interactions: Interactions) -> Run:
    return whence.train(
        interactions,
        model="sasrec",
        model_settings={"max_len": 8, "dim": 8},
        training={"steps": 60, "batch_size": 32, "learning_rate": 0.01},
        seeds=4,
        show_progress=False,
    )


def slow_rank(models: list[Recommender], split: Split, case: int) -> float:
    """Rank one event by the mean log-probability over the items that the user has not seen."""
    cases = split.held["test"]
    history = cases.items[cases.starts[case] : cases.ends[case]].tolist()
    batch = torch.tensor([history[-8:]])
    with torch.no_grad():
        log_p = torch.stack(
            [model.score(batch, ALL)[0].double().log_softmax(dim=0) for model in models]
        ).mean(dim=0)
    target = int(cases.targets[case])
    rivals = [item for item in range(len(log_p)) if item not in history and item != target]
    better = sum(float(log_p[item]) > float(log_p[target]) for item in rivals)
    return better + sum(float(log_p[item]) == float(log_p[target]) for item in rivals) / 2


def test_it_agrees_with_a_loop(four: Run, split: Split) -> None:
    models = list(four.models.values())
    found = together(MeasuredRun(four, split, "test", False), TogetherOptions(3))
    sets = list(combinations(range(4), 3))
    users = len(split.held["test"])
    ranks = np.array(
        [[slow_rank([models[k] for k in one], split, b) for b in range(users)] for one in sets]
    )
    alone = np.array([[slow_rank([one], split, b) for b in range(users)] for one in models])
    for name, measure in (
        ("recall@10", lambda ranks: (ranks < 10) * 1.0),
        ("NDCG@10", lambda ranks: np.where(ranks < 10, 1 / np.log2(ranks + 2), 0)),
    ):
        many, one = measure(ranks), measure(alone)
        column = found[f"{name} together"]
        assert np.mean(column.per_seed) == pytest.approx(many.mean())
        assert column.spread == pytest.approx(many.mean(axis=1).std(ddof=1))
        assert column.n == users
        with_second = [k for k, one in enumerate(sets) if 1 in one]
        assert column.per_seed[1] == pytest.approx(many[with_second].mean())
        # The interval is close to that of the normal approximation.
        error = many.mean(axis=0).std(ddof=1) / users**0.5
        expected = many.mean() + 1.96 * error * np.array([-1, 1])
        assert column.interval == pytest.approx(expected, abs=0.25 * error)
        single = found[f"{name} over users"]
        assert single.per_seed == pytest.approx(one.mean(axis=1))
        assert single.spread == pytest.approx(one.mean(axis=1).std(ddof=1))
        gained = found[f"{name} gained together"]
        assert np.mean(gained.per_seed) == pytest.approx(many.mean() - one.mean())
        lead = many.mean(axis=0) - one.mean(axis=0)
        error = lead.std(ddof=1) / users**0.5
        expected = lead.mean() + 1.96 * error * np.array([-1, 1])
        assert gained.interval == pytest.approx(expected, abs=0.25 * error)
    assert set(found) == set(MEASUREMENT.columns)


def test_it_agrees_with_an_ensemble_and_with_the_metrics_of_the_run(
    four: Run, split: Split
) -> None:
    found = together(MeasuredRun(four, split, "test", False), TogetherOptions(4))
    whole = Ensemble([Member(model, 0.25) for model in four.models.values()])
    expected = Evaluation(split, "test", 8).full(whole).measures()
    for name in ("recall@10", "NDCG@10"):
        column = found[f"{name} together"]
        assert set(np.round(column.per_seed, 12)) == {round(expected[name].value, 12)}
        assert column.interval == pytest.approx(expected[name].interval)
        assert column.spread is None, "there is a single ensemble"
        by_seed = [one["test"][name]["value"] for one in four.metrics.values()]
        assert found[f"{name} over users"].per_seed == pytest.approx(by_seed)


def test_slices_change_nothing(four: Run, split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    models, cases = list(four.models.values()), split.held["test"]
    sets = [(0,), (1, 3), (0, 1, 2, 3)]
    at_once = ensemble_ranks(models, cases, sets)
    monkeypatch.setattr(seed_ensembles, "cases_at_once", lambda *_: 7)
    assert np.array_equal(ensemble_ranks(models, cases, sets), at_once)


def test_ties_count_half_and_scores_of_nan_are_not_found(four: Run, split: Split) -> None:
    cases = split.held["test"][:2]
    scores = torch.zeros(2, 2, split.interactions.item_count)
    scores[1, 1] = torch.nan
    rivals = [
        split.interactions.item_count
        - len({*cases.items[cases.starts[k] : cases.ends[k]].tolist(), int(cases.targets[k])})
        for k in range(2)
    ]
    found = seed_ensembles._ranks(scores, cases, [(0,), (0, 1)])
    assert found[0].tolist() == [one / 2 for one in rivals]
    assert found[1, 0] == rivals[0] / 2
    assert found[1, 1] >= rivals[1]


def test_one_model_has_no_ensemble(followed: Followed, split: Split) -> None:
    model = fitted_model("last-item", {}, split)
    run = replace(followed(), models={0: model})
    found = together(MeasuredRun(run, split, "test", False), TogetherOptions())
    assert set(found) == {"recall@10 over users", "NDCG@10 over users"}
    column = found["NDCG@10 over users"]
    assert column.spread is None
    expected = Evaluation(split, "test", model.config.max_len).full(model).measures()["NDCG@10"]
    assert column.per_seed == pytest.approx((expected.value,))
    assert column.interval == pytest.approx(expected.interval)


def test_all_sets_of_seeds() -> None:
    assert len(ensembles(8, 5)) == 56
    assert ensembles(2, 5) == []
    with pytest.raises(InputError, match=r"20 seeds give 15,504 ensembles of 5"):
        ensembles(20, 5)
    with pytest.raises(InputError, match="size must be at least 2, not 1"):
        TogetherOptions(1)
