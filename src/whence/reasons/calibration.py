"""A calibrator of a run's own: the default one learns on, from worlds like the data of the run.

Worlds of all generators have the history lengths and the item popularity of the data. Networks are
trained on them, and a calibrator learns how these show their reasons. It is kept if it finds the
truth of other such worlds more probable than the default one does. What was done for a world is
kept in a folder, so that an interrupted calibration resumes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import torch
from rich.table import Table

from whence.data.copies import cache_folder
from whence.data.interactions import Interactions
from whence.errors import InputError, OutOfTime, OutputError
from whence.files import writing
from whence.models import Recommender
from whence.models.base import HasOwnReasons
from whence.progress import print_line, progress_bar
from whence.reasons.calibrator import Calibrator, Examples, fit
from whence.reasons.judgement import SURE
from whence.reasons.lessons import Lesson
from whence.reasons.of_run import DEFAULT, OWN, default_calibrator
from whence.reasons.scoring import Scores, log_probability_of_truth, scores_of
from whence.reasons.teaching import ALL_SEEDS, FIRST_SEED, WorldLessons
from whence.run import Run
from whence.terminal import plain_table
from whence.worlds.designs import GENERATORS
from whence.worlds.world_like import draw_config_like

MINUTES: Final = 60.0
"""How long it takes at most, unless told otherwise. Six worlds and five seeds need about half of it
on two processor cores."""
FIRST_DRAW: Final = 1_001
"""No study reports a world with this draw or a later one. The worlds of this one are held out."""
WORLDS_EACH: Final = 4
"""The most worlds of a generator to learn from."""
MOST_SEEDS: Final = 5
USERS: Final = 300
"""How many users of a world are recommended to."""
BATCH_SIZES: Final = {"cpu": 64, "cuda": 256}
"""Of the networks of worlds. Those of the default calibrator have the larger one, with which a
processor needs an hour for three worlds."""
STEPS, LEARNING_RATE = 300, 3e-4
"""Fewer and smaller steps than those of the default calibrator, which is the start. Tried on worlds
like two datasets: more of them fit these few worlds better, and others worse."""
FOR_WORLDS: Final = 0.85
"""The share of the time that worlds may take; learning from them comes after."""
LESSONS: Final = (ALL_SEEDS, FIRST_SEED)
KEPT_IN: Final = "reasons"


@dataclass(frozen=True)
class Reached:
    """What a calibrator reaches on the held-out worlds; `None` if there was no such case."""

    log_probability: float
    """The mean log-probability of the truth."""
    precision: float | None
    coverage: float | None
    false_claims: float | None

    @staticmethod
    def of(lessons: Sequence[Lesson], calibrator: Calibrator) -> Reached:
        """Measure a calibrator; each world counts the same in the log-probability."""
        scores = Scores.joined([scores_of(one, calibrator) for one in lessons])
        probable = [log_probability_of_truth(one, calibrator) for one in lessons]
        found = (scores.precision(SURE), scores.coverage(SURE), scores.false_claims(SURE))
        return Reached(
            sum(probable) / len(probable), *(None if math.isnan(one) else one for one in found)
        )


@dataclass(frozen=True)
class Calibration:
    """What came of a calibration."""

    kept: str | None
    """`OWN`, `DEFAULT`, or nothing if the run needs no calibrator."""
    why: str
    """A sentence."""
    worlds: int = 0
    """How many worlds it learned from."""
    minutes: float = 0.0
    """How long it could take at most."""
    held_out: Mapping[str, Reached] | None = None
    """By calibrator."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain types, for the description of the run."""
        return asdict(self)

    @staticmethod
    def from_dict(document: Mapping[str, Any]) -> Calibration:
        """Return what `as_dict` described."""
        held_out = document["held_out"] and {
            name: Reached(**one) for name, one in document["held_out"].items()
        }
        return Calibration(**{**document, "held_out": held_out})

    def table(self) -> Table:
        """Return what both calibrators reach, side by side."""
        title = (
            f"Reasons said at {SURE:.0%}, on {len(GENERATORS)} held-out worlds like the data "
            f"({', '.join(GENERATORS)})"
        )
        headings = ("log-probability of the truth", "precision", "coverage", "false claims")
        table = plain_table(title, "calibrator", *headings, "kept", numbers=5)
        for name, one in (self.held_out or {}).items():
            shares = (one.precision, one.coverage, one.false_claims)
            table.add_row(
                name,
                f"{one.log_probability:.3f}",
                *("–" if share is None else f"{share:.3f}" for share in shares),
                "yes" if name == self.kept else "",
            )
        return table


