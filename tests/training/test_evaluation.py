"""Ranks and their means against loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from conftest import interactions_of, lively_sasrec
from whence.contract import PAD, All
from whence.data import Interactions, Split, last_two
from whence.data.splits import HeldOut
from whence.errors import InputError
from whence.measure import bootstrap_interval, mean_measure, mean_over_seeds, over_seeds
from whence.models.base import CaseReader
from whence.randomness import Randomness
from whence.training import evaluate
from whence.training.evaluation import gain
from whence.training.negatives import Unseen
from whence.training.ranks import full_ranks, sampled_ranks


class Coarse(CaseReader):
    """A real model's scores rounded, so that there are many ties."""

    def __init__(self, model: CaseReader) -> None:
        self.model = model

    def parts(self, batch: torch.Tensor) -> torch.Tensor:
        return batch != PAD

    def score(
        self,
        batch: torch.Tensor,
        targets: torch.Tensor | All,
        *,
        present: torch.Tensor | None = None,
        embedded: torch.Tensor | None = None,
        attention: Sequence[torch.Tensor | None] | None = None,
    ) -> torch.Tensor:
        return self.model.score(batch, targets, present=present).round()


@pytest.mark.parametrize("held", ["validation", "test"])
@pytest.mark.parametrize("coarse", [False, True])
def test_full_ranking_by_loops(split: Split, held: HeldOut, coarse: bool) -> None:
    data = split.interactions
    model: CaseReader = lively_sasrec(items=data.item_count, length=10)
    model = Coarse(model) if coarse else model
    cases = split.held[held]
    found = full_ranks(model, cases, 10, data.item_count)
    back = 2 if held == "validation" else 1
    for row in range(0, len(cases), 7):
        events = data.history(int(cases.users[row])).tolist()
        history, target = events[:-back], events[-back]
        scores = model.score(torch.tensor([history[-10:]]), torch.arange(data.item_count)[None])[0]
        rivals = [i for i in range(data.item_count) if i not in history and i != target]
        above = sum(scores[i].item() > scores[target].item() for i in rivals)
        equal = sum(scores[i].item() == scores[target].item() for i in rivals)
        assert found[row] == above + equal / 2


def test_sampled_ranking_by_loops(split: Split) -> None:
    data = split.interactions
    model = lively_sasrec(items=data.item_count, length=10)
    cases = split.held["test"]
    found = sampled_ranks(model, cases, 10, Unseen(split), seed=3)
    shortest_first = np.argsort(cases.ends - cases.starts, kind="stable")
    users = torch.from_numpy(cases.users[shortest_first])
    drawn = Unseen(split).draw(users, 100, Randomness(3).torch("evaluation"))
    negatives = drawn[torch.from_numpy(np.argsort(shortest_first))]
    histories = cases.histories(10)
    for row in range(0, len(cases), 11):
        target = int(cases.targets[row])
        candidates = [target, *(item for item in negatives[row].tolist() if item != target)]
        scores = model.score(torch.from_numpy(histories[[row]]), torch.tensor([candidates]))[0]
        above = (scores[1:] > scores[0]).sum().item()
        equal = (scores[1:] == scores[0]).sum().item()
        assert found[row] == above + equal / 2


def test_measures_are_means_of_ranks(split: Split) -> None:
    data = split.interactions
    model = lively_sasrec(items=data.item_count, length=10)
    ranks = full_ranks(model, split.held["test"], 10, data.item_count)
    found = evaluate(model, split, "test", 10)
    assert found["recall@10"].value == (ranks < 10).mean()
    expected = np.mean([1 / np.log2(rank + 2) if rank < 10 else 0 for rank in ranks])
    assert found["NDCG@10"].value == pytest.approx(expected)
    assert found["MRR"].value == pytest.approx(np.mean(1 / (ranks + 1)))
    assert "itself and all items the user has not seen" in found["MRR"].protocol
    assert "100 random items" in found["recall@10 of 101"].protocol
    assert found["MRR"].n == len(ranks)


def test_gain_of_the_first_and_the_eleventh() -> None:
    assert gain(np.array([0.0, 1.0, 10.0])).tolist() == [1.0, pytest.approx(0.6309, abs=1e-4), 0.0]


