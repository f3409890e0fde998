"""A sample of the fuzzing; `fuzz/` runs as many cases as you like."""

from __future__ import annotations

import json
from pathlib import Path

from fuzz.__main__ import BEGIN, END, PAGE, PARTS, RESULTS, table
from fuzz.files import fuzz_files, make_attempt
from fuzz.folders import fuzz_folders


def test_no_file_makes_a_traceback_hangs_or_explodes(tmp_path: Path) -> None:
    report = fuzz_files(1_500, 20_260, tmp_path)
    assert report.tried == sum(report.notes.values()) == 1_500
    assert report.failures == ()
    assert report.notes["delimited read"] > 50, "some cases are valid"


def test_no_folder_acts_or_makes_a_traceback(tmp_path: Path) -> None:
    report = fuzz_folders(40, 20_260, tmp_path)
    assert report.failures == ()


def test_the_same_seed_gives_the_same_cases(tmp_path: Path) -> None:
    def tried(name: str) -> list[str]:
        attempt = make_attempt(7, tmp_path / name)
        return [attempt(number) for number in (*range(30), 29)]

    first = tried("first")
    assert first == tried("again")
    assert first[-1] == first[-2], "a case does not depend on those before it"


def test_the_page_shows_the_results() -> None:
    records = json.loads(RESULTS.read_text())
    assert BEGIN + table(records) + END in PAGE.read_text()
    assert [one["failures"] for one in records] == [[], [], []]
    for one in records:
        assert one["tried"] >= PARTS[one["name"]][1]
