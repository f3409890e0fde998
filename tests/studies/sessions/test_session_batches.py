"""Halved sessions and batches, compared with loops over sessions and slots."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from session_rows import logged_features, row_of, rows_of, session_of, write_rows

from whence.errors import InputError
from whence_studies.sessions import (
    ABSENT,
    GROUP_OF,
    GROUPS,
    KNOWN_SPANS,
    NO_CAUSE,
    SUBSETS,
    UPCOMING_SPANS,
    Cause,
    ListeningConfig,
    SessionBatch,
    SessionFiles,
    Tracks,
    batches,
    concat_batches,
    halve_sessions,
    read_sessions,
    read_tracks,
    write_sessions,
)

COUNT = 70


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> SessionFiles:
    config = ListeningConfig(sessions=COUNT // 2, logs=2, tracks=80, shortest=2, seed=4)
    return write_sessions(tmp_path_factory.mktemp("made") / "sessions", config)


@pytest.fixture(scope="module")
def tracks(files: SessionFiles) -> Tracks:
    return read_tracks(files.tracks)


def cut_slowly(files: SessionFiles, tracks: Tracks, slots: int) -> SessionBatch:
    numbers = {track: number for number, track in enumerate(tracks.ids.to_pylist())}
    rows = [row for path in files.logs for row in rows_of(path)]
    truth = [row["cause"] for path in files.causes for row in rows_of(path)]
    known = np.full((COUNT, slots, 73), float(ABSENT), dtype=np.float32)
    upcoming = np.full((COUNT, slots, 31), float(ABSENT), dtype=np.float32)
    labels = np.full((COUNT, slots), ABSENT, dtype=np.int8)
    causes = np.full((COUNT, slots), NO_CAUSE, dtype=np.int8)
    pairs = zip(rows, truth, strict=True)
    for place, (_, session) in enumerate(groupby(pairs, lambda pair: pair[0]["session_id"])):
        heard = list(session)
        half = len(heard) // 2
        for at, (row, cause) in enumerate(heard):
            features = tracks.features[numbers[row["track_id_clean"]]]
            if at < half:
                known[place, at] = [*logged_features(row), *features]
            else:
                upcoming[place, at - half] = [at + 1, len(heard), *features]
                labels[place, at - half] = 1 if row["skip_2"] == "true" else -1
                causes[place, at - half] = Cause[cause.upper()]
    there = known[..., 0] != ABSENT
    return SessionBatch(known, there, upcoming, labels != ABSENT, labels, causes)


def assert_equal(one: SessionBatch, other: SessionBatch) -> None:
    for ours, theirs in zip(one.arrays(), other.arrays(), strict=True):
        assert ours is not None
        assert theirs is not None
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("size", "block"), [(1, 1 << 13), (8, 1 << 13), (13, 1 << 23), (500, 9000)]
)
def test_batches_match_a_loop(files: SessionFiles, tracks: Tracks, size: int, block: int) -> None:
    found = list(batches(files, tracks, size=size, block=block))
    full, rest = divmod(COUNT, size)
    assert [len(one) for one in found] == [size] * full + [rest] * (rest > 0)
    assert_equal(concat_batches(found), cut_slowly(files, tracks, 10))


def test_more_slots_only_add_padding(files: SessionFiles, tracks: Tracks) -> None:
    assert_equal(
        concat_batches(list(batches(files, tracks, slots=12))), cut_slowly(files, tracks, 12)
    )


def test_seed_shuffles_the_sessions(files: SessionFiles, tracks: Tracks) -> None:
    plain = concat_batches(list(batches(files, tracks)))
    mixed = [concat_batches(list(batches(files, tracks, size=9, seed=seed))) for seed in (0, 0, 1)]
    assert_equal(mixed[0], mixed[1])
    assert (mixed[0].known != plain.known).any()
    assert (mixed[0].known != mixed[2].known).any()
    for one in mixed:
        order = [np.lexsort(part.upcoming.reshape(COUNT, -1).T) for part in (plain, one)]
        assert_equal(plain[order[0]], one[order[1]])


def test_middle_track_is_in_the_second_half(tracks: Tracks, tmp_path: Path) -> None:
    first = tracks.ids[0].as_py()
    rows = [row | {"track_id_clean": first} for row in session_of("odd", 5, "10110")]
    path = write_rows(tmp_path / "log.csv", rows)
    (sessions,) = read_sessions(path, tracks)
    batch = halve_sessions(sessions, tracks, slots=4)
    assert batch.known_mask.tolist() == [[True, True, False, False]]
    assert batch.known_skipped.tolist() == [[True, False, False, False]]
    assert batch.labels.tolist() == [[1, 1, -1, ABSENT]]
    assert batch.skipped.tolist() == [[True, True, False, False]]
    assert batch.upcoming[0, :3, 0].tolist() == [3, 4, 5]
    assert batch.causes is None


@given(lengths=st.lists(st.integers(2, 12), min_size=1, max_size=6))
def test_every_track_is_in_one_half(lengths: list[int], tmp_path_factory: object) -> None:
    assert isinstance(tmp_path_factory, pytest.TempPathFactory)
    folder = tmp_path_factory.mktemp("any")
    rows = [
        row_of(f"s{place}", at + 1, length, skip_2=str(at % 2))
        for place, length in enumerate(lengths)
        for at in range(length)
    ]
    track = dict.fromkeys((*GROUPS["general"], *GROUPS["music"]), "0.5")
    table = write_rows(folder / "tf.csv", [{"track_id": "t_1", **track, "mode": "minor"}])
    files = SessionFiles((write_rows(folder / "log.csv", rows),), (table,))
    batch = concat_batches(
        list(batches(files, read_tracks([table]), size=2, slots=6, block=1 << 13))
    )
    upcoming = batch.upcoming_mask.sum(axis=1)
    assert (batch.known_mask.sum(axis=1) + upcoming).tolist() == lengths
    assert upcoming.tolist() == [-(-length // 2) for length in lengths]
    positions = np.where(batch.upcoming_mask, batch.upcoming[..., 0], 0).max(axis=1)
    assert positions.tolist() == lengths


def test_group_sizes_match_the_paper() -> None:
    widths = {name: len(features) for name, features in GROUPS.items()}
    assert widths == {"position": 2, "context": 13, "interaction": 29, "general": 3, "music": 26}
    assert KNOWN_SPANS["music"] == slice(47, 73)
    assert {
        "position": slice(0, 2),
        "general": slice(2, 5),
        "music": slice(5, 31),
    } == UPCOMING_SPANS
    assert len(SUBSETS) == 8
    assert all("position" in groups for groups in SUBSETS.values())
    assert set(GROUP_OF.values()) == GROUPS.keys() - {"position"}


def test_causes_must_match_their_log(files: SessionFiles, tracks: Tracks, tmp_path: Path) -> None:
    lines = files.causes[0].read_text().splitlines(keepends=True)
    short = tmp_path / "short.csv"
    short.write_text("".join(lines[:-1]))
    wrong = SessionFiles(files.logs[:1], files.tracks, (short,))
    with pytest.raises(InputError, match=rf"short.csv, row {len(lines) - 1}: the causes end here"):
        list(batches(wrong, tracks))
    odd = tmp_path / "odd.csv"
    odd.write_text("".join(lines).replace("persistence", "whim", 1))
    with pytest.raises(
        InputError, match=r"odd.csv, row \d+, column 'cause': 'whim' is not a cause"
    ):
        list(batches(SessionFiles(files.logs[:1], files.tracks, (odd,)), tracks))


@pytest.mark.parametrize("block", [1 << 13, 1 << 23])
def test_causes_of_other_rows_are_rejected(
    block: int, files: SessionFiles, tracks: Tracks, tmp_path: Path
) -> None:
    """One too many, one missing in the middle, and one of another session."""
    lines = files.causes[0].read_text().splitlines(keepends=True)
    log, other = files.logs[0], tmp_path / "other.csv"

    def message(changed: list[str]) -> str:
        other.write_text("".join(changed))
        with pytest.raises(InputError) as error:
            list(batches(SessionFiles((log,), files.tracks, (other,)), tracks, block=block))
        return str(error.value)

    long = message([*lines, "z,1,music\n"])
    assert long.startswith(f"{other}, row {len(lines) + 1}: {log} ends before this cause")
    shifted = message([*lines[:301], *lines[302:]])
    assert shifted.startswith(f"{other}, row 302: this is position")
    session, position, cause = lines[200].split(",")
    strange = message([*lines[:200], f"z,{position},{cause}", *lines[201:]])
    assert strange.startswith(
        f"{other}, row 201: this is position {position} in session 'z', but {log} has "
        f"position {position} in session '{session}'"
    )


@pytest.mark.parametrize("block", [1 << 12, 1 << 14])
def test_causes_are_read_in_blocks(block: int, files: SessionFiles, tracks: Tracks) -> None:
    assert_equal(
        concat_batches(list(batches(files, tracks, block=block))),
        concat_batches(list(batches(files, tracks))),
    )


def test_empty_batches_are_rejected(files: SessionFiles, tracks: Tracks) -> None:
    with pytest.raises(InputError, match="not 0 and 10"):
        list(batches(files, tracks, size=0))
