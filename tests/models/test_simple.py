"""Popularity, the newest item and similar items, counted by loops."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
import torch

from conftest import interactions_of
from whence.contract import ALL, PAD
from whence.data import Interactions, Split, last_two
from whence.data.histories import newest_events
from whence.data.interactions import Counts
from whence.errors import InputError
from whence.models import build_model, fitted_model, item_pairs, simple_models
from whence.models.item_to_item import ItemToItem
from whence.models.simple import LastItem, Popularity

Table = npt.NDArray[np.float64]
SHARES = np.array([3, 4, 4, 1, 1]) / 13
"""Of the events below, with one event more for each item."""


def hand_made() -> Interactions:
    """Users a: 0 1 2 3 4, b: 1 2 0 3 0, c: 2 1 (too short to be tested)."""
    user = ["a"] * 5 + ["b"] * 5 + ["c"] * 2
    item = [0, 1, 2, 3, 4, 1, 2, 0, 3, 0, 2, 1]
    return Interactions.from_columns(pa.chunked_array([user]), pa.chunked_array([item]))


def last_item() -> LastItem:
    found = fitted_model("last-item", {}, last_two(hand_made()))
    assert isinstance(found, LastItem)
    return found


def test_popularity_counts_training_events() -> None:
    model = fitted_model("popularity", {}, last_two(hand_made()))
    assert isinstance(model, Popularity)
    scores = model.score(torch.tensor([[3, PAD]]), ALL)
    np.testing.assert_allclose(scores[0].exp().numpy(), SHARES, rtol=1e-6)


def test_last_item_is_the_probability_of_what_followed_in_training() -> None:
    follows = np.zeros((5, 5))
    for one, two in [(0, 1), (1, 2), (1, 2), (2, 0), (2, 1)]:
        follows[one, two] += 1
    for item in range(5):
        found = last_item().score(torch.tensor([[PAD, 4, item]]), ALL)[0]
        expected = (follows[item] + SHARES) / (follows[item].sum() + 1)
        np.testing.assert_allclose(found.exp().numpy(), expected, rtol=1e-5)
        assert math.isclose(float(found.exp().sum()), 1, rel_tol=1e-5)


def test_last_item_ranks_by_counts_and_then_by_popularity(split: Split) -> None:
    model = fitted_model("last-item", {}, split)
    data, ends = split.interactions, split.train_ends
    follows, fame = np.zeros((data.item_count, data.item_count)), np.zeros(data.item_count)
    for user in range(data.user_count):
        items = data.items[data.offsets[user] : ends[user]]
        fame += np.bincount(items, minlength=data.item_count)
        for one, two in pairwise(items):
            follows[one, two] += 1
    rule = follows + fame / (1 + fame.max())
    scores = model.score(torch.arange(data.item_count)[:, None], ALL).numpy()
    for one, other in zip(scores, rule, strict=True):
        order = np.argsort(one)
        assert (np.diff(other[order]) >= -1e-6).all()


def test_last_item_falls_back_to_the_newest_present_then_to_popularity() -> None:
    model, history = last_item(), torch.tensor([[PAD, 1, 2]])
    without_newest = model.score(history, ALL, present=torch.tensor([[True, True, False]]))
    torch.testing.assert_close(without_newest, model.score(torch.tensor([[1]]), ALL))
    nothing = model.score(history, ALL, present=torch.zeros(1, 3, dtype=torch.bool))
    np.testing.assert_allclose(nothing[0].exp().numpy(), SHARES, rtol=1e-6)


def test_their_sentences_say_no_more_than_the_counts(split: Split) -> None:
    """Often is three times, and more than by popularity; many is more than the mean."""
    data = split.interactions
    counts, follows = np.zeros(data.item_count), np.zeros((data.item_count, data.item_count))
    for user in range(data.user_count):
        items = data.items[data.offsets[user] : split.train_ends[user]]
        counts += np.bincount(items, minlength=data.item_count)
        for one, two in pairwise(items):
            follows[one, two] += 1
    share = (counts + 1) / (counts + 1).sum()
    model, popular = (fitted_model(name, {}, split) for name in ("last-item", "popularity"))
    assert isinstance(model, LastItem)
    assert isinstance(popular, Popularity)
    every, said = torch.arange(data.item_count), set()
    for newest in range(data.item_count):
        batch = torch.tensor([[PAD, newest]]).expand(len(every), -1)
        found = zip(model.own_reasons(batch, every), popular.own_reasons(batch, every), strict=True)
        for target, (own, fame) in enumerate(found):
            many = share[target] >= 1 / data.item_count
            assert fame.sentence == (
                "many people {verb} this" if many else "few people {verb} this"
            )
            times, expected = follows[newest, target], share[target] * follows[newest].sum()
            often = times >= 3 and times > expected
            who = "people who {verb} {item} often" if often else "somebody who {verb} {item}"
            wanted = f"{who} {{verb}} this next" if times else fame.sentence
            assert own.sentence == wanted
            assert own.item == (newest if times else None)
            said.add(own.sentence)
    assert len(said) == 4


def cosines(data: Interactions, ends: npt.NDArray[np.int64]) -> Table:
    """Return the cosine of every two items, by loops over pairs of sets of users."""
    users = [
        {u for u in range(data.user_count) if item in data.items[data.offsets[u] : ends[u]]}
        for item in range(data.item_count)
    ]
    found = np.zeros((data.item_count, data.item_count))
    for one, ours in enumerate(users):
        for two, theirs in enumerate(users):
            if one != two and ours and theirs:
                found[one, two] = len(ours & theirs) / (len(ours) * len(theirs)) ** 0.5
    return found


def stored(model: ItemToItem) -> Table:
    """The cosines that it has."""
    every = torch.arange(model.terms.item_count)
    return model.terms.at(every[:, None], every).double().numpy()


def item_to_item_of(split: Split, **settings: int) -> ItemToItem:
    found = fitted_model("item-to-item", settings, split)
    assert isinstance(found, ItemToItem)
    return found


def test_item_to_item_by_loops(split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many rows are multiplied at a time."""
    data = split.interactions
    expected = cosines(data, split.train_ends)
    fame = split.item_counts()
    batch = torch.from_numpy(split.held["test"][:30].histories(12))
    for at_once in (4_000_000, 500):
        monkeypatch.setattr(item_pairs, "SCORES_AT_ONCE", at_once)
        found = item_to_item_of(split, neighbours=data.item_count).score(batch, ALL).numpy()
        for row, history in zip(found, batch.tolist(), strict=True):
            near = sum(expected[item] for item in set(history) - {PAD})
            np.testing.assert_allclose(row, near + 1e-6 * fame / (1 + fame.max()), atol=1e-5)