@dataclass(frozen=True)
class Calibrating:
    """A calibration that was asked for."""

    minutes: float = MINUTES
    device: str = "cpu"
    until: float | None = None
    """A time by `time.monotonic()` at which it ends in any case."""
    show_progress: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.minutes < math.inf:
            raise InputError(f"calibrate_minutes must be above 0, not {self.minutes:g}.")

    def check_model(self, model: Recommender, name: str) -> None:
        """Refuse a model whose reasons need no calibrator, and a folder that cannot be written."""
        leave_out = "Leave out --calibrate (in Python calibrate=)."
        if not model.reads_history:
            raise InputError(
                f"{name} reads no history, so none of its recommendations has an item as its "
                f"reason. {leave_out}"
            )
        if isinstance(model, HasOwnReasons):
            raise InputError(
                f"The rule of {name} is the reason of each recommendation, so there is nothing to "
                f"calibrate. {leave_out}"
            )
        made_in(self._cache)

    def check_data(self, interactions: Interactions) -> None:
        """Refuse data that no world can resemble."""
        draw_config_like(interactions, GENERATORS[0], FIRST_DRAW)

    def complete(self, run: Run) -> Run:
        """Return the run with its calibrator, if it is better than the default one.

        If the time is not enough for the worlds that are needed at least, raise `OutOfTime`. What
        was done for whole worlds is kept, and another call continues.
        """
        if isinstance(run.whole, HasOwnReasons):
            why = f"{run.model} needs no calibrator, because its rule is its reason."
            return _with(run, Calibration(None, why))
        print_line(
            f"Calibrating the reasons, on worlds like the data, takes at most {self.minutes:g} "
            f"minute{'' if self.minutes == 1 else 's'}.",
            self.show_progress,
        )
        held_out: list[Lesson] = []
        examples: list[list[Examples]] = []
        for lessons in self._lessons(run):
            if len(held_out) < len(GENERATORS):
                held_out.append(lessons[ALL_SEEDS])
                continue
            # With one seed, the lesson of all of them is that of the first one.
            names = LESSONS if len(run.models) > 1 else (ALL_SEEDS,)
            examples.append([lessons[name].examples() for name in names])
        default = default_calibrator()
        each = [one for some in examples for one in some]
        own = fit(each, start=default, steps=STEPS, learning_rate=LEARNING_RATE)
        reached = {OWN: Reached.of(held_out, own), DEFAULT: Reached.of(held_out, default)}
        better = reached[OWN].log_probability > reached[DEFAULT].log_probability
        why = _why(better, len(examples))
        kept = OWN if better else DEFAULT
        found = Calibration(kept, why, len(examples), self.minutes, reached)
        return _with(run, found, own.to_bytes() if better else None)

    @property
    def _cache(self) -> Path:
        return cache_folder() / KEPT_IN

    def _lessons(self, run: Run) -> Iterator[Mapping[str, Lesson]]:
        """Yield the lessons of the held-out worlds, and of the others until the time is up."""
        now = time.monotonic()
        until = min(now + 60 * FOR_WORLDS * self.minutes, self.until or math.inf)
        worlds, needed, longest = self._worlds(run), 2 * len(GENERATORS), 0.0
        bar = progress_bar(
            "worlds like the data", len(worlds), self.show_progress, may_end_early=True
        )
        for place, one in enumerate(bar.track(worlds)):
            started = time.monotonic()
            if place >= needed and started + longest > until:
                return
            try:
                lessons = one.lessons(self._cache, until=until, show_progress=False)
            except OutOfTime:
                if place >= needed:
                    return
                raise OutOfTime(
                    f"Time is up: {place} of the {needed} worlds that a calibration needs at least "
                    "are done, and kept. Repeat the same call to continue, or allow more than "
                    f"{self.minutes:g} minutes with --calibrate-minutes (in Python "
                    "calibrate_minutes=)."
                ) from None
            yield lessons
            longest = max(longest, time.monotonic() - started)

    def _worlds(self, run: Run) -> list[WorldLessons]:
        """Return the worlds in turn: one of each generator to hold out, then those to learn."""
        seeds = min(len(run.models), MOST_SEEDS)
        batch_size = BATCH_SIZES[torch.device(self.device).type]
        return [
            WorldLessons(
                draw_config_like(run.interactions, generator, draw),
                seeds,
                USERS,
                self.device,
                batch_size,
            )
            for draw in range(FIRST_DRAW, FIRST_DRAW + 1 + WORLDS_EACH)
            for generator in GENERATORS
        ]


def describe_kept() -> str:
    """Return one line for `whence doctor`: where worlds are kept, and how large they are."""
    folder = cache_folder() / KEPT_IN
    size = sum(path.stat().st_size for path in folder.rglob("*.safetensors"))
    return f"{folder} ({size / 2**20:.1f} MB; safe to delete)"


def made_in(folder: Path) -> Path:
    """Return the folder of what calibrations keep, which only its owner can read."""
    try:
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o700)
    except OutputError as problem:
        raise OutputError(f"{problem} Set WHENCE_CACHE to a folder that can be.") from None
    return folder


def _why(better: bool, worlds: int) -> str:
    learned = f"learned on {worlds} worlds like the data"
    if better:
        return (
            f"Reasons have a calibrator of this run, {learned}: on worlds held out, it finds the "
            "truth more probable than the default one does."
        )
    return (
        f"Reasons keep the default calibrator: on worlds held out, it finds the truth at least as "
        f"probable as the one {learned} does."
    )


def _with(run: Run, found: Calibration, calibrator: bytes | None = None) -> Run:
    training = {**run.training, "calibration": found.as_dict()}
    return replace(run, calibrator=calibrator, training=training)
