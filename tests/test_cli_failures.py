"""Failures of the system, odd arguments and odd outputs: a sentence, never a traceback."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from command_line import whence
from hostile import CODES, acting
from whence.cli import main
from whence.cli.failures import sentence_of
from whence.errors import LONGEST_MESSAGE
from whence.report.which import explainer_rows

TOO_LARGE = 2**58


def process(
    *arguments: str | bytes, stdout: int | None = subprocess.PIPE, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "whence", *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        env={**os.environ, "COLUMNS": "160", **environment},
        check=False,
    )


def failure_of(wrong: object) -> str | None:
    assert callable(wrong)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - each kind is its own
        wrong()
    return sentence_of(caught.value)


def endless() -> None:
    endless()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: np.empty(TOO_LARGE), "not enough memory for this (it needs 2.00 EiB)"),
        (lambda: torch.empty(TOO_LARGE, dtype=torch.int8), "memory for this (it needs 268435456.0"),
        (lambda: bytearray(TOO_LARGE), "not enough memory for this. Use less data"),
        (endless, "nested too deeply"),
        (lambda: Path("/proc/nowhere/x").write_text(""), "/proc/nowhere/x cannot be used: No such"),
        (lambda: Path("/dev/full").write_text("x"), "No space left on device. Free some space"),
        (lambda: "\udcff".encode(), "'\udcff' is not valid UTF-8"),
        (lambda: "é".encode("ascii"), None),
        (lambda: [][0], None),
        (lambda: torch.zeros(2) @ torch.zeros(3), None),
    ],
)
def test_failures_of_the_system_have_a_sentence_and_mistakes_of_ours_have_none(
    wrong: object, said: str | None
) -> None:
    found = failure_of(wrong)
    assert found == said if said is None else said in str(found)


def test_open_files_have_a_hint() -> None:
    found = sentence_of(OSError(errno.EMFILE, "Too many open files", "events.csv"))
    assert found is not None
    assert found.startswith("events.csv cannot be used: Too many open files. Raise the limit")


@pytest.mark.parametrize(
    ("problem", "sentence"),
    [
        (MemoryError(), "error: There is not enough memory"),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 40.00 GiB."), "40.00 GiB"),
        (OSError(errno.ENOSPC, "No space left on device"), "error: The system reports: No space"),
        (EOFError(), "error: The input ended before it was complete"),
    ],
)
def test_a_command_reports_them(
    problem: Exception, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise problem

    monkeypatch.setattr("whence.doctor.environment", fail)
    done = whence("doctor")
    assert done.returncode == 2
    assert sentence in done.stderr
    assert done.stderr.count("\n") <= 2


def test_a_mistake_of_ours_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whence.doctor.environment", lambda: [][0])
    with pytest.raises(IndexError):
        whence("doctor")


@pytest.mark.parametrize(
    "arguments",
    [
        ("data", "stats", "x" * 16_000_000),
        (CODES,),
        (f"--{CODES}",),
        ("data", "stats", "x.csv", "--format", CODES + "x" * 10**6),
        ("recommend", "run", "-k", CODES),
        ("train", "x.csv", "--out", "y", "--split", CODES),
    ],
)
def test_odd_arguments_are_repeated_shortly_and_without_effect(arguments: tuple[str, ...]) -> None:
    done = whence(*arguments)
    assert done.returncode == 2
    assert len(done.stderr) < 2 * LONGEST_MESSAGE
    assert not acting(done.stderr)


def test_bytes_that_are_not_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"a\xff.csv")).write_text("user,item\n1,2\n")
    done = process("data", "stats", os.fsencode(tmp_path) + b"/a\xff.csv")
    assert done.returncode == 2
    assert b"a\\udcff.csv' is not valid UTF-8. Rename the file" in done.stderr


def test_a_reader_that_leaves_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = process("--version", stdout=writer)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_on_output_is_one_sentence() -> None:
    with Path("/dev/full").open("w") as full:
        done = process("--version", stdout=full.fileno())
    assert done.returncode == 2
    assert done.stderr.decode().splitlines() == [
        "error: The system reports: No space left on device. Free some space, or write to another "
        "disk."
    ]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_an_output_without_unicode_gets_codes(
    encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def output(*arguments: str) -> str:
        file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        monkeypatch.setattr("sys.stdout", file)
        monkeypatch.setattr("sys.argv", ["whence", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        file.seek(0)
        return file.read()

    assert "\\u2264" in output("explainers")
    assert "\\u2026" in output("train", "--help")
    rows = json.loads(output("explainers", "--json"))["explainers"]
    assert rows == explainer_rows()
