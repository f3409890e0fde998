"""The readers of sessions, compared with a plain reader, and their messages about broken files."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import numpy as np
import pytest
from session_rows import Row, logged_features, row_of, rows_of, session_of, write_rows

from whence.errors import InputError
from whence_studies.sessions import (
    ListeningConfig,
    SessionFiles,
    Tracks,
    read_sessions,
    read_tracks,
    write_sessions,
)
from whence_studies.sessions.schema import LOG_COLUMNS, TRACK_COLUMNS, TRACK_FEATURES

SMALL = 1 << 13
"""A block of about forty rows."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> SessionFiles:
    config = ListeningConfig(sessions=60, tracks=80, shortest=3, seed=3)
    return write_sessions(tmp_path_factory.mktemp("made") / "sessions", config)


@pytest.fixture(scope="module")
def tracks(files: SessionFiles) -> Tracks:
    return read_tracks(files.tracks)


@pytest.fixture(scope="module")
def one_track(tmp_path_factory: pytest.TempPathFactory) -> Tracks:
    return read_tracks([write_tracks(tmp_path_factory.mktemp("one") / "tf.csv", ["t_1"])])


def write_tracks(path: Path, ids: list[str], **other: str) -> Path:
    usual = dict.fromkeys(TRACK_COLUMNS, "0.5") | {"mode": "major"} | other
    return write_rows(path, [{**usual, "track_id": one} for one in ids])


def read_all(path: Path, tracks: Tracks, block: int = SMALL) -> dict[str, np.ndarray]:
    parts = list(read_sessions(path, tracks, block=block))
    lengths = np.concatenate([np.diff(part.offsets) for part in parts])
    return {
        "ids": np.concatenate([part.ids.to_pylist() for part in parts]),
        "lengths": lengths,
        "logged": np.concatenate([part.logged for part in parts]),
        "tracks": np.concatenate([part.tracks for part in parts]),
        "skipped": np.concatenate([part.skipped for part in parts]),
    }


def assert_same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def test_rows_match_a_plain_reader(files: SessionFiles, tracks: Tracks) -> None:
    rows, found = rows_of(files.logs[0]), read_all(files.logs[0], tracks)
    expected = np.array([logged_features(row) for row in rows], dtype=np.float32)
    np.testing.assert_array_equal(found["logged"], expected)
    ids = [row["track_id"] for path in files.tracks for row in rows_of(path)]
    assert [ids[number] for number in found["tracks"]] == [row["track_id_clean"] for row in rows]
    assert found["skipped"].tolist() == [row["skip_2"] == "true" for row in rows]
    sessions = list(dict.fromkeys(row["session_id"] for row in rows))
    assert found["ids"].tolist() == sessions
    counted = [sum(row["session_id"] == one for row in rows) for one in sessions]
    assert found["lengths"].tolist() == counted


@pytest.mark.parametrize("block", [1 << 12, 5_000, 1 << 14, 1 << 23])
def test_block_size_does_not_matter(files: SessionFiles, tracks: Tracks, block: int) -> None:
    assert_same(read_all(files.logs[0], tracks, block), read_all(files.logs[0], tracks, 1 << 24))


def test_small_blocks_hold_whole_sessions(files: SessionFiles, tracks: Tracks) -> None:
    parts = list(read_sessions(files.logs[0], tracks, block=SMALL))
    assert len(parts) > 10
    assert max(len(part.tracks) for part in parts) < 80
    assert all(part.logged[part.offsets[:-1], 0].max() == 1 for part in parts)


def test_extra_and_reordered_columns_are_accepted(
    files: SessionFiles, tracks: Tracks, tmp_path: Path
) -> None:
    rows = [{**row, "note": "a, b"} for row in rows_of(files.logs[0])]
    order = random.Random(0).sample(list(rows[0]), len(rows[0]))
    other = write_rows(tmp_path / "log.csv", rows, order)
    assert_same(read_all(other, tracks), read_all(files.logs[0], tracks))


def test_compressed_files_read_the_same(
    files: SessionFiles, tracks: Tracks, tmp_path: Path
) -> None:
    packed = []
    for path in (*files.logs, *files.tracks):
        packed.append(tmp_path / f"{path.name}.gz")
        packed[-1].write_bytes(gzip.compress(path.read_bytes()))
    assert_same(read_all(packed[0], tracks), read_all(files.logs[0], tracks))
    again = read_tracks(packed[len(files.logs) :])
    np.testing.assert_array_equal(again.features, tracks.features)


