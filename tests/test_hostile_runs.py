"""A run folder that a stranger wrote opens nothing but its own files, and breaks nothing."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file, save_file

import whence
from command_line import whence as command
from whence.errors import LONGEST_MESSAGE, InputError, RunError
from whence.files import sha256
from whence.run import Run, open_run

WATCHED = ("open", "socket.connect", "socket.getaddrinfo", "sqlite3.connect", "subprocess.Popen")
_seen: list[tuple[str, str]] = []
_watching = False


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _watching and event in WATCHED:
        _seen.append((event, str(arguments[0])))


sys.addaudithook(_hook)


@contextmanager
def watched() -> Iterator[list[tuple[str, str]]]:
    """Yield what is opened or contacted, by Python's own record."""
    global _watching
    _seen.clear()
    _watching = True
    try:
        yield _seen
    finally:
        _watching = False


@pytest.fixture
def folder(run: Run, tmp_path: Path) -> Path:
    assert run.folder is not None
    return Path(shutil.copytree(run.folder, tmp_path / "run"))


def sign(folder: Path) -> None:
    """Make the checksums right again, as a stranger would."""
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["sha256"] = {name: sha256(folder / name) for name in manifest["sha256"]}
    (folder / "manifest.json").write_text(json.dumps(manifest))


def rewrite(
    folder: Path, change: Callable[[dict[str, Any]], object], name: str = "run.json"
) -> None:
    document = json.loads((folder / name).read_text())
    change(document)
    (folder / name).write_text(json.dumps(document))
    sign(folder)


def say_origin(folder: Path, origin: object) -> None:
    def change(document: dict[str, Any]) -> None:
        document["data"].update(origin=origin, hash="0" * 64, event_hash="0" * 64)

    rewrite(folder, change)


ORIGINS = {
    "sqlite": {"source": "sqlite:///{tmp}/shop.db", "reading": {"query": "DROP TABLE sold"}},
    "postgres": {"source": "postgresql://127.0.0.1:9/x", "reading": {"query": "SELECT 1"}},
    "file": {"source": "/etc/passwd", "reading": {"user": "1", "item": "2"}},
    "items": {"source": "world", "world": {}, "reading": {"items": "/etc/passwd"}},
    "dataset": {"source": "ml-latest-small-2016"},
    "world": {"source": "world", "world": {"users": 10**9, "items": 10**9}},
    "memory": {},
}


@pytest.mark.parametrize("kind", ORIGINS)
def test_an_origin_is_shown_and_never_followed(folder: Path, tmp_path: Path, kind: str) -> None:
    base = sqlite3.connect(tmp_path / "shop.db")
    base.execute("CREATE TABLE sold (user, item)")
    base.close()
    origin = json.loads(json.dumps(ORIGINS[kind]).replace("{tmp}", str(tmp_path)))
    say_origin(folder, origin)
    with watched() as seen:
        run = open_run(folder)
        for ask in (
            lambda: whence.recommend(run, user=1),
            lambda: whence.explain(run, user=1),
            lambda: whence.recommend_all(run, tmp_path / "all.csv", show_progress=False),
            lambda: run.with_origin("00000000"),
        ):
            with pytest.raises(InputError) as raised:
                ask()
        assert list(whence.audit(run, show_progress=False).findings) == ["accuracy"]
    if kind != "memory":
        assert json.dumps(origin["source"]) in str(raised.value)
    assert {name for name, _ in seen} <= {"open"}
    outside = [path for _, path in seen if not path.startswith(str(tmp_path))]
    # Python's own modules, and the size of the memory.
    assert not [
        path for path in outside if not path.startswith((*filter(None, sys.path), "/proc", "/sys"))
    ]
    assert not (tmp_path / "all.csv").exists()
    with sqlite3.connect(tmp_path / "shop.db") as base:
        assert base.execute("SELECT count(*) FROM sold").fetchone() == (0,)


def test_a_history_by_hand_needs_no_data(folder: Path) -> None:
    say_origin(folder, ORIGINS["file"])
    assert whence.recommend(open_run(folder), history=["1", "2"]).picks


