"""Which reason is said: the most probable one that passes its checks and is sure enough."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from whence.reasons.calibrator import Beliefs
from whence.reasons.figures import BY_MODEL, EQUAL, Figures
from whence.reasons.judgement import (
    FEWEST_OF_A_TASTE,
    LITTLE,
    SURE,
    Judgement,
    Kind,
    judge,
)

ITEMS = 4
PAIRS = list(combinations(range(3), 2))


def figures(shape: tuple[int, int] = (1, 1), /, **changed: Tensor) -> Figures:
    """Return figures of two models with which every kind passes its checks."""
    users, k = shape
    every = (2, users, k)
    up = {name: torch.ones(*every, ITEMS) for name in ("lost", "alone", "alone_beaten")}
    given = {
        **{name: torch.zeros(every) for name in ("full", "marginal", "usual", "others_lost")},
        **{name: torch.ones(every) for name in ("group_lost", "group_alone")},
        **{name: torch.ones(*every, len(PAIRS)) for name in ("pair_lost", "pair_alone")},
        **up,
        "alone_place": torch.zeros(*every, ITEMS),
        "rank": torch.ones(users, k, dtype=torch.int64),
        "rank_anyway": torch.ones(users, k, dtype=torch.int64),
        "rank_without": torch.ones(users, k, ITEMS, dtype=torch.int64),
        "pair_rank_without": torch.ones(users, k, len(PAIRS), dtype=torch.int64),
        "group_rank_without": torch.ones(users, k, dtype=torch.int64),
        "candidates": torch.arange(ITEMS).expand(users, -1),
        "pairs": torch.tensor(PAIRS).expand(users, k, -1, -1),
        "group": torch.zeros(users, k, dtype=torch.int64),
        "in_group": torch.ones(users, k, ITEMS, dtype=torch.bool),
        "group_share": torch.zeros(users, k),
    }
    rest = (
        *("usual_in_group", "usual_elsewhere", "usual_spread", "group_mass"),
        *("group_mass_usual", "group_marginal", "group_lift", "group_floor"),
    )
    given |= {name: torch.zeros(every) for name in rest}
    return Figures(**{**given, **changed})


def beliefs(*probabilities: float) -> Beliefs:
    """Return the probabilities of four items, three pairs, taste, popularity and none."""
    values = torch.tensor(probabilities).view(1, 1, -1)
    return Beliefs(*values.split((ITEMS, len(PAIRS), 3), dim=2))


def believing(place: int, probability: float = 0.95) -> Beliefs:
    """Return beliefs in one option; the rest is for none."""
    values = [0.0] * (ITEMS + len(PAIRS) + 3)
    values[place] = probability
    values[-1] += 1 - probability
    return beliefs(*values)


def one(found: Judgement) -> tuple[int, int, float, int, int]:
    return (
        int(found.kind),
        int(found.likeliest),
        round(float(found.confidence), 4),
        int(found.place),
        int(found.disliked),
    )


@pytest.mark.parametrize(
    ("option", "kind", "place"),
    [
        *((item, Kind.ITEM, item) for item in range(ITEMS)),
        *((ITEMS + pair, Kind.SET, pair) for pair in range(3)),
        (7, Kind.TASTE, 0),
        (8, Kind.POPULARITY, 0),
    ],
)
def test_a_sure_kind_is_said_and_an_unsure_one_is_not(option: int, kind: Kind, place: int) -> None:
    assert one(judge(believing(option), figures())) == (kind, kind, 0.95, place, -1)
    unsure = believing(option, 0.6)
    assert one(judge(unsure, figures())) == (Kind.NONE, kind, 0.6, place, -1)
    assert one(judge(unsure, figures(), sure=0.6)) == (kind, kind, 0.6, place, -1)


def test_what_is_far_down_is_popular_if_it_is_no_further_down_without_the_history() -> None:
    found = figures(**none_of("rank", 30), **none_of("rank_anyway", 30))
    assert one(judge(believing(8), found))[0] == Kind.POPULARITY
    further = figures(**none_of("rank", 30), **none_of("rank_anyway", 31))
    assert one(judge(believing(8), further))[0] == Kind.NONE


def test_nothing_is_said_if_no_kind_is_believed() -> None:
    assert one(judge(believing(9, 1.0), figures())) == (Kind.NONE, Kind.NONE, 0.0, 0, -1)


def none_of(name: str, value: float = -1.0) -> dict[str, Tensor]:
    return {name: torch.full_like(getattr(figures(), name), value)}


@pytest.mark.parametrize(
    ("option", "kind", "failing"),
    [
        (2, Kind.ITEM, none_of("lost")),
        (2, Kind.ITEM, none_of("lost", 0.0)),
        (2, Kind.ITEM, none_of("lost", EQUAL / 2)),
        (2, Kind.ITEM, none_of("alone")),
        (4, Kind.SET, none_of("pair_lost")),
        (4, Kind.SET, none_of("pair_alone", 0.0)),
        (7, Kind.TASTE, none_of("others_lost", 1.0)),
        (7, Kind.TASTE, {**none_of("group_lost"), **none_of("others_lost", -2.0)}),
        (7, Kind.TASTE, none_of("group_alone")),
        (7, Kind.TASTE, {"in_group": torch.tensor([[[True, False, False, False]]])}),
        (8, Kind.POPULARITY, none_of("full", LITTLE)),
        (8, Kind.POPULARITY, none_of("rank_anyway", 11)),
    ],
)
def test_a_check_that_fails_blocks_its_kind_only(
    option: int, kind: Kind, failing: dict[str, Tensor]
) -> None:
    found = figures(**failing)
    place = {Kind.ITEM: 2}.get(kind, 0)
    assert one(judge(believing(option, 1.0), found)) == (Kind.NONE, kind, 1.0, place, -1)
    for other in {0, 5, 7, 8} - {option}:
        if not ({other, option} <= {4, 5, 6} or {other, option} <= set(range(ITEMS))):
            assert int(judge(believing(other), found).kind) != Kind.NONE


def test_the_mean_over_the_models_decides() -> None:
    lost = torch.tensor([3.0, -1.0]).view(2, 1, 1, 1).expand(-1, -1, -1, ITEMS)
    assert int(judge(believing(1), figures(lost=lost)).kind) == Kind.ITEM
    assert int(judge(believing(1), figures(lost=-lost)).kind) == Kind.NONE


def rated_low(*places: int) -> Tensor:
    return torch.tensor([[place in places for place in range(ITEMS)]])


def test_an_item_rated_low_is_no_reason_but_an_although() -> None:
    strong = believing(2)
    assert one(judge(strong, figures(), low=rated_low(2))) == (Kind.NONE, Kind.NONE, 0.0, 0, 2)
    assert one(judge(strong, figures(), low=rated_low(0, 1, 3))) == (
        *(Kind.ITEM, Kind.ITEM, 0.95, 2, -1),
    )
    against = figures(**none_of("alone"))
    assert one(judge(strong, against, low=rated_low(2)))[-1] == -1, "it does not count in favour"
    weak = beliefs(0.05, 0, 0.04, 0, 0, 0, 0, 0, 0.9, 0.01)
    assert one(judge(weak, figures(), low=rated_low(0, 2)))[-1] == -1, "it hardly counts"
    both = beliefs(0.5, 0, 0.3, 0, 0, 0, 0, 0, 0.1, 0.1)
    assert one(judge(both, figures(), low=rated_low(0))) == (Kind.NONE, Kind.ITEM, 0.3, 2, 0)


def test_a_pair_with_an_item_rated_low_is_not_said() -> None:
    """The first pair is that of places 0 and 1."""
    for place in (0, 1):
        assert int(judge(believing(ITEMS), figures(), low=rated_low(place)).kind) == Kind.NONE
    assert int(judge(believing(ITEMS), figures(), low=rated_low(2, 3)).kind) == Kind.SET


def test_a_taste_needs_items_that_were_not_rated_low() -> None:
    enough = [*range(ITEMS - FEWEST_OF_A_TASTE)]
    assert int(judge(believing(7), figures(), low=rated_low(*enough)).kind) == Kind.TASTE
    assert int(judge(believing(7), figures(), low=rated_low(*enough, 3)).kind) == Kind.NONE


def test_numbers_that_are_none_say_nothing() -> None:
    broken = Beliefs(*(torch.full_like(some, torch.nan) for some in believing(2)))
    found = judge(broken, figures(), low=rated_low(2))
    assert (int(found.kind), int(found.likeliest), int(found.disliked)) == (
        *(Kind.NONE, Kind.NONE, -1),
    )
    lost = torch.full((2, 1, 1, ITEMS), torch.nan)
    assert int(judge(believing(2), figures(lost=lost)).kind) == Kind.NONE


@st.composite
def cases(draw: st.DrawFn) -> tuple[Beliefs, Figures, float, Tensor]:
    """Return random beliefs, figures, a threshold and what is rated low, for some users."""
    users, k = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    sharp = draw(st.sampled_from((0.05, 0.3, 1.0)))
    options = rng.dirichlet([sharp] * (ITEMS + len(PAIRS) + 3), (users, k))
    values = torch.from_numpy(options).float()

    def drawn(*shape: int) -> Tensor:
        return torch.from_numpy(rng.normal(0.5, 1, (2, users, k, *shape))).float()

    found = figures(
        (users, k),
        **{name: drawn(ITEMS) for name in ("lost", "alone")},
        **{name: drawn(len(PAIRS)) for name in ("pair_lost", "pair_alone")},
        **{name: drawn() for name in ("group_lost", "others_lost", "group_alone", "full")},
        in_group=torch.from_numpy(rng.random((users, k, ITEMS)) < 0.7),
    )
    low = torch.from_numpy(rng.random((users, ITEMS)) < 0.3)
    sure = draw(st.sampled_from((0.5, 0.7, SURE)))
    return Beliefs(*values.split((ITEMS, len(PAIRS), 3), dim=2)), found, sure, low


def named(found: Judgement, user: int, target: int) -> list[int]:
    """Return the places that are named."""
    place = int(found.place[user, target])
    kind = int(found.kind[user, target])
    return [place] if kind == Kind.ITEM else [*PAIRS[place]] if kind == Kind.SET else []


@given(cases())
def test_what_always_holds(case: tuple[Beliefs, Figures, float, Tensor]) -> None:
    belief, figure, sure, low = case
    found = judge(belief, figure, sure, low)
    said = found.kind != Kind.NONE
    assert (found.confidence[said] >= sure).all(), "never said below the threshold"
    assert (found.kind == found.likeliest)[said].all()
    assert ((found.confidence >= 0) & (found.confidence <= 1)).all()
    for user, target in said.nonzero().tolist():
        places = named(found, user, target)
        assert not any(low[user, place] for place in places), "no low item is named"
        for place in places if int(found.kind[user, target]) == Kind.ITEM else []:
            assert float(figure.lost[:, user, target, place].mean()) > 0
            assert float(figure.alone[:, user, target, place].mean()) > 0
    for user, target in (found.disliked >= 0).nonzero().tolist():
        assert low[user, int(found.disliked[user, target])]
    without = judge(belief, figure, sure)
    assert (without.disliked == -1).all()


@given(cases())
def test_alone_as_in_a_batch(case: tuple[Beliefs, Figures, float, Tensor]) -> None:
    belief, figure, sure, low = case
    every = judge(belief, figure, sure, low)
    users = len(low)
    each = []
    for user in range(users):
        rows = slice(user, user + 1)
        by_user = {
            name: values[:, rows] if name in BY_MODEL else values[rows]
            for name, values in vars(figure).items()
        }
        own = Beliefs(*(some[rows] for some in belief))
        each.append(judge(own, replace(figure, **by_user), sure, low[rows]))
    joined = Judgement.joined(each)
    for name in ("kind", "likeliest", "confidence", "place", "disliked"):
        assert torch.equal(getattr(joined, name), getattr(every, name)), name
