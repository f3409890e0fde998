"""Histories with items left out equal those that a list gives."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from whence.contract import PAD
from whence.reasons.altered import (
    candidates_of,
    keeping,
    others_at_random,
    without_each,
    without_sets,
)

HISTORY = st.lists(st.integers(0, 5), max_size=9)


def grid(histories: list[list[int]], width: int) -> torch.Tensor:
    return torch.tensor([[PAD] * (width - len(one)) + one[-width:] for one in histories])


@given(st.lists(HISTORY, min_size=1, max_size=4), st.integers(1, 9))
def test_candidates_are_the_distinct_items_in_their_newest_slots(
    histories: list[list[int]], slots: int
) -> None:
    found = candidates_of(grid(histories, 9), slots)
    for row, history in enumerate(histories):
        read = ([PAD] * 9 + history)[-slots:]
        expected = [
            item if item != PAD and item not in read[place + 1 :] else PAD
            for place, item in enumerate(read)
        ]
        assert found[row].tolist() == expected


@given(st.lists(HISTORY, min_size=1, max_size=4), st.integers(1, 9))
def test_without_an_item_older_items_move_up(histories: list[list[int]], slots: int) -> None:
    whole = grid(histories, 9)
    candidates = candidates_of(whole, slots)
    found = without_each(whole, candidates, slots)
    for row, history in enumerate(histories):
        for place, item in enumerate(candidates[row].tolist()):
            if item != PAD:
                left = [other for other in history if other != item]
                assert found[row, place].tolist() == grid([left], slots)[0].tolist()


@given(HISTORY, st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=3))
def test_without_sets(history: list[int], sets: list[tuple[int, int]]) -> None:
    found = without_sets(grid([history], 9), torch.tensor([sets]), 6)
    for place, both in enumerate(sets):
        left = [other for other in history if other not in both]
        assert found[0, place].tolist() == grid([left], 6)[0].tolist()


@given(HISTORY, st.lists(st.booleans(), min_size=9, max_size=9))
def test_keeping_ignores_padding(history: list[int], kept: list[bool]) -> None:
    whole = grid([history], 9)
    found = keeping(whole, torch.tensor([kept]), 9)
    left = [item for item, keep in zip(whole[0].tolist(), kept, strict=True) if keep]
    left = [item for item in left if item != PAD]
    assert found[0].tolist() == grid([left], 9)[0].tolist()


@given(HISTORY, st.integers(0, 5))
def test_as_many_others_are_drawn_and_no_members(history: list[int], apart: int) -> None:
    whole = grid([history], 9)
    members = (whole % 2 == 0) & (whole != PAD) & (whole != apart)
    found = others_at_random(whole, members[:, None], whole[:, None] != apart)[:, 0]
    eligible = (whole % 2 != 0) & (whole != PAD) & (whole != apart)
    assert not (found & ~eligible).any()
    assert int(found.sum()) == min(int(members.sum()), int(eligible.sum()))
    # The same items in longer padding have the same others.
    longer = torch.cat((torch.full((1, 3), PAD), whole), dim=1)
    wide = torch.cat((torch.zeros(1, 3, dtype=torch.bool), members), dim=1)
    again = others_at_random(longer, wide, longer != apart)
    assert longer[again].tolist() == whole[found].tolist()
