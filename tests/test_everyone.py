"""The recommendations of all users in a file: the reasons are those each user gets alone."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
import torch

import whence
from whence import everyone
from whence.csv_export import with_formulas
from whence.data import Catalog, Interactions
from whence.errors import InputError
from whence.everyone import recommend_all
from whence.reasons.calibrator import Calibrator
from whence.reasons.of_many import Told
from whence.reasons.of_run import default_calibrator
from whence.run import Run

PLAIN = ["user", "rank", "item", "title", "score"]
SAID = ["kind", "confidence", "sentence"]
FIGURES = ["because", "because_titles", "taste", "rank_without", "probability_lost"]


def imaginative() -> bytes:
    """A calibrator that learned nothing: it is sure of items, pairs and popularity, and wrong."""
    found = Calibrator(default_calibrator().names, torch.Generator().manual_seed(5))
    for weights in found.parameters():
        weights.data *= 3
    return found.to_bytes()


@pytest.fixture(scope="module")
def rated(run: Run) -> Run:
    """A run whose users rated a third of their events low, with reasons of several kinds."""
    data = run.interactions
    ratings = np.resize(np.array([5, 4, 1], dtype=np.float32), len(data.items))
    return replace(run, loaded=replace(data, ratings=ratings), calibrator=imaginative())


@pytest.fixture(scope="module")
def of_users(run: Run) -> Run:
    """A model that knows users only by id."""
    return whence.train(run.interactions, model="gmf", training={"steps": 20}, show_progress=False)


def written(run: Run, path: Path, **options: float) -> dict[Any, list[dict[str, Any]]]:
    """The rows of each user."""
    rows = recommend_all(run, path, show_progress=False, **options)  # type: ignore[arg-type]
    table = pq.read_table(path)
    assert table.num_rows == rows
    found: dict[Any, list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        found.setdefault(row["user"], []).append(row)
    return found


def compare(run: Run, rows: list[dict[str, Any]], user: object, **options: float) -> None:
    """Compare what is written for a user with what `recommend` says."""
    picks = whence.recommend(run, user=user, **options).picks  # type: ignore[arg-type]
    for row, pick in zip(rows, picks, strict=True):
        reason = pick.reason
        assert (row["rank"], row["item"], row["title"]) == (pick.rank, pick.item, pick.title)
        assert row["score"] == pytest.approx(pick.score, rel=1e-5)
        assert (row["kind"], row["sentence"]) == (reason.kind, reason.sentence)
        if reason.confidence is None:
            assert row["confidence"] is None
        else:
            assert row["confidence"] == pytest.approx(reason.confidence, abs=1e-4)
        assert row["because"] == [one.item for one in reason.supports]
        assert row["because_titles"] == [one.label for one in reason.supports]
        taste = reason.taste if reason.kind == "taste" else None
        assert row["taste"] == (None if taste is None else taste.name)
        if reason.kind == "item":
            (support,) = reason.supports
            assert row["rank_without"] == support.rank_without
            assert row["probability_lost"] == pytest.approx(support.probability_lost, abs=1e-4)
        elif taste is not None:
            assert row["probability_lost"] == pytest.approx(taste.probability_lost, abs=1e-4)
        elif reason.kind != "set":
            assert row["rank_without"] is row["probability_lost"] is None


@pytest.mark.parametrize(("k", "sure"), [(3, 0.5), (12, 1.0)])
def test_reasons_are_those_of_each_user_alone(
    rated: Run, tmp_path: Path, k: int, sure: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the file is written in several chunks."""
    monkeypatch.setattr(everyone, "USERS_WITH_REASONS", 64)
    options: dict[str, float] = {"k": k, "sure": sure, "low_rating": 2.0}
    found = written(rated, tmp_path / "all.parquet", **options)
    users = rated.interactions.users["user"].to_pylist()
    assert list(found) == users
    for user in (users[0], users[1], users[63], users[64], users[-1]):
        compare(rated, found[user], user, **options)
    kinds = {row["kind"] for rows in found.values() for row in rows}
    assert kinds >= {"item", "set", "popularity", "none"} or sure == 1.0
    disliked = {
        user: rows
        for user, rows in found.items()
        if any("although you rated" in row["sentence"] for row in rows)
    }
    assert disliked or sure == 0.5
    for user in list(disliked)[:3]:
        compare(rated, disliked[user], user, **options)


