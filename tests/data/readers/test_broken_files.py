"""Whatever a file holds, reading it ends in interactions or in one sentence that names it."""

from __future__ import annotations

import gzip
import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from whence.data import ReadOptions, load
from whence.errors import InputError

GOOD = b"user,item,rating,time\n" + b"".join(b"%d,%d,5,%d\n" % (n, n, n) for n in range(5_000))


def parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    import pyarrow.parquet as pq

    pq.write_table(table, sink)
    return bytes(sink.getvalue())


WHOLE_PARQUET = parquet(pa.table({"user": list(range(5_000)), "item": list(range(5_000))}))
BROKEN: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty"),
    "blank": (b"\n\n  \n", "is empty"),
    "header alone": (b"user,item\n", "has no rows"),
    "gzip of nothing": (gzip.compress(b""), "is empty"),
    "truncated gzip": (gzip.compress(GOOD)[:-200], "damaged or incomplete"),
    "gzip cut at once": (gzip.compress(GOOD)[:12], "cannot be read|is empty"),
    "gzip with a hole": (
        gzip.compress(GOOD)[:500] + b"\0" * 50 + gzip.compress(GOOD)[550:],
        "damaged or incomplete",
    ),
    "garbage after gzip": (gzip.compress(GOOD) + b"garbage", "damaged or incomplete"),
    "truncated zstd": (pa.compress(GOOD, codec="zstd", asbytes=True)[:-200], "or incomplete"),
    "truncated parquet": (WHOLE_PARQUET[:-100], "damaged Parquet file"),
    "parquet with a hole": (
        WHOLE_PARQUET[:200] + b"\xff" * 200 + WHOLE_PARQUET[400:],
        "damaged Parquet file",
    ),
    "parquet without columns": (parquet(pa.table({})), "which column is the user"),
    "parquet without rows": (
        parquet(pa.table({"user": pa.array([], pa.int64()), "item": pa.array([], pa.int64())})),
        "has no rows",
    ),
    "parquet of lists": (
        parquet(pa.table({"user": [[1], [2]], "item": [1, 2]})),
        "row 1, column 'user': values of type list<.*> cannot be ids",
    ),
    "parquet with gaps": (
        parquet(pa.table({"user": [1, None], "item": [1, 2]})),
        "row 2, column 'user': the value is missing",
    ),
    "parquet with nan": (
        parquet(pa.table({"user": [1, 2], "item": [1, 2], "rating": [1.0, float("nan")]})),
        "row 2, column 'rating': nan is not a finite number",
    ),
    "zip": (b"PK\x03\x04rest", "is a zip archive. Unpack it"),
    "sqlite": (b"SQLite format 3\0rest", "sqlite:///.* and --query"),
    "json list": (b'[{"user": 1, "item": 2}]\n', "one JSON list"),
    "json cut": (b'{"user": 1, "item": 2}\n{"user": 1, "it', "row 2: .* is not a record"),
    "json number": (b'{"user": 1, "item": 2}\n7\n', "row 2: '7' is not a record"),
    "json without item": (
        b'{"user": 1, "item": 2}\n{"user": 1}\n',
        "which column is the item",
    ),
    "json gap far in": (
        b'{"user": 1, "item": 2}\n' * 5_000 + b'{"user": 1, "item": null}\n',
        "row 5001, column 'item': the value is missing",
    ),
    "json key missing far in": (
        b'{"user": 1, "item": 2}\n' * 5_000 + b'{"user": 1}\n',
        "row 5001, column 'item': the value is missing",
    ),
    "json bad bytes": (b'{"user": 1, "item": "\xe9"}\n', "row 1, is not valid utf-8"),
    "json rating in words": (
        b'{"user": 1, "item": 2, "rating": 1}\n{"user": 1, "item": 2, "rating": "good"}\n',
        "row 2, column 'rating': 'good' has another type",
    ),
    "json kinds far apart": (
        b'{"user": 1, "item": 2, "rating": 1}\n' * 65_536
        + b'{"user": 1, "item": 2, "rating": "good"}\n',
        "row 65537, column 'rating': 'good' has another type",
    ),
    "json time in words": (
        b'{"user": 1, "item": 2, "time": "soon"}\n',
        "row 1, column 'time': 'soon' is not seconds or a date",
    ),
    "json nested id": (b'{"user": {"id": 1}, "item": 2}\n', "column 'user'.*cannot be ids"),
    "literal call": (b"{'user': __import__('os').getcwd(), 'item': 1}\n", "row 1: .* not a record"),
    "literal deep": (b"{'user': " + b"(" * 5_000 + b")" * 5_000 + b"}\n", "row 1: .* not a record"),
    "literal cut": (b"{u'user': u'a', u'item': 1}\n{u'user': u'b\n", "row 2: .* is not a record"),
    "user alone": (b"1 2 3\n4\n5 6\n", "row 2: a user without items"),
    "sequence bad bytes": (b"1 2 3\n1 \xe9 4\n", "is not valid utf-8"),
    "nul": (b"user,item\n1\0,2\n,\0\n", "the value is missing|not a readable"),
    "undecodable": (b"\xff\xfe\x00\x01\x02" * 50, "is not valid utf-8|not a readable"),
    "uneven": (b"user,item\n1,2\n1,2,3\n", "row 3: expected 2 columns, got 3"),
    "words for numbers": (
        b"user,item,rating\n1,2,3\n1,2,three\n",
        "row 3, column 'rating': 'three' is not a number",
    ),
    "far words for numbers": (
        b"user,item,rating\n" + b"1,2,3\n" * 300_000 + b"1,2,three\n",
        "row 300002, column 'rating': 'three' is not a number",
    ),
    "dates of another writing": (
        b"user,item,date\n1,2,31.12.2020\n",
        "row 2, column 'date': '31.12.2020' is not seconds or a date",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_gives_a_clear_error(name: str, tmp_path: Path) -> None:
    content, sentence = BROKEN[name]
    path = tmp_path / "events.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"(?s)events.csv.*({sentence})") as caught:
        load(path)
    assert "\n" not in str(caught.value).strip(), "one sentence is one line"
    assert list(tmp_path.iterdir()) == [path]


def test_no_file_no_folder_no_permission(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="There is no file"):
        load(tmp_path / "nothing.csv")
    with pytest.raises(InputError, match="is a folder"):
        load(tmp_path)
    path = tmp_path / "events.csv"
    path.write_bytes(GOOD)
    path.chmod(0)
    as_anybody = os.geteuid() == 0
    try:
        if as_anybody:
            os.seteuid(65534)  # root may read everything
        with pytest.raises(InputError, match="cannot be read: Permission denied"):
            load(path)
    finally:
        if as_anybody:
            os.seteuid(0)


@pytest.mark.parametrize("kind", ["delimited", "sequences", "json", "literals", "parquet"])
@pytest.mark.parametrize("name", BROKEN)
def test_a_wrong_format_gives_a_clear_error(kind: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_bytes(BROKEN[name][0])
    reads_or_says(path, ReadOptions(format=kind))


def reads_or_says(path: Path, reading: ReadOptions | None = None) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # notes on columns that seem to hold dates
            events = load(path, reading)
    except InputError as problem:
        assert path.name in str(problem)
        return
    assert len(events) == events.offsets[-1]
    assert events.items.max(initial=0) < events.item_count


cells = st.one_of(
    st.sampled_from(
        ["1", "-2", "0.5", "x", "", "nan", "2020-01-01", "12:30", "1e400", '"', "'", "é"]
    ),
    st.text(max_size=5),
)
lines = st.lists(st.lists(cells, min_size=1, max_size=5).map(",".join), max_size=6)
headers = st.lists(
    st.sampled_from(["user", "item", "time", "rating", "title", "user", "other", ""]), max_size=6
).map(",".join)


@given(content=st.one_of(st.tuples(headers, lines), st.binary(max_size=100)))
@example(content=b"\n\xc2")
def test_no_file_makes_a_traceback(
    content: tuple[str, list[str]] | bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "events.csv"
    if isinstance(content, tuple):
        header, body = content
        content = "\n".join(["user,item," + header, *body]).encode(errors="replace")
    path.write_bytes(content)
    reads_or_says(path)


values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=1),
)
records = st.lists(
    st.dictionaries(st.sampled_from(["user", "item", "time", "rating", "title"]), values),
    max_size=5,
)
Writer = Callable[[dict[str, object]], str]


@pytest.mark.parametrize("write", [json.dumps, repr], ids=["json", "literals"])
@given(rows=records)
def test_no_record_makes_a_traceback(
    write: Writer, rows: list[dict[str, object]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "events.json"
    path.write_text("\n".join(map(write, rows)), encoding="utf-8", errors="surrogatepass")
    reads_or_says(path)


@given(
    content=st.sampled_from([GOOD, WHOLE_PARQUET, gzip.compress(GOOD)]),
    place=st.integers(0, 3_000),
    noise=st.binary(min_size=1, max_size=4),
)
def test_no_damage_makes_a_traceback(
    content: bytes, place: int, noise: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "events.csv"
    path.write_bytes(content[:place] + noise + content[place + len(noise) :])
    reads_or_says(path)


@given(text=st.text(st.sampled_from("ab1 \t\n\r\"'é "), max_size=60))
def test_no_sequence_makes_a_traceback(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "lines.txt"
    path.write_text(text)
    reads_or_says(path, ReadOptions(format="sequences"))
