"""Files that are made to hang, crash or fill the memory end in one short sentence."""

from __future__ import annotations

import gzip
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bounded import bounded
from whence.data import ReadOptions, load
from whence.data.readers import arrow, source_files
from whence.errors import InputError


def refused(path: Path, reading: ReadOptions | None = None) -> str:
    """Return the message of the error, which must come soon and be short."""
    with bounded(), pytest.raises(InputError) as caught:
        load(path, reading)
    assert len(str(caught.value)) <= 600
    return str(caught.value)


@pytest.fixture
def events(tmp_path: Path) -> Path:
    path = tmp_path / "events.csv"
    path.write_text("user,item\n1,2\n1,3\n")
    return path


def written(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "hostile"
    path.write_bytes(content)
    return path


def test_special_files_are_refused(events: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero")):
        assert "is not a regular file" in refused(path)
        assert "is not a regular file" in refused(events, ReadOptions(items=path))
        assert "is not a regular file" in refused(events, ReadOptions(users=path))
    assert "is a folder" in refused(events, ReadOptions(items=tmp_path))
    # The path of a socket may have about 100 characters only.
    with tempfile.TemporaryDirectory() as short, socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{short}/s")
        assert "is not a regular file" in refused(Path(short) / "s")


RUNS = [
    b"1",
    b" ",
    b'"',
    b"'",
    b",",
    b"[",
    b"{",
    b"\\",
    b"(",
    b"-",
    b".",
    b"0.",
    b"\t",
    b"::",
    b"\0",
]
PLACES = {
    "alone": b"%s",
    "cell": b"user,item,time\n1,2,%s\n",
    "name": b"user,item,%s\n1,2,3\n",
    "json": b'{"user": 1, "item": %s}\n',
    "literal": b"{'user': 1, 'item': %s}\n",
    "sequence": b"1 2 3\n1 2\n%s\n",
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("run", RUNS)
def test_long_runs_take_no_long_time(place: str, run: bytes, tmp_path: Path) -> None:
    path = written(tmp_path, PLACES[place] % (run * 100_000))
    with bounded():
        try:
            load(path)
        except InputError as problem:
            assert len(str(problem)) <= 700  # harmful characters become codes of four


DEEP = {
    "json lists": b'{"user": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
    "json records": b'{"user": ' * 100_000 + b"}" * 100_000 + b"\n",
    "lists": b"{'user': " + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
    "minus": b"{'user': " + b"-" * 100_000 + b"1}\n",
    "sums": b"{'user': " + b"1+" * 100_000 + b"1}\n",
    "attributes": b"{'user': a" + b".a" * 100_000 + b"}\n",
    "powers": b"{'user': " + b"1**" * 100_000 + b"1}\n",
    "functions": b"{'user': " + b"lambda:" * 100_000 + b"1}\n",
    "too long": b"{'user': (" + b"1," * 600_000 + b")}\n",
}


def test_deep_records_do_not_crash_the_interpreter(tmp_path: Path) -> None:
    for name, content in DEEP.items():
        (tmp_path / name).write_bytes(content)
    code = (
        "import sys; from pathlib import Path; from whence.data import load\n"
        "from whence.errors import InputError\n"
        "for path in map(Path, sys.argv[1:]):\n"
        "    try: load(path)\n"
        "    except InputError as problem: assert 'row 1' in str(problem), problem\n"
        "    else: sys.exit(f'{path} was read')\n"
    )
    order = [sys.executable, "-c", code, *(str(tmp_path / name) for name in DEEP)]
    subprocess.run(order, check=True, timeout=60)


def test_keys_that_are_no_texts(tmp_path: Path) -> None:
    assert "row 1" in refused(written(tmp_path, b"{'user': 1, 2: (3,)}\n"))
    assert "not valid text" in refused(written(tmp_path, b'{"user": 1, "item\\ud800": 2}\n'))


@pytest.mark.parametrize("pack", ["gzip", "zstd"])
@pytest.mark.parametrize("kind", ["delimited", "sequences", "json", "literals", "parquet", None])
def test_a_bomb_stops_when_it_is_too_large(
    pack: str, kind: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_files, "ALWAYS_ALLOWED", 1 << 20)
    line = {"json": b'{"user": 1, "item": 2}\n', "literals": b"{'user': 1, 'item': 2}\n"}
    content = line.get(kind or "", b"1 2\n") * (1 << 20)
    packed = (
        gzip.compress(content)
        if pack == "gzip"
        else pa.compress(content, codec="zstd", asbytes=True)
    )
    said = refused(written(tmp_path, packed), ReadOptions(format=kind))
    assert "when decompressed. If that is right, decompress it first." in said


def test_a_compressed_file_may_grow(tmp_path: Path) -> None:
    content = b"user,item\n" + b"1,2\n" * 100_000
    assert len(load(written(tmp_path, gzip.compress(content)))) == 100_000


def test_more_rows_than_memory_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "events.parquet"
    pq.write_table(pa.table({"user": [1] * 100_000, "item": [2] * 100_000}), path)
    assert len(load(path)) == 100_000
    monkeypatch.setattr(arrow, "free_memory", lambda: 100_000)
    assert "needs more memory than there is" in refused(path)


def test_a_failed_allocation_is_one_sentence(events: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise pa.ArrowMemoryError("malloc of size 10 failed")

    monkeypatch.setattr("whence.data.readers.delimited.parse_csv", fail)
    assert "needs more memory than there is" in refused(events)


def test_text_of_two_bytes_per_letter_is_recognised(tmp_path: Path) -> None:
    text = "user,item\n1,2\n1,3\n"
    for encoding in ("utf-16", "utf-16-le", "utf-16-be"):
        path = written(tmp_path, text.encode(encoding))
        assert refused(path).endswith(f"is not valid utf-8. Give --encoding {encoding}.")
        assert len(load(path, ReadOptions(encoding=encoding))) == 2
    without_mark = written(tmp_path, text.encode("utf-16-le"))
    assert "is not valid utf-16" in refused(without_mark, ReadOptions(encoding="utf-16"))


def test_too_many_columns(tmp_path: Path) -> None:
    assert "has 20,001 columns" in refused(written(tmp_path, b"," * 20_000))


def test_a_line_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whence.data.readers.records.LONGEST_LINE", 1_000)
    content = b'{"user": 1, "item": 2}\n{"user": "' + b"x" * 2_000 + b'", "item": 2}\n'
    assert "row 2 is longer than" in refused(written(tmp_path, content))


@pytest.mark.parametrize("content", [b"item,title\n", b"\n\n\n", b""])
def test_a_file_of_items_without_rows(events: Path, tmp_path: Path, content: bytes) -> None:
    said = refused(events, ReadOptions(items=written(tmp_path, content)))
    assert "hostile" in said
    assert "It needs a row" in said
