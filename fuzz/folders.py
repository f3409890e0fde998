"""Mutated run folders and prepared folders: opened and used, or refused, and nothing else."""

from __future__ import annotations

import json
import os
import shutil
import struct
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import whence
from fuzz.files import check_interactions
from fuzz.mutations import ODD, mutate, mutate_json
from fuzz.report import Report
from fuzz.seeds import KINDS, NAMES
from fuzz.workers import Attempt, outcome_of, run_cases
from whence.data.copies import FOLDER_VARIABLE
from whence.files import MANIFEST, sha256
from whence.reasons.of_run import default_calibrator
from whence.run_document import CALIBRATOR

INSTALLED: Final = tuple(
    str(Path(one).resolve())
    for one in {sys.prefix, sys.base_prefix, *sysconfig.get_paths().values(), *sys.path}
    if one
)
SYSTEM: Final = ("/proc/", "/sys/", "/usr/", "/lib", "/etc/ld", "/dev/null", "/dev/urandom")
"""What Python and its libraries read themselves, such as the free memory and time zones."""
ACTIONS: Final = ("socket.connect", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn")
CHANGES: Final = ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "shutil.rmtree", "os.chmod")
WEIGHTS: Final = "seeds/0/weights.safetensors"


def fuzz_folders(count: int, seed: int, folder: Path, only: int | None = None) -> Report:
    """Return what opening `count` mutated folders showed; `only` repeats one of them."""
    cases = range(count) if only is None else range(only, only + 1)
    make_sound(folder / "sound")
    failures, outcomes = run_cases(make_attempt, cases, seed, folder)
    return Report("folders", len(cases), tuple(failures), outcomes)


def make_sound(folder: Path) -> None:
    """Write a sound prepared folder and a sound run folder."""
    shutil.rmtree(folder, ignore_errors=True)
    rows = [(user, item) for user in range(9) for item in range(5)]
    table = pa.table(
        {
            "user": [user for user, _ in rows],
            "item": [(user + item) % 7 for user, item in rows],
            "time": list(range(len(rows))),
            "rating": [float(item) for _, item in rows],
            "title": [f"Film {(user + item) % 7}" for user, item in rows],
        }
    )
    data = whence.load(table)
    data.save(folder / "prepared")
    run = whence.train(
        whence.load(folder / "prepared"),  # of which no private copy is kept
        model_settings={"max_len": 4, "dim": 8, "n_blocks": 1},
        training={"steps": 1},
        show_progress=False,
    )
    replace(run, calibrator=default_calibrator().to_bytes()).save(folder / "run")


def make_attempt(seed: int, folder: Path) -> Attempt:
    """Return the function that tries one case."""
    torch.set_num_threads(1)
    sound = folder.parent / "sound"
    os.environ[FOLDER_VARIABLE] = str(folder / "cache")
    _use_run(sound / "run")  # imports what it needs
    watch = _Watch(folder)
    sys.addaudithook(watch)

    def attempt(number: int) -> str:
        rng = Random(f"{seed}:{number}")
        kind = rng.choice(("run", "run", "prepared"))
        place = folder / "case"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(sound / kind, place)
        change = rng.choice(CHANGED_HOW)
        change(rng, place)
        if kind == "run" and rng.random() < 0.9:
            _sign(place)
        use = partial(_use_run if kind == "run" else _use_prepared, place)
        with watch.watching(place):
            outcome = outcome_of(use)
        watch.check()
        return f"{kind}, {change.__name__.strip('_')}: {outcome}"

    return attempt


