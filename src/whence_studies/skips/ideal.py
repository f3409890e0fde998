"""Experts that know the rules by which sessions were made: no network can know more.

Each says the exact probability of a skip, given the groups it sees and the rules of
`whence_studies.sessions.listening`; only the genre of a session is taken to be that of most of its
tracks. What is selected of them is what the selection makes of perfect experts, and so the measure
for experts that were trained.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from whence.arrays import Ints
from whence.errors import InputError
from whence.experts import DEFAULT, PLOTTED, Selection
from whence_studies.sessions.columns import LOGGED, TRACK_ID
from whence_studies.sessions.halves import Halves, cut_in_half
from whence_studies.sessions.listening import CALM, RESTLESS
from whence_studies.sessions.listening_config import ListeningConfig
from whence_studies.sessions.logs import SLOTS, Sessions, read_sessions
from whence_studies.sessions.session_files import SessionFiles
from whence_studies.sessions.skip_accuracy import SkipScores, join_scores, score_skips
from whence_studies.sessions.synthetic_tracks import MadeTracks
from whence_studies.sessions.tracks import read_tracks
from whence_studies.sessions.writing import design_tracks, refuse_other_settings
from whence_studies.skips.networks import EXPERTS
from whence_studies.skips.skip_attribution import Attribution, attribution_of, join_attributions
from whence_studies.skips.skip_evaluation import Evaluated

MOODS: Final = (-1, 0, 1)
USED: Final = DEFAULT.inference

Chances = npt.NDArray[np.float64]


class Possible(NamedTuple):
    """What can be reached: by one who sees all groups, and by experts of which one is selected."""

    by_one: SkipScores
    by_experts: Evaluated


@dataclass(frozen=True, eq=False)
class _Clues:
    """What decides over skips, each as the probability of it: 0 or 1 where it is seen."""

    half: Ints
    """`[B]`: how many tracks are known."""
    skipped: Chances
    """`[B, T]`: what was done with each track."""
    everybodys: Chances
    """`[2, B, T]`: skipped by everybody, and by nobody."""
    strange: Chances
    """`[B, T]`: unlike the other tracks of the session."""
    mood: Chances
    """`[3, B]`: that the context is calm, neither, or restless."""


def ideal_experts(files: SessionFiles, listening: ListeningConfig, slots: int = SLOTS) -> Possible:
    """What can be reached on sessions that were made with these settings.

    Of sessions of more than 2 × `SLOTS` tracks each half needs more slots.
    """
    refuse_other_settings(files, listening)
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
    for sessions, halves in _read(files, slots):
        answers = 2 * ideal_chances(sessions, made, listening, slots) - 1
        weights = _select(answers, USED)
        one.append(score_skips(answers[-1] > 0, halves))
        mixed.append(score_skips((weights * answers).sum(axis=0) > 0, halves))
        used.append(_attribution(weights, halves))
        plotted.append(_attribution(_select(answers, PLOTTED), halves))
    together = Evaluated(join_scores(mixed), join_attributions(used), join_attributions(plotted))
    return Possible(join_scores(one), together)


def _select(answers: Chances, selection: Selection) -> Chances:
    """`[H, B, slots]`: α, of answers from −1 to 1."""
    sure = torch.from_numpy(np.abs(answers).reshape(len(EXPERTS), -1))
    weights: Chances = selection(EXPERTS, sure).numpy().reshape(answers.shape)
    return weights


def _attribution(weights: Chances, halves: Halves) -> Attribution:
    return attribution_of(np.moveaxis(weights, 0, -1).astype(np.float32), halves)


def ideal_chances(
    sessions: Sessions, made: MadeTracks, listening: ListeningConfig, slots: int = SLOTS
) -> Chances:
    """`[H, B, slots]`: the probability of a skip that each expert would give the asked tracks."""
    seen = _read_clues(sessions, made, listening)
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


def _read(files: SessionFiles, slots: int) -> Iterator[tuple[Sessions, Halves]]:
    tracks = read_tracks(files.tracks)
    for log, path in enumerate(files.logs):
        causes = files.causes[log] if files.causes else None
        for sessions in read_sessions(path, tracks, slots, causes):
            yield sessions, cut_in_half(sessions, tracks, slots)


def _read_clues(sessions: Sessions, made: MadeTracks, listening: ListeningConfig) -> _Clues:
    """As one who sees all groups reads them."""
    lengths = np.diff(sessions.offsets)
    there = np.arange(lengths.max()) < lengths[:, None]
    track, skipped = np.zeros(there.shape, np.int64), np.zeros(there.shape)
    track[there], skipped[there] = sessions.tracks, sessions.skipped
    everybodys = made.everybodys[track]
    genre = made.genre[track]
    of_genre = [((genre == one) & there).sum(axis=1) for one in range(listening.genres)]
    home = np.argmax(of_genre, axis=0)
    first = sessions.logged[sessions.offsets[:-1]]
    calm, restless = (
        first[:, [LOGGED.index(f"context_type_{name}") for name in names]].any(axis=1)
        for names in (CALM, RESTLESS)
    )
    return _Clues(
        half=lengths // 2,
        skipped=skipped,
        everybodys=np.stack([everybodys < 0, everybodys > 0]).astype(float),
        strange=(genre != home[:, None]).astype(float),
        mood=np.stack([calm, ~(calm | restless), restless]).astype(float),
    )


def _priors(seen: _Clues, listening: ListeningConfig) -> _Clues:
    """As one knows them who sees nothing."""
    everybodys = np.array([listening.unpopular, listening.popular])
    calm, restless = listening.calm, listening.restless
    mood = np.array([calm, 1 - calm - restless, restless])
    return replace(
        seen,
        everybodys=np.broadcast_to(everybodys[:, None, None], seen.everybodys.shape),
        strange=np.full_like(seen.strange, listening.strangers),
        mood=np.broadcast_to(mood[:, None], seen.mood.shape),
    )


def _only(groups: tuple[str, ...], seen: _Clues, unseen: _Clues) -> _Clues:
    """What can be read from these groups."""
    return replace(
        seen,
        everybodys=(seen if "general" in groups else unseen).everybodys,
        strange=(seen if "music" in groups else unseen).strange,
        mood=(seen if "context" in groups else unseen).mood,
    )


def _predict(clues: _Clues, skips_seen: bool, listening: ListeningConfig, slots: int) -> Chances:
    """`[B, slots]`: track after track, for every mood and habit, each as probable as it is."""
    count = len(clues.half)
    rows = np.arange(count)
    habits = np.array([1 - listening.habit, listening.habit])[:, None]
    likely = np.array([1 - listening.skippers, listening.skippers])[:, None] * np.ones(count)
    before = np.zeros((len(MOODS), 2, count))
    asked = np.zeros((count, slots))
    for place in range(clues.skipped.shape[1]):
        late = place >= clues.half
        skip, persists = _decide(clues, place, late, listening)
        momentum = listening.momentum if place else 0.0
        usual = momentum * before + (1 - momentum) * habits
        now = skip[:, None] + persists[:, None] * usual
        if skips_seen:
            done = clues.skipped[:, place]
            fits = np.where(done == 1, now[1], 1 - now[1])
            likely = np.where(late, likely, likely * fits)
            now = np.where(late, now, done)
        before = now
        chance = (clues.mood * (likely * now).sum(axis=1)).sum(axis=0) / likely.sum(axis=0)
        slot = place - clues.half
        here = late & (slot < slots)
        asked[rows[here], slot[here]] = chance[here]
    return asked


def _decide(
    clues: _Clues, place: int, late: npt.NDArray[np.bool_], listening: ListeningConfig
) -> tuple[Chances, Chances]:
    """`[3, B]`, for every mood: that something makes this a skip, and that nothing decides."""
    skipped, played = clues.everybodys[:, :, place]
    strange = clues.strange[:, place]
    tired = late * np.array(MOODS)[:, None]
    open_yet = 1 - skipped - played
    noise = listening.noise
    skip = noise / 2 + (1 - noise) * (skipped + open_yet * np.where(tired > 0, 1.0, strange))
    persists = (1 - noise) * open_yet * (1 - strange) * (tired == 0)
    return skip, persists
