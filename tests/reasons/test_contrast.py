"""Why not, and why rather: compared with histories typed again without each item."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conftest import LIVELY, interactions_of
from whence.contract import ALL, PAD
from whence.errors import InputError
from whence.models import Recommender
from whence.models.base import CaseReader
from whence.models.ensemble import Ensemble, Member
from whence.reasons.contrast import Effect, Rather, Shift, WhyNot, find_rather, find_why_not

ITEMS, SLOTS, SEEDS = 30, 6, 3
CATALOG = interactions_of([list(range(ITEMS))]).catalog
HISTORY = st.lists(st.integers(0, ITEMS - 1), min_size=1, max_size=9)
ITEM = st.integers(0, ITEMS - 1)


@dataclass(frozen=True, eq=False)
class Asked:
    """Models of a few seeds and all of them as one."""

    models: list[Recommender]
    whole: CaseReader

    def why_not(self, history: list[int], item: int, list_size: int = 5) -> WhyNot:
        items = np.array(history, dtype=np.int32)
        return find_why_not(
            self.models, self.whole, items, item, SLOTS, CATALOG, "watched", list_size
        )

    def rather(self, history: list[int], item: int, other: int) -> Rather:
        items = np.array(history, dtype=np.int32)
        return find_rather(self.models, self.whole, items, item, other, SLOTS, CATALOG, "watched")


def asked_of(name: str) -> Asked:
    models = [LIVELY[name](items=ITEMS, length=SLOTS, seed=seed) for seed in range(SEEDS)]
    return Asked(models, Ensemble([Member(one, 1 / SEEDS) for one in models]))


ASKED = {name: asked_of(name) for name in ("sasrec", "bert4rec", "recent-ease")}


@torch.no_grad()
def scores_of(model: CaseReader, left: list[int]) -> list[float]:
    """All scores for what is left of a history, typed again."""
    scores: list[float] = model.score(torch.tensor([([PAD] * SLOTS + left)[-SLOTS:]]), ALL)[
        0
    ].tolist()
    return scores


def log_probability(model: CaseReader, left: list[int], item: int) -> float:
    scores = scores_of(model, left)
    return scores[item] - math.log(sum(math.exp(one) for one in scores))


def rank(model: CaseReader, history: list[int], left: list[int], item: int) -> int:
    scores = scores_of(model, left)
    return 1 + sum(scores[one] > scores[item] for one in range(ITEMS) if one not in set(history))


def mean_and_agreement(changes: list[float]) -> tuple[float, float]:
    def sign(value: float) -> int:
        return 0 if abs(value) <= 1e-4 else int(math.copysign(1, value))

    mean = sum(changes) / len(changes)
    return mean, sum(sign(one) == sign(mean) for one in changes) / len(changes)


def read_of(history: list[int]) -> list[int]:
    """The distinct items that the models read, newest first."""
    return list(dict.fromkeys(reversed(history[-SLOTS:])))


def without(history: list[int], item: int) -> list[int]:
    return [one for one in history if one != item]


@pytest.mark.parametrize("name", ASKED)
@given(history=HISTORY, item=ITEM)
def test_why_not_equals_a_loop(name: str, history: list[int], item: int) -> None:
    asked = ASKED[name]
    found = asked.why_not(history, item)
    assert [one.item for one in found.considered] == read_of(history)
    assert found.rank == rank(asked.whole, history, history, item)
    assert found.in_history == (item in history)
    for one in found.considered:
        left = without(history, one.item)
        gained, agreeing = mean_and_agreement(
            [
                log_probability(model, left, item) - log_probability(model, history, item)
                for model in asked.models
            ]
        )
        assert one.gained == pytest.approx(gained, abs=1e-9)
        assert one.agreeing == agreeing
        assert one.rank_before == found.rank
        assert one.rank_without == rank(asked.whole, history, left, item)


@pytest.mark.parametrize("name", ASKED)
@given(history=HISTORY, both=st.lists(ITEM, min_size=2, max_size=2, unique=True))
def test_rather_equals_a_loop(name: str, history: list[int], both: list[int]) -> None:
    asked, (item, other) = ASKED[name], both
    found = asked.rather(history, item, other)

    def odds(model: CaseReader, left: list[int]) -> float:
        scores = scores_of(model, left)
        return scores[item] - scores[other]

    assert found.log_odds == pytest.approx(odds(asked.whole, history), abs=1e-9)
    assert (found.rank < found.other_rank) == (found.log_odds > 0) or any(
        one in history for one in both
    )
    for one in found.considered:
        left = without(history, one.item)
        moved, agreeing = mean_and_agreement(
            [odds(model, history) - odds(model, left) for model in asked.models]
        )
        assert one.moved == pytest.approx(moved, abs=1e-9)
        assert one.agreeing == agreeing
        assert one.reverses == (odds(asked.whole, left) * found.log_odds < 0)
        before = (one.rank_before, one.other_rank_before)
        assert before == tuple(rank(asked.whole, history, history, each) for each in both)
        after = (one.rank_without, one.other_rank_without)
        assert after == tuple(rank(asked.whole, history, left, each) for each in both)


@given(history=HISTORY, both=st.lists(ITEM, min_size=2, max_size=2, unique=True))
def test_what_is_said_is_what_is_found(history: list[int], both: list[int]) -> None:
    """Named items pass the checks, and the other direction says the opposite."""
    asked, (item, other) = ASKED["sasrec"], both
    found = asked.why_not(history, item)
    for one in (*found.against, *found.supporting):
        assert abs(math.expm1(one.gained)) >= 0.05 - 1e-9
        assert one.agreeing > 0.5
        assert one.item != item
    there, back = asked.rather(history, item, other), asked.rather(history, other, item)
    assert [one.item for one in there.decisive] == [one.item for one in back.decisive]
    assert there.log_odds == pytest.approx(-back.log_odds)
    if there.log_odds > 0 and there.decisive:
        expected = f"because you watched {there.decisive[0].label}: without it, {there.other_label}"
        assert expected in there.sentence
        assert expected in back.sentence


EFFECT = Effect("a", "Alien", 0.7, 1.0, 140, 60)
WHY_NOT = WhyNot("h", "Heat", "watched", 140, 10, False, 3, (EFFECT,))


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (
            WHY_NOT,
            "not recommended (rank 140): you watched Alien; without it, it would be ranked 60",
        ),
        (
            replace(WHY_NOT, rank=1_400, considered=(replace(EFFECT, rank_without=1_200),)),
            "not recommended (rank 1,400): you watched Alien; without it, it would be ranked 1,200",
        ),
        (
            replace(WHY_NOT, considered=(replace(EFFECT, gained=0.1, rank_without=140),)),
            "not recommended (rank 140): you watched Alien; without it, it would be 11 % more "
            "probable, but still ranked 140",
        ),
        (
            replace(WHY_NOT, considered=(replace(EFFECT, rank_without=150),)),
            "not recommended (rank 140): you watched Alien; without it, it would be 2.0 times as "
            "probable, but ranked 150",
        ),
        (
            replace(WHY_NOT, considered=(replace(EFFECT, gained=5e5, rank_without=150),)),
            "not recommended (rank 140): you watched Alien; without it, it would be over 1,000 "
            "times as probable, but ranked 150",
        ),
        (
            replace(WHY_NOT, considered=(replace(EFFECT, agreeing=0.5),)),
            "not recommended (rank 140): nothing in your history speaks against it; no single item "
            "adds much to it",
        ),
        (
            replace(WHY_NOT, considered=(replace(EFFECT, gained=-0.5),)),
            "not recommended (rank 140): nothing in your history speaks against it; Alien speaks "
            "for it, but other items fit better",
        ),
        (replace(WHY_NOT, rank=3), "already recommended (rank 3)"),
        (replace(WHY_NOT, in_history=True), "already in your history"),
    ],
)
def test_sentences_of_why_not(found: WhyNot, sentence: str) -> None:
    assert found.sentence == sentence


def test_the_strongest_is_named_and_never_the_item_itself() -> None:
    weak, own = replace(EFFECT, item="b", label="Brazil", gained=0.2), replace(EFFECT, item="h")
    assert replace(WHY_NOT, considered=(weak, own, EFFECT)).against == (EFFECT, weak)
    assert replace(WHY_NOT, considered=(own,)).against == ()


SHIFT = Shift("c", "Casino", 0.3, 1.0, True, 3, 9, 5, 4)
RATHER = Rather(
    "h", "Heat", "a", "Alien", "watched", 0.2, 3, 5, False, False, 3, (SHIFT,)
)  # fmt: skip


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (RATHER, "Heat rather than Alien because you watched Casino: without it, Alien would be "
         "ahead"),
        (
            replace(RATHER, log_odds=-0.2, considered=(replace(SHIFT, moved=-0.3),)),
            "Alien is ahead of Heat because you watched Casino: without it, Heat would be ahead",
        ),
        (
            replace(RATHER, considered=(replace(SHIFT, reverses=False),)),
            "Heat rather than Alien: no single item decides it; most for it: Casino (without it, "
            "the odds fall by 26 %)",
        ),
        (
            replace(
                RATHER, log_odds=-2.0, considered=(replace(SHIFT, moved=-0.3, reverses=False),)
            ),
            "Alien is ahead of Heat: no single item decides it; most for it: Casino (without it, "
            "the odds fall by 26 %)",
        ),
        (
            replace(RATHER, considered=(replace(SHIFT, moved=-0.3, reverses=False),)),
            "Heat rather than Alien: no single item decides it, and none adds much to it",
        ),
        (
            replace(RATHER, considered=(replace(SHIFT, agreeing=1 / 3),), in_history=True),
            "Heat rather than Alien: no single item decides it, and none adds much to it; Heat is "
            "already in your history",
        ),
        (
            replace(RATHER, log_odds=0.0, in_history=True, other_in_history=True),
            "Heat and Alien have the same score; neither is ahead; Heat and Alien are already in "
            "your history",
        ),
    ],
)  # fmt: skip
def test_sentences_of_rather(found: Rather, sentence: str) -> None:
    assert found.sentence == sentence


def test_neither_item_decides_for_itself() -> None:
    own = replace(SHIFT, item="h", label="Heat", moved=9.0)
    assert replace(RATHER, considered=(own, SHIFT)).decisive == (SHIFT,)


@pytest.mark.parametrize("found", [WHY_NOT, RATHER, replace(RATHER, considered=())])
def test_results_are_saved_and_loaded(found: WhyNot | Rather) -> None:
    assert type(found).from_json(found.to_json()) == found
    assert found.as_dict()["sentence"] == found.sentence
    assert found.sentence in repr(found)
    with pytest.raises(InputError, match="not the JSON of"):
        type(found).from_json('{"considered": []}')


def test_tables(capsys: pytest.CaptureFixture[str]) -> None:
    WHY_NOT.show()
    shown = capsys.readouterr().out
    for expected in ("Heat: not recommended (rank 140)", "2.0 times", "3 of 3", "140 → 60"):
        assert expected in shown
    replace(WHY_NOT, in_history=True, considered=(replace(EFFECT, gained=-0.001),)).show()
    shown = capsys.readouterr().out
    assert " 0 % " in shown
    assert "in the history" in shown
    RATHER.show()
    shown = " ".join(capsys.readouterr().out.split())
    for expected in ("−26 % yes 3 of 3 3 → 9 5 → 4", "rank of"):
        assert expected in shown


def test_one_item_and_its_copies() -> None:
    for history in ([4], [4, 4, 4, 4]):
        found = ASKED["sasrec"].why_not(history, 9)
        (one,) = found.considered
        left = [log_probability(model, [], 9) for model in ASKED["sasrec"].models]
        whole = [log_probability(model, history, 9) for model in ASKED["sasrec"].models]
        assert one.gained == pytest.approx(np.mean(left) - np.mean(whole))
        assert [shift.item for shift in ASKED["sasrec"].rather(history, 9, 3).considered] == [4]


class Alike(CaseReader):
    """Scores every item the same, or as told."""

    reads_history = True

    def __init__(self, score: float = 0.0) -> None:
        self.value = score

    def parts(self, batch: torch.Tensor) -> torch.Tensor:
        return batch != PAD

    def score(self, batch: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
        return torch.full((len(batch), ITEMS), self.value)


def asked_alike(score: float = 0.0) -> Asked:
    model = Alike(score)
    return Asked([model], model)  # type: ignore[list-item]


def test_when_all_items_are_alike() -> None:
    why_not = replace(asked_alike().why_not([1, 2], 9), rank=20)
    assert why_not.sentence.endswith("nothing in your history speaks against it; no single item "
                                     "adds much to it")  # fmt: skip
    assert [one.agreeing for one in why_not.considered] == [1, 1]
    assert asked_alike().rather([1, 2], 9, 4).sentence == (
        "item 9 and item 4 have the same score; neither is ahead"
    )


@pytest.mark.parametrize("score", [math.nan, math.inf])
def test_scores_that_are_no_numbers(score: float) -> None:
    with pytest.raises(InputError, match="NaN or infinite. Train it again."):
        asked_alike(score).why_not([1], 9)
    with pytest.raises(InputError, match="NaN or infinite. Train it again."):
        asked_alike(score).rather([1], 9, 3)


def test_an_item_is_not_compared_with_itself() -> None:
    with pytest.raises(InputError, match="item 9 cannot be compared with itself"):
        ASKED["sasrec"].rather([1], 9, 9)
