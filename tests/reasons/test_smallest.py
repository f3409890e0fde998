"""The smallest set without which a target leaves the list, found by hand in a loop."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conftest import LIVELY
from whence.contract import ALL, PAD
from whence.errors import InputError
from whence.models.base import CaseReader
from whence.models.ensemble import Ensemble, Member
from whence.reasons import smallest
from whence.reasons.smallest import SmallestSet, smallest_sets

ITEMS, SLOTS = 30, 6
MODELS: dict[str, CaseReader] = {
    name: LIVELY[name](items=ITEMS, length=SLOTS) for name in ("sasrec", "bert4rec", "recent-ease")
}
MODELS["ensemble"] = Ensemble(
    [
        Member(LIVELY[name](items=ITEMS, length=length, seed=seed), factor)
        for name, length, seed, factor in (
            ("sasrec", SLOTS, 1, 0.5),
            ("sasrec", SLOTS, 2, 0.5),
            ("ease", 4, 3, 0.2),
        )
    ]
)
HISTORY = st.lists(st.integers(0, ITEMS - 1), min_size=1, max_size=9)


@torch.no_grad()
def rank_of(model: CaseReader, whole: list[int], left: list[int], target: int) -> int:
    """The rank for the history that is left, typed again."""
    scores = model.score(torch.tensor([([PAD] * SLOTS + left)[-SLOTS:]]), ALL)[0].tolist()
    rivals = set(range(ITEMS)) - set(whole)
    return 1 + sum(bool(scores[rival] > scores[target]) for rival in rivals)


def by_hand(
    model: CaseReader, history: list[int], target: int, size: int, list_size: int
) -> SmallestSet | None:
    """The set of this size without which the target falls furthest, if it leaves the list."""
    read = list(dict.fromkeys(reversed(history[-SLOTS:])))
    best = None
    for items in combinations(read, size):
        rank = rank_of(model, history, [one for one in history if one not in items], target)
        furthest = list_size if best is None else best.rank_without
        if target not in items and rank > furthest:
            best = SmallestSet(items, rank, proved=True)
    return best


def found(
    model: CaseReader,
    history: list[int],
    targets: list[int],
    list_size: int,
    most: smallest.Sizes = 3,
) -> list[SmallestSet | None]:
    return smallest_sets(
        model, torch.tensor(history), torch.tensor(targets), SLOTS, list_size, most
    )


@pytest.mark.parametrize("name", MODELS)
@given(history=HISTORY, list_size=st.sampled_from([1, 5, 12, 20]))
def test_sets_equal_those_of_a_loop(name: str, history: list[int], list_size: int) -> None:
    model, targets = MODELS[name], list(range(0, ITEMS, 5))
    singles = found(model, history, targets, list_size, 1)
    pairs = found(model, history, targets, list_size, 2)
    triples = found(model, history, targets, list_size)
    for target, one, two, three in zip(targets, singles, pairs, triples, strict=True):
        if rank_of(model, history, history, target) > list_size:
            assert one is two is three is None
            continue
        assert one == by_hand(model, history, target, 1, list_size)
        assert two == one or by_hand(model, history, target, 2, list_size)
        if two is not None:
            assert three == two
            continue
        # So few pairs are all extended by every item: the search is exhaustive.
        best = by_hand(model, history, target, 3, list_size)
        assert (three is None) == (best is None)
        if three is not None and best is not None:
            assert (three.items, three.rank_without) == (best.items, best.rank_without)
            assert not three.proved


@pytest.mark.parametrize("name", MODELS)
def test_a_target_is_found_alone_as_with_others(name: str) -> None:
    history, targets = [3, 17, 8, 8, 22, 1, 29], list(range(ITEMS))
    together = found(MODELS[name], history, targets, 8)
    assert any(one is not None and len(one.items) > 1 for one in together)
    assert together == [found(MODELS[name], history, [one], 8)[0] for one in targets]


def test_triples_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The closest pair is extended first, so a few triples are enough here."""
    model, history = MODELS["ensemble"], [3, 17, 8, 22, 1, 29]
    targets = list(range(ITEMS))
    every = found(model, history, targets, 14)
    three = [place for place, one in enumerate(every) if one and len(one.items) == 3]
    assert three
    monkeypatch.setattr(smallest, "TRIPLES", 4)
    few = found(model, history, targets, 14)
    assert [one for one in few if one and len(one.items) < 3] == [
        one for one in every if one and len(one.items) < 3
    ]
    kept = [few[place] for place in three]
    assert any(kept)
    for place, one in zip(three, kept, strict=True):
        if one is not None:
            left = [item for item in history if item not in one.items]
            assert rank_of(model, history, left, place) == one.rank_without > 14


