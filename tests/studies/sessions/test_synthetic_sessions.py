"""Synthetic sessions: their files, and their causes checked row by row from the files alone."""

from __future__ import annotations

from itertools import groupby, pairwise
from pathlib import Path

import numpy as np
import pytest
from session_rows import Row, rows_of

from whence.errors import InputError
from whence_studies.sessions import (
    BASELINES,
    Cause,
    ListeningConfig,
    SessionFiles,
    batches,
    concat_scores,
    read_tracks,
    score_skips,
    write_sessions,
)
from whence_studies.sessions.schema import GENERAL, LOG_COLUMNS, TRACK_COLUMNS

CONFIG = ListeningConfig(sessions=250, tracks=300, shortest=7, longest=15, seed=5)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> SessionFiles:
    return write_sessions(tmp_path_factory.mktemp("made") / "sessions", CONFIG)


def sessions_of(path: Path) -> list[list[Row]]:
    return [list(rows) for _, rows in groupby(rows_of(path), lambda row: row["session_id"])]


def test_files_have_the_challenge_format(made: SessionFiles) -> None:
    assert [path.name for path in made.logs] == ["log_0_20180715_000000000000.csv"]
    assert [path.name for path in made.tracks] == ["tf_000000000000.csv", "tf_000000000001.csv"]
    assert made.logs[0].read_text().splitlines()[0] == ",".join(LOG_COLUMNS)
    assert made.tracks[0].read_text().splitlines()[0] == ",".join(TRACK_COLUMNS)
    assert '"' not in made.logs[0].read_text()
    truth = rows_of(made.causes[0])
    for row, true in zip(rows_of(made.logs[0]), truth, strict=True):
        assert row["session_id"] == true["session_id"]
        assert row["session_position"] == true["session_position"]


def test_popularity_is_uniform(made: SessionFiles) -> None:
    """On the scale that a network sees."""
    popularity = np.sort(
        read_tracks(made.tracks).features[:, GENERAL.index("us_popularity_estimate")]
    )
    least, most = (round(share * CONFIG.tracks) for share in (CONFIG.unpopular, CONFIG.popular))
    whole = popularity[-1] - popularity[0]
    assert (popularity[least] - popularity[0]) / whole == pytest.approx(CONFIG.unpopular, abs=0.01)
    assert (popularity[-1] - popularity[-most - 1]) / whole == pytest.approx(
        CONFIG.popular, abs=0.01
    )


def test_causes_explain_the_skips(made: SessionFiles) -> None:
    """Popularity, music and context as in the files."""
    tracks = {row["track_id"]: row for path in made.tracks for row in rows_of(path)}
    ranked = sorted(tracks, key=lambda one: float(tracks[one]["us_popularity_estimate"]))
    least = set(ranked[: round(CONFIG.unpopular * CONFIG.tracks)])
    most = set(ranked[-round(CONFIG.popular * CONFIG.tracks) :])
    causes = iter(rows_of(made.causes[0]))
    met = dict.fromkeys([cause.word for cause in Cause], 0)
    nearer = []
    for session in sessions_of(made.logs[0]):
        sounds = np.array([sound_of(tracks[row["track_id_clean"]]) for row in session])
        middle = np.median(sounds, axis=0)
        for place, row in enumerate(session):
            cause, skipped = next(causes)["cause"], row["skip_2"] == "true"
            met[cause] += 1
            late = place >= len(session) // 2
            tired = late and row["context_type"] in ("radio", "charts", "user_collection")
            consensus = row["track_id_clean"] in least | most
            if cause == "popularity":
                assert consensus
                assert skipped == (row["track_id_clean"] in least)
            elif cause != "chance":
                assert not consensus
            if cause == "music":
                assert skipped
            if cause in ("context", "persistence"):
                assert tired == (cause == "context")
            if cause == "context":
                assert skipped == (row["context_type"] != "user_collection")
            if cause in ("music", "context", "persistence"):
                far = np.linalg.norm(sounds[place] - middle)
                nearer.append((cause == "music", far))
    assert min(met.values()) > 30, met
    strange, far = np.array(nearer).T
    right = (far > np.quantile(far, 1 - strange.mean())) == strange
    assert right.mean() > 0.97, "a stranger is known by its sound"


