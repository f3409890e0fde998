"""Odd data and too little room: a defined behaviour, or one clear sentence."""

from __future__ import annotations

import warnings
from typing import Any

import pyarrow as pa
import pytest

import whence
from whence.data import Interactions, Split, last_two, load
from whence.errors import InputError, TooLargeError
from whence.models import ease, fitted_model, simple_models
from whence.models.ease import BYTES_PER_PAIR, EASEConfig
from whence.training.outcome import Outcome

SMALL: dict[str, Any] = {
    "model_settings": {"dim": 8, "max_len": 6},
    "training": {"steps": 30, "validate_every": 0, "patience": 0},
    "seeds": 1,
    "show_progress": False,
}


def interactions(histories: dict[str, list[int]]) -> Interactions:
    """Return these histories, whose events have the order of their items."""
    rows = [(user, item) for user, items in histories.items() for item in items]
    return load(pa.table({"user": [user for user, _ in rows], "item": [item for _, item in rows]}))


def pattern(users: int, length: int = 7, items: int = 12) -> Interactions:
    """Return users who take the items in turn."""
    return interactions(
        {f"u{n}": [(n + step) % items for step in range(length)] for n in range(users)}
    )


def test_a_catalog_of_one_item_leaves_nothing_to_recommend() -> None:
    run = whence.train(interactions({f"u{n}": [7] * 4 for n in range(150)}), **SMALL)
    assert not whence.recommend(run, user="u3").picks
    assert set(run.training["tried"].values()) == {1.0}, "there is nothing else to rank"
    assert run.model == "popularity", "the simplest of equals"
    assert "Recommended: popularity, a simple model" in Outcome.of(run).closing


def test_users_with_one_event_leave_nothing_to_learn() -> None:
    with pytest.raises(InputError, match="No user has two training events"):
        whence.train(interactions({f"u{n}": [n % 9] for n in range(50)}), **SMALL)


def test_users_with_two_events_train_without_being_measured() -> None:
    run = whence.train(interactions({f"u{n}": [n % 9, (n + 1) % 9] for n in range(50)}), **SMALL)
    assert "tried" not in run.training
    assert Outcome.of(run).closing == (
        "The split holds out no test events, so nothing says how good this run is."
    )


def test_equal_histories_are_learned_by_heart() -> None:
    run = whence.train(interactions({f"u{n}": [4, 2, 8, 6, 1] for n in range(120)}), **SMALL)
    assert run.training["tried"]["sasrec"] == 1
    assert run.metrics[0]["test"]["recall@10"]["value"] == 1, "one item is left"


@pytest.mark.parametrize(("users", "split"), [(99, "last-two"), (300, "last-one")])
def test_with_few_validation_events_nothing_is_chosen_by_them(users: int, split: str) -> None:
    run = whence.train(pattern(users), **{**SMALL, "training": {"steps": 30}}, split=split)
    assert "tried" not in run.training
    assert not run.simple
    assert run.training["patience"] == run.training["validate_every"] == 0
    assert run.metrics[0]["steps"] == run.metrics[0]["kept_step"] == 30
    assert "nothing is chosen by validation" in run.training["notes"][-1]


def test_enough_validation_events_choose() -> None:
    run = whence.train(pattern(100), **SMALL)
    tried = run.training["tried"]
    assert tried[run.training["chosen"]] == max(tried.values())
    assert len(tried) >= 6


def test_a_catalog_too_large_for_ease_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """The matrix has a row and a column for each item."""
    split = last_two(pattern(100, items=10))
    room = BYTES_PER_PAIR * 10**2
    monkeypatch.setattr(ease, "free_memory", lambda: room)
    fitted_model("ease", {}, split)
    monkeypatch.setattr(ease, "free_memory", lambda: room - 1)
    with pytest.raises(TooLargeError, match=r"EASE of 10 items needs .* Set max_items=9\."):
        fitted_model("ease", {"regularization": 2.0}, split)
    fitted_model("ease", {"regularization": 2.0, "max_items": 9}, split)


def test_the_search_leaves_out_what_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ease, "free_memory", lambda: 100)
    with pytest.warns(UserWarning, match="ease is left out: EASE of 12 items needs"):
        run = whence.train(pattern(100), **SMALL)
    assert not {"ease", "recent-ease"} & run.training["tried"].keys()
    assert {"sasrec", "last-item", "popularity"} <= run.training["tried"].keys()


def test_ease_is_computed_once_for_the_same_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two splits that hold out the same, and two models that differ in recency."""
    data, calls = pattern(100), []
    compute = ease._compute_weights

    def counted(split: Split, config: EASEConfig) -> object:
        calls.append(split)
        return compute(split, config)

    monkeypatch.setattr(ease, "_compute_weights", counted)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            simple_models(last_two(data))
    assert len(calls) == 1
    fitted_model("ease", {}, whence.data.last_one(data))
    assert len(calls) == 2, "other events are trained"
