"""What reasons say, and that they are read as they were written."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest

import whence
from whence.console import SafeConsole
from whence.errors import InputError
from whence.picks import Pick, Recommendations
from whence.reasons.evidence import Evidence
from whence.reasons.reason import (
    NO_HISTORY,
    Check,
    Leaving,
    Reason,
    Support,
    Taste,
    Together,
    listed,
)
from whence.reasons.similar_users import SimilarUsers

ALIEN = Support(1, "Alien", 0.4, 12.0, 1.6, 0.8, 0.93, 1, 12)
HEAT = Support("two", "Heat", -0.5, 1.1, None, None, 0.01, 1, 1, 4.5)
LOW = Support(3, "Casino", 0.2, 2.0, 1.1, 1.0, 0.3, 1, 2, 1.0)
TASTE = Taste("Western", 7, 20, 0.3, 0.05, 1, 5)
CHECKS = (
    Check("direction", "counts for it in 4 of 5 models", 0.51, True),
    Check("specificity", "there is no other recommendation", None, None, False),
    Check("confidence", "93 % likely to be the right reason", 0.93, True),
)
ITEM = Reason(
    kind="item",
    verb="watched",
    rank=1,
    supports=(ALIEN,),
    taste=TASTE,
    confidence=0.93,
    likeliest="item",
    threshold=0.9,
    checks=CHECKS,
    considered=(ALIEN, HEAT, LOW),
    smallest=Leaving((1, "two"), ("Alien", "Heat"), 23, 10, True),
    calibrator="default",
    models=5,
)
SET = replace(
    ITEM, kind="set", likeliest="set", supports=(ALIEN, HEAT), together=Together(0.75, 1, 40)
)
OF_TASTE = replace(ITEM, kind="taste", likeliest="taste", supports=())
POPULAR = replace(ITEM, kind="popularity", likeliest="popularity", supports=())
NONE = replace(ITEM, kind="none", supports=(), confidence=0.4)
RULE = Reason("rule", "watched", 2, likeliest="rule", own="people who watched A watch B")
NO_ITEMS = Reason("no history", "watched", 3)
EVERY = (ITEM, SET, OF_TASTE, POPULAR, NONE, RULE, NO_ITEMS)
SAID = "fits your history as a whole; no single reason is sure"


@pytest.mark.parametrize(
    ("reason", "sentence"),
    [
        (ITEM, "because you watched Alien"),
        (SET, "because you watched Alien and Heat, which count together"),
        (OF_TASTE, "because of your taste for Western: 7 of the last 20 you watched"),
        (
            replace(OF_TASTE, taste=replace(TASTE, name="items like Alien and Heat", of=9)),
            "because of your taste for items like Alien and Heat: 7 of the last 9 you watched",
        ),
        (POPULAR, "popular with everyone; your history adds little"),
        (replace(POPULAR, rank=11), "your history adds little to its popularity"),
        (NONE, SAID),
        (RULE, "people who watched A watch B"),
        (NO_ITEMS, NO_HISTORY),
        (replace(ITEM, in_history=True), "already in your history; because you watched Alien"),
        (
            replace(ITEM, although=(LOW,)),
            "because you watched Alien, although you rated Casino only 1",
        ),
        (
            replace(OF_TASTE, although=(LOW, HEAT)),
            "because of your taste for Western: 7 of the last 20 you watched, although you rated "
            "Casino only 1 and Heat only 4.5",
        ),
        (
            replace(NONE, although=(LOW,)),
            "fits your history as a whole, although you rated Casino only 1; no single reason is "
            "sure",
        ),
        (replace(POPULAR, although=(LOW,)), POPULAR.sentence),
    ],
)
def test_the_sentence_of_every_kind(reason: Reason, sentence: str) -> None:
    assert reason.sentence == sentence
    assert repr(sentence) in repr(reason)


def test_a_sentence_without_claim_names_neither_kind_nor_item() -> None:
    for likeliest in ("item", "set", "taste", "popularity", "none"):
        assert replace(NONE, likeliest=likeliest).sentence == SAID


def test_models_without_history_say_what_they_have() -> None:
    similar = replace(NO_ITEMS, similar_users=SimilarUsers(3, 10, 40, 989))
    evidence = replace(NO_ITEMS, evidence=Evidence(("genres",), ("age",), 0.9, 0.01, (0.3,)))
    for one in (similar, evidence):
        assert one.sentence != NO_HISTORY
        assert Reason.from_json(one.to_json()) == one


@pytest.mark.parametrize("reason", EVERY)
def test_a_reason_is_read_as_it_was_written(reason: Reason) -> None:
    for one in (reason, replace(reason, although=(LOW,), in_history=True)):
        assert whence.Reason.from_json(one.to_json()) == one
        document = json.loads(one.to_json())
        assert document["sentence"] == one.sentence
        assert document["kind"] == one.kind
        assert document["removal"] == ("dropped" if one.reads_history else "not possible")


def test_the_document_has_every_figure() -> None:
    document = replace(ITEM, although=(LOW,)).as_dict()
    assert document["because"][0] == {
        **{"item": 1, "label": "Alien", "probability_lost": 0.4, "times_alone": 12.0},
        **{"specific": 1.6, "agreement": 0.8, "confidence": 0.93, "rating": None},
        **{"rank_before": 1, "rank_without": 12},
    }
    assert document["although"][0]["rating"] == 1.0
    assert document["checks"][1] == {
        **{"name": "specificity", "says": "there is no other recommendation"},
        **{"value": None, "passed": None, "required": False},
    }
    assert document["smallest"]["rank_without"] == 23
    assert (document["confidence"], document["threshold"], document["models"]) == (0.93, 0.9, 5)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "guess"},
        {"likeliest": ["item"]},
        {"checks": [{"name": "direction"}]},
        {"because": [{"item": 1}]},
        {"although": [{**json.loads(ITEM.to_json())["because"][0], "rating": "low"}]},
        {"taste": {"name": "Western"}},
        {"smallest": {"items": [1]}},
        {"confidence": "high"},
        {"extra": 1},
    ],
)
def test_another_document_is_refused(change: dict[str, object]) -> None:
    document = {**json.loads(ITEM.to_json()), **change}
    with pytest.raises(InputError, match="not the JSON of Reason|needs the setting"):
        Reason.from_json(json.dumps(document))


def test_a_document_of_version_01_is_refused_in_one_sentence() -> None:
    former = {
        **{"sentence": "because you watched Alien", "rank": 1, "verb": "watched"},
        **{"removal": "left out of the history", "in_history": False},
        **{"checks": [{"item": 1, "label": "Alien", "probability_lost": 0.4}]},
    }
    with pytest.raises(InputError, match="not the JSON of Reason"):
        Reason.from_json(json.dumps(former))


def test_a_document_that_names_nothing_claims_nothing() -> None:
    empty: dict[str, object] = {"because": [], "although": [], "taste": None}
    for kind in ("item", "set", "taste"):
        read = Reason.from_json(json.dumps({**json.loads(ITEM.to_json()), **empty, "kind": kind}))
        assert read.sentence == SAID


def test_the_smallest_set_in_words() -> None:
    one = Leaving((1,), ("Alien",), 23, 10, True)
    assert one.sentence == "without Alien it falls to rank 23"
    two = Leaving((1, 2), ("Alien", "Heat"), 1_023, 10, True)
    expected = "without Alien and Heat it falls to rank 1,023; no single item does this"
    assert two.sentence == expected
    three = Leaving((1, 2, 3), ("Alien", "Heat", "Casino"), 12, 10, False)
    assert three.sentence == (
        "without Alien, Heat and Casino it falls to rank 12; no single item and no two items do"
    )
    assert listed([]) == ""


def shown(found: whence.Reason | Recommendations, width: int = 100) -> str:
    """Return what the terminal shows, with blanks as single spaces."""
    console = SafeConsole(file=io.StringIO(), width=width)
    console.print(found)
    assert isinstance(console.file, io.StringIO)
    return " ".join(console.file.getvalue().split())


def test_the_checks_are_shown_below_the_sentence() -> None:
    said = shown(ITEM)
    assert said.startswith(
        "because you watched Alien without Alien and Heat it falls to rank 23; no single item "
        "does this Checks of the reason check passed what was found"
    )
    assert "direction yes counts for it in 4 of 5 models" in said
    assert "specificity not tested there is no other" in said
    assert said.endswith(
        "needed for a reason to be said: direction and confidence; part of the confidence: "
        "specificity"
    )
    assert "Checks of the most likely reason: one item" in shown(NONE)
    assert shown(RULE) == RULE.sentence


def table_of(*reasons: Reason) -> str:
    picks = tuple(
        Pick(place, place, f"Film {place}", 1.0, one) for place, one in enumerate(reasons, start=1)
    )
    return shown(Recommendations("user 1", ("Alien",), (1,), picks, "watched"), 140)


def test_the_table_shows_how_sure_reasons_are_and_the_ranks() -> None:
    table = table_of(ITEM, SET, OF_TASTE, POPULAR, NONE)
    assert "title why sure without it" in table
    assert "because you watched Alien 93 % 1 → 12, −40 %" in table
    assert "which count together 93 % 1 → 40, −75 %" in table, "without both items of the pair"
    assert "7 of the last 20 you watched 93 % 1 → 5, −30 %" in table
    assert "your history adds little 93 %" in table
    assert f"5 Film 5 {SAID} sure: how probable it is" in table, "no figure for what is not said"
    assert "of a taste, all items but the strongest are left out" in table
    assert "of a taste" not in table_of(ITEM)
    assert "sure:" not in table_of(NONE, RULE, NO_ITEMS)
    assert "without it" not in table_of(POPULAR)


def test_a_confidence_is_never_rounded_up() -> None:
    assert replace(ITEM, confidence=0.8999).sure == "89 %"
    assert replace(ITEM, confidence=float(0.9 - 3e-8)).sure == "90 %", "in single precision"
    assert replace(ITEM, confidence=1.0).sure == "100 %"
    assert replace(ITEM, confidence=7.0).sure == "700 %"
    assert NONE.sure == RULE.sure == ""