def test_slices_do_not_matter(split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    data = split.interactions
    model = lively_sasrec(items=data.item_count, length=10)
    whole = full_ranks(model, split.held["test"], 10, data.item_count)
    monkeypatch.setattr("whence.memory.SCORES_AT_ONCE", 7 * data.item_count)
    assert np.array_equal(full_ranks(model, split.held["test"], 10, data.item_count), whole)


def test_the_interval_covers_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(200):
        low, high = bootstrap_interval(rng.normal(size=60))
        covered += low <= 0 <= high
    assert 0.88 <= covered / 200 <= 0.99


def test_the_interval_of_few_values_is_that_of_many() -> None:
    """Hits and misses, and the same with a little noise, which takes the other way."""
    rng = np.random.default_rng(0)
    hits = (rng.random(2_000) < 0.3).astype(np.float64)
    noisy = hits + rng.normal(scale=1e-9, size=2_000)
    expected = stats.binom.ppf([0.025, 0.975], 2_000, hits.mean()) / 2_000
    for values in (hits, noisy):
        np.testing.assert_allclose(bootstrap_interval(values), expected, atol=0.003)


def test_the_interval_is_seeded_and_sliced(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).random(40)
    one = mean_measure(values, "by hand")
    assert one == mean_measure(values, "by hand")
    monkeypatch.setattr("whence.measure.DRAWS_AT_ONCE", 400)
    assert mean_measure(values, "by hand").interval == pytest.approx(one.interval, abs=0.05)
    with pytest.raises(ValueError, match="no values"):
        mean_measure(np.zeros(0), "by hand")


def test_the_mean_over_seeds_by_scipy() -> None:
    values = [0.1, 0.4, 0.25, 0.3]
    found = mean_over_seeds(values)
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert found.interval == pytest.approx((expected.low, expected.high))
    assert found.spread == pytest.approx(np.std(values, ddof=1))
    assert str(found) == "0.263 ± 0.199"
    one = mean_measure(np.array([0.2, 0.4]), "by hand")
    assert over_seeds(one, values) == replace(one, value=found.value, interval=found.interval)
    assert over_seeds(one, [0.1, 0.9]).interval == (0.0, 1.0), "no share lies beyond"


class Given(CaseReader):
    """The same scores for everyone."""

    def __init__(self, scores: list[float]) -> None:
        self.scores = torch.tensor(scores)

    def parts(self, batch: torch.Tensor) -> torch.Tensor:
        return batch != PAD

    def score(
        self,
        batch: torch.Tensor,
        targets: torch.Tensor | All,
        *,
        present: torch.Tensor | None = None,
        embedded: torch.Tensor | None = None,
        attention: Sequence[torch.Tensor | None] | None = None,
    ) -> torch.Tensor:
        return self.scores.expand(len(batch), -1)


ODD = st.sampled_from([float("nan"), float("inf"), -float("inf"), 0.0, 1.0, 2.0])


@given(
    scores=st.lists(ODD, min_size=6, max_size=6), history=st.lists(st.integers(0, 5), min_size=2)
)
def test_ranks_of_odd_scores_by_loops(scores: list[float], history: list[int]) -> None:
    """Not numbers, infinities and ties; what was met again, and a true item that was met before."""
    split = last_two(interactions_of([*([item] for item in range(6)), [*history, 0, 3]]))
    cases = split.held["test"]
    (found,) = full_ranks(Given(scores), cases, 10, 6)
    target = int(cases.targets[0])
    rivals = set(range(6)) - set(cases.items[cases.starts[0] : cases.ends[0]].tolist()) - {target}
    own = scores[target]
    higher = sum(not scores[item] <= own for item in rivals)
    equal = sum(scores[item] == own for item in rivals)
    assert found == higher + equal / 2


def test_a_model_of_no_numbers_ranks_last(split: Split) -> None:
    model = lively_sasrec(items=split.interactions.item_count, length=10)
    with torch.no_grad():
        model.item.fill_(torch.nan)
    found = evaluate(model, split, "test", 10)
    assert all(measure.value < 0.02 for measure in found.values())


def test_a_tiny_catalog_is_found_by_everyone() -> None:
    """Ten items: whatever the model, the true one is among the first ten."""
    user, item = np.repeat(np.arange(30), 5), np.tile(np.arange(10), 15)
    data = Interactions.from_columns(pa.chunked_array([user]), pa.chunked_array([item]))
    found = evaluate(lively_sasrec(items=10), last_two(data), "test", 8)
    assert found["recall@10"].value == 1.0
    assert list(found)[:3] == ["recall@10", "NDCG@10", "MRR"]
    assert "recall@10 of 101" not in found, "too few items to sample a hundred"
    assert "row order" in found["MRR"].protocol


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ({"held": "tests"}, "The split holds out no part called 'tests': did you mean 'test'"),
        ({"top": 0}, "max_len and top must be whole numbers of at least 1, not 8 and 0"),
        ({"top": 2.5}, "not 8 and 2.5"),
        ({"max_len": 0}, "not 0 and 10"),
    ],
)
def test_a_question_without_sense_is_one_sentence(
    question: dict[str, Any], sentence: str, split: Split
) -> None:
    model = lively_sasrec(items=split.interactions.item_count)
    with pytest.raises(InputError, match=sentence):
        evaluate(model, split, **{"held": "test", "max_len": 8, **question})


def test_nothing_to_measure_is_one_sentence() -> None:
    data = Interactions.from_columns(pa.chunked_array([[1, 1]]), pa.chunked_array([[1, 2]]))
    with pytest.raises(InputError, match="three events"):
        evaluate(lively_sasrec(), last_two(data), "test", 8)
