"""The examples that train with reasons do what they say."""

from __future__ import annotations

import json
import runpy
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

import whence
from conftest import LIVELY
from whence.contract import PAD
from whence.data import Catalog, Interactions, last_two
from whence.worlds import World, WorldConfig, make_world
from whence_studies.sessions import (
    Cause,
    ListeningConfig,
    SessionBatch,
    batches,
    read_tracks,
    write_sessions,
)
from whence_studies.sessions.session_batches import NO_CAUSE
from whence_studies.skips import NetworkConfig, make_network

EXAMPLES = Path(__file__).parent.parent / "docs" / "examples"


@pytest.fixture(scope="module", autouse=True)
def _import_each_other() -> Iterator[None]:
    """Let examples import each other, as scripts in one folder can."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLES))
        yield


@pytest.fixture(scope="module")
def teaching() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / "reasons_teach.py"))


def test_reasons_teach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "measured.json"
    tiny = "--sessions 40 --dim 2 --steps 2 --taste_steps 2 --batch_size 20 --seeds 2 --quiet"
    monkeypatch.setattr("sys.argv", ["reasons_teach.py", *tiny.split(), "--json", str(path)])
    runpy.run_path(str(EXAMPLES / "reasons_teach.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[0] for line in lines[2:]] == [
        "| equal",
        "| by attributed cause, shuffled among skips",
        "| by attributed cause",
        "| by true cause",
    ]
    found = json.loads(path.read_text())["found"]
    assert all(0 <= one <= 1 for values in found.values() for one in values)
    assert found["equal"] != found["by true cause"]


@pytest.fixture(scope="module")
def weighing() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / "reasons_weigh.py"))


def test_reasons_weigh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "measured.json"
    tiny = "--users 60 --items 90 --events 10 --max_len 8 --dim 4 --steps 3 --seeds 2"
    monkeypatch.setattr("sys.argv", ["reasons_weigh.py", *tiny.split(), "--json", str(path)])
    runpy.run_path(str(EXAMPLES / "reasons_weigh.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[0] for line in lines[-5:]] == [
        "| equal",
        "| by leave-one-out or genre shares, shuffled among events",
        "| by leave-one-out",
        "| by leave-one-out or genre shares",
        "| by true cause",
    ]
    assert "of the events have a reason and weigh" in lines[0]
    found = json.loads(path.read_text())["found"]
    assert {len(values) for values in found.values()} == {2}
    assert all(0 <= one <= 1 for values in found.values() for one in values)
    assert found["equal"] != found["by true cause"]


@pytest.fixture(scope="module")
def small_world() -> World:
    return make_world(WorldConfig(users=20, items=90, events=9, genres=4, seed=2))


def test_events_weigh_by_models_that_were_not_train_on_half_their_users(
    weighing: dict[str, Any], small_world: World
) -> None:
    split = last_two(small_world.interactions)
    asked = weighing["trained_events"](split)
    offsets = split.interactions.offsets
    for start, end in pairwise(offsets):
        own = asked[start:end].tolist()
        assert own == [False, *[True] * (len(own) - 3), False, False]
    user = split.interactions.user_of_event()
    for half in (0, 1):
        taught = weighing["train_on_half"](split, half).trained()
        assert taught.tolist() == (split.trained() & (user % 2 == half)).tolist()


def test_a_genre_is_a_reason_where_it_is_commoner_than_usual(
    weighing: dict[str, Any], small_world: World
) -> None:
    """Counted event by event."""
    split, genre = last_two(small_world.interactions), small_world.genre
    data = split.interactions
    found = weighing["taste_contribution"](small_world, split, 4)
    usual = Counter(genre[data.items[split.trained()]].tolist())
    for event in np.flatnonzero(weighing["trained_events"](split)).tolist():
        first = data.offsets[data.user_of_event()[event]]
        history = genre[data.items[max(first, event - 4) : event]].tolist()
        own = int(genre[data.items[event]])
        expected = usual[own] / usual.total()
        share = (history.count(own) + 8 * expected) / (len(history) + 8)
        assert found[event] == pytest.approx(np.log(share / expected))


def test_films_of_the_genre_bring_what_the_logit_loses_without_each(
    weighing: dict[str, Any], small_world: World
) -> None:
    genre = small_world.genre
    cases = last_two(small_world.interactions).held["test"][:6]
    model = LIVELY["sasrec"](items=small_world.interactions.item_count, length=6)
    found = weighing["genre_contribution"](model, cases, genre, 6)
    for case, target in enumerate(cases.targets.tolist()):
        batch = torch.from_numpy(cases[case : case + 1].histories(6))
        asked, brought = torch.tensor([[target]]), 0.0
        for slot, item in enumerate(batch[0].tolist()):
            if item != PAD and genre[item] == genre[target]:
                present = torch.arange(6)[None] != slot
                with torch.no_grad():
                    lost = model.score(batch, asked) - model.score(batch, asked, present=present)
                brought += float(lost)
        assert found[case] == pytest.approx(brought, abs=1e-5)
    assert np.abs(found).max() > 0.01


def test_weights_are_the_share_of_a_chance_and_are_shuffled_among_what_is_asked(
    weighing: dict[str, Any],
) -> None:
    """What halves the odds by its absence has half of them."""
    gone = weighing["probability_lost"](np.array([-1.0, 0.0, np.log(2), np.log(4)]))
    np.testing.assert_allclose(gone, [0, 0, 0.5, 0.75], rtol=1e-6)
    asked = np.arange(40) % 4 > 0
    weights = np.linspace(0, 1, 40, dtype=np.float32)
    moved = weighing["shuffled"](weights, asked, np.random.default_rng(0))
    assert moved[~asked].tolist() == weights[~asked].tolist()
    assert sorted(moved[asked]) == sorted(weights[asked])
    assert moved[asked].tolist() != weights[asked].tolist()


def test_a_session_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "deep" / "strip.png"
    tiny = f"--sessions 20 --steps 2 --quiet --picture {path}"
    monkeypatch.setattr("sys.argv", ["session_strip.py", *tiny.split()])
    found = runpy.run_path(str(EXAMPLES / "session_strip.py"), run_name="__main__")
    assert capsys.readouterr().out.endswith(f"is drawn in {path}.\n")
    assert path.read_bytes().startswith(b"\x89PNG")
    files = write_sessions(tmp_path / "s", ListeningConfig(sessions=30, tracks=90))
    halves = next(batches(files, read_tracks(files.tracks)))
    assert halves.causes is not None
    different = [len(set(causes) - {NO_CAUSE, Cause.CHANCE}) for causes in halves.causes.tolist()]
    assert found["with_most_causes"](halves) == different.index(max(different))


def test_the_area_is_the_share_of_pairs_in_order(teaching: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    scores, right = rng.integers(0, 9, 60).astype(np.float32), rng.random(60) < 0.3
    pairs = np.sign(scores[right][:, None] - scores[~right]) / 2 + 0.5
    assert teaching["area"](scores, right) == pytest.approx(pairs.mean())


def test_only_skips_from_habit_count_for_less(teaching: dict[str, Any]) -> None:
    """A skip for its music, one from habit, and two that were played."""
    labels = np.array([[1, 1, -1, -1]], dtype=np.int8)
    causes = np.array([[Cause.MUSIC, Cause.PERSISTENCE, Cause.PERSISTENCE, Cause.MUSIC]])
    rows = np.ones((1, 4, 73), dtype=np.float32)
    there = np.ones((1, 4), dtype=bool)
    halves = SessionBatch(rows, there, rows[..., :31], there, labels, causes.astype(np.int8))
    assert teaching["by_cause"](halves).tolist() == [[1, 0, 1, 1]]
    assert teaching["equal"](halves).tolist() == [[1, 1, 1, 1]]
    model = make_network(NetworkConfig("interpretable gru", dim=2), 0)
    weights = teaching["by_attribution"](model)(halves)
    assert ((weights[0, :2] > 0) & (weights[0, :2] < 1)).all()
    assert weights[0, 2:].tolist() == [1, 1]
    moved = teaching["shuffled"](lambda _: weights.copy(), np.random.default_rng(1))(halves)
    assert sorted(moved[0, :2]) == sorted(weights[0, :2])
    assert moved[0, 2:].tolist() == [1, 1]


def test_subsets_that_are_needed() -> None:
    example = runpy.run_path(str(EXAMPLES / "learned_subsets.py"))
    singles = {frozenset({"x1"}), frozenset({"x2"})}
    assert example["needed"]("b") == singles | {frozenset({"x1", "x2"})}
    assert example["needed"]("d") == singles | {frozenset({"x3", "x4"})}
    found = example["learn"]("b", 1, 3, 2, 0)
    right = example["others_share"](found, {frozenset(one.groups) for one in found.family.subsets})
    assert right == 0
    assert example["others_share"](found, set()) == pytest.approx(1)


GENRES = ("Horror", "Action|Horror", "Children's", "Drama")


@pytest.fixture
def rated_films(tmp_path: Path) -> Path:
    """Forty users of all ages who rate ten of forty films each with 1, 2, …, 5, 1, …."""
    rng = np.random.default_rng(0)
    events = Interactions.from_columns(
        pa.chunked_array([np.repeat(np.arange(40), 10)]),
        pa.chunked_array([np.concatenate([rng.permutation(40)[:10] for _ in range(40)])]),
        rating=(1 + np.arange(400) % 5).astype(np.float32),
    )
    films = events.catalog.table.append_column("genres", [[GENRES[row % 4] for row in range(40)]])
    users = events.users.append_column("age", [[(18, 35, 56, 60)[row % 4] for row in range(40)]])
    return replace(events, catalog=Catalog(films), users=users).save(tmp_path / "films")


@pytest.mark.needs("sklearn")
def test_what_was_learned_is_drawn_and_told(
    rated_films: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    runs = {name: tmp_path / name for name in ("gmf", "deepicf-a")}
    for model, folder in runs.items():
        whence.train(
            rated_films,
            model=model,
            model_settings={"dim": 4},
            training={"steps": 2},
            out=folder,
            show_progress=False,
        )
    out = tmp_path / "deep" / "maps"
    given = ["--gmf", runs["gmf"], "--deepicf", runs["deepicf-a"], "--user", 7, "--out", out]
    monkeypatch.setattr("sys.argv", ["learned_maps.py", *map(str, given)])
    runpy.run_path(str(EXAMPLES / "learned_maps.py"), run_name="__main__")

    lines = capsys.readouterr().out.splitlines()
    pictures = [Path(line) for line in lines if line.endswith(".png")]
    assert [path.stem for path in pictures] == [
        "map-deepicf-films",
        "map-gmf-films",
        "map-gmf-users",
        "map-deepicf-reasons",
        "map-ratings",
    ]
    assert sorted(out.iterdir()) == sorted(pictures)
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in pictures)
    shown = [(line.split(":")[0], line.split()[-3]) for line in lines if line.endswith("of all.")]
    assert shown == [
        ("Horror", "48.7%"),
        ("Action", "23.1%"),
        ("Horror", "48.7%"),
        ("Children's", "23.1%"),
        ("56 and over", "48.7%"),
    ], "of the other 39, 19 or 9"
    assert sum(line.startswith("For *item ") for line in lines) == 5
    assert lines[-6:] == [
        *(f"{rating}: 80" for rating in range(1, 6)),
        "The mean of 400 ratings is 3.00.",
    ]
