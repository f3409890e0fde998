from __future__ import annotations

import numpy as np
import pyarrow as pa
import torch

from whence.contract import ALL, PAD
from whence.data import Interactions, leave_one_out
from whence.models.baselines import LastItem, Popularity


def hand_made() -> Interactions:
    """Users a: 0 1 2 3 4, b: 1 2 0 3 0, c: 2 1 (too short to be tested)."""
    user = ["a"] * 5 + ["b"] * 5 + ["c"] * 2
    item = [0, 1, 2, 3, 4, 1, 2, 0, 3, 0, 2, 1]
    return Interactions.from_columns(pa.chunked_array([user]), pa.chunked_array([item]))


def test_popularity_counts_training_events() -> None:
    scores = Popularity(leave_one_out(hand_made())).score(torch.tensor([[3, PAD]]), ALL)
    assert scores.tolist() == [[2.0, 3.0, 3.0, 0.0, 0.0]]


def test_last_item_counts_what_followed_in_training() -> None:
    model = LastItem(leave_one_out(hand_made()))
    follows = np.zeros((5, 5))
    for one, two in [(0, 1), (1, 2), (1, 2), (2, 0), (2, 1)]:
        follows[one, two] += 1
    fame = np.array([2, 3, 3, 0, 0]) / 4
    for item in range(5):
        found = model.score(torch.tensor([[PAD, 4, item]]), ALL).numpy()[0]
        np.testing.assert_allclose(found, follows[item] + fame, rtol=1e-6)


def test_last_item_falls_back_to_the_newest_present_then_to_fame() -> None:
    model = LastItem(leave_one_out(hand_made()))
    history = torch.tensor([[PAD, 1, 2]])
    without_newest = model.score(history, ALL, present=torch.tensor([[True, True, False]]))
    torch.testing.assert_close(without_newest, model.score(torch.tensor([[1]]), ALL))
    nothing = model.score(history, ALL, present=torch.zeros(1, 3, dtype=torch.bool))
    assert nothing.argmax().item() in (1, 2)
    assert nothing.max() < 1