def test_flags_and_unknown_categories(one_track: Tracks, tmp_path: Path) -> None:
    rows = [
        row_of("a", 1, 2, skip_2="true", premium="1", context_type="hospital"),
        row_of("a", 2, 2, skip_2="0", premium="False", hist_user_behavior_reason_end="logout"),
    ]
    found = read_all(write_rows(tmp_path / "log.csv", rows), one_track)
    expected = np.array(
        [logged_features(row | {"premium": row["premium"].lower()}) for row in rows]
    )
    np.testing.assert_array_equal(found["logged"], expected.astype(np.float32))
    assert found["logged"][0, 9:15].sum() == 0
    assert found["logged"][1, 26:37].sum() == 0


def test_session_length_is_limited_by_slots(one_track: Tracks, tmp_path: Path) -> None:
    rows = [row for length in (2, 3, 9, 20) for row in session_of(f"s{length}", length)]
    path = write_rows(tmp_path / "log.csv", rows)
    assert read_all(path, one_track)["lengths"].tolist() == [2, 3, 9, 20]
    longer = write_rows(tmp_path / "longer.csv", [*rows, *session_of("long", 21)])
    with pytest.raises(
        InputError, match=r"longer.csv, row 36, column 'session_length': 21 .* 'long'"
    ):
        read_all(longer, one_track)
    assert len(next(read_sessions(longer, one_track, slots=11))) == 5


A, B = session_of("a", 4), session_of("b", 4)


def changed(rows: list[Row], at: int, **values: str) -> list[Row]:
    return [row | values if place == at else row for place, row in enumerate(rows)]


