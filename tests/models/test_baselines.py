from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
import torch

from conftest import interactions_of
from whence.contract import ALL, PAD
from whence.data import Interactions, Split, last_two
from whence.models import baselines
from whence.models.baselines import ItemToItem, LastItem, Popularity

Table = npt.NDArray[np.float64]


def hand_made() -> Interactions:
    """Users a: 0 1 2 3 4, b: 1 2 0 3 0, c: 2 1 (too short to be tested)."""
    user = ["a"] * 5 + ["b"] * 5 + ["c"] * 2
    item = [0, 1, 2, 3, 4, 1, 2, 0, 3, 0, 2, 1]
    return Interactions.from_columns(pa.chunked_array([user]), pa.chunked_array([item]))


def test_popularity_counts_training_events() -> None:
    scores = Popularity(last_two(hand_made())).score(torch.tensor([[3, PAD]]), ALL)
    assert scores.tolist() == [[2.0, 3.0, 3.0, 0.0, 0.0]]


def test_last_item_counts_what_followed_in_training() -> None:
    model = LastItem(last_two(hand_made()))
    follows = np.zeros((5, 5))
    for one, two in [(0, 1), (1, 2), (1, 2), (2, 0), (2, 1)]:
        follows[one, two] += 1
    fame = np.array([2, 3, 3, 0, 0]) / 4
    for item in range(5):
        found = model.score(torch.tensor([[PAD, 4, item]]), ALL).numpy()[0]
        np.testing.assert_allclose(found, follows[item] + fame, rtol=1e-6)


def test_last_item_falls_back_to_the_newest_present_then_to_popularity() -> None:
    model = LastItem(last_two(hand_made()))
    history = torch.tensor([[PAD, 1, 2]])
    without_newest = model.score(history, ALL, present=torch.tensor([[True, True, False]]))
    torch.testing.assert_close(without_newest, model.score(torch.tensor([[1]]), ALL))
    nothing = model.score(history, ALL, present=torch.zeros(1, 3, dtype=torch.bool))
    assert nothing.argmax().item() in (1, 2)
    assert nothing.max() < 1


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


def test_item_to_item_by_loops(split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many rows are multiplied at a time."""
    data = split.interactions
    expected = cosines(data, split.train_ends)
    fame = Popularity(split).counts.numpy()
    batch = torch.from_numpy(split.held["test"][:30].histories(12))
    for at_once in (4_000_000, 500):
        monkeypatch.setattr(baselines, "SCORES_AT_ONCE", at_once)
        monkeypatch.setattr(baselines, "NEIGHBOURS", data.item_count)
        model = ItemToItem(split)
        found = model.score(batch, ALL).numpy()
        for row, history in zip(found, batch.tolist(), strict=True):
            near = sum(expected[item] for item in set(history) - {PAD})
            np.testing.assert_allclose(row, near + 1e-6 * fame / (1 + fame.max()), atol=1e-5)
        targets = torch.tensor([[3, 7, 3]]).repeat(30, 1)
        torch.testing.assert_close(
            model.score(batch, targets), model.score(batch, ALL)[:, [3, 7, 3]]
        )


def test_item_to_item_keeps_the_nearest(split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = cosines(split.interactions, split.train_ends)
    monkeypatch.setattr(baselines, "NEIGHBOURS", 5)
    found = ItemToItem(split).similar.toarray()
    assert ((found > 0).sum(axis=1) <= 5).all()
    np.testing.assert_allclose(np.sort(found)[:, -5:], np.sort(expected)[:, -5:], atol=1e-6)


def test_item_to_item_counts_the_newest_events_of_a_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "RECENT", 2)
    data = interactions_of([[0, 1, 2, 3, 4]])  # trained on 0 1 2
    similar = ItemToItem(last_two(data)).similar.toarray()
    assert np.argwhere(similar).tolist() == [[1, 2], [2, 1]]


def test_item_to_item_ignores_absent_items(split: Split) -> None:
    model = ItemToItem(split)
    history = torch.tensor([[4, 9, 4]])
    without = model.score(history, ALL, present=torch.tensor([[True, False, True]]))
    torch.testing.assert_close(without, model.score(torch.tensor([[4]]), ALL))
    nothing = model.score(history, ALL, present=torch.zeros(1, 3, dtype=torch.bool))
    assert nothing.argmax() == Popularity(split).counts.argmax()
