"""Oracle experts, compared with enumeration and with sessions."""

from __future__ import annotations

import csv
from dataclasses import fields, replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from whence.arrays import Bools, Floats
from whence.errors import InputError
from whence_studies.sessions import Cause, ListeningConfig, Sessions, halve_sessions, read_tracks
from whence_studies.sessions.logs import read_sessions
from whence_studies.sessions.synthetic_sessions import design_tracks, write_sessions
from whence_studies.skips import EXPERTS, cause_accuracy, oracle_experts
from whence_studies.skips.oracle import oracle_probabilities

LISTENING = ListeningConfig(
    sessions=12, tracks=60, shortest=4, longest=5, restless=0.3, calm=0.2, off_genre=0.2, seed=2
)
MOODS = {"user_collection": -1, "radio": 1, "charts": 1}


def rule(config: ListeningConfig, popular: int, strange: bool, mood: int, usual: float) -> float:
    """Return the probability of a skip if everything is known."""
    decided = {-1: 1.0, 1: 0.0}[popular] if popular else None
    if decided is None and strange:
        decided = 1.0
    if decided is None and mood:
        decided = float(mood > 0)
    return config.noise / 2 + (1 - config.noise) * (usual if decided is None else decided)


def slowly(
    config: ListeningConfig,
    groups: tuple[str, ...],
    truth: list[tuple[int, bool]],
    mood: int,
    skips: list[bool],
) -> list[float]:
    """Sum over all possible courses of a session with these first skips."""
    half, length = len(truth) // 2, len(truth)
    shares = {-1: config.unpopular, 1: config.popular}
    shares[0] = 1 - sum(shares.values())
    unlike = {True: config.off_genre, False: 1 - config.off_genre}
    moods = {-1: config.calm, 1: config.restless}
    moods[0] = 1 - sum(moods.values())
    wholes, parts = 0.0, np.zeros(length)
    for skipper, feeling, way in product((0, 1), moods, product((0, 1), repeat=length)):
        if "interaction" in groups and list(way[:half]) != skips[:half]:
            continue
        if "context" in groups and feeling != mood:
            continue
        chance = moods[feeling] * (config.skippers if skipper else 1 - config.skippers)
        for place, skipped in enumerate(way):
            habit = config.habit if skipper else 1 - config.habit
            before = config.momentum * way[place - 1] + (1 - config.momentum) * habit
            known_popular, known_strange = truth[place]
            skip = 0.0
            for popular, strange in product(shares, (False, True)):
                seen = (popular == known_popular, strange == known_strange)
                unseen = (shares[popular], unlike[strange])
                weight = seen[0] if "general" in groups else unseen[0]
                weight *= seen[1] if "music" in groups else unseen[1]
                tired = feeling if place >= half else 0
                skip += weight * rule(config, popular, strange, tired, before if place else habit)
            chance *= skip if skipped else 1 - skip
        wholes += chance
        parts += chance * np.array(way)
    return list(parts[half:] / wholes)


def made(folder: Path, config: ListeningConfig) -> Sessions:
    files = write_sessions(folder / "sessions", config)
    (sessions,) = read_sessions(files.logs[0], read_tracks(files.tracks), causes=files.causes[0])
    return sessions


def test_probabilities_match_enumeration(tmp_path: Path) -> None:
    sessions, tracks = made(tmp_path, LISTENING), design_tracks(LISTENING)
    found = oracle_probabilities(sessions, tracks, LISTENING)
    with next((tmp_path / "sessions" / "training_set").iterdir()).open() as file:
        rows = list(csv.DictReader(file))
    for number, (start, end) in enumerate(
        zip(sessions.offsets[:-1], sessions.offsets[1:], strict=True)
    ):
        genres = [int(tracks.genre[one]) for one in sessions.tracks[start:end]]
        home = max(sorted(set(genres)), key=genres.count)
        truth = [
            (int(tracks.consensus[one]), genre != home)
            for one, genre in zip(sessions.tracks[start:end], genres, strict=True)
        ]
        mood = MOODS.get(rows[start]["context_type"], 0)
        skips = sessions.skipped[start:end].tolist()
        for expert, subset in enumerate(EXPERTS.subsets):
            expected = slowly(LISTENING, subset.groups, truth, mood, skips)
            np.testing.assert_allclose(found[expert, number, : len(expected)], expected)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> tuple[Floats, Bools]:
    """`[H, N]` probabilities, and whether each track was skipped."""
    config = ListeningConfig(sessions=5_000)
    folder = tmp_path_factory.mktemp("oracle")
    files = write_sessions(folder / "sessions", config)
    tracks, design = read_tracks(files.tracks), design_tracks(config)
    probabilities, skipped = [], []
    for sessions in read_sessions(files.logs[0], tracks):
        batch = halve_sessions(sessions, tracks)
        probabilities.append(oracle_probabilities(sessions, design, config)[:, batch.upcoming_mask])
        skipped.append(batch.skipped[batch.upcoming_mask])
    return np.concatenate(probabilities, axis=1), np.concatenate(skipped)