BROKEN: dict[str, tuple[list[Row], int, str, str]] = {
    "not a number": (
        changed(A, 1, session_position="two"),
        3,
        "session_position",
        "'two' is not an integer",
    ),
    "not a flag": (changed(A, 2, skip_1="may: be"), 4, "skip_1", "'may: be' is not true or false"),
    "not a date": (
        changed(A, 0, date="July"),
        2,
        "date",
        "'July' is not a date such as 2018-07-15",
    ),
    "no value": (changed(A, 3, skip_2=""), 5, "skip_2", "the value is missing"),
    "no id": (changed(A, 3, session_id=""), 5, "session_id", "the value is missing"),
    "unknown track": (
        changed(A, 2, track_id_clean="t_9"),
        4,
        "track_id_clean",
        "track 't_9' is in none",
    ),
    "ends early": (
        A[:3] + B,
        4,
        "session_length",
        "session 'a' has 4 tracks by this column, but ends at 3",
    ),
    "ends early at the end": (
        A + B[:2],
        7,
        "session_length",
        "session 'b' has 4 tracks by this column, but ends at 2",
    ),
    "begins late": (
        A + B[1:],
        6,
        "session_position",
        "2 in session 'b': the session does not start",
    ),
    "a gap": (A[:1] + A[2:], 3, "session_position", "3 in session 'a': it does not follow"),
    "twice": (A[:2] + A[1:], 4, "session_position", "2 in session 'a': it does not follow"),
    "interleaved": ([A[0], B[0], *A[1:], *B[1:]], 2, "session_length", "session 'a' has 4 tracks"),
    "two lengths": (changed(A, 2, session_length="5"), 4, "session_length", "5 in session 'a'"),
    "one track": (
        session_of("a", 1),
        2,
        "session_length",
        "1 in session 'a': a session needs at least 2 tracks",
    ),
    "no hour": (changed(A, 1, hour_of_day="24"), 3, "hour_of_day", "24 is not an hour from 0"),
    "below midnight": (
        changed(A, 3, hour_of_day="-1"),
        5,
        "hour_of_day",
        "-1 is not an hour from 0",
    ),
    "no length": (changed(A, 0, session_length="-1"), 2, "session_length", "-1 in session 'a'"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_invalid_logs_are_rejected(name: str, one_track: Tracks, tmp_path: Path) -> None:
    rows, row, column, message = BROKEN[name]
    path = write_rows(tmp_path / "log.csv", rows)
    with pytest.raises(InputError) as error:
        read_all(path, one_track)
    assert str(error.value).startswith(f"{path}, row {row}, column '{column}': {message}")
    assert error.value.exit_code == 2


def test_first_error_is_reported_with_its_row(one_track: Tracks, tmp_path: Path) -> None:
    rows = [row for place in range(200) for row in session_of(f"s{place}", 4)]
    rows = changed(rows, 700, session_position="9")
    path = write_rows(tmp_path / "log.csv", changed(rows, 705, session_position="9"))
    with pytest.raises(InputError, match="row 702, column 'session_position': 9 in session 's175'"):
        read_all(path, one_track)
    path = write_rows(tmp_path / "log.csv", changed(rows, 600, track_id_clean="t_7"))
    with pytest.raises(InputError, match="row 602, column 'track_id_clean': track 't_7'"):
        read_all(path, one_track)


BLANKS = {
    "not a number": (changed(A, 2, session_position="two"), "row 6, column 'session_position'"),
    "no value": (changed(A, 2, skip_2=""), "row 6, column 'skip_2'"),
    "a gap": (A[:2] + A[3:], "row 6, column 'session_position'"),
    "bytes": (changed(A, 2, context_type="\udcff"), "row 6, is not valid utf-8. Save it as"),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("name", BLANKS)
def test_blank_lines_count_in_row_numbers(
    name: str, ending: str, packed: bool, one_track: Tracks, tmp_path: Path
) -> None:
    rows, message = BLANKS[name]
    path = tmp_path / "log.csv"
    lines = [",".join(LOG_COLUMNS), *(",".join(row.values()) for row in rows)]
    text = ending.join([*lines[:2], "", *lines[2:3], "", *lines[3:], ""])
    content = text.encode(errors="surrogateescape")
    path.write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(InputError) as error:
        read_all(path, one_track)
    assert str(error.value).startswith(f"{path}, {message}")


def test_uneven_row_is_found_after_blank_lines(one_track: Tracks, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "log.csv", A)
    path.write_text(path.read_text() + "\n\nb,1\n")
    with pytest.raises(InputError, match=r"log.csv, row 8: there are 2 values"):
        read_all(path, one_track)


@pytest.mark.parametrize("absent", ["skip_2", "premium", "session_id"])
def test_missing_column_is_named(absent: str, one_track: Tracks, tmp_path: Path) -> None:
    """Other required columns, such as the other labels, are not suggested."""
    columns = [name for name in LOG_COLUMNS if name != absent]
    path = write_rows(tmp_path / "log.csv", A, columns)
    with pytest.raises(InputError) as error:
        read_all(path, one_track)
    assert str(error.value) == f"{path}, row 1: there is no column '{absent}'. Add it."
    misspelt = absent.title()
    rows = [{**row, misspelt: row[absent]} for row in A]
    path = write_rows(tmp_path / "log.csv", rows, [misspelt, *columns])
    with pytest.raises(InputError, match=f"no column '{absent}'. If '{misspelt}' is meant, rename"):
        read_all(path, one_track)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "row 1 is empty. It must name the columns"),
        (b"\nsession_id\n", "row 1 is empty. It must name the columns"),
        ((",".join(LOG_COLUMNS) + "\n").encode(), "has column names, but no rows"),
        (",".join(LOG_COLUMNS).encode(), "has column names, but no rows"),
        ((",".join(LOG_COLUMNS) + "\na,1,4\n").encode(), "row 2: there are 3 values, but row 1"),
        ((",".join([*LOG_COLUMNS, "skip_2"]) + "\n").encode(), "two columns are named 'skip_2'"),
        (b"session\xff\n", "row 1, is not valid utf-8. Save it as UTF-8."),
        (gzip.compress(b"session_id\n" * 999, mtime=0)[:-12], "damaged or incomplete"),
    ],
)
def test_files_that_are_not_logs(
    content: bytes, sentence: str, one_track: Tracks, tmp_path: Path
) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=sentence):
        read_all(path, one_track)


def test_missing_file(one_track: Tracks, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_all(tmp_path / "log.csv", one_track)


def test_track_features_are_standardised_over_all_files(
    files: SessionFiles, tracks: Tracks
) -> None:
    rows = [row for path in files.tracks for row in rows_of(path)]
    for place, name in enumerate(TRACK_FEATURES):
        words = {"major": 1.0, "minor": 0.0}
        values = np.array([words.get(row[name]) if name == "mode" else row[name] for row in rows])
        plain = values.astype(float)
        expected = (plain - plain.mean()) / plain.std(ddof=1)
        np.testing.assert_allclose(tracks.features[:, place], expected, atol=2e-5)
    assert tracks.ids.to_pylist() == [row["track_id"] for row in rows]
