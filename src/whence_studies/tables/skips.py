"""Tables 2 and 3 of Afchar & Hennequin (2020), and the same on synthetic sessions."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from whence.arrays import Bools
from whence.devices import machine
from whence.measure import Measure
from whence_studies.claims import Estimate, over_seeds
from whence_studies.measurements.group_agreement import RHO, SAME
from whence_studies.records import NEEDS_FILE, NOT_RUN, ONLY_PUBLISHED, PRIVATE, Record
from whence_studies.results import compare_with_published
from whence_studies.sessions import (
    BASELINES,
    COLUMNS,
    ListeningConfig,
    SessionFiles,
    SessionSplit,
    batches,
    concat_scores,
    find_files,
    read_tracks,
    score_skips,
    split_files,
    write_sessions,
)
from whence_studies.sessions.session_batches import SessionBatch
from whence_studies.sessions.session_files import session_folder
from whence_studies.sessions.skip_accuracy import coin
from whence_studies.skips import NetworkConfig, oracle_experts
from whence_studies.skips.skip_attribution import ALL_CAUSES, CAUSE_MEAN, SEEN
from whence_studies.study import Study
from whence_studies.tables.skip_columns import (
    MOST_SELECTED,
    all_columns,
    measures_of,
    selected_columns,
)
from whence_studies.tables.skip_networks import PUBLISHED, SMALL, TrainingPlan, ablations
from whence_studies.tables.skip_seeds import (
    BY_CAUSE,
    COMPARED,
    KL_TO_OTHER_CASES,
    NOT_PERCENT,
    TRACKS,
    seed_columns,
)
from whence_studies.tables.trained_skips import TrainedNetwork, Workspace, train_on

SPOTIFY, DEEZER = "spotify-sessions", "deezer-sessions"
"""Users may have the first; the second was never published."""
SYNTHETIC, SYNTHETIC_TABLE = "listening", "Synthetic sessions"
CHALLENGE_ROWS: Final = ("WSDM leader-board",)
"""Rows that cannot be run here: other entries to the challenge."""
SYNTHETIC_SEEDS: Final = f"{SYNTHETIC_TABLE}: other seeds and methods"
SYNTHETIC_ABLATED: Final = f"{SYNTHETIC_TABLE}: links, and one level after another"
SPOTIFY_SEEDS: Final = "Sessions of the challenge: other seeds and methods"
SELECTION_FIGURE: Final = "Figure 8 (Afchar & Hennequin 2020)"
LISTENING: Final = ListeningConfig(sessions=20_000, logs=10, tracks=20_000)
"""Eight logs for training, one for validation and one for testing.

With few tracks, experts that see only the music would memorise which tracks are popular.
"""
ORACLE, ORACLE_EXPERTS = "oracle network", "oracle experts"
"""The best possible results, by oracles that know the rules."""
ABLATED: Final = (
    *(*COLUMNS, ALL_CAUSES, CAUSE_MEAN, SEEN, MOST_SELECTED),
    *(SAME, f"{KL_TO_OTHER_CASES}experts", RHO["experts"]),
)
"""Columns of rows whose experts are built or trained differently."""
PERCENT: Final = 100
BY_CAUSE_PROTOCOL: Final = "tracks with this cause, at most one per session"

MeasuresByRow = Mapping[str, Mapping[str, Measure]]
"""Measures by row and column."""


class SkipCell(NamedTuple):
    """The place of a record."""

    table: str
    dataset: str
    row: str
    column: str
    printed: str | None = None


class SkipValue(NamedTuple):
    """The value of a record, in percent, and how it was measured."""

    estimate: Estimate
    n: int | None
    seeds: tuple[int, ...] = ()
    protocol: str = ""
    device: str = "cpu"


class TrainedRow(NamedTuple):
    """A network, its protocol, and the number of sessions for comparing its seeds."""

    trained: TrainedNetwork
    protocol: str
    compared: int


@dataclass(frozen=True)
class SkipResults:
    """The results on one set of sessions: measured directly, and trained."""

    measured: MeasuresByRow
    trained: Mapping[str, TrainedRow]
    device: str

    def value(self, row: str, column: str) -> SkipValue | None:
        """Return the mean over seeds for a network, else an interval over sessions."""
        if row in self.trained:
            return self._over_seeds(row, column)
        one = self.measured.get(row, {}).get(column)
        if one is None:
            return None
        low, high = one.bounds
        interval = None if low is None or high is None else (PERCENT * low, PERCENT * high)
        return SkipValue(Estimate(PERCENT * one.value, None, interval), one.n)

    def _over_seeds(self, row: str, column: str) -> SkipValue:
        found, protocol, compared = self.trained[row]
        scale = 1 if column in NOT_PERCENT else PERCENT
        estimate = over_seeds([scale * value for value in found.values(column)])
        sessions = found.sessions
        if column in found.between and sessions is not None:
            sessions, protocol = min(sessions, compared), f"{protocol}; {COMPARED}"
        if column in found.between and column in BY_CAUSE.values():
            # The tracks are the same in every row, so the network's protocol is not repeated.
            sessions, protocol = (
                int(found.between[f"{column}{TRACKS}"][0]),
                f"{column}: {BY_CAUSE_PROTOCOL}",
            )
        return SkipValue(estimate, sessions, tuple(found.by_seed), protocol, self.device)


def measure(
    study: Study,
    workspace: Workspace,
    listening: ListeningConfig = LISTENING,
    small: TrainingPlan = SMALL,
    published: TrainingPlan = PUBLISHED,
) -> list[Record]:
    """Measure every cell of both tables, and baselines and networks on synthetic sessions."""
    results, cells = {}, _printed_cells(study)
    folder = session_folder(SPOTIFY)
    if folder is not None:  # first, because it is what the user waits for
        results[SPOTIFY] = _on_user_files(folder, published, workspace)
        cells += _network_cells(SELECTION_FIGURE, SPOTIFY, published, selected_columns)
        cells += _network_cells(SPOTIFY_SEEDS, SPOTIFY, published, seed_columns)
    others = ablations(small)
    results[SYNTHETIC] = _on_synthetic(listening, [small, others], workspace)
    made = results[SYNTHETIC].measured
    cells += [
        SkipCell(SYNTHETIC_TABLE, SYNTHETIC, row, column) for row in made for column in made[row]
    ]
    cells += _network_cells(SYNTHETIC_TABLE, SYNTHETIC, small, all_columns)
    cells += _network_cells(SYNTHETIC_SEEDS, SYNTHETIC, small, partial(seed_columns, causes=True))
    cells += _network_cells(SYNTHETIC_ABLATED, SYNTHETIC, others, lambda _: ABLATED)
    return [_record(study, cell, results.get(cell.dataset)) for cell in cells]


def _printed_cells(study: Study) -> list[SkipCell]:
    return [
        SkipCell(table, printed["dataset"], row, column, text)
        for table, rows in study.published.items()
        for row, printed in rows.items()
        for column, text in printed.items()
        if column != "dataset"
    ]


def _network_cells(
    table: str, dataset: str, plan: TrainingPlan, columns: Callable[[NetworkConfig], Sequence[str]]
) -> list[SkipCell]:
    """Return the cells of every network's columns."""
    return [
        SkipCell(table, dataset, row, column)
        for row, network in plan.networks.items()
        for column in columns(network)
    ]


