"""How often the reasons that Whence says are true, on worlds whose true reasons are known.

A calibrator learns on worlds that are not reported. In the same kind, those are worlds of the same
generator with other parameters; in another kind, worlds of the other generators.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from whence.config import build
from whence.devices import machine
from whence.errors import OutOfTime
from whence.files import make_parent, new_file
from whence.progress import progress_bar
from whence.reasons.calibrator import Calibrator, fit
from whence.reasons.features import BY_CHECK
from whence.reasons.judgement import SURE, Kind
from whence.reasons.lessons import Lesson
from whence.reasons.scoring import (
    NOISE,
    Scores,
    scores_of,
    scores_of_former_rule,
    scores_of_ideal,
)
from whence.reasons.teaching import ALL_SEEDS, FIRST_SEED, WorldLessons
from whence.worlds.designs import GENERATORS, Generator
from whence_studies.claims import Estimate, over_seeds
from whence_studies.records import NOT_RUN, Record
from whence_studies.results import UNPUBLISHED
from whence_studies.study import REASONS, Study
from whence_studies.tables.reasons_plan import ReasonsPlan
from whence_studies.tables.trained_skips import Workspace

SAME, ANOTHER, DEFAULT = "same kind", "another kind", "default calibrator"
FIVE, ONE = "five seeds", "one seed"
WIDE, UNKNOWN = "wide worlds", "no attributes"
"""Sparser worlds with finer tastes, and what is known of items there."""
FORMER, IDEAL = "former rule, five seeds", "ideal recommender"
LESSONS_OF: Final[Mapping[str, str]] = {FIVE: ALL_SEEDS, ONE: FIRST_SEED}
TITLES: Final[Mapping[Generator, str]] = {"films": "Films", "shop": "Shop", "music": "Music"}
KIND_NAMES: Final = ("item", "pair", "taste", "popularity", "noise")
CALIBRATED: Final = (Kind.ITEM, Kind.SET, Kind.TASTE, Kind.POPULARITY)

LESS_SURE: Final = 0.75
"""A confidence that a user may choose to hear more reasons."""
RESAMPLED: Final = 200
"""Draws of worlds for the interval of a calibration error."""

PRECISION, LOWEST, COVERAGE = "precision", "lowest precision of a world", "coverage"
PROBABILITY: Final = "true probability of what is named"
CALIBRATION: Final = "calibration error"
FALSE, KINDS = "single items claimed for what nothing caused", "kinds right"


def measure(study: Study, workspace: Workspace) -> list[Record]:
    """Return all records; those that time did not allow are not run yet."""
    plan = build(ReasonsPlan, study.measuring.get(REASONS, {}))
    work = _Work(plan, workspace)
    found: dict[Generator, dict[str, list[Scores]]] = {}
    try:
        for generator in GENERATORS:
            found[generator] = {}
            for row, score in work.rows(generator):
                found[generator][row] = score()
    except OutOfTime:
        pass
    return [
        record
        for generator in GENERATORS
        for record in _records(study, plan, generator, found.get(generator, {}), workspace.device)
    ]


def learn_default(study: Study, workspace: Workspace) -> Calibrator:
    """Return the calibrator of all generators, which comes with Whence."""
    plan = build(ReasonsPlan, study.measuring.get(REASONS, {}))
    return _Work(plan, workspace).default()


Column = Callable[[Sequence[Scores], float], Estimate]
"""Measures the reported worlds, where reasons are said from a confidence on."""


def _over_worlds(measured: Callable[[Scores, float], float]) -> Column:
    """Return the mean over worlds, with the t-interval, of a measure of one world.

    A world without such cases, where the measure is NaN, does not count.
    """

    def found(worlds: Sequence[Scores], sure: float) -> Estimate:
        values = [measured(one, sure) for one in worlds]
        return over_seeds([one for one in values if not np.isnan(one)])

    return found


def _lowest(worlds: Sequence[Scores], sure: float) -> Estimate:
    values = [one.precision(sure) for one in worlds]
    known = [one for one in values if not np.isnan(one)]
    return Estimate(min(known)) if known else Estimate()


def _calibration(kind: Kind, worlds: Sequence[Scores], _sure: float) -> Estimate:
    """Return the error over the cases of all worlds, with a basic bootstrap over the worlds.

    Worlds that are drawn twice make the error larger, which the basic interval corrects.
    """
    value = Scores.joined(worlds).calibration_error(kind)
    if np.isnan(value):
        return Estimate()
    rng = np.random.default_rng(0)
    drawn = [
        Scores.joined([worlds[one] for one in rng.integers(0, len(worlds), len(worlds))])
        for _ in range(RESAMPLED)
    ]
    values = [one.calibration_error(kind) for one in drawn]
    low, high = np.nanquantile(values, [0.025, 0.975])
    return Estimate(value, None, (max(0.0, float(2 * value - high)), float(2 * value - low)))


COLUMNS: Final[Mapping[str, Column]] = {
    PRECISION: _over_worlds(Scores.precision),
    LOWEST: _lowest,
    PROBABILITY: _over_worlds(Scores.probability),
    COVERAGE: _over_worlds(Scores.coverage),
    FALSE: _over_worlds(Scores.false_claims),
    KINDS: _over_worlds(lambda one, _: one.kinds_right()),
    **{f"{CALIBRATION}, {KIND_NAMES[kind]}": partial(_calibration, kind) for kind in CALIBRATED},
}
"""By name; the calibration and the kinds are the same from whatever confidence on."""
BY_CONFIDENCE: Final = (PRECISION, LOWEST, PROBABILITY, COVERAGE, FALSE)


WIDE_ROWS: Final[Mapping[str, tuple[str, bool]]] = {
    f"{DEFAULT}, {seeds}, {WIDE}{known}": (LESSONS_OF[seeds], not known)
    for known in ("", f", {UNKNOWN}")
    for seeds in (FIVE, ONE)
}
"""The lesson of each of these rows, and whether attributes are known."""


def row_names() -> list[str]:
    """Return the rows of every generator's table."""
    return [
        *(f"{setting}, {seeds}" for setting in (SAME, ANOTHER, DEFAULT) for seeds in (FIVE, ONE)),
        *(_less_sure(setting) for setting in (SAME, ANOTHER, DEFAULT)),
        *WIDE_ROWS,
        *(f"{SAME}, {FIVE}, without {check}" for check in BY_CHECK),
        FORMER,
        IDEAL,
    ]