class _Watch:
    """An audit hook that notes what a case opens and does outside of its folder."""

    def __init__(self, folder: Path) -> None:
        self.allowed = (str(folder / "cache"), str(folder / "hang.txt"), *INSTALLED)
        self.folder: str | None = None
        self.noted: list[str] = []

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Note an event, as Python reports it."""
        if self.folder is None:
            return
        if event == "open" and isinstance(arguments[0], str | bytes):
            path, mode, flags = os.fsdecode(arguments[0]), arguments[1], arguments[2]
            writes = bool(isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR))
            if writes or (isinstance(mode, str) and set(mode) & set("wax+")):
                self._note("written", path, (self.allowed[0],))
            self._note("opened", path, (self.folder, *self.allowed, *SYSTEM))
        elif event == "sqlite3.connect":
            self.noted.append(f"{event} {arguments[0]!r}")
        elif event in CHANGES:
            self._note(event, os.fsdecode(arguments[0]), (self.allowed[0],))
        elif event in ACTIONS:
            self.noted.append(f"{event} {arguments[1:]!r}")

    def _note(self, what: str, path: str, allowed: tuple[str, ...]) -> None:
        # Links are followed: what matters is the file that is really opened.
        if not os.path.realpath(path).startswith(allowed):
            self.noted.append(f"{what} {path}")

    @contextmanager
    def watching(self, folder: Path) -> Iterator[None]:
        """Note what happens inside the block."""
        self.noted.clear()
        self.folder = str(folder.resolve())
        try:
            yield
        finally:
            self.folder = None

    def check(self) -> None:
        """Raise if anything was noted."""
        if self.noted:
            raise AssertionError(f"outside of the folder: {'; '.join(self.noted[:3])}")


def _use_run(folder: Path) -> None:
    """Open a run, recommend, and explain the first recommendation."""
    run = whence.open_run(folder)
    picks = whence.recommend(run, history=[1, 2, 3], k=3)
    assert json.dumps(picks.as_dict(), allow_nan=False)
    whence.explain(run, history=[1, 2, 3], item=4)
    assert repr(run)


def _use_prepared(folder: Path) -> None:
    events = whence.load(folder)
    check_interactions(events)
    whence.statistics(events)


def _sign(folder: Path) -> None:
    """Write the checksums of all files to the manifest, so that changes get past them."""
    path = folder / MANIFEST
    if not path.is_file():  # now a pipe or a device
        return
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        for name in manifest["sha256"]:
            if (folder / name).is_file():
                manifest["sha256"][name] = sha256(folder / name)
        path.write_text(json.dumps(manifest), encoding="utf-8")
    except (ValueError, KeyError, TypeError, AttributeError, OSError, RecursionError):
        return


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _bytes(rng: Random, folder: Path) -> None:
    path = rng.choice(_files(folder))
    path.write_bytes(mutate(rng, path.read_bytes(), b"other"))


def _json(rng: Random, folder: Path) -> None:
    """Change the types and sizes of values in a valid JSON file."""
    path = rng.choice([one for one in _files(folder) if one.suffix == ".json"])
    document = mutate_json(rng, json.loads(path.read_text(encoding="utf-8")))
    path.write_text(json.dumps(document), encoding="utf-8")


def _table(rng: Random, folder: Path) -> None:
    """Change the columns of a Parquet file."""
    path = rng.choice([one for one in _files(folder) if one.suffix == ".parquet"])
    table = pq.read_table(path)
    change = rng.randrange(4)
    if change == 0 and table.num_columns:
        table = table.drop_columns(rng.choice(table.column_names))
    elif change == 1:
        table = table.slice(0, rng.randrange(len(table) + 1))
    elif change == 2:
        table = pa.concat_tables([table, table])
    else:
        name = rng.choice((*NAMES, *table.column_names))
        at = table.schema.get_field_index(name)
        column = pa.nulls(len(table), rng.choice(KINDS))
        if rng.random() < 0.5:
            column = pa.array([rng.choice(ODD[:7]) for _ in range(len(table))], pa.float64())
        table = table.append_column(name, column) if at < 0 else table.set_column(at, name, column)
    pq.write_table(table, path)


def _arrays(rng: Random, folder: Path) -> None:
    """Change the numbers, shapes and announced sizes of arrays and weights."""
    arrays = [one for one in _files(folder) if one.suffix == ".npy"]
    if not arrays:
        _weights(rng, folder / rng.choice((WEIGHTS, CALIBRATOR)))
        return
    path = rng.choice(arrays)
    array = np.load(path)
    change = rng.randrange(4)
    if change == 0:
        array = array.astype(rng.choice((np.float64, np.int8, np.uint64, np.bool_, np.complex64)))
    elif change == 1:
        array = array[: rng.randrange(len(array) + 1)]
    elif change == 2:
        array = array.reshape(-1, 1)
    else:
        array[rng.randrange(len(array))] = rng.choice((-1, 10**6, -(2**31), 2**31 - 1))
    np.save(path, array)
    if rng.random() < 0.3:
        size, huge = str(len(array)).encode(), rng.choice((b"1000000000000000", b"-5", b"99"))
        path.write_bytes(path.read_bytes().replace(b"(" + size + b",", b"(" + huge + b",", 1))


def _weights(rng: Random, path: Path) -> None:
    tensors = load_file(path)
    with safe_open(path, framework="pt") as opened:
        about = opened.metadata()
    name = rng.choice(sorted(tensors))
    change = rng.randrange(5)
    if change == 0:
        tensors[name] = torch.full_like(
            tensors[name], rng.choice((float("nan"), float("inf"), 1e38))
        )
    elif change == 1:
        del tensors[name]
    elif change == 2:
        tensors[name] = tensors[name].reshape(-1).clone()
    elif change == 3:
        tensors[name] = tensors[name].to(rng.choice((torch.int64, torch.float64, torch.bool)))
    if change < 4:
        save_file(tensors, path, about)
        return
    header = {name: {"dtype": "F32", "shape": [10**9, 10**6], "data_offsets": [0, 4 * 10**15]}}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", rng.choice((len(text), 2**60))) + text)


def _special(rng: Random, folder: Path) -> None:
    """Replace a file by a pipe, a link or a folder, or remove it."""
    path = rng.choice(_files(folder))
    path.unlink()
    change = rng.randrange(6)
    if change == 0:
        os.mkfifo(path)
    elif change == 1:
        path.mkdir()
    elif change < 5:
        path.symlink_to(("/dev/zero", "/etc/passwd", path.name)[change - 2])


CHANGED_HOW: Final[tuple[Callable[[Random, Path], None], ...]] = (
    *(_bytes, _json, _json, _json, _table, _arrays, _arrays, _special),
)