@pytest.mark.parametrize("at_once", [1, 7])
def test_slices_change_nothing(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    history, targets = [3, 17, 8, 8, 22, 1, 29], list(range(ITEMS))
    expected = found(MODELS["sasrec"], history, targets, 8)
    monkeypatch.setattr(smallest, "cases_at_once", lambda *_: at_once)
    assert found(MODELS["sasrec"], history, targets, 8) == expected


def test_long_histories_of_copies() -> None:
    """Without an item that is everywhere, the model reads items from long ago."""
    model = MODELS["sasrec"]
    history = [*range(10, 16), *[3] * 40, 5, 3, 7]
    for target, one in enumerate(found(model, history, list(range(ITEMS)), 6)):
        if rank_of(model, history, history, target) <= 6:
            assert one == (
                by_hand(model, history, target, 1, 6) or by_hand(model, history, target, 2, 6)
            ) or (one is not None and not one.proved)


def test_one_item_and_its_copies() -> None:
    model = MODELS["sasrec"]
    for history in ([4], [4, 4, 4], [PAD, PAD, 4]):
        for target, one in enumerate(found(model, history, list(range(ITEMS)), 3)):
            real = [item for item in history if item != PAD]
            expected = by_hand(model, real, target, 1, 3)
            on_list = rank_of(model, real, real, target) <= 3
            assert one == (expected if on_list else None)
            assert one is None or one.items == (4,)


def test_no_target_is_in_its_own_set() -> None:
    history = [4, 9, 2, 20, 11]
    sets = found(MODELS["recent-ease"], history, history, ITEMS // 2)
    assert any(sets)
    assert all(target not in one.items for target, one in zip(history, sets, strict=True) if one)


def test_equals_go_to_the_newest() -> None:
    class Counting(CaseReader):
        """Item 0 scores as many as the history has items, and any other item 1.5."""

        def parts(self, batch: torch.Tensor) -> torch.Tensor:
            return batch != PAD

        def score(self, batch: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
            scores = torch.full((len(batch), 9), 1.5)
            scores[:, 0] = (batch != PAD).sum(dim=1).float()
            return scores

    assert found(Counting(), [5, 6], [0], 1) == [SmallestSet((6,), 7, proved=True)]
    assert found(Counting(), [5, 6, 7], [0], 1) == [SmallestSet((7, 6), 6, proved=True)]
    assert found(Counting(), [4, 5, 6, 7], [0], 1) == [SmallestSet((7, 6, 5), 5, proved=False)]
    assert found(Counting(), [3, 4, 5, 6, 7], [0], 1) == [None]


def test_nobody_leaves_a_list_of_all_items() -> None:
    for size in (ITEMS - 2, ITEMS, 10**6):
        assert found(MODELS["sasrec"], [1, 2], [5, 6], size) == [None, None]


def test_nothing_to_search() -> None:
    assert found(MODELS["sasrec"], [], [5], 3) == [None]
    assert found(MODELS["sasrec"], [PAD], [5], 3) == [None]
    assert found(MODELS["sasrec"], [5], [], 3) == []
    with pytest.raises(InputError, match="at least 1, not 0"):
        found(MODELS["sasrec"], [5], [3], 0)