def test_probabilities_are_calibrated(many: tuple[Floats, Bools]) -> None:
    probabilities, skipped = many
    for expert in probabilities:
        bins = (expert * 10).astype(int)
        for one in np.flatnonzero(np.bincount(bins) > 500):
            message, happened = expert[bins == one].mean(), skipped[bins == one].mean()
            assert happened == pytest.approx(message, abs=0.04)


def test_larger_experts_are_more_accurate(many: tuple[Floats, Bools]) -> None:
    probabilities, skipped = many
    losses = -np.log(np.where(skipped, probabilities, 1 - probabilities)).mean(axis=1)
    for expert, inside in enumerate(EXPERTS.contained):
        assert all(losses[expert] < losses[one] for one in inside)


def test_certain_causes_are_named_and_habits_are_not(tmp_path: Path) -> None:
    """A habit is never certain, so the selection passes to experts that see more."""
    config = ListeningConfig(sessions=2_000)
    possible = oracle_experts(write_sessions(tmp_path / "sessions", config), config)
    attribution = possible.experts.attribution
    assert attribution is not None
    named = {name: one.value for name, one in cause_accuracy(attribution).items()}
    assert min(named[one.word] for one in (Cause.CONTEXT, Cause.MUSIC, Cause.POPULARITY)) > 0.9
    assert named[Cause.PERSISTENCE.word] < 0.2
    one, together = (
        scores.measures()["accuracy"].value for scores in (possible.single, possible.experts.scores)
    )
    assert one - 0.02 < together < one


@pytest.mark.parametrize("name", [field.name for field in fields(ListeningConfig)])
def test_other_settings_are_rejected(name: str, tmp_path: Path) -> None:
    """The manifest names the first setting that differs."""
    config = replace(LISTENING, tracks=70)
    files = write_sessions(tmp_path / "made", config)
    value = getattr(config, name)
    other = value + (1 if isinstance(value, int) else 0.01)
    with pytest.raises(InputError) as error:
        oracle_experts(files, replace(config, **{name: other}))
    assert str(error.value).startswith(
        f"{tmp_path / 'made' / 'manifest.json'}: these sessions were written with {name}={value}, "
        f"not {other}."
    )


@pytest.mark.parametrize("manifest", [None, "{}"])
def test_without_manifest_the_tracks_are_compared(manifest: str | None, tmp_path: Path) -> None:
    files = write_sessions(tmp_path / "made", LISTENING)
    (tmp_path / "made" / "manifest.json").unlink()
    if manifest is not None:
        (tmp_path / "made" / "manifest.json").write_text(manifest)
    for other in ({"seed": 3}, {"tracks": 70}):
        with pytest.raises(InputError, match="were not written with these settings"):
            oracle_experts(files, replace(LISTENING, **other))
    assert len(oracle_experts(files, replace(LISTENING, habit=0.5)).single) == LISTENING.sessions


def test_longer_sessions_need_more_slots(tmp_path: Path) -> None:
    config = replace(LISTENING, longest=30)
    files = write_sessions(tmp_path / "made", config)
    possible = oracle_experts(files, config, slots=15)
    attribution = possible.experts.attribution
    assert attribution is not None
    assert len(attribution) == possible.single.tracks.sum()
    assert possible.single.tracks.max() == 15
    with pytest.raises(InputError, match="does not fit into 2 × 10 slots; raise slots="):
        oracle_experts(files, config)
