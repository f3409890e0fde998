"""Batches of whole users: everything there is, once an epoch, however it is laid out in tiles."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import interactions_of
from whence.contract import PAD
from whence.data import Split, last_two
from whence.errors import InputError
from whence.models.tasks import LIKED, NO_QUESTION, NOTHING, UserBatch, WholeUsers
from whence.randomness import Randomness
from whence.training.choice_batches import UserBatches

ITEMS = 40


def split_of(sizes: list[int], seed: int = 0) -> Split:
    """Users who have so many training events each, without repeats, and two more held out."""
    rng = np.random.default_rng(seed)
    chosen = [rng.permutation(ITEMS)[: size + 2].tolist() for size in sizes]
    chosen.append(list(range(ITEMS)))  # so that every item is known
    return last_two(interactions_of(chosen))


def batches_of(
    split: Split,
    size: int,
    seeds: tuple[int, ...] = (0,),
    negatives: int = 2,
    length: int = 30,
    few_sizes: bool = False,
) -> UserBatches:
    task = WholeUsers(negatives, None, length)
    randomness = [Randomness(seed) for seed in seeds]
    return UserBatches(split, task, size, randomness, few_sizes=few_sizes)


def drawn(batches: UserBatches, step: int) -> UserBatch:
    batches.prepare(step)
    return batches.draw(torch.tensor(step))


def trained(split: Split, user: int) -> list[int]:
    data = split.interactions
    return list(map(int, data.items[data.offsets[user] : split.train_ends[user]]))


def users_of(batch: UserBatch) -> list[tuple[list[int], list[tuple[int, int]]]]:
    """Each user's history and questions, as the pairs of tiles bring them together.

    Every (item, question) of a user must come together once, and no other.
    """
    count = len(batch.items)
    with_questions: dict[int, list[int]] = {tile: [] for tile in range(count)}
    for h, q in zip(batch.history_tile.tolist(), batch.question_tile.tolist(), strict=True):
        if (batch.history[h] != PAD).any():  # a pair that is filling has an empty tile
            with_questions[q].append(h)
    groups: dict[tuple[int, ...], list[int]] = {}
    for q, tiles in with_questions.items():
        assert len(set(tiles)) == len(tiles), "a pair comes once"
        if tiles:
            groups.setdefault(tuple(tiles), []).append(q)
        else:
            assert (batch.outcomes[q] == NO_QUESTION).all()
            assert (batch.items[q] == PAD).all()
    members = [tile for tiles in groups for tile in tiles]
    assert len(set(members)) == len(members), "a tile of a history is of one user"
    idle = sorted(set(range(len(batch.history))) - set(members))
    assert (batch.history[idle] == PAD).all()
    return [
        (
            [j for tile in tiles for j in batch.history[tile].tolist() if j != PAD],
            [
                (i, o)
                for tile in questions
                for i, o in zip(
                    batch.items[tile].tolist(), batch.outcomes[tile].tolist(), strict=True
                )
                if o != NO_QUESTION
            ],
        )
        for tiles, questions in groups.items()
    ]


@given(
    sizes=st.lists(st.integers(0, 38), min_size=1, max_size=9),
    size=st.integers(1, 12),
    negatives=st.integers(0, 3),
    length=st.sampled_from([3, 30, 100]),
    few_sizes=st.booleans(),
    seeds=st.sampled_from([(0,), (3, 1, 2)]),
)
def test_an_epoch_has_every_user_with_every_event_and_its_negatives_once(
    sizes: list[int],
    size: int,
    negatives: int,
    length: int,
    few_sizes: bool,
    seeds: tuple[int, ...],
) -> None:
    split = split_of(sizes)
    histories = [trained(split, user) for user in range(len(sizes) + 1)]
    expected = Counter(tuple(sorted(one[-length:])) for one in histories if one)
    batches = batches_of(split, size, seeds, negatives, length, few_sizes)
    steps = batches.steps_per_epoch
    assert steps == -(-expected.total() // size)
    for epoch in (0, 2):
        for number in range(len(seeds)):
            met: Counter[tuple[int, ...]] = Counter()
            for step in range(epoch * steps, (epoch + 1) * steps):
                users = users_of(drawn(batches, step).for_seed(number))
                assert len(users) == size or (step % steps == steps - 1 and len(users) <= size)
                for history, questions in users:
                    met[tuple(sorted(history))] += 1
                    liked = [item for item, outcome in questions if outcome == LIKED]
                    unmet = [item for item, outcome in questions if outcome == NOTHING]
                    assert sorted(liked) == sorted(history), "each is asked once"
                    assert len(unmet) == negatives * len(history)
                    whole = next(one for one in histories if set(history) <= set(one))
                    if len(whole) == len(history):
                        assert not set(unmet) & set(whole)
            assert met == expected


def test_negatives_are_not_among_what_a_long_history_has_left_out() -> None:
    """All training items of a user are met, and the newest few are read."""
    split = last_two(interactions_of([list(range(22)), list(range(18, 40))]))
    batches = batches_of(split, 2, negatives=8, length=5)
    for step in range(10):
        for history, questions in users_of(drawn(batches, step).for_seed(0)):
            met = set(range(20)) if history[0] < 20 else set(range(18, 38))
            assert history == sorted(met)[-5:]
            assert not met & {item for item, outcome in questions if outcome == NOTHING}


def test_the_newest_events_are_kept_in_their_order() -> None:
    split = split_of([20, 12])
    batches = batches_of(split, 3, length=7)
    found = {tuple(history) for history, _ in users_of(drawn(batches, 0).for_seed(0))}
    assert found == {tuple(trained(split, user)[-7:]) for user in range(3)}


def same(one: UserBatch, other: UserBatch) -> bool:
    return users_of(one) == users_of(other)


@settings(max_examples=8)
@given(
    sizes=st.lists(st.integers(1, 38), min_size=2, max_size=9),
    size=st.integers(1, 5),
    few_sizes=st.booleans(),
)
def test_a_seed_draws_the_same_alone_and_in_a_stack_and_in_any_sizes(
    sizes: list[int], size: int, few_sizes: bool
) -> None:
    split = split_of(sizes)
    stacked = batches_of(split, size, (4, 7, 9), few_sizes=few_sizes)
    for number, seed in enumerate((4, 7, 9)):
        alone = batches_of(split, size, (seed,))
        for step in range(2 * alone.steps_per_epoch):
            assert same(drawn(stacked, step).for_seed(number), drawn(alone, step).for_seed(0))


def test_steps_of_the_same_answer_have_batches_of_one_size() -> None:
    split = split_of([1, 30, 4, 9, 17, 38, 2, 25])
    batches = batches_of(split, 2, (0, 1), few_sizes=True)
    shapes: dict[object, list[torch.Size]] = {}
    for step in range(40):
        answer = batches.prepare(step)
        found = [one.shape for one in batches.draw(torch.tensor(step))]
        assert shapes.setdefault(answer, found) == found
    assert len(shapes) < 15


def test_any_step_can_be_drawn_first() -> None:
    """As a training that goes on does."""
    split = split_of([3, 30, 4, 9])
    whole, later = batches_of(split, 2), batches_of(split, 2)
    for step in range(8):
        batch = drawn(whole, step)
    assert all(map(torch.equal, batch, drawn(later, 7)))


def test_users_come_in_another_order_every_epoch_and_for_every_seed() -> None:
    split = split_of([5] * 20)
    batches = batches_of(split, 1, (0, 1))
    orders = []
    for epoch in range(3):
        batches.prepare(epoch * batches.steps_per_epoch)
        orders += [tuple(one.tolist()) for one in batches.order.drawn]
    assert len(set(orders)) == 6


def test_a_user_who_has_met_everything_is_asked_about_anything() -> None:
    data = interactions_of([[0, 1, 2, 3, 0, 1], [0, 1, 2, 3, 2, 3]])
    batches = batches_of(last_two(data), 2, negatives=20)
    for history, questions in users_of(drawn(batches, 0).for_seed(0)):
        unmet = {item for item, outcome in questions if outcome == NOTHING}
        assert set(history) == {0, 1, 2, 3} == unmet


def test_nobody_with_an_event_is_one_sentence() -> None:
    split = split_of([3])
    nobody = Split(
        split.interactions, split.interactions.offsets[:-1].copy(), split.protocol, split.held
    )
    with pytest.raises(InputError, match="The split leaves no training events"):
        batches_of(nobody, 1)