def _less_sure(setting: str) -> str:
    """Return the row of what is said from a lower confidence on."""
    return f"{setting}, {FIVE}, said at {100 * LESS_SURE:.0f} %"


@dataclass(frozen=True)
class _Work:
    """Lessons and calibrators; what is slow is kept in the cache."""

    plan: ReasonsPlan
    workspace: Workspace

    def rows(self, generator: Generator) -> list[tuple[str, Callable[[], list[Scores]]]]:
        """Return the rows of a generator's table, and how to fill them."""
        learned: dict[str, Callable[[], Calibrator]] = {
            SAME: partial(self._of_kinds, [generator]),
            ANOTHER: partial(self._of_kinds, [one for one in GENERATORS if one != generator]),
            DEFAULT: self.default,
        }
        reported = partial(self._reported, generator)
        each: list[tuple[str, Callable[[], list[Scores]]]] = [
            (f"{setting}, {seeds}", partial(_scored, reported, LESSONS_OF[seeds], learn))
            for setting, learn in learned.items()
            for seeds in (FIVE, ONE)
        ]
        each += [
            (_less_sure(setting), partial(_scored, reported, ALL_SEEDS, learn))
            for setting, learn in learned.items()
        ]
        each += [
            (
                row,
                partial(
                    _scored, partial(self._reported_wide, generator, known), lesson, self.default
                ),
            )
            for row, (lesson, known) in WIDE_ROWS.items()
        ]
        each += [
            (
                f"{SAME}, {FIVE}, without {check}",
                partial(
                    _scored,
                    reported,
                    ALL_SEEDS,
                    partial(self._of_kinds, [generator], words),
                    words,
                ),
            )
            for check, words in BY_CHECK.items()
        ]
        return [
            *each,
            (FORMER, partial(self._former, generator)),
            (IDEAL, partial(self._ideal, generator)),
        ]

    def _former(self, generator: Generator) -> list[Scores]:
        return [scores_of_former_rule(one[ALL_SEEDS]) for one in self._reported(generator)]

    def _ideal(self, generator: Generator) -> list[Scores]:
        worlds = self.plan.reporting(generator, self.workspace.device)
        return [scores_of_ideal(one.world, self.plan.users) for one in worlds]

    def default(self) -> Calibrator:
        """Return the calibrator that comes with Whence."""
        return self._calibrator(self.plan.learning_default(self.workspace.device))

    def _of_kinds(self, generators: Sequence[Generator], without: Sequence[str] = ()) -> Calibrator:
        """Return one that learned on worlds of some generators only."""
        device = self.workspace.device
        worlds = [one for each in generators for one in self.plan.learning(each, device)]
        return self._calibrator(worlds, without)

    def _calibrator(
        self, worlds: Sequence[WorldLessons], without: Sequence[str] = ()
    ) -> Calibrator:
        """Learn on some worlds, from five seeds and from one alike."""
        self.workspace.check_time()
        made_from = [[one.key for one in worlds], list(without), self.plan.steps]
        key = hashlib.sha256(json.dumps(made_from).encode()).hexdigest()[:20]
        path = self.workspace.folder / "reasons" / "calibrators" / f"{key}.safetensors"
        if not path.exists():
            make_parent(path)
            each = [one.examples() for world in self._lessons(worlds) for one in world.values()]
            hidden = [replace(one, features=one.features.without(without)) for one in each]
            learned = fit(hidden, steps=self.plan.steps)
            with new_file(path) as partial:
                partial.write_bytes(learned.cpu().to_bytes())
        found = Calibrator.from_bytes(path.read_bytes(), path.name)
        return found.to(self.workspace.device)

    def _reported(self, generator: Generator) -> Iterator[Mapping[str, Lesson]]:
        return self._lessons(self.plan.reporting(generator, self.workspace.device))

    def _reported_wide(self, generator: Generator, known: bool) -> Iterator[Mapping[str, Lesson]]:
        return self._lessons(self.plan.reporting_wide(generator, self.workspace.device, known))

    def _lessons(self, worlds: Sequence[WorldLessons]) -> Iterator[Mapping[str, Lesson]]:
        """Yield the lessons of some worlds; those that the cache does not hold are made now."""
        space = self.workspace
        bar = progress_bar("worlds", len(worlds), space.show_progress, transient=True)
        for one in bar.track(worlds):
            space.check_time()
            yield one.lessons(space.folder / "reasons", until=space.until, show_progress=False)