@pytest.mark.parametrize("name", ["../outside", "/etc/hostname", "link", "linked/outside", "pipe"])
def test_a_manifest_opens_only_files_of_the_folder(folder: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "outside").write_text("private")
    (folder / "link").symlink_to(tmp_path / "outside")
    (folder / "linked").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["sha256"][name] = "0" * 64
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with watched() as seen, pytest.raises(RunError, match="which is no file of a run"):
        open_run(folder)
    assert not [path for _, path in seen if path.endswith(("outside", "hostname", "link", "pipe"))]


def test_a_file_that_the_manifest_does_not_list_is_not_read(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["sha256"]["run.json"]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(RunError, match="run.json is not listed"):
        open_run(folder)


WRONG: list[Any] = [
    None,
    True,
    -1,
    0,
    1.5,
    10**18,
    10**400,
    "x",
    "",
    [],
    {},
    [[]],
    {"a": {"b": []}},
]
FIELDS = [
    ("format",),
    ("model",),
    ("model_settings",),
    *(("model_settings", name) for name in ("max_len", "dim", "n_blocks", "n_heads", "dropout")),
    ("training",),
    *(("training", name) for name in ("split", "protocol", "steps", "patience")),
    ("seeds",),
    ("data",),
    *(("data", name) for name in ("origin", "hash", "users", "items", "events", "verb")),
    ("versions",),
]


@pytest.mark.parametrize("field", FIELDS, ids=".".join)
def test_wrong_values_in_run_json_are_one_sentence(folder: Path, field: tuple[str, ...]) -> None:
    sound = (folder / "run.json").read_text()
    for value in WRONG:
        (folder / "run.json").write_text(sound)

        def change(document: dict[str, Any], value: object = value) -> None:
            for name in field[:-1]:
                document = document[name]
            document[field[-1]] = value

        rewrite(folder, change)
        check(folder)


@pytest.mark.parametrize(
    ("name", "weight", "temperature"),
    [
        ("gmf", 1.0, 1.0),
        ("sasrec", 1.0, 1.0),
        ("nothing", 1.0, 1.0),
        ("ease", 0.0, 1.0),
        ("ease", -1.0, 1.0),
        ("ease", 1e308, 1e-308),
        ("ease", 1e-308, 1e308),
        ("ease", 1.0, 0.0),
    ],
)
def test_a_wrong_blend_is_refused(
    folder: Path, name: str, weight: float, temperature: float
) -> None:
    own = {"model": "sasrec", "settings": {}, "weight": 1.0, "temperature": 1.0}
    other = {"model": name, "settings": {}, "weight": weight, "temperature": temperature}
    rewrite(folder, lambda document: document.update(blend=[own, other]))
    with pytest.raises(RunError, match="cannot be used: .*(weight|model).*Train it again"):
        open_run(folder)


@pytest.mark.parametrize("value", WRONG, ids=str)
@pytest.mark.parametrize("field", ["steps", "kept_step", "test", "validations", "final_loss"])
def test_wrong_values_in_metrics_are_one_sentence(folder: Path, field: str, value: object) -> None:
    rewrite(folder, lambda found: found.update({field: value}), "seeds/0/metrics.json")
    check(folder)


def check(folder: Path) -> None:
    """The run is refused with one sentence, or it can be used in every way."""
    try:
        run = open_run(folder)
        run.show()
        whence.recommend(run, history=["1", "2"])
        whence.explain(run, history=["1", "2"], method="leave-one-out")
    except whence.WhenceError as problem:
        assert 0 < len(str(problem)) <= LONGEST_MESSAGE
        assert "\n" not in str(problem)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_said(folder: Path, value: float) -> None:
    path = folder / "seeds" / "0" / "weights.safetensors"
    weights = load_file(path)
    weights["item"][3] = value
    save_file(weights, path)
    sign(folder)
    with pytest.raises(RunError, match="'item'.*hold NaN or infinite numbers. Train it again"):
        open_run(folder)


def test_a_model_whose_scores_are_nan_says_so(run: Run) -> None:
    broken = open_run(run.folder) if run.folder else run
    with torch.no_grad():
        broken.first.state_dict()["item"].fill_(torch.nan)
    with pytest.raises(InputError, match="The scores of the model are NaN"):
        whence.recommend(broken, history=["1", "2"])


@pytest.mark.parametrize(
    "table",
    [
        {"other": [1, 2]},
        {"item": [1, 1]},
        {"item": [[1], [2]]},
        {"item": [None, 1]},
        {"item": [1, 2], "title": [1.5, None]},
        {"item": [1.5, 2.5]},
    ],
    ids=str,
)
def test_a_wrong_catalog_is_refused(folder: Path, table: dict[str, Any]) -> None:
    rows = pq.read_metadata(folder / "catalog.parquet").num_rows
    pq.write_table(
        pa.table({name: (values * rows)[:rows] for name, values in table.items()}),
        folder / "catalog.parquet",
    )
    sign(folder)
    with pytest.raises(RunError, match="catalog.parquet"):
        open_run(folder)


@pytest.mark.parametrize("size", [10**6, 10**9, 2**31 - 1])
def test_absurd_sizes_allocate_nothing(folder: Path, size: int) -> None:
    for field in ("max_len", "dim", "n_blocks", "n_heads"):
        before = (folder / "run.json").read_text()
        settings = {**json.loads(before)["model_settings"], field: size}
        rewrite(folder, lambda found, new=settings: found.update(model_settings=new))  # type: ignore[misc]
        with pytest.raises(RunError, match="weights|n_heads"):
            open_run(folder)
        (folder / "run.json").write_text(before)


def test_the_command_line_says_so_with_exit_code_3(folder: Path) -> None:
    rewrite(folder, lambda found: found.update(seeds={"0": []}))
    done = command("recommend", folder, "--history", "1")
    assert done.returncode == 3
    assert done.stderr.startswith("error: ")
    assert "seeds needs a list" in done.stderr


@pytest.mark.parametrize("reading", [5, "user", ["user"], None])
def test_an_origin_of_wrong_types_is_refused(folder: Path, reading: object) -> None:
    rewrite(folder, lambda found: found["data"]["origin"].update(reading=reading))
    with pytest.raises(RunError, match="does not say how the data were read"):
        open_run(folder)


def test_an_encoding_with_nul_is_unknown() -> None:
    with pytest.raises(InputError, match="There is no encoding"):
        whence.ReadOptions(encoding="a\0b")


def test_numbers_that_json_does_not_have_are_refused(folder: Path) -> None:
    text = (folder / "run.json").read_text()
    (folder / "run.json").write_text(text.replace('"steps": 300', '"steps": NaN'))
    sign(folder)
    with pytest.raises(RunError, match="NaN is not a number"):
        open_run(folder)


def test_snapshots_are_those_of_the_manifest(followed: Callable[..., Run], tmp_path: Path) -> None:
    trained = followed()
    assert trained.folder is not None
    folder = Path(shutil.copytree(trained.folder, tmp_path / "run"))
    place = folder / "seeds" / "0" / "snapshots"
    place.rename(tmp_path / "outside")
    place.symlink_to(tmp_path / "outside")
    with pytest.raises(RunError, match="leads out of the run folder"):
        open_run(folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    listed = manifest["sha256"]
    manifest["sha256"] = {name: listed[name] for name in listed if "seeds/0/snap" not in name}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    opened = open_run(folder)
    assert opened.snapshots[0] == {}
    assert opened.snapshots[1].keys() == trained.snapshots[1].keys()


def test_a_manifest_cannot_name_one_file_many_times(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["sha256"]["./run.json"] = manifest["sha256"]["run.json"]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(RunError, match="which is no file of a run"):
        open_run(folder)


def test_a_run_with_the_hash_of_other_data_serves_nobody(folder: Path) -> None:
    table = pq.read_table(folder / "catalog.parquet")
    pq.write_table(table.take(list(range(len(table)))[::-1]), folder / "catalog.parquet")
    sign(folder)
    with pytest.raises(RunError, match="not those that its hash names"):
        whence.recommend(open_run(folder), user=1)


def test_a_path_that_is_too_long_is_no_run() -> None:
    assert command("recommend", "x" * 5_000, "--history", "1").returncode == 3
