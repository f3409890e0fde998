"""Experts that know the rules by which sessions were made: no network can know more.

Each says the exact probability of a skip, given the groups it sees and the rules of
`whence_studies.sessions.synthetic_sessions`; only the genre of a session is taken to be that of most of its
tracks. What is selected of them is what the selection makes of perfect experts, and so the measure
for experts that were trained.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
import torch

from whence.arrays import Bools, Floats, Ints
from whence.errors import InputError
from whence.experts import DEFAULT, PLOTTED, Selection
from whence_studies.sessions.listening_config import ListeningConfig
from whence_studies.sessions.logs import SLOTS, Sessions, read_sessions
from whence_studies.sessions.schema import LOG_FEATURES, TRACK_ID
from whence_studies.sessions.session_batches import SessionBatch, halve_sessions
from whence_studies.sessions.session_files import SessionFiles
from whence_studies.sessions.skip_accuracy import SkipScores, concat_scores, score_skips
from whence_studies.sessions.synthetic_sessions import (
    CALM,
    RESTLESS,
    SyntheticTracks,
    check_settings,
    design_tracks,
)
from whence_studies.sessions.tracks import read_tracks
from whence_studies.skips.networks import EXPERTS
from whence_studies.skips.skip_attribution import Attribution, attribution_of, concat_attributions
from whence_studies.skips.skip_evaluation import SkipEvaluation

MOODS: Final = (-1, 0, 1)
USED: Final = DEFAULT.inference


class OracleScores(NamedTuple):
    """What can be reached: by one who sees all groups, and by experts of which one is selected."""

    single: SkipScores
    experts: SkipEvaluation


@dataclass(frozen=True, eq=False)
class _Evidence:
    """What decides over skips, each as the probability of it: 0 or 1 where it is seen."""

    half: Ints
    """`[B]`: how many tracks are known."""
    skipped: Floats
    """`[B, T]`: what was done with each track."""
    consensus: Floats
    """`[2, B, T]`: skipped by everybody, and by nobody."""
    strange: Floats
    """`[B, T]`: unlike the other tracks of the session."""
    mood: Floats
    """`[3, B]`: that the context is calm, neither, or restless."""


def oracle_experts(
    files: SessionFiles, listening: ListeningConfig, slots: int = SLOTS
) -> OracleScores:
    """What can be reached on sessions that were made with these settings.

    Of sessions of more than 2 × `SLOTS` tracks each half needs more slots.
    """
    check_settings(files, listening)
    made = design_tracks(listening)
    if not made.table[TRACK_ID].equals(read_tracks(files.tracks).ids):
        raise InputError(
            f"The tracks in {files.tracks[0].parent} were not made with these settings; say those "
            "that write_sessions was given."
        )
    one: list[SkipScores] = []
    mixed: list[SkipScores] = []
    used: list[Attribution] = []
    plotted: list[Attribution] = []
    for sessions, batch in _read(files, slots):
        answers = 2 * oracle_probabilities(sessions, made, listening, slots) - 1
        weights = _select(answers, USED)
        one.append(score_skips(answers[-1] > 0, batch))
        mixed.append(score_skips((weights * answers).sum(axis=0) > 0, batch))
        used.append(_attribution(weights, batch))
        plotted.append(_attribution(_select(answers, PLOTTED), batch))
    together = SkipEvaluation(
        concat_scores(mixed), concat_attributions(used), concat_attributions(plotted)
    )
    return OracleScores(concat_scores(one), together)


def _select(answers: Floats, selection: Selection) -> Floats:
    """`[H, B, slots]`: α, of answers from −1 to 1."""
    sure = torch.from_numpy(np.abs(answers).reshape(len(EXPERTS), -1))
    weights: Floats = selection(EXPERTS, sure).numpy().reshape(answers.shape)
    return weights


def _attribution(weights: Floats, batch: SessionBatch) -> Attribution:
    return attribution_of(np.moveaxis(weights, 0, -1).astype(np.float32), batch)


def oracle_probabilities(
    sessions: Sessions, made: SyntheticTracks, listening: ListeningConfig, slots: int = SLOTS
) -> Floats:
    """`[H, B, slots]`: the probability of a skip that each expert would give the asked tracks."""
    seen = _read_evidence(sessions, made, listening)
    unseen = _priors(seen, listening)
    return np.stack(
        [
            _predict(
                _only(subset.groups, seen, unseen),
                "interaction" in subset.groups,
                listening,
                slots,
            )
            for subset in EXPERTS.subsets
        ]
    )


def _read(files: SessionFiles, slots: int) -> Iterator[tuple[Sessions, SessionBatch]]:
    tracks = read_tracks(files.tracks)
    for log, path in enumerate(files.logs):
        causes = files.causes[log] if files.causes else None
        for sessions in read_sessions(path, tracks, slots, causes):
            yield sessions, halve_sessions(sessions, tracks, slots)


def _read_evidence(
    sessions: Sessions, made: SyntheticTracks, listening: ListeningConfig
) -> _Evidence:
    """As one who sees all groups reads them."""
    lengths = np.diff(sessions.offsets)
    there = np.arange(lengths.max()) < lengths[:, None]
    track, skipped = np.zeros(there.shape, np.int64), np.zeros(there.shape)
    track[there], skipped[there] = sessions.tracks, sessions.skipped
    consensus = made.consensus[track]
    genre = made.genre[track]
    of_genre = [((genre == one) & there).sum(axis=1) for one in range(listening.genres)]
    home = np.argmax(of_genre, axis=0)
    first = sessions.logged[sessions.offsets[:-1]]
    calm, restless = (
        first[:, [LOG_FEATURES.index(f"context_type_{name}") for name in names]].any(axis=1)
        for names in (CALM, RESTLESS)
    )
    return _Evidence(
        half=lengths // 2,
        skipped=skipped,
        consensus=np.stack([consensus < 0, consensus > 0]).astype(float),
        strange=(genre != home[:, None]).astype(float),
        mood=np.stack([calm, ~(calm | restless), restless]).astype(float),
    )


def _priors(seen: _Evidence, listening: ListeningConfig) -> _Evidence:
    """As one knows them who sees nothing."""
    consensus = np.array([listening.unpopular, listening.popular])
    calm, restless = listening.calm, listening.restless
    mood = np.array([calm, 1 - calm - restless, restless])
    return replace(
        seen,
        consensus=np.broadcast_to(consensus[:, None, None], seen.consensus.shape),
        strange=np.full_like(seen.strange, listening.off_genre),
        mood=np.broadcast_to(mood[:, None], seen.mood.shape),
    )


def _only(groups: tuple[str, ...], seen: _Evidence, unseen: _Evidence) -> _Evidence:
    """What can be read from these groups."""
    return replace(
        seen,
        consensus=(seen if "general" in groups else unseen).consensus,
        strange=(seen if "music" in groups else unseen).strange,
        mood=(seen if "context" in groups else unseen).mood,
    )


def _predict(
    evidence: _Evidence, skips_seen: bool, listening: ListeningConfig, slots: int
) -> Floats:
    """`[B, slots]`: track after track, for every mood and habit, each as probable as it is."""
    count = len(evidence.half)
    rows = np.arange(count)
    habits = np.array([1 - listening.habit, listening.habit])[:, None]
    likely = np.array([1 - listening.skippers, listening.skippers])[:, None] * np.ones(count)
    before = np.zeros((len(MOODS), 2, count))
    upcoming = np.zeros((count, slots))
    for place in range(evidence.skipped.shape[1]):
        late = place >= evidence.half
        skip, persists = _decide(evidence, place, late, listening)
        momentum = listening.momentum if place else 0.0
        usual = momentum * before + (1 - momentum) * habits
        now = skip[:, None] + persists[:, None] * usual
        if skips_seen:
            done = evidence.skipped[:, place]
            fits = np.where(done == 1, now[1], 1 - now[1])
            likely = np.where(late, likely, likely * fits)
            now = np.where(late, now, done)
        before = now
        chance = (evidence.mood * (likely * now).sum(axis=1)).sum(axis=0) / likely.sum(axis=0)
        slot = place - evidence.half
        here = late & (slot < slots)
        upcoming[rows[here], slot[here]] = chance[here]
    return upcoming


def _decide(
    evidence: _Evidence, place: int, late: Bools, listening: ListeningConfig
) -> tuple[Floats, Floats]:
    """`[3, B]`, for every mood: that something makes this a skip, and that nothing decides."""
    skipped, played = evidence.consensus[:, :, place]
    strange = evidence.strange[:, place]
    tired = late * np.array(MOODS)[:, None]
    open_yet = 1 - skipped - played
    noise = listening.noise
    skip = noise / 2 + (1 - noise) * (skipped + open_yet * np.where(tired > 0, 1.0, strange))
    persists = (1 - noise) * open_yet * (1 - strange) * (tired == 0)
    return skip, persists
