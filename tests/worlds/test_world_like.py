"""Worlds in the likeness of data that no world would make by itself."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import whence.worlds.world
from conftest import interactions_of
from whence.data import Interactions
from whence.data.origins import reload
from whence.errors import InputError
from whence.worlds import (
    REASONS,
    World,
    WorldConfig,
    compare_statistics,
    draw_config,
    draw_config_like,
    make_causal_world,
    make_world,
    world_like,
)
from whence.worlds.designs import GENERATORS, Generator
from whence.worlds.films import fame_correction


def shop(users: int, items: int, steep: float, seed: int = 0) -> Interactions:
    """Many users of few purchases and few of many; some goods are what everybody buys, once."""
    rng = np.random.default_rng(seed)
    lengths = np.minimum(1 + rng.geometric(0.12, users), items)
    fame = 1.0 / np.arange(1, items + 1) ** steep
    wanted = (rng.exponential(size=(users, items)) / fame).argsort(axis=1)
    bought = wanted[np.arange(items) < lengths[:, None]]
    user = np.repeat(np.arange(users), lengths)
    return Interactions.from_columns(pa.chunked_array([user]), pa.chunked_array([bought]))


def lengths_of(interactions: Interactions) -> np.ndarray:
    return np.sort(np.diff(interactions.offsets))


def popularity_of(interactions: Interactions) -> np.ndarray:
    return np.bincount(interactions.items, minlength=interactions.item_count)


def top_share(interactions: Interactions) -> float:
    (share,) = (
        row.data
        for row in compare_statistics(interactions, interactions)
        if "top 10 %" in row.figure
    )
    return share


@pytest.fixture(scope="module")
def data() -> Interactions:
    return shop(users=1_000, items=300, steep=1.1)


@pytest.fixture(scope="module")
def like(data: Interactions) -> World:
    return world_like(data)


def test_small_data_keep_their_users_items_and_lengths(data: Interactions, like: World) -> None:
    assert like.interactions.user_count == data.user_count
    assert like.interactions.item_count == data.item_count
    assert (lengths_of(like.interactions) == lengths_of(data)).all()
    assert not (np.diff(like.interactions.offsets)[:-1] > np.diff(data.offsets)[1:]).all()


@pytest.mark.parametrize("steep", [0.3, 1.1])
def test_items_are_as_popular_as_in_the_data(steep: float) -> None:
    """Kolmogorov and Smirnov find the distributions alike, where the usual charts are not."""
    data = shop(users=1_000, items=300, steep=steep)
    world = world_like(data, seed=2).interactions
    found = stats.ks_2samp(popularity_of(data), popularity_of(world))
    assert found.pvalue > 0.2, found
    assert top_share(world) == pytest.approx(top_share(data), abs=0.03)
    usual = make_world(WorldConfig(users=1_000, items=300, events=9)).interactions
    assert stats.ks_2samp(popularity_of(data), popularity_of(usual)).pvalue < 0.01


def test_fewer_users_have_fewer_items_and_the_same_quantiles() -> None:
    data = shop(users=1_200, items=300, steep=0.7)
    world = world_like(data, users=600).interactions
    assert world.user_count == 600
    assert len(world) / world.item_count == pytest.approx(len(data) / data.item_count, rel=0.02)
    assert (lengths_of(world) == lengths_of(data)[1::2]).all()
    assert top_share(world) == pytest.approx(top_share(data), abs=0.03)


def test_enough_items_stay_for_the_longest_history_and_the_most_popular_item(
    data: Interactions,
) -> None:
    """Of a quarter of the items the most popular would have to be met three times by each user."""
    world = world_like(data, users=250).interactions
    assert world.item_count == round(popularity_of(data).max() / 1_000 * data.item_count)
    assert top_share(world) == pytest.approx(top_share(data), abs=0.06)
    calm = interactions_of([[*range(first, first + 45)] for first in range(500)])
    assert world_like(calm, users=50).interactions.item_count == 2 * 45


def test_long_histories_are_cut(data: Interactions) -> None:
    cut = lengths_of(world_like(data, longest=12).interactions)
    assert (cut == np.minimum(lengths_of(data), 12)).all()


def test_lengths_are_kept_when_not_all_users_live_at_once(
    data: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whence.worlds.world, "USERS_AT_ONCE", 300)
    assert (lengths_of(world_like(data).interactions) == lengths_of(data)).all()


@pytest.mark.parametrize("reason", REASONS)
def test_every_reason_is_there(like: World, reason: str) -> None:
    assert len(like.questions(reason, 50, 10_000).cases) >= 100


def test_same_seed_same_world_also_from_what_a_run_remembers(
    data: Interactions, like: World
) -> None:
    again = world_like(data)
    assert again.interactions.content_hash == like.interactions.content_hash
    assert again.cause.tobytes() == like.cause.tobytes()
    remembered = json.loads(json.dumps(dict(like.interactions.origin)))
    assert reload(remembered).content_hash == like.interactions.content_hash
    assert world_like(data, seed=1).interactions.content_hash != like.interactions.content_hash


def test_a_correction_by_hand() -> None:
    """Wanted are 8, 2, 1 and 1 of 12. The three met once share the mean of their places."""
    changed = fame_correction(np.array([1, 9, 1, 1]), popularity=(1, 1, 8, 2))
    mean = (1 + 1 + 2) / 3
    assert changed == pytest.approx([(1 + mean) / 2, 9 / 10, (1 + mean) / 2, (1 + mean) / 2])
    far = fame_correction(np.array([0, 0, 0, 100]), popularity=(25, 25, 25, 25))
    assert far == pytest.approx([4, 4, 4, 26 / 101]), "no fame changes more than fourfold"


def test_figures_by_hand() -> None:
    """20 items of which one is met by everybody, in a world where each is met once."""
    data = interactions_of([[0, 1, 2], [0, 3], [0, 4, 5, 6, 7, 8, 9]])
    world = interactions_of([list(range(20))])
    rows = {row.figure: (row.data, row.world) for row in compare_statistics(data, world)}
    assert rows == {
        "users": (3, 1),
        "items": (10, 20),
        "events": (12, 20),
        "median events of a user": (3, 20),
        "median events of an item": (1, 1),
        "density": (12 / 30, 1),
        "share of events with the top 10 % of items": (3 / 12, 2 / 20),
    }


def test_the_smallest_data_with_reasons_have_a_world() -> None:
    data = interactions_of([[(user + step) % 10 for step in range(3)] for user in range(30)])
    assert world_like(data).interactions.item_count == 10


def test_data_without_reasons_are_refused() -> None:
    short = interactions_of([[user % 40, (user + 1) % 40] for user in range(100)])
    with pytest.raises(InputError, match=r"needs a user with 3 events or more"):
        world_like(short)
    with pytest.raises(InputError, match="needs 10 items with events, but the data have 4"):
        world_like(interactions_of([[0, 1, 2, 3], [1, 2, 3]]))


@pytest.mark.parametrize("limit", [{"users": 0}, {"longest": 2}])
def test_impossible_limits_are_refused(data: Interactions, limit: dict[str, int]) -> None:
    with pytest.raises(InputError, match=r"^A world like the data needs"):
        world_like(data, **limit)


@pytest.mark.parametrize("generator", GENERATORS)
def test_a_causal_world_has_the_lengths_and_the_events_per_item_of_the_data(
    data: Interactions, generator: Generator
) -> None:
    config = draw_config_like(data, generator, 1001, users=500, longest=30)
    made = make_causal_world(config).interactions
    lengths = lengths_of(data)
    lengths = lengths[lengths >= 3]
    wanted = np.minimum(np.quantile(lengths, (np.arange(500) + 0.5) / 500, method="lower"), 30)
    np.testing.assert_allclose(lengths_of(made), wanted, atol=1)
    per_item = len(data) / np.count_nonzero(popularity_of(data))
    assert len(made) / config.items == pytest.approx(per_item, rel=0.02)
    assert top_share(made) == pytest.approx(top_share(data), abs=0.12)


def test_other_parameters_are_drawn_as_without_data(data: Interactions) -> None:
    like, drawn = draw_config_like(data, "shop", 1001), draw_config("shop", 1001)
    sizes = {"users", "items", "events", "groups", "lengths", "popularity"}
    for name in set(vars(drawn)) - sizes:
        assert getattr(like, name) == getattr(drawn, name), name


def test_with_few_items_allowed_there_are_fewer_users(data: Interactions) -> None:
    config = draw_config_like(data, "films", 1001, items=100)
    per_item = len(data) / np.count_nonzero(popularity_of(data))
    assert (config.items, config.users < 500) == (100, True)
    assert sum(config.lengths) / 100 == pytest.approx(per_item, rel=0.05)


def test_no_item_is_everybodys_unless_one_of_the_data_is(data: Interactions) -> None:
    def largest(interactions: Interactions) -> float:
        config = draw_config_like(interactions, "films", 1001, users=60)
        return max(config.popularity) / config.users

    assert popularity_of(data).max() > 0.5 * 60
    assert largest(data) == pytest.approx(
        max(0.5, popularity_of(data).max() / data.user_count), abs=0.01
    )
    everybody = interactions_of([[0, 1, 2, *range(3 + user, 9 + user)] for user in range(50)])
    assert largest(everybody) == 1


@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize("users", [1, 40])
@pytest.mark.parametrize(("items", "length"), [(10, 3), (13, 200), (57, 40)])
def test_small_data_have_causal_worlds_too(
    generator: Generator, users: int, items: int, length: int
) -> None:
    each = [[(user + step) % items for step in range(length)] for user in range(users)]
    small = interactions_of([*each, list(range(items))])
    for draw in range(1001, 1005):
        made = make_causal_world(draw_config_like(small, generator, draw)).interactions
        assert made.user_count == users + 1
        assert made.item_count == items
        assert 3 <= lengths_of(made).min() <= lengths_of(made).max() <= max(3, items // 2)


def test_data_too_small_for_a_causal_world_are_refused() -> None:
    with pytest.raises(InputError, match="10 items with events"):
        draw_config_like(interactions_of([[0, 1, 2]]), "music", 1001)
    with pytest.raises(InputError, match="3 events or more"):
        draw_config_like(interactions_of([[0, 1]] * 9), "music", 1001)