def _record(study: Study, cell: SkipCell, results: SkipResults | None) -> Record:
    """Return a record in percent, with the published value without its ±."""
    value = None if results is None else results.value(cell.row, cell.column)
    value = value or SkipValue(Estimate(), None)
    printed = None if cell.printed is None else cell.printed.partition(" ±")[0]
    absent = _why_absent(cell, results)
    command = study.command if value.device == "cpu" else f"{study.command} --device {value.device}"
    return Record(
        study=study.id,
        dataset=cell.dataset,
        row=cell.row,
        column=cell.column,
        **value.estimate._asdict(),
        n=value.n,
        seeds=value.seeds,
        published=None if printed is None else float(printed),
        verdict=absent
        if value.estimate.value is None
        else compare_with_published(value.estimate, printed),
        protocol="; ".join(filter(None, (cell.table, value.protocol))),
        machine=machine(value.device),
        command=command,
    )


def _why_absent(cell: SkipCell, results: SkipResults | None) -> str:
    if cell.row in CHALLENGE_ROWS:
        return ONLY_PUBLISHED
    if cell.dataset == DEEZER:
        return PRIVATE
    return NEEDS_FILE if results is None else NOT_RUN


def _on_synthetic(
    listening: ListeningConfig, plans: Sequence[TrainingPlan], workspace: Workspace
) -> SkipResults:
    """Measure on synthetic sessions; the networks of the first plan are trained first."""
    with _write_synthetic(listening) as files:
        parts = split_files(files)
        possible = oracle_experts(parts.test, listening)
        measured = {
            **_baselines(parts.test),
            ORACLE: possible.single.measures(),
            ORACLE_EXPERTS: measures_of(possible.experts),
        }
        trained = [_train_rows(parts, one, workspace) for one in plans]
    return SkipResults(measured, dict(ChainMap(*trained)), workspace.device)


def _on_user_files(folder: Path, plan: TrainingPlan, workspace: Workspace) -> SkipResults:
    parts = split_files(find_files(folder))
    return SkipResults(
        _baselines(parts.test), _train_rows(parts, plan, workspace), workspace.device
    )


def _train_rows(
    parts: SessionSplit, plan: TrainingPlan, workspace: Workspace
) -> dict[str, TrainedRow]:
    found = train_on(parts, plan, workspace)
    return {row: TrainedRow(one, plan.protocol(row), plan.compared) for row, one in found.items()}


def _baselines(files: SessionFiles) -> MeasuresByRow:
    """Measure the predictors without training in one pass over the files."""
    predictors: dict[str, Callable[[SessionBatch], Bools]] = {"random": coin(), **BASELINES}
    scores = [
        {name: score_skips(predict(some), some) for name, predict in predictors.items()}
        for some in batches(files, read_tracks(files.tracks))
    ]
    return {name: concat_scores([one[name] for one in scores]).measures() for name in predictors}


@contextmanager
def _write_synthetic(listening: ListeningConfig) -> Iterator[SessionFiles]:
    with TemporaryDirectory() as folder:
        yield write_sessions(Path(folder) / "sessions", listening)
