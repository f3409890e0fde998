"""Run a study: train, measure and judge what its file declares, and resume where it stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from whence.data import Interactions, load, split_by
from whence.devices import check_device, machine
from whence.errors import InputError, OutOfTime, OutputError, WhenceError, did_you_mean
from whence.progress import print_line
from whence_studies.cache import (
    CachedColumns,
    MeasuringPlan,
    StudyCache,
    TrainingRecipe,
    resolve_settings,
)
from whence_studies.checking import check_study
from whence_studies.measurements.measurement import MeasuredRun
from whence_studies.measurements.registry import MEASUREMENTS
from whence_studies.records import Record
from whence_studies.results import StudyResults, judge_by_records
from whence_studies.study import COUNTS, REASONS, SKIPS, Cell, Study
from whence_studies.tables import dataset_statistics, reasons, skips, toys
from whence_studies.tables.trained_skips import Workspace


def run_study(
    study: Study,
    *,
    cache: StudyCache,
    minutes: float | None = None,
    device: str = "cpu",
    only: Sequence[str] = (),
    show_progress: bool = True,
    keep: Callable[[list[Record]], object] = lambda _: None,
) -> list[Record]:
    """Return all records of the study; what the cache holds is not computed again.

    After `minutes` it stops, also in the middle of a training, and the next call resumes there.
    `only` limits training to these datasets. `keep` receives all records whenever there is a new
    one, so that an interruption loses nothing.
    """
    check_study(study)
    check_device(device)
    for name in only:
        if name not in study.datasets:
            known = did_you_mean(name, study.datasets)
            raise InputError(f"{study.id} has no dataset '{name}': {known}")
    until = None if minutes is None else time.monotonic() + 60 * minutes
    if study.tabulated:
        workspace = Workspace(cache.folder, device, until, show_progress)
        filled = judge_by_records(study, _fill(study, workspace))
        keep(filled)
        return filled
    command = study.command if device == "cpu" else f"{study.command} --device {device}"
    results = StudyResults(study, machine(device), command)
    work = _StudyRun(results, cache, device, until, show_progress)
    work.load_cached()
    keep(results.records())
    try:
        for cell in results.unfinished():
            if not only or cell.dataset in only:
                work.try_to_finish(cell)
                keep(results.records())
    except OutOfTime:
        pass
    return results.records()


def _fill(study: Study, workspace: Workspace) -> list[Record]:
    """Return the records of a study that fills published tables."""
    (name,) = study.measurements
    if name == SKIPS:
        return skips.measure(study, workspace)
    if name == REASONS:
        return reasons.measure(study, workspace)
    return dataset_statistics.count(study) if name == COUNTS else toys.measure(study)


@dataclass(frozen=True)
class _StudyRun:
    """A study being run, with its cache and data."""

    results: StudyResults
    cache: StudyCache
    device: str
    until: float | None
    show_progress: bool
    data: dict[str, Interactions] = field(default_factory=dict)

    @property
    def study(self) -> Study:
        return self.results.study

    def load_cached(self) -> None:
        """Look up what the cache holds of the cells whose data are available."""
        for cell in self.study.cells():
            if self.study.datasets[cell.dataset].available:
                recipe = self._recipe(cell)
                kept = {
                    name: self.cache.measured(recipe, self._measuring(cell, name))
                    for name in self.study.measurements_on(cell.dataset)
                }
                self.results.found[cell] = {name: one for name, one in kept.items() if one}

    def try_to_finish(self, cell: Cell) -> None:
        """Train and measure a cell; a problem is printed and does not stop the other cells.

        If nothing can be written, no other cell would do better.
        """
        try:
            self.finish(cell)
        except (OutOfTime, OutputError):
            raise
        except WhenceError as problem:
            print_line(f"{cell} is skipped: {problem}", self.show_progress)

    def finish(self, cell: Cell) -> None:
        """Train and measure a cell; each measurement is cached at once."""
        if self.until is not None and time.monotonic() >= self.until:
            raise OutOfTime("The time limit is reached.")
        cells, found = self.study.cells(), self.results.found[cell]
        print_line(f"row {cells.index(cell) + 1} of {len(cells)}: {cell}", self.show_progress)
        recipe = self._recipe(cell)
        run = self.cache.run(recipe, self.until, self.show_progress)
        split = split_by(self.study.split, recipe.data)
        # It says whether the weights were chosen on the test events.
        split = replace(split, protocol=run.training["protocol"])
        subject = MeasuredRun(run, split, self.study.held, self.show_progress)
        for name in self.study.measurements_on(cell.dataset):
            if name not in found:
                measuring = self._measuring(cell, name)
                columns = MEASUREMENTS[name].measure(subject, measuring.options)
                found[name] = CachedColumns(tuple(run.models), columns)
                self.cache.keep(recipe, measuring, found[name])

    def _measuring(self, cell: Cell, name: str) -> MeasuringPlan:
        measurement = MEASUREMENTS[name]
        options = measurement.build_options(self.study.measuring_options(cell, name))
        return MeasuringPlan(name, self.study.held, options, measurement.edition)

    def _recipe(self, cell: Cell) -> TrainingRecipe:
        if cell.dataset not in self.data:
            print_line(f"reading {cell.dataset}", self.show_progress)
            self.data[cell.dataset] = load(self.study.datasets[cell.dataset].data)
        settings, training = resolve_settings(self.study, cell)
        return TrainingRecipe(
            data=self.data[cell.dataset],
            model=self.study.models[cell.model].name,
            settings=settings,
            training=training,
            split=self.study.split,
            seeds=self.study.seeds_of(cell),
            device=self.device,
            init_from=tuple(self._recipe(one) for one in self.study.initial_cells(cell)),
        )
