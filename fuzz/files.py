"""Mutated files for every reader: each is read, or refused with one clean sentence."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np

from fuzz import seeds
from fuzz.mutations import mutate, mutate_json
from fuzz.report import Report
from fuzz.workers import Attempt, outcome_of, run_cases
from whence.data import Interactions, ReadOptions, load
from whence.explainers.measured import FILE, read_measured
from whence.explanation import Explanation
from whence.measure import Measure
from whence.picks import Recommendations
from whence.reasons.reason import Reason
from whence.terminal import Result
from whence_studies.records import read_records
from whence_studies.sessions import ListeningConfig, read_sessions, read_tracks, write_sessions
from whence_studies.study import read_study

RESULTS: Final[Mapping[str, type[Result]]] = {
    one.__name__: one for one in (Explanation, Measure, Reason, Recommendations)
}
Draw = Callable[[Random], bytes]
TABLES: Final[Mapping[str, Draw]] = {
    "delimited": seeds.delimited,
    "sequences": seeds.sequences,
    "json": seeds.json_lines,
    "literals": seeds.literal_lines,
    "parquet": seeds.parquet,
}
SHARES: Final = {
    **{"delimited": 30, "sequences": 8, "json": 12, "literals": 12, "parquet": 14},
    **{"beside": 6, "sessions": 5, "study": 4, "result": 4, "measured": 1, "records": 1},
    "sqlite": 3,
}
"""How often each kind of file is drawn."""
ENCODINGS: Final = (None, None, None, "latin-1", "utf-16", "cp1252", "utf-16-le")
RECORD: Final = {
    **{"study": "s", "dataset": "d", "row": "r", "column": "c", "value": 0.5, "published": 0.25},
    **{"verdict": "v", "protocol": "p", "machine": "m", "command": "c", "seeds": [0, 1]},
}


def fuzz_files(count: int, seed: int, folder: Path, only: int | None = None) -> Report:
    """Return what reading `count` mutated files showed; `only` repeats one of them."""
    cases = range(count) if only is None else range(only, only + 1)
    failures, outcomes = run_cases(make_attempt, cases, seed, folder)
    return Report("files", len(cases), tuple(failures), outcomes)


def make_attempt(seed: int, folder: Path) -> Attempt:
    """Return the function that tries one case in a folder of its own."""
    config = ListeningConfig(sessions=6, logs=3, tracks=20, genres=2)
    reader = _Reader(folder, write_sessions(folder / "sessions", config, overwrite=True))

    def attempt(number: int) -> str:
        rng = Random(f"{seed}:{number}")
        (kind,) = rng.choices(list(SHARES), list(SHARES.values()))
        return f"{kind} {outcome_of(reader.prepared(kind, rng))}"

    return attempt


class _Reader:
    """Writes a case to its folder, and knows how it is read."""

    def __init__(self, folder: Path, sessions: Any) -> None:  # noqa: ANN401
        self.folder, self.sessions = folder, sessions
        self.log, self.causes = sessions.logs[0].read_bytes(), sessions.causes[0].read_bytes()
        self.tracks = sessions.tracks[0].read_bytes()
        self.results = seeds.results()
        self.measured = json.loads(FILE.read_text(encoding="utf-8"))

    def prepared(self, kind: str, rng: Random) -> Callable[[], object]:
        """Write the files of a case; return the function that reads them."""
        if kind in TABLES:
            path = self._write("events.csv", self._table(rng, TABLES[kind]))
            return partial(_check_load, path, self._options(rng, kind))
        prepare: Callable[[Random], Callable[[], object]] = getattr(self, f"_{kind}")
        return prepare(rng)

    def _write(self, name: str, content: bytes) -> Path:
        path = self.folder / name
        path.write_bytes(content)
        return path

    def _table(self, rng: Random, draw: Draw) -> bytes:
        other = rng.choice(list(TABLES.values()))(rng)
        content = draw(rng)
        if rng.random() < 0.15:
            content = seeds.packed(rng, mutate(rng, content, other))
            return mutate(rng, content, other) if rng.random() < 0.5 else content
        if draw is seeds.parquet and rng.random() < 0.6:
            return content  # its types are odd enough, and few changed files get past the footer
        return mutate(rng, content, other)

    def _options(self, rng: Random, kind: str) -> ReadOptions:
        if rng.random() < 0.7:
            return ReadOptions()
        encoding = rng.choice(ENCODINGS)
        return ReadOptions(
            format=rng.choice((None, kind, *TABLES)),
            header=rng.choice((None, True, False)),
            encoding=encoding or "utf-8",
            user=rng.choice((None, None, "user", "1", "x")),
            time=rng.choice((None, None, "none", "time", "3")),
        )

    def _beside(self, rng: Random) -> Callable[[], object]:
        events = self._write("events.csv", seeds.delimited(rng))
        role = rng.choice(("item", "user"))
        valid: Draw = partial(seeds.features, role=role)
        draw = rng.choice([valid, *TABLES.values()])
        path = self._write("features.csv", self._table(rng, draw))
        reading = ReadOptions(items=path) if role == "item" else ReadOptions(users=path)
        return partial(_check_load, events, reading)

    def _sessions(self, rng: Random) -> Callable[[], object]:
        log, tracks, causes = self.log, self.tracks, self.causes
        which = rng.randrange(3)
        if which == 0:
            log = mutate(rng, log, tracks)
        elif which == 1:
            tracks = mutate(rng, tracks, log)
        else:
            causes = mutate(rng, causes, log)
        log_path = self._write("log.csv", log)
        tracks_path = self._write("tracks.csv", tracks)
        causes_path = self._write("causes.csv", causes) if which == 2 else None

        def read() -> None:
            known = read_tracks([tracks_path, *self.sessions.tracks[1:]])
            for _ in islice(read_sessions(log_path, known, causes=causes_path), 100):
                pass

        return read

    def _study(self, rng: Random) -> Callable[[], object]:
        path = self._write("study.toml", mutate(rng, seeds.STUDY, seeds.STUDY))
        return partial(read_study, path, "study.toml")

    def _result(self, rng: Random) -> Callable[[], object]:
        name = rng.choice(list(self.results))
        text = self.results[name]
        path = self._write("result.json", self._json(rng, json.loads(text)))
        return lambda: RESULTS[name].load(path).as_dict()

    def _measured(self, rng: Random) -> Callable[[], object]:
        path = self._write("measured.json", self._json(rng, self.measured))
        return partial(read_measured, path)

    def _records(self, rng: Random) -> Callable[[], object]:
        self._write("records.json", self._json(rng, [RECORD, RECORD]))
        return partial(read_records, "records", self.folder)

    def _json(self, rng: Random, document: object) -> bytes:
        if rng.random() < 0.7:
            return json.dumps(mutate_json(rng, document)).encode()
        return mutate(rng, json.dumps(document).encode(), seeds.json_lines(rng))

    def _sqlite(self, rng: Random) -> Callable[[], object]:
        path = self.folder / "events.db"
        content = seeds.sqlite(rng, path)
        if rng.random() < 0.7:
            path.write_bytes(mutate(rng, content, content))
        order = rng.choice(("", " ORDER BY time", " ORDER BY rowid"))
        reading = ReadOptions(query=f"SELECT * FROM events{order}")
        return partial(_check_load, f"sqlite:///{path}", reading)


def _check_load(source: Path | str, reading: ReadOptions) -> None:
    """Load events, and raise if they break a promise that every other part relies on."""
    check_interactions(load(source, reading))


def check_interactions(events: Interactions) -> None:
    """Raise an `AssertionError` if the arrays do not fit together."""
    items, offsets = events.items, events.offsets
    assert len(items) > 0
    assert items.dtype == np.int32
    assert offsets.dtype == np.int64
    assert offsets[0] == 0
    assert offsets[-1] == len(items)
    assert (np.diff(offsets) >= 0).all()
    assert len(events.users) == len(offsets) - 1
    assert items.min() >= 0
    assert items.max() < len(events.catalog)
    assert len(events.catalog.labels(items)) == len(items)
    for values in (events.times, events.ratings):
        assert values is None or (len(values) == len(items) and np.isfinite(values).all())
    assert len(events.content_hash) == 64
    assert repr(events)
