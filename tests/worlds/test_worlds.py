"""The truth a world tells, checked event by event with loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import interactions_of
from whence.contract import PAD
from whence.errors import InputError
from whence.worlds import NONE, REASONS, EventKind, World, WorldConfig, make_world, world_like
from whence.worlds.films import design_films, name_films


def films_of(world: World) -> tuple[dict[str, int], list[str]]:
    titles = world.interactions.catalog.labels(range(world.interactions.item_count))
    return {title: item for item, title in enumerate(titles)}, titles


def check_truth(world: World) -> dict[str, int]:
    """Every event's record against the titles alone; how many of each kind were met."""
    data = world.interactions
    numbers, titles = films_of(world)
    met = dict.fromkeys([*(kind.name for kind in EventKind), "PREVENTED"], 0)
    for user in range(data.user_count):
        start = int(data.offsets[user])
        history: list[int] = []
        for event in range(start, int(data.offsets[user + 1])):
            item, kind = int(data.items[event]), EventKind(world.kind[event])
            met[kind.name] += 1
            stem, _, ending = titles[item].rpartition(" ")
            if kind is EventKind.CAUSED:
                part_before = stem if ending == "II" else f"{stem} II"
                assert history[world.cause[event]] == numbers[part_before]
                assert event - start - world.cause[event] <= world.config.memory
                assert item not in history
            else:
                assert world.cause[event] == NONE
            if kind in (EventKind.TASTE, EventKind.POPULAR):
                assert ending not in ("II", "III"), "sequels come only by their cause or by chance"
                assert item not in history
            if "(remake" in titles[item]:
                original = numbers[titles[item].partition(" (remake")[0]]
                assert original not in history, "nobody watches a remake who knows the original"
            if world.inhibitor[event] != NONE:
                met["PREVENTED"] += 1
                shunned = titles[world.prevented[event]]
                original = numbers[shunned.partition(" (remake")[0]]
                assert history[world.inhibitor[event]] == original
            else:
                assert world.prevented[event] == NONE
            history.append(item)
    return met


def test_the_record_is_true_and_every_kind_occurs(world: World) -> None:
    met = check_truth(world)
    assert min(met.values()) > 30, met


@given(
    seed=st.integers(0, 10_000),
    users=st.integers(1, 8),
    genres=st.integers(1, 5),
    caused=st.floats(0, 0.6),
    taste=st.floats(0, 0.4),
    noise=st.floats(0, 1),
    memory=st.integers(1, 30),
    versions=st.integers(1, 40),
)
def test_the_record_is_true_in_any_world(**settings: float) -> None:
    config = WorldConfig(items=60, events=15, **settings)  # type: ignore[arg-type]
    check_truth(make_world(config))


@given(
    seed=st.integers(0, 10_000),
    users=st.integers(1, 8),
    items=st.integers(10, 60),
    longest=st.integers(3, 30),
    wanted=st.integers(1, 8),
)
def test_the_record_is_true_in_any_likeness(
    seed: int, users: int, items: int, longest: int, wanted: int
) -> None:
    rng = np.random.default_rng(seed)
    lengths = [longest, *rng.integers(1, longest + 1, users).tolist()]
    data = interactions_of([list(range(items)), *(rng.integers(0, items, n) for n in lengths)])
    check_truth(world_like(data, users=wanted, seed=seed))


def test_same_seed_same_world_and_another_seed_another(world: World) -> None:
    again = make_world(world.config)
    assert again.interactions.content_hash == world.interactions.content_hash
    for name in ("kind", "cause", "prevented", "inhibitor", "genre"):
        assert getattr(again, name).tobytes() == getattr(world, name).tobytes()
    other = make_world(WorldConfig(users=300, items=120, events=20, genres=4, seed=4))
    assert other.interactions.content_hash != world.interactions.content_hash


def test_size_and_mix_are_as_asked() -> None:
    config = WorldConfig(users=2000, items=500, events=40, noise=0.1)
    world = make_world(config)
    assert world.interactions.user_count == 2000
    assert world.interactions.item_count == 500
    assert len(world.interactions) / 2000 == pytest.approx(40, rel=0.05)
    shares = np.bincount(world.kind, minlength=4) / len(world.kind)
    assert shares[EventKind.POPULAR] == pytest.approx(0.25 * 0.9, abs=0.02)
    assert shares[EventKind.NOISE] == pytest.approx(0.1, abs=0.02)
    assert 0.15 < shares[EventKind.CAUSED] <= 0.4 * 0.9 + 0.02, "fewer if no sequel is left"


def test_times_never_go_back_and_are_seconds(world: World) -> None:
    data = world.interactions
    assert data.times is not None
    steps = np.diff(data.times)
    inner = np.ones(len(steps), dtype=bool)
    inner[data.offsets[1:-1] - 1] = False
    assert (steps[inner] > 0).all()
    assert data.times.min() > 946_684_800


def test_titles_are_readable_and_distinct() -> None:
    config = WorldConfig(items=120_000, genres=8)
    films = design_films(config, np.random.default_rng(0))
    titles = name_films(films).labels(range(120_000))
    assert len(set(titles)) == len(titles)
    assert all(title[0].isupper() and "  " not in title for title in titles)
    assert any(" of Venice" in title for title in titles)
    assert any(title.endswith(" III") for title in titles)


@pytest.mark.parametrize("reason", REASONS)
def test_questions_point_at_the_true_slot(world: World, reason: str) -> None:
    length = 10
    asked = world.questions(reason, length, 200, seed=1)
    histories = asked.cases.histories(length)
    assert len(asked.cases) == len(histories) > 50
    assert not asked.truth[histories == PAD].any()
    _, titles = films_of(world)
    for case in range(len(histories)):
        event = asked.cases.ends[case]
        true_items = histories[case][asked.truth[case]]
        target = asked.cases.targets[case]
        if reason == "taste":
            assert target == world.interactions.items[event]
            assert (world.genre[true_items] == world.genre[target]).all()
            others = histories[case][~asked.truth[case] & (histories[case] != PAD)]
            assert (world.genre[others] != world.genre[target]).all()
            continue
        assert len(true_items) == 1
        start = asked.cases.starts[case]
        if reason == "caused":
            assert target == world.interactions.items[event]
            assert true_items[0] == world.interactions.items[start + world.cause[event]]
        else:
            assert target == world.prevented[event]
            assert titles[target].startswith(titles[true_items[0]])
    same = world.questions(reason, length, 200, seed=1)
    assert np.array_equal(same.cases.ends, asked.cases.ends)


@pytest.mark.parametrize(
    "settings",
    [
        {"users": 0},
        {"events": 2},
        {"genres": 99},
        {"caused": 0.8, "taste": 0.5},
        {"noise": -0.1},
        {"sequels": 0.9},
        {"items": 20},
        {"memory": 0},
        {"versions": 0},
        {"seed": -1},
        {"sequels": 0.0, "remakes": 0.6, "versions": 1},
        {"users": 3, "lengths": (5, 5)},
        {"users": 2, "lengths": (5, 0)},
        {"items": 80, "popularity": (1,) * 79},
        {"items": 80, "popularity": (0,) * 80},
    ],
)
def test_impossible_worlds_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(InputError, match=r"A world|genres|Shares|seed is|lengths"):
        WorldConfig(**settings)  # type: ignore[arg-type]


def test_only_known_reasons_can_be_asked(world: World) -> None:
    with pytest.raises(InputError, match="caused, prevented, taste"):
        world.questions("fate", 10, 5)
