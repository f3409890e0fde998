"""Which of the most similar users chose an item, counted by loops."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import whence
from conftest import interactions_of
from whence.contract import HasUserVectors
from whence.data import Interactions
from whence.maps.nearest import nearest, nearest_to
from whence.reasons.similar_users import SimilarUsers, find_similar_users

USERS, ITEMS = 24, 12


def repeated_choices() -> Interactions:
    """Return interactions in which some users choose an item several times."""
    rng = np.random.default_rng(3)
    return interactions_of([rng.integers(0, ITEMS, 8).tolist() for _ in range(USERS)])


def by_hand(
    vectors: torch.Tensor, histories: Sequence[Sequence[int]], user: int, item: int
) -> SimilarUsers:
    others = [one for one in range(len(histories)) if one != user]
    others.sort(key=lambda one: float((vectors[one] - vectors[user]).norm()))
    near, far = others[:10], others[10:]
    chose, of_others = (sum(item in histories[one] for one in some) for some in (near, far))
    return SimilarUsers(chose, len(near), of_others, len(far))


def test_the_nearest_and_all_others_are_counted() -> None:
    data = repeated_choices()
    histories = [data.history(user).tolist() for user in range(USERS)]
    vectors = torch.randn(USERS, 3, generator=torch.Generator().manual_seed(0))
    targets = np.array([4, 0, 7])
    for user in range(USERS):
        found = find_similar_users(vectors, data, user, targets)
        assert found == [by_hand(vectors, histories, user, item) for item in targets.tolist()]


def test_neighbours_of_one_are_those_of_all() -> None:
    vectors = torch.randn(40, 5, generator=torch.Generator().manual_seed(1))
    every = nearest(vectors, 6).numbers
    for number in (0, 17, 39):
        np.testing.assert_array_equal(nearest_to(vectors, number, 6), every[number])


@given(
    nearest=st.integers(1, 10), others=st.integers(0, 30), of_others=st.integers(0, 30),
    chose=st.integers(0, 10),
)  # fmt: skip
def test_the_p_value_counts_all_ways_to_draw_users(
    nearest: int, others: int, of_others: int, chose: int
) -> None:
    chose, of_others = min(chose, nearest), min(of_others, others)
    found = SimilarUsers(chose, nearest, of_others, others)
    who = chose + of_others
    ways = sum(
        comb(who, some) * comb(nearest + others - who, nearest - some)
        for some in range(chose, nearest + 1)
    )
    assert found.p_value == pytest.approx(ways / comb(nearest + others, nearest))


def test_a_count_is_only_a_reason_if_it_is_more_than_chance() -> None:
    assert SimilarUsers(8, 10, 30, 100).sentence("watched") == (
        "8 of the 10 users most similar to you watched it, compared with 30 % of all others"
    )
    assert SimilarUsers(3, 10, 30, 100).sentence("saw") == (
        "fits your taste as the model learned it; 3 of the 10 users most similar to you saw it, "
        "which could be chance (compared with 30 % of all others)"
    )
    assert "less than 1 % of all others" in SimilarUsers(4, 10, 3, 1_000).sentence("saw")


def test_a_model_that_knows_users_gives_similar_users_as_reasons() -> None:
    run = whence.train(
        repeated_choices(),
        model="gmf",
        model_settings={"dim": 4},
        training={"steps": 20},
        show_progress=False,
    )
    user = run.interactions.users["user"][5].as_py()
    found = whence.recommend(run, user=user, k=3)
    assert found.picks
    assert isinstance(run.first, HasUserVectors)
    vectors = run.first.user_vectors()
    for pick in found.picks:
        item = np.array([run.catalog.find(str(pick.item))])
        (near,) = find_similar_users(vectors, run.interactions, 5, item)
        assert pick.reason.similar_users == near
        assert pick.reason.sentence == near.sentence(run.verb)
        assert pick.reason.as_dict()["similar_users"]["chose"] == near.chose
    alone = whence.train(
        interactions_of([[0, 1, 2, 3, 4]]),
        model="gmf",
        model_settings={"dim": 4},
        training={"steps": 1},
        split="last-one",
        show_progress=False,
    )
    only = alone.interactions.users["user"][0].as_py()
    found_alone = whence.reason(alone, user=only, item=0)
    assert found_alone.similar_users is None, "there is nobody else"