def _scored(
    worlds: Callable[[], Iterable[Mapping[str, Lesson]]],
    lesson: str,
    learn: Callable[[], Calibrator],
    without: Sequence[str] = (),
) -> list[Scores]:
    """Score what a calibrator says on some worlds."""
    calibrator = learn()
    return [scores_of(one[lesson], calibrator, without) for one in worlds()]


def _records(
    study: Study,
    plan: ReasonsPlan,
    generator: Generator,
    found: Mapping[str, Sequence[Scores]],
    device: str,
) -> list[Record]:
    """Return the records of a generator: its table, and how kinds are told apart."""
    draws = tuple(plan.reported_draws)

    def record(table: str, row: str, column: str, estimate: Estimate | None) -> Record:
        users = plan.fewer_users if row in WIDE_ROWS else plan.users
        return Record(
            study=study.id,
            dataset=generator,
            row=row,
            column=column,
            **(estimate or Estimate())._asdict(),
            n=None if estimate is None else 10 * users,
            seeds=() if estimate is None else draws,
            published=None,
            verdict=NOT_RUN if estimate is None else UNPUBLISHED,
            protocol=f"{table}; {plan.words_of(users, row.startswith(DEFAULT))}",
            machine=machine(device),
            command=study.command if device == "cpu" else f"{study.command} --device {device}",
        )

    records = []
    less_sure = [_less_sure(setting) for setting in (SAME, ANOTHER, DEFAULT)]
    for row in row_names():
        for column, value in COLUMNS.items():
            if row == FORMER and column.startswith(CALIBRATION):
                continue  # it states no confidence
            if row in less_sure and column not in BY_CONFIDENCE:
                continue
            sure = LESS_SURE if row in less_sure else SURE
            estimate = value(found[row], sure) if row in found else None
            table = TITLES[generator] + (f": {WIDE}" if row in WIDE_ROWS else "")
            records.append(record(table, row, column, estimate))
    main = f"{SAME}, {FIVE}"
    counts = Scores.joined(found[main]).confusion() if main in found else None
    for true in range(NOISE + 1):
        for said in range(NOISE):
            share = None
            if counts is not None and counts[true].sum():
                share = Estimate(float(counts[true, said] / counts[true].sum()))
            table = f"{TITLES[generator]}: kinds, {main}"
            records.append(
                record(table, f"truly {KIND_NAMES[true]}", f"said {KIND_NAMES[said]}", share)
            )
    return records
