"""Same group, against loops and against groups dealt out anew."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from whence.errors import InputError
from whence.maps import Groups, nearest
from whence.maps.groups import same_group

COUNT = 40


def vectors() -> torch.Tensor:
    return torch.randn(COUNT, 3, generator=torch.Generator().manual_seed(2))


def dealt(seed: int = 0, names: tuple[str, ...] = ("a", "b", "c", "d")) -> Groups:
    """Some belong to several groups, some to none; the last group is empty."""
    member = np.random.default_rng(seed).random((COUNT, len(names))) < 0.4
    member[:, -1] = False
    member[:3] = False
    return Groups("genre", names, member)


def parted(places: torch.Tensor) -> Groups:
    """On which side of 0 the first coordinate is."""
    left = places[:, 0].numpy() < 0
    return Groups("side", ("left", "right"), np.stack((left, ~left), axis=1))


@pytest.mark.parametrize("k", [1, 10])
def test_equals_loops_over_neighbours_and_others(k: int) -> None:
    groups, places = dealt(), vectors()
    known = np.flatnonzero(groups.member.any(axis=1)).tolist()
    own = {one: set(np.flatnonzero(groups.member[one]).tolist()) for one in known}
    shares, chances = [], []
    in_group: dict[int, list[float]] = {0: [], 1: [], 2: []}
    for one in known:
        others = [other for other in known if other != one]
        others.sort(key=lambda other: float((places[one] - places[other]).norm()))
        shares.append(np.mean([bool(own[one] & own[other]) for other in others[:k]]))
        chances.append(np.mean([bool(own[one] & own[other]) for other in others]))
        for group in own[one]:
            in_group[group].append(float(np.mean([group in own[other] for other in others[:k]])))
    found = same_group(places, groups, k)
    assert found.share.value == pytest.approx(np.mean(shares))
    assert found.chance == pytest.approx(np.mean(chances))
    assert found.excess.value == pytest.approx(np.mean(shares) - np.mean(chances))
    assert found.share.n == found.excess.n == len(known) < COUNT
    assert list(found.by_group) == ["a", "b", "c"], "nobody is in d"
    for group, (share, chance) in enumerate(found.by_group.values()):
        assert share == pytest.approx(np.mean(in_group[group]))
        size = sum(group in some for some in own.values())
        assert chance == pytest.approx((size - 1) / (len(known) - 1))


def test_chance_is_the_mean_over_groups_dealt_out_anew() -> None:
    """With the same neighbours, everybody gets the groups of another."""
    groups, places = dealt(), vectors()
    there = groups.known()
    places, member = places[torch.from_numpy(there)], groups.member[there]
    near, rng = nearest(places, 5).numbers, np.random.default_rng(0)
    drawn = []
    for _ in range(2_000):
        shuffled = member[rng.permutation(len(member))]
        drawn.append((shuffled[:, None] & shuffled[near]).any(axis=2).mean())
    error = np.std(drawn) / len(drawn) ** 0.5
    assert same_group(places, Groups("genre", groups.names, member), 5).chance == pytest.approx(
        np.mean(drawn), abs=4 * error
    )


def test_what_is_parted_is_found_and_what_is_not_is_chance() -> None:
    places = vectors()
    sides = parted(places)
    assert same_group(places + 99 * places[:, :1].sign(), sides, 5).share.value == 1
    found = same_group(places, sides, 5)
    assert found.excess.interval[0] > 0.1
    assert found.share.interval != same_group(places, sides, 5, seed=1).share.interval
    others = torch.randn(COUNT, 3, generator=torch.Generator().manual_seed(3))
    low, high = same_group(others, sides, 5).excess.interval
    assert low < 0 < high


def test_where_all_are_one_group_nothing_is_above_chance() -> None:
    found = same_group(vectors(), Groups("age", ("any",), np.ones((COUNT, 1), dtype=bool)))
    assert (found.share.value, found.chance, found.excess.value) == (1, 1, 0)
    assert found.by_group == {"any": (1.0, 1.0)}


@given(order=st.permutations(range(COUNT)))
def test_the_order_of_the_vectors_does_not_matter(order: list[int]) -> None:
    groups = dealt()
    before = same_group(vectors(), groups, 4)
    turned = Groups("genre", groups.names, groups.member[order])
    after = same_group(vectors()[order], turned, 4)
    assert after.share.value == pytest.approx(before.share.value)
    assert after.chance == pytest.approx(before.chance)


def test_what_does_not_fit_is_said() -> None:
    with pytest.raises(InputError, match="39 vectors but groups for 40"):
        same_group(vectors()[1:], dealt())
    with pytest.raises(InputError, match="no 40 neighbours each"):
        same_group(vectors(), dealt(), 40)
    nobody = Groups("age", (), np.zeros((COUNT, 0), dtype=bool))
    with pytest.raises(InputError, match="neighbours each"):
        same_group(vectors(), nobody)
