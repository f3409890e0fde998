"""Oracle experts, which know the rules of synthetic sessions; no network can know more.

Each expert gives the exact probability of a skip, given the groups it sees and the rules in
`whence_studies.sessions.synthetic_sessions`. One approximation remains: the genre of a session is
taken to be that of most of its tracks. The experts selected among these perfect ones are the upper
bound for trained experts.
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
from whence_studies.skips.skip_attribution import (
    SkipAttribution,
    attribution_of,
    concat_attributions,
)
from whence_studies.skips.skip_evaluation import SkipEvaluation

MOODS: Final = (-1, 0, 1)
USED: Final = DEFAULT.inference


class OracleScores(NamedTuple):
    """The best possible results: of one network that sees all groups, and of selected experts."""

    single: SkipScores
    experts: SkipEvaluation


@dataclass(frozen=True, eq=False)
class _Evidence:
    """The variables that decide about skips, as probabilities; 0 or 1 if observed."""

    half: Ints
    """`[B]`: number of known tracks."""
    skipped: Floats
    """`[B, T]`: whether each track was skipped."""
    consensus: Floats
    """`[2, B, T]`: skipped by everybody, and by nobody."""
    strange: Floats
    """`[B, T]`: unlike the other tracks of the session."""
    mood: Floats
    """`[3, B]`: that the context is calm, neither, or restless."""


def oracle_experts(
    files: SessionFiles, listening: ListeningConfig, slots: int = SLOTS
) -> OracleScores:
    """Return the best possible results on synthetic sessions with these settings.

    Sessions of more than 2 × `SLOTS` tracks need more `slots` per half.
    """
    check_settings(files, listening)
    drawn = design_tracks(listening)
    if not drawn.table[TRACK_ID].equals(read_tracks(files.tracks).ids):
        raise InputError(
            f"The tracks in {files.tracks[0].parent} were not written with these settings. Pass "
            "the settings that write_sessions got."
        )
    single: list[SkipScores] = []
    mixed: list[SkipScores] = []
    used: list[SkipAttribution] = []
    plotted: list[SkipAttribution] = []
    for sessions, batch in _read(files, slots):
        outputs = 2 * oracle_probabilities(sessions, drawn, listening, slots) - 1
        weights = _select(outputs, USED)
        single.append(score_skips(outputs[-1] > 0, batch))
        mixed.append(score_skips((weights * outputs).sum(axis=0) > 0, batch))
        used.append(_attribution(weights, batch))
        plotted.append(_attribution(_select(outputs, PLOTTED), batch))
    together = SkipEvaluation(
        concat_scores(mixed), concat_attributions(used), concat_attributions(plotted)
    )
    return OracleScores(concat_scores(single), together)


def _select(outputs: Floats, selection: Selection) -> Floats:
    """Return α `[H, B, slots]` from outputs between −1 and 1."""
    distance = torch.from_numpy(np.abs(outputs).reshape(len(EXPERTS), -1))
    weights: Floats = selection(EXPERTS, distance).numpy().reshape(outputs.shape)
    return weights


def _attribution(weights: Floats, batch: SessionBatch) -> SkipAttribution:
    return attribution_of(np.moveaxis(weights, 0, -1).astype(np.float32), batch)


def oracle_probabilities(
    sessions: Sessions, drawn: SyntheticTracks, listening: ListeningConfig, slots: int = SLOTS
) -> Floats:
    """Return each expert's probability of a skip for the upcoming tracks, `[H, B, slots]`."""
    seen = _read_evidence(sessions, drawn, listening)
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
    sessions: Sessions, drawn: SyntheticTracks, listening: ListeningConfig
) -> _Evidence:
    """Return the evidence of an expert that sees all groups."""
    lengths = np.diff(sessions.offsets)
    there = np.arange(lengths.max()) < lengths[:, None]
    track, skipped = np.zeros(there.shape, np.int64), np.zeros(there.shape)
    track[there], skipped[there] = sessions.tracks, sessions.skipped
    consensus = drawn.consensus[track]
    genre = drawn.genre[track]
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
    """Return the evidence of an expert that sees nothing."""
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
    """Return the evidence in these groups."""
    return replace(
        seen,
        consensus=(seen if "general" in groups else unseen).consensus,
        strange=(seen if "music" in groups else unseen).strange,
        mood=(seen if "context" in groups else unseen).mood,
    )


def _predict(
    evidence: _Evidence, skips_seen: bool, listening: ListeningConfig, slots: int
) -> Floats:
    """Return the probability of each upcoming skip, `[B, slots]`.

    Runs along the session for every mood and habit, each weighted by its probability.
    """
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
    """Return for every mood, `[3, B]`, the probability of a forced skip and of no decision."""
    skipped, played = evidence.consensus[:, :, place]
    strange = evidence.strange[:, place]
    tired = late * np.array(MOODS)[:, None]
    undecided = 1 - skipped - played
    noise = listening.noise
    skip = noise / 2 + (1 - noise) * (skipped + undecided * np.where(tired > 0, 1.0, strange))
    persists = (1 - noise) * undecided * (1 - strange) * (tired == 0)
    return skip, persists
