from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import whence
from conftest import LIVELY
from whence.data import Split
from whence.errors import CapabilityError, InputError
from whence.explanation import Explanation
from whence.maps import reason_map, reason_sentences
from whence.maps.reason_map import favour_shares
from whence.run import Run

TARGETS = [5, 17, 40]


@pytest.fixture
def found(run: Run, split: Split) -> Explanation:
    return reason_map(run.first, split.held["test"][:1], TARGETS, run.catalog, "leave-one-out")


def test_every_target_is_explained_as_it_is_alone(
    found: Explanation, run: Run, split: Split
) -> None:
    case = split.held["test"][:1]
    items = case.items[case.starts[0] : case.ends[0]]
    history = run.catalog.raw_ids(items)
    for place, target in enumerate(run.catalog.raw_ids(TARGETS)):
        alone = whence.explain(
            run, history=history, item=target, method="leave-one-out", model_seed=0
        )
        np.testing.assert_allclose(found.scores[place], alone.scores[0], atol=1e-5)
        assert found.target_name(place) == alone.target_name(0)
        assert found.labels is not None
        assert alone.labels is not None
        assert found.labels.parts[place] == alone.labels.parts[0]


def told(found: Explanation, scores: list[list[float]], parts: tuple[str, ...]) -> Explanation:
    labels = whence.Labels((parts,) * len(scores), ("Toy Story 2", "Alien")[: len(scores)])
    return replace(
        found[: len(scores)],
        scores=np.array(scores),
        parts=np.array([[bool(name) for name in parts]] * len(scores)),
        labels=labels,
    )


def test_sentences_by_hand(found: Explanation) -> None:
    parts = ("", "Heat", "Toy Story", "Heat", "Jaws")
    one = told(found, [[0, 2, 5, 1, 2], [0, 3, -9, 0, 1]], parts)
    np.testing.assert_allclose(favour_shares(one), [[0, 0.2, 0.5, 0.1, 0.2], [0, 0.75, 0, 0, 0.25]])
    assert reason_sentences(one) == [
        "For *Toy Story 2*, mostly *Toy Story* (50 %) and *Heat* (30 %).",
        "For *Alien*, mostly *Heat* (75 %) and *Jaws* (25 %).",
    ]
    assert reason_sentences(one, named=1)[1] == "For *Alien*, mostly *Heat* (75 %)."


def test_what_has_no_main_reason_is_said_so(found: Explanation) -> None:
    even = told(found, [[1] * 10, [-1] * 10], tuple("ABCDEFGHIJ"))
    assert reason_sentences(even) == [
        "For *Toy Story 2*, a little of everything, first *A* (10 %) and *B* (10 %).",
        "For *Alien*, nothing in this history counts for it.",
    ]


def test_where_the_target_makes_no_difference_one_sentence_says_so(run: Run, split: Split) -> None:
    case = split.held["test"][:1]
    same = reason_map(run.first, case, TARGETS, run.catalog, "attention-last")
    (sentence,) = reason_sentences(same)
    assert sentence.startswith("Whatever the target, ")
    (alone,) = reason_sentences(reason_map(run.first, case, [5], run.catalog, "attention-last"))
    assert alone.startswith("For *")


def test_one_history_and_a_target_are_needed(run: Run, split: Split) -> None:
    with pytest.raises(InputError, match="one history and at least one target, not 2 and 3"):
        reason_map(run.first, split.held["test"][:2], TARGETS, run.catalog)
    with pytest.raises(InputError, match="not 1 and 0"):
        reason_map(run.first, split.held["test"][:1], [], run.catalog)


def test_of_a_model_that_reads_users_there_is_no_map(run: Run, split: Split) -> None:
    with pytest.raises(CapabilityError, match="reads no history, so a map of reasons"):
        reason_map(LIVELY["gmf"](items=120), split.held["test"][:1], TARGETS, run.catalog)
