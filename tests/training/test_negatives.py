"""Unseen items: never a trained one, every other equally often."""

from __future__ import annotations

import numpy as np
import torch

from conftest import interactions_of
from whence.data import Split, last_two
from whence.training.negatives import Unseen


def chance() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_unseen_items_are_never_training_items(split: Split) -> None:
    unseen = Unseen(split)
    data = split.interactions
    users = np.arange(data.user_count)
    drawn = unseen.draw(torch.from_numpy(users), 500, chance())
    for user in users:
        trained = data.items[data.offsets[user] : split.train_ends[user]]
        missing = np.setdiff1d(np.arange(data.item_count), trained)
        assert np.isin(drawn[user], missing).all()
    longest = int(np.argmax(np.diff(data.offsets)))
    missing = np.setdiff1d(
        np.arange(data.item_count), data.items[data.offsets[longest] : split.train_ends[longest]]
    )
    many = unseen.draw(torch.tensor([longest]), 100_000, chance())[0]
    share = np.bincount(many, minlength=data.item_count)[missing] / 100_000
    np.testing.assert_allclose(share, 1 / len(missing), rtol=0.15)


def test_who_has_seen_everything_gets_anything() -> None:
    data = interactions_of([[0, 1, 2], [0, 1, 2, 2, 1], [0, 1]])
    drawn = Unseen(last_two(data)).draw(torch.tensor([1]), 50, chance())
    assert set(drawn[0].tolist()) == {0, 1, 2}


def test_repeated_items_are_one_item_to_avoid() -> None:
    data = interactions_of([[0, 0, 0, 1, 2, 3]])
    drawn = Unseen(last_two(data)).draw(torch.tensor([0]), 60, chance())
    assert set(drawn[0].tolist()) == {2, 3}
