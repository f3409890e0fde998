"""Batches of single questions: every event and its negatives, once an epoch."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conftest import interactions_of
from whence.data import Split, last_two
from whence.errors import InputError
from whence.models.tasks import DISLIKED, LIKED, NO_QUESTION, NOTHING, Choices
from whence.randomness import Randomness
from whence.training.choice_batches import ChoiceBatches, outcomes


def split_of(sizes: list[int]) -> Split:
    rng = np.random.default_rng(0)
    chosen = [rng.permutation(30)[: size + 2].tolist() for size in sizes]
    return last_two(interactions_of([*chosen, list(range(30))]))


def batches_of(
    split: Split, size: int, negatives: int = 4, seeds: tuple[int, ...] = (0,)
) -> ChoiceBatches:
    return ChoiceBatches(split, Choices(negatives, None), size, [Randomness(one) for one in seeds])


def asked(batches: ChoiceBatches, step: int, number: int = 0) -> list[tuple[int, int, int]]:
    """User, item and what came of it, without filling."""
    batches.prepare(step)
    batch = batches.draw(torch.tensor(step)).for_seed(number)
    rows = zip(*(one.tolist() for one in (batch.users, batch.items, batch.outcomes)), strict=True)
    return [(user, item, outcome) for user, item, outcome in rows if outcome != NO_QUESTION]


@given(
    sizes=st.lists(st.integers(1, 20), min_size=1, max_size=6),
    size=st.integers(1, 70),
    negatives=st.integers(0, 4),
    seeds=st.sampled_from([(0,), (5, 2)]),
)
def test_an_epoch_has_every_event_and_its_negatives_once(
    sizes: list[int], size: int, negatives: int, seeds: tuple[int, ...]
) -> None:
    split = split_of(sizes)
    data = split.interactions
    user = np.repeat(np.arange(data.user_count), np.diff(data.offsets))
    events = Counter(zip(user[split.trained()], data.items[split.trained()], strict=True))
    batches = batches_of(split, size, negatives, seeds)
    steps = batches.steps_per_epoch
    assert steps == -(-events.total() * (1 + negatives) // size)
    for epoch in (0, 1):
        for number in range(len(seeds)):
            per_step = [asked(batches, epoch * steps + step, number) for step in range(steps)]
            assert all(len(one) == size for one in per_step[:-1])
            rows = [row for one in per_step for row in one]
            assert Counter((u, i) for u, i, o in rows if o == LIKED) == events
            unmet = [(u, i) for u, i, o in rows if o == NOTHING]
            assert not set(unmet) & set(events)
            of_user = Counter(u for u, _ in events.elements())
            assert Counter(u for u, _ in unmet) == {
                u: negatives * n for u, n in of_user.items() if negatives
            }


def test_a_seed_draws_the_same_alone_and_in_a_stack() -> None:
    split = split_of([4, 9, 17])
    stacked = batches_of(split, 32, seeds=(3, 8))
    for number, seed in enumerate((3, 8)):
        alone = batches_of(split, 32, seeds=(seed,))
        for step in (0, 1, alone.steps_per_epoch + 2):
            assert asked(stacked, step, number) == asked(alone, step)


def test_negatives_are_drawn_anew_every_epoch() -> None:
    split = split_of([4, 9, 17])
    batches = batches_of(split, 50)
    found = [
        Counter(
            row
            for step in range(batches.steps_per_epoch)
            for row in asked(batches, epoch * batches.steps_per_epoch + step)
            if row[2] == NOTHING
        )
        for epoch in (0, 1)
    ]
    assert found[0] != found[1]


def test_who_has_met_everything_is_asked_about_anything() -> None:
    split = last_two(interactions_of([[0, 1, 2, 0, 1], [0, 1, 2, 2, 1]]))
    found = asked(batches_of(split, 64, negatives=9), 0)
    assert len(found) == 60
    assert {item for *_, item, outcome in found if outcome == NOTHING} == {0, 1, 2}


def test_no_events_to_train_on_are_one_sentence() -> None:
    split = split_of([4])
    empty = replace(split, train_ends=split.interactions.offsets[:-1].copy())
    with pytest.raises(InputError, match="nothing to train on"):
        batches_of(empty, 8)


def test_ratings_say_what_is_disliked() -> None:
    split = split_of([4, 9])
    with pytest.raises(InputError, match="Three classes need ratings.* Set n_classes=2"):
        outcomes(split, Choices(4, disliked=2.0))
    ratings = np.arange(len(split.interactions), dtype=np.float32) % 5 + 1
    rated = replace(split, interactions=replace(split.interactions, ratings=ratings))
    found = outcomes(rated, Choices(4, disliked=2.0))
    assert found.tolist() == [DISLIKED if one <= 2 else LIKED for one in ratings]
    assert (outcomes(rated, Choices(4, disliked=None)) == LIKED).all()