def sound_of(track: Row) -> list[float]:
    return [float(track[f"acoustic_vector_{place}"]) for place in range(8)]


def test_persistence_repeats_or_follows_the_habit(tmp_path: Path) -> None:
    alone: dict[str, float] = dict.fromkeys(
        ["off_genre", "unpopular", "popular", "restless", "calm", "noise"], 0.0
    )
    config = ListeningConfig(sessions=400, tracks=60, momentum=1.0, **alone)  # type: ignore[arg-type]
    made = write_sessions(tmp_path / "same", config)
    for session in sessions_of(made.logs[0]):
        assert len({row["skip_2"] for row in session}) == 1
    config = ListeningConfig(sessions=400, tracks=60, momentum=0.0, habit=0.9, **alone)  # type: ignore[arg-type]
    made = write_sessions(tmp_path / "habit", config)
    shares = [
        np.mean([row["skip_2"] == "true" for row in one]) for one in sessions_of(made.logs[0])
    ]
    assert np.mean([max(share, 1 - share) for share in shares]) == pytest.approx(0.9, abs=0.02)
    assert np.mean(np.array(shares) > 0.5) == pytest.approx(config.skippers, abs=0.08)


def test_log_columns_are_consistent_with_skips(made: SessionFiles) -> None:
    for session in sessions_of(made.logs[0]):
        for row in session:
            flags = [row[name] == "true" for name in ("skip_1", "skip_2", "skip_3")]
            assert flags == sorted(flags), "who skips at once also skips briefly and in the end"
            assert (row["not_skipped"] == "true") != flags[2]
            ends = "fwdbtn" if flags[2] else "trackdone"
            assert row["hist_user_behavior_reason_end"] == ends
        for before, row in pairwise(session):
            ended = before["hist_user_behavior_reason_end"]
            assert row["hist_user_behavior_reason_start"] == ended
            assert row["context_type"] == before["context_type"]


def test_seed_decides_the_bytes(made: SessionFiles, tmp_path: Path) -> None:
    again = write_sessions(tmp_path / "again", CONFIG)
    for one, other in zip(all_files(made), all_files(again), strict=True):
        assert one.read_bytes() == other.read_bytes()
    other_seed = write_sessions(tmp_path / "other", ListeningConfig(sessions=250, seed=6))
    assert other_seed.logs[0].read_bytes() != made.logs[0].read_bytes()
    two = write_sessions(tmp_path / "two", ListeningConfig(sessions=5, logs=2, tracks=60))
    assert two.logs[0].read_bytes() != two.logs[1].read_bytes()


def all_files(files: SessionFiles) -> tuple[Path, ...]:
    return files.logs + files.tracks + files.causes


def test_rates_resemble_the_challenge(tmp_path: Path) -> None:
    """The challenge's sample has 51.7 % skips; baselines as in Table 2."""
    made = write_sessions(tmp_path / "s", ListeningConfig(sessions=4_000))
    parts = list(batches(made, read_tracks(made.tracks)))
    skipped = np.concatenate([part.skipped[part.upcoming_mask] for part in parts])
    assert skipped.mean() == pytest.approx(0.517, abs=0.03)
    for name, published in {"last": (0.63, 0.742, 0.543), "mean": (0.617, 0.663, 0.517)}.items():
        scores = concat_scores([score_skips(BASELINES[name](part), part) for part in parts])
        found = [one.value for one in scores.measures().values()]
        np.testing.assert_allclose(found, published, atol=0.035, err_msg=name)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sessions": 0}, "Set sessions and logs"),
        ({"shortest": 1}, "Set shortest to at least 2"),
        ({"shortest": 9, "longest": 8}, "Set shortest to at least 2"),
        ({"genres": 1}, "Set genres to at least 2"),
        ({"tracks": 50}, "at least 10 for each genre"),
        ({"noise": 1.1}, "between 0 and 1"),
        ({"popular": 0.6, "unpopular": 0.6}, "unpopular \\+ popular"),
    ],
)
def test_invalid_settings_are_rejected(settings: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ListeningConfig(**settings)  # type: ignore[arg-type]
