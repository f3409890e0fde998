"""Small valid files of every kind that Whence reads, drawn from one generator."""

from __future__ import annotations

import gzip
import io
import json
import sqlite3
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fuzz.mutations import ODD
from whence.explanation import Explanation, Labels
from whence.measure import Measure
from whence.picks import Pick, Recommendations
from whence.reasons.reason import Check, Leaving, Reason, Support, Taste

SEPARATORS: Final = (",", "\t", ";", "|", "::", " ")
ENCODINGS: Final = (*("utf-8",) * 6, "utf-8-sig", "utf-16", "latin-1")
TITLES: Final = ("Alien (1979)", "Amélie", 'The "Big" One', "Heat, a story", "a\nb", "映画", "")
DATES: Final = (
    *("2024-01-05", "2024-01-05 10:00", "2024-01-05T10:00:00Z", "2024-01-05T10:00:00.5+02:00"),
    *("05/01/2024", "5.1.2024", "Jan 5, 2024", "Fri, 5 Jan 2024 10:00:00 +0200"),
)
KINDS: Final = (
    *(pa.int8(), pa.int64(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.bool_()),
    *(pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.date32(), pa.date64()),
    *(pa.timestamp("s"), pa.timestamp("ns", "UTC"), pa.timestamp("us", "Europe/Berlin")),
    *(pa.time32("s"), pa.duration("s"), pa.decimal128(10, 2), pa.null(), pa.list_(pa.int64())),
    *(pa.struct([("a", pa.int64())]), pa.dictionary(pa.int32(), pa.string())),
)
NAMES: Final = ("user", "item", "time", "rating", "title", "created", "x", "", "a.b", "user_id")
STUDY: Final = b"""
title = "A small study"
source = "new here"
measurements = ["accuracy"]
seeds = 3
training = { batch_size = 16, steps = 6 }
[datasets]
World = { data = "world", settings = { max_len = 8, dim = 8 } }
[models]
SASRec = { name = "sasrec" }
[variants]
one = { settings = { n_blocks = 1 } }
two = { settings = { n_blocks = 2 }, training = { steps = 8 } }
[[claims]]
text = "two blocks are not better"
source = "nobody"
column = "recall@10 of 101"
of = { variant = "two" }
than = { variant = "one" }
expect = "not higher"
margin = 0.5
"""


def rows(rng: Random) -> list[dict[str, Any]]:
    """Return a few events with a time and a rating, in one of several forms."""
    dated, texts = rng.random() < 0.4, rng.random() < 0.3
    date = rng.choice(DATES)
    return [
        {
            "user": f"u{rng.randrange(5)}" if texts else rng.randrange(5),
            "item": rng.randrange(9),
            "time": date if dated else 1_500_000_000 + rng.randrange(10**6),
            "rating": rng.choice((1, 2.5, 4)),
            "title": rng.choice(TITLES),
        }
        for _ in range(rng.randrange(1, 12))
    ]


def delimited(rng: Random) -> bytes:
    """Return a table of text."""
    separator, quote = rng.choice(SEPARATORS), rng.random() < 0.5
    columns = rng.sample(("time", "rating", "title"), rng.randrange(4))
    names = {"time": rng.choice(("time", "when", "created", "date"))}

    def cell(value: object) -> str:
        text = str(value)
        return '"' + text.replace('"', '""') + '"' if quote else text.replace(separator, "_")

    lines = [["user", "item", *columns]] if rng.random() < 0.7 else []
    lines = [[names.get(name, name) for name in line] for line in lines]
    lines += [[cell(row[name]) for name in ("user", "item", *columns)] for row in rows(rng)]
    end = rng.choice(("\n", "\n", "\r\n"))
    text = end.join(separator.join(line) for line in lines) + end
    return text.encode(rng.choice(ENCODINGS), "replace")


def sequences(rng: Random) -> bytes:
    """Return lines of a user and items."""
    lines = [[row["user"], row["item"], *[1] * rng.randrange(4)] for row in rows(rng)]
    return "\n".join(" ".join(map(str, line)) for line in lines).encode()


def json_lines(rng: Random) -> bytes:
    """Return one JSON record per line."""
    return "\n".join(json.dumps(row) for row in _some_odd(rng)).encode()


def literal_lines(rng: Random) -> bytes:
    """Return one Python literal per line."""
    return "\n".join(repr(row) for row in _some_odd(rng)).encode("utf-8", "replace")


def _some_odd(rng: Random) -> list[dict[str, Any]]:
    """Return events of which some hold values of another type."""
    found = rows(rng)
    while rng.random() < 0.3:
        row = rng.choice(found)
        row[rng.choice(list(row))] = rng.choice(ODD)
    return found


def parquet(rng: Random) -> bytes:
    """Return a Parquet file, often with columns of unusual types."""
    table = pa.Table.from_pylist(rows(rng))
    while rng.random() < 0.5:
        kind = rng.choice(KINDS)
        column = pa.array([rng.choice((0, 1, 2, None)) for _ in range(len(table))], pa.int64())
        try:
            column = column.cast(kind)
        except pa.ArrowException:
            column = pa.nulls(len(table), kind)
        name = rng.choice(NAMES)
        at = table.schema.get_field_index(name)
        table = table.append_column(name, column) if at < 0 else table.set_column(at, name, column)
    sink = io.BytesIO()
    compression = rng.choice(("none", "snappy", "zstd", "gzip"))
    pq.write_table(table, sink, compression=compression)
    return sink.getvalue()


def sqlite(rng: Random, path: Path) -> bytes:
    """Return a SQLite file with a table of events whose values may have any type."""
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as base:
        base.execute("CREATE TABLE events (user, item, time, rating, title)")
        for row in _some_odd(rng):
            values = [one if _fits_sqlite(one) else repr(one) for one in row.values()]
            base.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?)", values)
    base.close()
    return path.read_bytes()


