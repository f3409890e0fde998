"""What the recommended lists are like, against loops."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from conftest import interactions_of, lively_sasrec
from whence.arrays import Floats, Ints32
from whence.contract import PAD, All
from whence.data import Split, last_two, user_holdout
from whence.data.interactions import Counts
from whence.errors import InputError
from whence.measure import Measure, bootstrap_interval
from whence.models import build_model, fitted_model, simple_models
from whence.models.base import CaseReader
from whence.randomness import Randomness
from whence.ranking import top_unseen
from whence.training import Evaluation, TrainingConfig, evaluate
from whence.training.lists import (
    RANGES,
    Lists,
    coverage_values,
    diversity_values,
    mean_in_lists,
    popularity_percentiles,
    self_information,
)
from whence.training.ranks import full_ranks, ranks_and_lists

NAMES = tuple(f"{name}@10" for name in RANGES)


class Constant(CaseReader):
    """The same scores for everyone."""

    def __init__(self, scores: Sequence[float]) -> None:
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
        assert isinstance(targets, All)
        return self.scores.expand(len(batch), -1)


def chosen_in(split: Split) -> dict[int, set[int]]:
    """Return, by item, the users who chose it in training."""
    data = split.interactions
    users: dict[int, set[int]] = {item: set() for item in range(data.item_count)}
    for user in range(data.user_count):
        for item in data.items[data.offsets[user] : split.train_ends[user]].tolist():
            users[item].add(user)
    return users


def by_loops(lists: Ints32, split: Split) -> dict[str, list[float]]:
    """Return the values of each case, the obvious way; for coverage the share itself."""
    users, counts = chosen_in(split), split.item_counts().tolist()
    everyone = len(set().union(*users.values()))
    true = split.held["test"].targets.tolist()

    def percentile(item: int) -> float:
        lower: int = sum(count < counts[item] for count in counts)
        equal: int = sum(count == counts[item] for count in counts)
        return (lower + equal / 2) / len(counts)

    def distance(one: int, other: int) -> float:
        if not users[one] or not users[other]:
            return 1.0
        sizes = len(users[one]) * len(users[other])
        return 1 - len(users[one] & users[other]) / math.sqrt(sizes)

    def mean(values: Iterator[float]) -> float:
        found = list(values)
        return sum(found) / len(found) if found else math.nan

    shown = [[item for item in row if item != PAD] for row in lists.tolist()]
    return {
        "coverage": [len({item for row in shown for item in row}) / len(counts)],
        "novelty": [
            mean(-math.log2((len(users[item]) + 1) / (everyone + 1)) for item in row)
            for row in shown
        ],
        "diversity": [mean(distance(*pair) for pair in combinations(row, 2)) for row in shown],
        "popularity bias": [
            mean(percentile(item) - percentile(target) for item in row)
            for row, target in zip(shown, true, strict=True)
        ],
    }


def check(lists: Ints32, split: Split) -> None:
    found = Lists(lists, split.held["test"], split).values()
    expected = by_loops(lists, split)
    assert list(found) == list(expected) == list(RANGES)
    assert found["coverage"].mean() == pytest.approx(expected.pop("coverage")[0])
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, atol=1e-12, err_msg=name)


def test_lists_are_those_that_are_recommended(split: Split) -> None:
    item_count, cases = split.interactions.item_count, split.held["test"]
    rules = simple_models(split).values()
    for model in (lively_sasrec(items=item_count, length=10), *rules):
        ranks, lists = ranks_and_lists(model, cases, 10, item_count, 10)
        expected, scores = top_unseen(model, cases, 10, 10)
        assert np.isfinite(scores).all()
        np.testing.assert_array_equal(lists, expected)
        np.testing.assert_array_equal(ranks, full_ranks(model, cases, 10, item_count))


@pytest.mark.parametrize("name", ["sasrec", "bert4rec", "gmf", "fism"])
def test_lists_by_loops(name: str, split: Split) -> None:
    """For models that read histories, and for those that know users."""
    data = split.interactions
    counts = Counts(data.item_count, data.user_count)
    model = build_model(name, {"dim": 8, "max_len": 10}, counts, Randomness(0).torch("init"))
    check(ranks_and_lists(model.eval(), split.held["test"], 10, data.item_count, 10)[1], split)
    assert set(NAMES) <= set(evaluate(model, split, "test", 10))


HISTORIES = st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=16), min_size=1, max_size=8)


@given(
    histories=HISTORIES,
    scores=st.lists(
        st.sampled_from([-1.0, 0.0, 1.0, 2.0, 3.5, math.nan]), min_size=13, max_size=13
    ),
)
def test_small_data_by_loops(histories: list[list[int]], scores: list[float]) -> None:
    """Catalogs below ten items, items without training events, lists that are short or empty."""
    split = last_two(interactions_of([*histories, [0, 1, 2]]))
    item_count = split.interactions.item_count
    model = Constant(scores[:item_count])
    lists = ranks_and_lists(model, split.held["test"], 16, item_count, 10)[1]
    cases = split.held["test"]
    for row, found in enumerate(lists.tolist()):
        seen = set(cases.items[cases.starts[row] : cases.ends[row]].tolist())
        left = [i for i in range(item_count) if i not in seen and not math.isnan(scores[i])]
        best = sorted((scores[item] for item in left), reverse=True)[:10]
        shown = [item for item in found if item != PAD]
        assert found == [*shown, *[PAD] * (len(found) - len(shown))]
        assert set(shown) <= set(left)
        assert len(set(shown)) == len(shown)
        assert [scores[item] for item in shown] == best
    check(lists, split)


def test_slices_do_not_matter(split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    item_count, cases = split.interactions.item_count, split.held["test"]
    model = lively_sasrec(items=item_count, length=10)
    lists = ranks_and_lists(model, cases, 10, item_count, 10)[1]
    whole = Lists(lists, cases, split).values()
    monkeypatch.setattr("whence.models.item_pairs.SCORES_AT_ONCE", 500)
    monkeypatch.setattr("whence.memory.SCORES_AT_ONCE", 7 * item_count)
    np.testing.assert_array_equal(ranks_and_lists(model, cases, 10, item_count, 10)[1], lists)
    for name, values in Lists(lists, cases, split).values().items():
        np.testing.assert_allclose(values, whole[name], atol=1e-12)


def test_an_example_by_hand() -> None:
    """Four users; items 0 and 1 share two of their users, item 3 has none."""
    chosen = sparse.csr_array(np.array([[1, 1, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 0, 0.0]]))
    assert self_information(chosen) == pytest.approx(-np.log2([1, 3 / 5, 2 / 5, 1 / 5]))
    lists = np.array([[0, 1, PAD], [1, 2, 3], [0, PAD, PAD], [PAD] * 3], dtype=np.int32)
    expected = [1 - 2 / np.sqrt(4 * 2), 1.0, np.nan, np.nan]
    np.testing.assert_allclose(diversity_values(lists, chosen), expected)
    assert coverage_values(lists, 4).mean() == pytest.approx(1.0)
    by_item = np.array([1.0, 2.0, 3.0, 4.0])
    np.testing.assert_allclose(mean_in_lists(by_item, lists), [1.5, 3.0, 1.0, np.nan])
    assert popularity_percentiles(np.array([4, 2, 1, 1])).tolist() == [0.875, 0.625, 0.25, 0.25]


def test_the_interval_of_coverage_covers_the_expected_share() -> None:
    """Lists drawn from a long tail: the share that as many other users would be shown."""
    rng = np.random.default_rng(0)
    probabilities = 1 / np.arange(1, 401) ** 1.2
    draws = [
        rng.choice(400, (80, 3), p=probabilities / probabilities.sum()).astype(np.int32)
        for _ in range(300)
    ]
    shares = np.array([len(np.unique(lists)) / 400 for lists in draws])
    intervals = [bootstrap_interval(coverage_values(lists, 400)) for lists in draws]
    inside = [low <= shares.mean() <= high for low, high in intervals]
    assert np.mean(inside) >= 0.93
    naive = [
        np.mean([len(np.unique(lists[rng.integers(0, 80, 80)])) / 400 for _ in range(20)])
        for lists in draws[:20]
    ]
    assert np.mean(naive) < 0.8 * shares.mean(), "why the lists are not drawn again"


def test_coverage_by_a_jackknife() -> None:
    rng = np.random.default_rng(1)
    lists = rng.integers(0, 60, (25, 3)).astype(np.int32)
    without = np.array([len(np.unique(np.delete(lists, row, axis=0))) / 60 for row in range(25)])
    variance = 24 / 25 * ((without - without.mean()) ** 2).sum()
    values = coverage_values(lists, 60)
    assert values.mean() == pytest.approx(len(np.unique(lists)) / 60)
    assert values.var(ddof=1) / 25 == pytest.approx(variance)


def test_an_evaluation_has_the_lists_and_a_validation_does_not(split: Split) -> None:
    model = lively_sasrec(items=split.interactions.item_count, length=10)
    evaluation = Evaluation(split, "test", 10)
    found = evaluation.of(model).measures()
    assert list(found)[-4:] == list(NAMES)
    assert not set(NAMES) & set(evaluation.full(model).values)
    for name in NAMES:
        one = found[name]
        assert one.range[0] <= one.interval[0] <= one.value <= one.interval[1] <= one.range[1]
        assert one.direction == "neither"
        assert one.protocol.startswith("300 test events, last-two split by time; the 10 best items")
        assert Measure.from_json(one.to_json()) == one
    own = len(np.unique(split.held["test"].targets)) / split.interactions.item_count
    said = f"(the held-out items, one per user, are {100 * own:.3g} % of them)"
    assert said in found["coverage@10"].protocol
    assert "coverage@3" in evaluate(model, split, "test", 10, top=3)


def test_leads_are_paired(split: Split) -> None:
    evaluation = Evaluation(split, "test", 10)
    model = lively_sasrec(items=split.interactions.item_count, length=10)
    own, other = evaluation.of(model), evaluation.of(fitted_model("popularity", {}, split))
    leads = own.lead_over(other)
    for name in NAMES:
        difference = own.measures()[name].value - other.measures()[name].value
        assert leads[name].value == pytest.approx(difference)
    assert leads["popularity bias@10"].value < 0
    assert leads["novelty@10"].interval[0] > 0
    assert leads["popularity bias@10"].range == (-2.0, 2.0)


def test_a_new_user_was_not_in_training(split: Split) -> None:
    """Users who are held out do not count as users who chose an item."""
    held = user_holdout(split.interactions)
    model = lively_sasrec(items=split.interactions.item_count, length=10)
    lists = ranks_and_lists(model, held.held["test"], 10, split.interactions.item_count, 10)[1]
    check(lists, held)


def test_a_catalog_of_one_item_has_no_lists() -> None:
    split = last_two(interactions_of([[0, 0, 0], [0, 0, 0, 0]]))
    found = evaluate(Constant([1.0]), split, "test", 3)
    assert found["coverage@10"].value == 0
    assert not {"novelty@10", "diversity@10", "popularity bias@10"} & set(found)


def test_one_user_has_no_interval() -> None:
    split = last_two(interactions_of([[0, 1, 2], [3], [4, 0]]))
    found = evaluate(Constant([1.0, 2.0, 3.0, 4.0, 5.0]), split, "test", 3)
    assert [found[name].bounds for name in NAMES] == [(None, None)] * 4
    assert found["coverage@10"].value == pytest.approx(3 / 5), "all but the two that were seen"


def test_a_list_that_shows_the_whole_catalog_covers_it() -> None:
    """Also if a few lists alone show some of the items: no share is above 1."""
    split = last_two(interactions_of([*([i, (i + 1) % 4, (i + 2) % 4] for i in range(4))]))
    found = evaluate(Constant([1.0, 2.0, 3.0, 4.0]), split, "test", 3, top=1)
    assert 0 <= found["coverage@1"].interval[0] <= found["coverage@1"].interval[1] <= 1
    assert "diversity@1" not in found, "one item has no pairs"


@pytest.mark.parametrize("name", [*NAMES, "coverage", "popularity bias@5"])
def test_lists_cannot_choose_the_weights(name: str) -> None:
    with pytest.raises(InputError, match="says nothing about accuracy.*such as NDCG@10"):
        TrainingConfig(metric=name)


def values_of(measures: dict[str, Measure]) -> Floats:
    return np.array([one.value for one in measures.values()])


def test_the_same_question_has_the_same_answer(split: Split) -> None:
    model = lively_sasrec(items=split.interactions.item_count, length=10)
    first, second = (evaluate(model, split, "test", 10) for _ in range(2))
    assert first == second
    assert np.isfinite(values_of(first)).all()
