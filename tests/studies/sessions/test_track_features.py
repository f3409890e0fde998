"""Reading the features of tracks, and what is wrong with them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from session_rows import Row, rows_of, write_rows

from whence.errors import InputError
from whence_studies.sessions import (
    ListeningConfig,
    SessionFiles,
    find_files,
    read_tracks,
    split_files,
    write_sessions,
)
from whence_studies.sessions.schema import TRACK_COLUMNS, TRACK_FEATURES


def write_tracks(path: Path, ids: list[str], **other: str) -> Path:
    usual = dict.fromkeys(TRACK_COLUMNS, "0.5") | {"mode": "major"} | other
    return write_rows(path, [{**usual, "track_id": one} for one in ids])


def test_missing_track_feature_becomes_the_mean(tmp_path: Path) -> None:
    first = write_tracks(tmp_path / "one.csv", ["a", "b"], energy="1", mode="minor")
    second = write_tracks(tmp_path / "two.csv", ["c"], energy="3")
    third = write_tracks(tmp_path / "three.csv", ["d"], energy="", mode="")
    found = read_tracks([first, second, third])
    energy, mode = (found.features[:, TRACK_FEATURES.index(one)] for one in ("energy", "mode"))
    np.testing.assert_allclose(energy, [-(3**-0.5), -(3**-0.5), 2 * 3**-0.5, 0], rtol=1e-6)
    assert mode[0] < 0 < mode[2]
    assert mode[3] == 0
    assert (found.features[:, 0] == 0).all(), "a feature that is the same everywhere"


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"tempo": "fast"}, "row 2, column 'tempo': 'fast' is not a number"),
        ({"tempo": "inf"}, "row 2, column 'tempo': inf is not a number between ±3.4e+38"),
        ({"key": "-1e39"}, "row 2, column 'key': -1e+39 is not a number between ±3.4e+38"),
        ({"mode": "dorian"}, "row 2, column 'mode': 'dorian' is neither major nor minor"),
        ({"track_id": ""}, "row 2, column 'track_id': the value is missing"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_invalid_track_features_are_rejected(values: Row, sentence: str, tmp_path: Path) -> None:
    row = dict.fromkeys(TRACK_COLUMNS, "0.5") | {"mode": "major"} | values
    path = write_rows(tmp_path / "tf.csv", [row])
    with pytest.raises(InputError) as error:
        read_tracks([path])
    assert f"{path}, {sentence}" in str(error.value)


def test_duplicate_tracks_and_missing_columns_are_rejected(tmp_path: Path) -> None:
    path = write_tracks(tmp_path / "tf.csv", ["a", "b"])
    again = write_tracks(tmp_path / "again.csv", ["c", "b", "a"])
    with pytest.raises(InputError) as error:
        read_tracks([path, again])
    assert str(error.value) == (
        f"{again}, row 3, column 'track_id': 'b' is already in {path}, row 3; a track may have "
        "only one row in all files."
    )
    with pytest.raises(
        InputError, match=r"twice.csv, row 4, .* 'd' is already in .*twice.csv, row 2;"
    ):
        read_tracks([path, write_tracks(tmp_path / "twice.csv", ["d", "e", "d"])])
    names = [name for name in TRACK_COLUMNS if name != "valence"]
    short = write_rows(tmp_path / "short.csv", rows_of(path), names)
    with pytest.raises(InputError, match="row 1: there is no column 'valence'"):
        read_tracks([short])
    with pytest.raises(InputError, match="at least one file"):
        read_tracks([])


def test_folder_is_split_by_logs(tmp_path: Path) -> None:
    made = write_sessions(tmp_path / "s", ListeningConfig(sessions=2, logs=12, tracks=60))
    assert [path.name for path in made.logs[:2]] == [
        "log_0_20180715_000000000000.csv",
        "log_0_20180716_000000000000.csv",
    ], "in the order of names"
    parts = split_files(made)
    assert [len(part.logs) for part in (parts.train, parts.validation, parts.test)] == [10, 1, 1]
    assert parts.train.logs + parts.validation.logs + parts.test.logs == made.logs
    assert parts.test.causes == made.causes[-1:]
    with pytest.raises(InputError, match="at least 3 logs, but there are 2"):
        split_files(SessionFiles(made.logs[:2], made.tracks))
    with pytest.raises(InputError, match="nowhere/training_set has no .csv or .csv.gz files"):
        find_files(tmp_path / "nowhere")


MEMORY = """
import resource, sys
from pathlib import Path
from whence_studies.sessions.session_batches import batches
from whence_studies.sessions import SessionFiles, read_tracks
tracks = read_tracks([Path(sys.argv[1])])
for log, causes in zip(sys.argv[2::2], sys.argv[3::2]):
    files = SessionFiles((Path(log),), (), (Path(causes),))
    count = sum(map(len, batches(files, tracks, block=1 << 18)))
    print(count, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def test_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    made = write_sessions(tmp_path / "s", ListeningConfig(sessions=1_000, tracks=60))
    large, causes = tmp_path / "large.csv", tmp_path / "causes.csv"
    for small, many_times in ((made.logs[0], large), (made.causes[0], causes)):
        header, _, rows = small.read_bytes().partition(b"\n")
        many_times.write_bytes(header + b"\n" + 10 * rows)
    assert large.stat().st_size > 25e6
    whole = tmp_path / "tf.csv"
    first, second = (path.read_bytes() for path in made.tracks)
    whole.write_bytes(first + second.partition(b"\n")[2])
    paths = (whole, made.logs[0], made.causes[0], large, causes)
    command = [sys.executable, "-c", MEMORY, *map(str, paths)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    (few, before), (many, after) = (map(int, line.split()) for line in done.stdout.splitlines())
    assert (few, many) == (1_000, 10_000)
    assert after - before < 10, "megabytes, where the log has 23 more"