@pytest.mark.parametrize("name", ["last-item", "ease"])
def test_simple_models_say_what_they_say_alone(
    interactions: Interactions, tmp_path: Path, name: str
) -> None:
    run = whence.train(interactions, model=name, show_progress=False)
    found = written(run, tmp_path / "all.parquet", k=4)
    for user in list(found)[:5]:
        compare(run, found[user], user, k=4)


@pytest.mark.parametrize("name", ["gmf", "intrp-ncf"])
def test_models_without_histories_say_what_they_say_alone(
    run: Run, of_users: Run, tmp_path: Path, name: str
) -> None:
    asked = of_users
    if name == "intrp-ncf":
        asked = whence.train(
            run.interactions, model=name, training={"steps": 3}, show_progress=False
        )
    found = written(asked, tmp_path / "all.parquet", k=2)
    for user in list(found)[:5]:
        compare(asked, found[user], user, k=2)
        assert {row["kind"] for row in found[user]} == {"no history"}


def test_users_who_have_seen_nearly_everything(run: Run, tmp_path: Path) -> None:
    """They have fewer recommendations than the others in the same chunk."""
    data = run.interactions
    items = np.concatenate((np.arange(data.item_count - 2), data.items)).astype(np.int32)
    offsets = np.concatenate(([0], data.offsets + data.item_count - 2))
    users = pa.table({"user": [10_000, *data.users["user"].to_pylist()]})
    times = None if data.times is None else np.arange(len(items))
    more = replace(data, items=items, offsets=offsets, users=users, times=times, ratings=None)
    busy = replace(run, loaded=more)
    found = written(busy, tmp_path / "all.parquet", k=5)
    assert len(found[10_000]) == 2
    for user in list(found)[:3]:
        compare(busy, found[user], user, k=5)


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("reasons", [True, False])
def test_formats(run: Run, tmp_path: Path, suffix: str, reasons: bool) -> None:
    path = tmp_path / f"all.{suffix}"
    rows = recommend_all(run, path, k=2, reasons=reasons, show_progress=False)
    if suffix == "jsonl":
        lines = path.read_text(encoding="utf-8").splitlines()
        table = pa.Table.from_pylist([json.loads(line) for line in lines])
    else:
        table = pa_csv.read_csv(path) if suffix == "csv" else pq.read_table(path)
    assert table.num_rows == rows == 2 * run.interactions.user_count
    lists = FIGURES if suffix != "csv" else []
    assert table.column_names == PLAIN + (SAID + lists if reasons else [])
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_sentences_in_a_csv_file_are_no_formulas(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = replace(run, loaded=replace(run.interactions, verb="=watched"))
    monkeypatch.setattr(
        "whence.reasons.reason.Reason.sentence", property(lambda _: "=HYPERLINK(1)")
    )
    recommend_all(hostile, tmp_path / "all.csv", k=1, show_progress=False)
    recommend_all(hostile, tmp_path / "all.parquet", k=1, show_progress=False)
    with (tmp_path / "all.csv").open(newline="", encoding="utf-8") as file:
        assert {row["sentence"] for row in csv.DictReader(file)} == {"'=HYPERLINK(1)"}
    exact = pq.read_table(tmp_path / "all.parquet")
    assert with_formulas(pa_csv.read_csv(tmp_path / "all.csv"))["sentence"].equals(
        exact["sentence"]
    )


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_nothing_is_left_if_writing_fails(
    run: Run, tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(everyone, "USERS_WITH_REASONS", 64)
    columns, calls = everyone.reason_columns, []

    def interrupted(told: Sequence[Told], catalog: Catalog, flat: bool) -> dict[str, pa.Array]:
        calls.append(len(told))
        if len(calls) > 1:
            raise KeyboardInterrupt
        return columns(told, catalog, flat)

    monkeypatch.setattr(everyone, "reason_columns", interrupted)
    with pytest.raises(KeyboardInterrupt):
        recommend_all(run, tmp_path / f"all.{suffix}", k=1, show_progress=False)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"sure": 0.2}, "sure is a probability"),
        ({"low_rating": 2.0}, "These data have no ratings"),
        ({"k": 0}, "at least 1"),
    ],
)
def test_questions_that_cannot_be_answered(
    run: Run, tmp_path: Path, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        recommend_all(run, tmp_path / "all.csv", show_progress=False, **options)
    assert not list(tmp_path.iterdir())


def test_a_file_of_unknown_kind(run: Run, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"ends in none of .csv, .jsonl, .parquet"):
        recommend_all(run, tmp_path / "all.xlsx", show_progress=False)
