"""Titles, ids and names of a stranger's data cannot act on the terminal, in any command."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.color import ColorSystem

import whence as library
from command_line import whence
from hostile import CODES, CONTROLS, MARKUP, PAGE, acting
from whence.cli.options import out
from whence.data import Interactions
from whence.files import sha256, write_json
from whence.run import Run

WORDS = st.one_of(
    st.text(min_size=1, max_size=12),
    st.sampled_from([CODES, CONTROLS, MARKUP, PAGE, "a\nb", "\u202eabc", "[/]", "x" * 5_000]),
)
USERS, ITEMS = 12, 8


def written(folder: Path, titles: list[str], users: list[str]) -> Path:
    """Write events whose column names are odd, too."""
    events = [(user, item) for user in range(USERS) for item in range(ITEMS) if user != item]
    path = folder / "events.parquet"
    columns = {
        "user": [f"{user}{users[user % len(users)]}" for user, _ in events],
        "item": [f"{item}{titles[-1 - item % len(titles)]}" for _, item in events],
        "title": [f"{item}{titles[item % len(titles)]}" for _, item in events],
        f"colour{titles[0]}": ["red" for _ in events],
    }
    pq.write_table(pa.table(columns), path)
    return path


@pytest.fixture(params=[False, True], ids=["plain", "colour"])
def colour(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """With and without codes of Rich."""
    if request.param:
        monkeypatch.setattr(out, "_force_terminal", True)
        monkeypatch.setattr(out, "_color_system", ColorSystem.TRUECOLOR)
    return bool(request.param)


@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    titles=st.lists(WORDS, min_size=3, max_size=6), users=st.lists(WORDS, min_size=2, max_size=3)
)
def test_no_output_acts(titles: list[str], users: list[str], colour: bool, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.rmtree(folder, ignore_errors=True)
    events = written(tmp_path, titles, users)
    tiny = "steps=1,dim=4,max_len=4,n_blocks=1,n_heads=1"
    user, item = f"3{users[3 % len(users)]}", f"2{titles[2 % len(titles)]}"
    commands = (
        ("data", "stats", events),
        ("data", "stats", events, "--user", titles[0]),
        ("train", events, "--out", folder, "--set", tiny),
        ("recommend", folder, f"--user={user}"),
        ("recommend", folder, f"--user={user}", "--json"),
        ("recommend", folder, f"--history={item}"),
        ("explain", folder, f"--history={item}", "--method", "rollout"),
        ("explain", folder, f"--user={user}", "--json", "--method", "rollout"),
        ("recommend", folder, f"--user={titles[0]}"),
        ("recommend", folder, f"--history={titles[0]}"),
        ("audit", folder, "--stages", titles[0]),
        ("train", events, "--out", folder, f"--split={titles[0]}"),
        (f"--{titles[0]}",),
    )
    shown = []
    for command in commands:
        done = whence(*command)
        assert not acting(done.stdout, colour), command
        assert not acting(done.stderr, colour), command
        assert "Traceback" not in done.stderr
        shown.append(done)
    assert ("\x1b[1m" in shown[3].stdout) == colour
    assert [done.returncode for done in shown[2:5]] == [0, 0, 0], shown[2].stderr
    document = json.loads(shown[4].stdout)
    raw = {one["title"] for one in document["recommendations"]}
    known = set(pq.read_table(events)["title"].to_pylist())
    assert raw <= known, "JSON holds the data unchanged"


def test_a_strangers_run_cannot_act(run: Run, tmp_path: Path) -> None:
    """Whatever run.json says is shown as text."""
    evil = MARKUP + CODES + CONTROLS
    folder = tmp_path / "run"
    assert run.folder is not None
    shutil.copytree(run.folder, folder)
    description = json.loads((folder / "run.json").read_text())
    description["data"]["origin"] = {"source": evil}
    description["training"]["protocol"] = evil
    write_json(folder / "run.json", description)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["sha256"]["run.json"] = sha256(folder / "run.json")
    write_json(folder / "manifest.json", manifest)
    opened = library.open_run(folder)
    assert not acting(opened._repr_html_())
    for command in (
        ("recommend", folder, "--user", "0"),
        ("audit", folder, "--stages", "accuracy"),
    ):
        done = whence(*command)
        assert not acting(done.stdout + done.stderr), command


def test_descriptions_of_data_are_text() -> None:
    odd = pa.chunked_array([["\x1b[2J", MARKUP]])
    data = Interactions.from_columns(odd, odd)
    assert not acting(repr(data.catalog))