def test_item_to_item_keeps_the_nearest(split: Split) -> None:
    expected = cosines(split.interactions, split.train_ends)
    found = stored(item_to_item_of(split, neighbours=5))
    assert ((found > 0).sum(axis=1) <= 5).all()
    np.testing.assert_allclose(np.sort(found)[:, -5:], np.sort(expected)[:, -5:], atol=1e-6)


def test_item_to_item_counts_the_newest_events_of_a_user() -> None:
    data = interactions_of([[0, 1, 2, 3, 4]])  # trained on 0 1 2
    similar = stored(item_to_item_of(last_two(data), recent=2))
    assert np.argwhere(similar).tolist() == [[1, 2], [2, 1]]


def test_an_item_counts_once_and_only_if_it_is_present(split: Split) -> None:
    model, history = item_to_item_of(split), torch.tensor([[4, 9, 4]])
    alone = model.score(torch.tensor([[4]]), ALL)
    for present in ([True, False, True], [True, False, False], [False, False, True]):
        torch.testing.assert_close(
            model.score(history, ALL, present=torch.tensor([present])), alone
        )
    nothing = model.score(history, ALL, present=torch.zeros(1, 3, dtype=torch.bool))
    assert nothing.argmax() == split.item_counts().argmax()
    terms = model.contributions(history, torch.tensor([9]))
    assert terms[0, 0] == 0, "its newest slot has the term"
    coalitions = torch.tensor([[True, False, False], [False, False, True], [True, True, True]])
    found = model.score_coalitions(history, torch.tensor([7]), coalitions)
    one_by_one = [
        model.score(history, torch.tensor([[7]]), present=present[None]) for present in coalitions
    ]
    torch.testing.assert_close(found, torch.cat(one_by_one, dim=1).double(), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    "users",
    [
        [[0], [0]],  # one item
        [[0], [1], [2]],  # users with one event
        [[0, 1, 2], [2, 1, 0]],  # one training event each
        [[3, 3, 3, 3, 3], [1, 1, 1, 1]],  # the same item again and again
    ],
)
def test_small_data_have_finite_scores(users: list[list[int]]) -> None:
    split = last_two(interactions_of(users))
    for model in simple_models(split).values():
        history = torch.tensor([[PAD, 0, 0], [PAD, PAD, PAD]])
        assert torch.isfinite(model.score(history, ALL)).all()


def test_without_training_events_all_items_are_equal() -> None:
    data = interactions_of([[0, 1, 2], [2, 1, 0]])
    split = last_two(data)
    nothing = Split(data, data.offsets[:-1].copy(), split.protocol, split.held)
    assert not len(newest_events(data.offsets[:-1], nothing.train_ends)[0])
    for model in simple_models(nothing).values():
        assert model.score(torch.tensor([[0, 1]]), ALL).std() == 0


@pytest.mark.parametrize(
    ("model", "settings", "problem"),
    [
        ("popularity", {"max_len": 0}, "max_len must be at least 1, not 0"),
        ("last-item", {"pairs": -1}, "pairs must be at least 0, not -1"),
        ("item-to-item", {"recent": 0}, "recent and neighbours must be at least 1"),
        ("ease", {"regularization": 0.0}, "regularization must be above 0, not 0.0"),
        ("ease", {"recency": 1.5}, "recency must be above 0 and at most 1, not 1.5"),
        ("ease", {"max_items": 0}, "neighbours and max_items must be at least 1"),
    ],
)
def test_wrong_settings_are_one_sentence(
    model: str, settings: dict[str, float], problem: str
) -> None:
    with pytest.raises(InputError, match=problem):
        build_model(model, settings, Counts(3, 3), torch.Generator())
