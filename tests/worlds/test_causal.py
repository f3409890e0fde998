"""Worlds whose every probability is known, compared with loops and with what was simulated."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whence.data.histories import Cases
from whence.errors import InputError
from whence.worlds import (
    NONE,
    CausalConfig,
    CausalWorld,
    Source,
    draw_config,
    draw_wide_config,
    make_causal_world,
)
from whence.worlds.designs import GENERATORS, Generator
from whence.worlds.mechanism import Mechanism

SMALL = {"users": 40, "items": 80, "events": 15, "groups": 3}


def cases_of(world: CausalWorld, back: int = 1) -> Cases:
    """The history of every user without the last events, and the item that came next."""
    data = world.interactions
    users = np.arange(data.user_count)
    ends = np.maximum(data.offsets[1:] - back, data.offsets[:-1])
    return Cases(data.items, users, data.offsets[:-1], ends, data.items[ends].astype(np.int64))


def slow_rates(
    world: CausalWorld, history: list[int], taste: list[float], epoch: int, item: int
) -> dict[tuple[object, ...], float]:
    """The rate of every source of an item, by loops over a history, oldest first."""
    mechanism: Mechanism = world.mechanism
    rates: dict[tuple[object, ...], float] = defaultdict(float)
    newest = {one: place for place, one in enumerate(history)}

    def came_after(place: int, result: int) -> bool:
        return result in history[place + 1 :]

    for cause, place in newest.items():
        age = len(history) - 1 - place
        for ties in mechanism.ties:
            for result, rate in zip(ties.result[cause], ties.rate[cause], strict=True):
                if result == item and age < len(ties.by_age) and not came_after(place, item):
                    rates["item", place] += rate * ties.by_age[age]
        pairs, partner = mechanism.pairs, int(mechanism.pairs.partner[cause])
        if partner == NONE or pairs.result[cause] != item or partner not in newest:
            continue
        older, newer = sorted((place, newest[partner]))
        age = len(history) - 1 - older
        if newer == place and age < len(pairs.by_age) and not came_after(newer, item):
            rates["pair", newer, older] += pairs.rate * pairs.by_age[age]
    fame, group = mechanism.fame[epoch], mechanism.group
    same = sum(fame[other] for other in range(len(fame)) if group[other] == group[item])
    liked, usual = taste[group[item]], 1 / (max(group) + 1)
    excess = liked - usual if liked > usual else 0.0
    rates["taste",] = mechanism.taste * excess * fame[item] / same
    rates["popularity",] = mechanism.popularity * fame[item] / sum(fame)
    rates["popularity",] += mechanism.taste * (liked - excess) * fame[item] / same
    rates["noise",] = mechanism.noise / len(fame)
    return dict(rates)


def slow_acceptance(world: CausalWorld, history: list[int], item: int) -> float:
    if not world.mechanism.repeats and item in history:
        return 0.0
    return world.mechanism.rivals.acceptance if is_avoided(world, history, item) else 1.0


def is_avoided(world: CausalWorld, history: list[int], item: int) -> bool:
    rivals = world.mechanism.rivals
    return any(
        rivals.family[other] == rivals.family[item] != NONE
        and other != item
        and bool(rivals.rules[other])
        for other in history[-rivals.memory :]
    )


def history_of(world: CausalWorld, cases: Cases, row: int) -> list[int]:
    return [int(item) for item in world.interactions.items[cases.starts[row] : cases.ends[row]]]


@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize("back", [1, 6])
def test_probabilities_equal_those_of_loops(generator: Generator, back: int) -> None:
    world = make_causal_world(draw_config(generator, 5, **SMALL))
    cases = cases_of(world, back)
    state, found = world.state(cases), world.probabilities(cases)
    for row in range(0, len(cases), 4):
        history = history_of(world, cases, row)
        taste, epoch = state.taste[row].tolist(), int(state.epoch[row])
        assert sum(taste) == pytest.approx(1)
        each = [
            sum(slow_rates(world, history, taste, epoch, item).values())
            * slow_acceptance(world, history, item)
            for item in range(world.config.items)
        ]
        assert found[row] == pytest.approx(np.array(each) / sum(each), abs=1e-12)


@pytest.mark.parametrize("generator", GENERATORS)
def test_truth_equals_that_of_loops(generator: Generator) -> None:
    """For the items that a history can cause, and for some that it cannot."""
    world = make_causal_world(draw_config(generator, 6, **SMALL))
    cases = cases_of(world)
    state, longest = world.state(cases), 80
    checked: dict[object, int] = defaultdict(int)
    for item in range(world.config.items):
        found = world.truth(cases, np.full(len(cases), item), longest)
        for row in range(item % 3, len(cases), 3):
            history = history_of(world, cases, row)
            first = longest - len(history)  # the slot of the oldest item, or before the first slot
            rates = slow_rates(
                world, history, state.taste[row].tolist(), int(state.epoch[row]), item
            )
            total = sum(rates.values())
            for reason, rate in rates.items():
                checked[reason[0]] += 1
                match reason:
                    case ("item", int(place)):
                        assert found.item[row, first + place] == pytest.approx(rate / total)
                    case ("pair", int(newer), int(older)):
                        assert found.pair[row] == pytest.approx(rate / total)
                        assert found.pair_slots[row].tolist() == [first + newer, first + older]
                    case (str(kind),):
                        assert getattr(found, kind)[row] == pytest.approx(rate / total)
            assert found.against[row].any() == is_avoided(world, history, item)
    assert set(checked) == {"item", "pair", "taste", "popularity", "noise"}


@pytest.mark.parametrize("generator", GENERATORS)
def test_the_probability_of_reasons_is_how_often_they_are_drawn(generator: Generator) -> None:
    """Over all users: of events with a probability of p of a source, a share of p has it."""
    world = make_causal_world(draw_config(generator, 7, users=4_000, items=200, events=20))
    cases = cases_of(world)
    found = world.truth(cases, cases.targets, 60)
    drawn = world.source[cases.ends]
    for source, stated in (
        (Source.ITEM, found.item.sum(axis=1)),
        (Source.PAIR, found.pair),
        (Source.TASTE, found.taste),
        (Source.POPULARITY, found.popularity),
        (Source.NOISE, found.noise),
    ):
        for low, high in ((0.0, 0.2), (0.2, 0.8), (0.8, 1.01)):
            some = (stated >= low) & (stated < high)
            expected, error = stated[some].sum(), np.sqrt((stated * (1 - stated))[some].sum())
            assert abs((drawn[some] == source).sum() - expected) <= 4 * error + 1


@pytest.mark.parametrize("generator", GENERATORS)
def test_items_come_as_often_as_their_probability_says(generator: Generator) -> None:
    world = make_causal_world(draw_config(generator, 8, users=4_000, items=150, events=20))
    cases = cases_of(world)
    stated = world.probabilities(cases)
    came = np.zeros_like(stated)
    came[np.arange(len(cases)), cases.targets] = 1
    edges = [0, 0.001, 0.003, 0.01, 0.03, 0.1, 1.01]
    for low, high in pairwise(edges):
        some = (stated >= low) & (stated < high)
        error = np.sqrt((stated * (1 - stated))[some].sum())
        assert abs(came[some].sum() - stated[some].sum()) <= 4 * error + 1


@settings(max_examples=15, deadline=None)
@given(
    generator=st.sampled_from(GENERATORS),
    seed=st.integers(0, 10_000),
    users=st.integers(1, 8),
    tied=st.floats(0, 0.3),
    taste=st.floats(0, 0.5),
    noise=st.floats(0, 0.5),
    acceptance=st.floats(0, 1),
    spontaneous=st.floats(0.01, 1),
    memory=st.integers(1, 30),
)
def test_any_world_has_its_events(generator: Generator, **given: float) -> None:
    config = draw_config(generator, **given, items=60, groups=3, events=10)  # type: ignore[arg-type]
    world, again = make_causal_world(config), make_causal_world(config)
    data = world.interactions
    assert np.array_equal(data.items, again.interactions.items)
    assert data.times is not None
    within = np.setdiff1d(np.arange(1, len(data.items)), data.offsets)
    assert (np.diff(data.times)[within - 1] >= 0).all()
    titles = data.catalog.labels(range(data.item_count))
    assert len(set(titles)) == data.item_count
    if generator == "films":
        for user in range(data.user_count):
            mine = data.history(user)
            assert len(set(mine.tolist())) == len(mine)


@pytest.mark.parametrize("generator", GENERATORS)
def test_tastes_of_wide_worlds_can_be_finer_than_names(generator: Generator) -> None:
    drawn = [draw_wide_config(generator, seed) for seed in range(1, 40)]
    assert len({one.items for one in drawn}) > 30
    assert all(one.items >= 25 * one.groups for one in drawn)
    finest = max(drawn, key=lambda one: one.groups)
    assert finest.groups > 60
    world = make_causal_world(replace(finest, users=300))
    names = np.array(world.interactions.catalog.table["genres"])
    group = world.mechanism.group
    assert len(set(names)) < len(set(group)) == finest.groups
    assert all(len(set(names[group == one])) == 1 for one in range(finest.groups))


@pytest.mark.parametrize("groups", [0, 121])
def test_the_number_of_groups_has_limits(groups: int) -> None:
    with pytest.raises(InputError, match="1 to 120 groups"):
        CausalConfig(items=5_000, groups=groups)


def test_a_recorded_cause_is_in_the_history() -> None:
    world = make_causal_world(draw_config("music", 3, **SMALL))
    data = world.interactions
    position = np.arange(len(data.items)) - np.repeat(data.offsets[:-1], np.diff(data.offsets))
    caused = world.cause != NONE
    assert caused.any()
    assert (world.cause[caused] < position[caused]).all()
    assert np.array_equal(caused, world.source <= Source.PAIR)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"generator": "novels"}, "generator is one of films, shop, music"),
        ({"users": 0}, "users >= 1"),
        ({"items": 20}, "10 items per group"),
        ({"taste": 0.9, "noise": 0.2}, r"taste \+ noise"),
        ({"acceptance": 1.5}, "acceptance is a number from 0 to 1"),
        ({"half_life": 0.0}, "half_life"),
        ({"lengths": (3,)}, "lengths needs one number for each user"),
    ],
)
def test_impossible_settings_are_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        CausalConfig(**given)  # type: ignore[arg-type]


def test_popularity_and_lengths_can_be_given() -> None:
    lengths = tuple(range(5, 205))
    popularity = tuple((1 + np.arange(100)).tolist())
    world = make_causal_world(
        CausalConfig(users=200, items=100, groups=4, lengths=lengths, popularity=popularity)
    )
    assert sorted(np.diff(world.interactions.offsets)) == list(lengths)
    events = np.sort(np.bincount(world.interactions.items, minlength=100))
    wanted = np.array(popularity) * sum(lengths) / sum(popularity)
    assert np.corrcoef(events, wanted)[0, 1] > 0.9