def _fits_sqlite(value: object) -> bool:
    if isinstance(value, int):
        return abs(value) < 2**63
    return isinstance(value, str | float | None)


def packed(rng: Random, content: bytes) -> bytes:
    """Return the content compressed."""
    if rng.random() < 0.5:
        return gzip.compress(content, rng.choice((0, 1, 9)), mtime=0)
    found: bytes = pa.compress(content, codec="zstd", asbytes=True)
    return found


def features(rng: Random, role: str) -> bytes:
    """Return a table of items or users."""
    lines = [f"{role},title,year", *(f"{n},{rng.choice(TITLES)!r},{1990 + n}" for n in range(9))]
    return "\n".join(lines).encode()


def results() -> dict[str, str]:
    """Return the JSON of small results, by the name of their class."""
    explanation = Explanation(
        scores=np.array([[0.0, 0.5, -1.0]]),
        parts=np.array([[False, True, True]]),
        target=np.array([3]),
        full_score=np.array([1.5]),
        empty_score=np.array([2.0]),
        removal="left out",
        method="shapley",
        parameters={"samples": 8},
        seed=0,
        evaluations=np.array([4]),
        signed=True,
        labels=Labels((("", "Alien", "Heat"),), ("Amélie",), ((None, 1, 2),), (3,)),
    )
    measure = Measure(0.5, (0.4, 0.6), 10, "a protocol", "higher is better", (0.0, 1.0))
    support = Support(1, "Alien", 0.5, 3.0, 1.5, 0.8, 0.9, 1, 4, 4.5)
    reason = Reason(
        kind="item",
        verb="watched",
        rank=1,
        supports=(support,),
        taste=Taste("Horror", 7, 20, 0.4, 0.1, 1, 3),
        confidence=0.9,
        likeliest="item",
        threshold=0.8,
        checks=(Check("direction", "counts for it", 0.5, True),),
        considered=(support,),
        although=(support,),
        smallest=Leaving((1, 2), ("Alien", "Heat"), 12, 10, True),
        calibrator="default",
        models=5,
    )
    pick = Pick(1, 3, "Amélie", 1.5, reason)
    picks = Recommendations("user 1", ("Alien", "Heat"), (1, 2), (pick,), "watched")
    return {type(one).__name__: one.to_json() for one in (explanation, measure, reason, picks)}
