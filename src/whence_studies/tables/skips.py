"""Tables 2 and 3 of Afchar & Hennequin (2020), and the same on sessions whose causes are known."""

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
from whence_studies.tables.skip_networks import PUBLISHED, SMALL, Learning, ablations
from whence_studies.tables.skip_seeds import (
    BY_CAUSE,
    COMPARED,
    KL_TO_OTHER_CASES,
    NO_SHARES,
    TRACKS,
    seed_columns,
)
from whence_studies.tables.trained_skips import Trained, Workshop, train_on

SPOTIFY, DEEZER = "spotify-sessions", "deezer-sessions"
"""The first a user may have; the second was never published."""
MADE, MADE_TABLE = "listening", "Sessions made here"
OTHERS: Final = ("WSDM leader-board",)
"""Rows of the tables that nobody can run here: others' entries to the challenge."""
MADE_SEEDS: Final = f"{MADE_TABLE}: other seeds and methods"
MADE_ABLATED: Final = f"{MADE_TABLE}: links, and one level after another"
SPOTIFY_SEEDS: Final = "Sessions of the challenge: other seeds and methods"
SELECTION_FIGURE: Final = "Figure 8 (Afchar & Hennequin 2020)"
LISTENING: Final = ListeningConfig(sessions=20_000, logs=10, tracks=20_000)
"""Eight logs to learn from, one to validate on and one to test on.

Of few tracks, experts that see the music alone would learn by heart which are popular.
"""
IDEAL, IDEAL_EXPERTS = "ideal network", "ideal experts"
"""What can be reached by those who know the rules."""
ABLATED: Final = (
    *(*COLUMNS, ALL_CAUSES, CAUSE_MEAN, SEEN, MOST_SELECTED),
    *(SAME, f"{KL_TO_OTHER_CASES}experts", RHO["experts"]),
)
"""Of rows whose experts are made or taught otherwise."""
PERCENT: Final = 100
THEIRS: Final = "of the tracks that this cause decided over, one a session at most"

Found = Mapping[str, Mapping[str, Measure]]
"""By row and column."""


class Cell(NamedTuple):
    """Where a record stands."""

    table: str
    dataset: str
    row: str
    column: str
    printed: str | None = None


class Value(NamedTuple):
    """What stands there, in percent, and how it came about."""

    estimate: Estimate
    n: int | None
    seeds: tuple[int, ...] = ()
    how: str = ""
    device: str = "cpu"


class Row(NamedTuple):
    """A network, how it came about, and in how many sessions its seeds were compared."""

    trained: Trained
    how: str
    compared: int


@dataclass(frozen=True)
class Filled:
    """What there is of a set of sessions: what was measured at once, and what was trained."""

    measured: Found
    trained: Mapping[str, Row]
    device: str

    def value(self, row: str, column: str) -> Value | None:
        """Of a network the mean over its seeds; of the rest an interval over sessions."""
        if row in self.trained:
            return self._over_seeds(row, column)
        one = self.measured.get(row, {}).get(column)
        if one is None:
            return None
        low, high = one.interval
        return Value(Estimate(PERCENT * one.value, None, (PERCENT * low, PERCENT * high)), one.n)

    def _over_seeds(self, row: str, column: str) -> Value:
        found, how, compared = self.trained[row]
        scale = 1 if column in NO_SHARES else PERCENT
        estimate = over_seeds([scale * value for value in found.values(column)])
        sessions = found.sessions
        if column in found.between and sessions is not None:
            sessions, how = min(sessions, compared), f"{how}; {COMPARED}"
        if column in found.between and column in BY_CAUSE.values():
            # The same tracks in every row, of which the network's other columns say the rest.
            sessions, how = int(found.between[f"{column}{TRACKS}"][0]), f"{column}: {THEIRS}"
        return Value(estimate, sessions, tuple(found.by_seed), how, self.device)


def measure(
    study: Study,
    workshop: Workshop,
    listening: ListeningConfig = LISTENING,
    small: Learning = SMALL,
    published: Learning = PUBLISHED,
) -> list[Record]:
    """Every cell of both tables, and baselines and networks on sessions made here."""
    filled, cells = {}, _printed_cells(study)
    folder = session_folder(SPOTIFY)
    if folder is not None:  # first, since it is what the user waits for
        filled[SPOTIFY] = _of_the_user(folder, published, workshop)
        cells += _network_cells(SELECTION_FIGURE, SPOTIFY, published, selected_columns)
        cells += _network_cells(SPOTIFY_SEEDS, SPOTIFY, published, seed_columns)
    others = ablations(small)
    filled[MADE] = _made_here(listening, [small, others], workshop)
    made = filled[MADE].measured
    cells += [Cell(MADE_TABLE, MADE, row, column) for row in made for column in made[row]]
    cells += _network_cells(MADE_TABLE, MADE, small, all_columns)
    cells += _network_cells(MADE_SEEDS, MADE, small, partial(seed_columns, causes=True))
    cells += _network_cells(MADE_ABLATED, MADE, others, lambda _: ABLATED)
    return [_record(study, cell, filled.get(cell.dataset)) for cell in cells]


def _printed_cells(study: Study) -> list[Cell]:
    return [
        Cell(table, printed["dataset"], row, column, text)
        for table, rows in study.published.items()
        for row, printed in rows.items()
        for column, text in printed.items()
        if column != "dataset"
    ]


def _network_cells(
    table: str, dataset: str, learning: Learning, columns: Callable[[NetworkConfig], Sequence[str]]
) -> list[Cell]:
    """Of every network the columns it has."""
    return [
        Cell(table, dataset, row, column)
        for row, network in learning.networks.items()
        for column in columns(network)
    ]


def _record(study: Study, cell: Cell, filled: Filled | None) -> Record:
    """In percent, beside the print without its ±."""
    value = None if filled is None else filled.value(cell.row, cell.column)
    value = value or Value(Estimate(), None)
    printed = None if cell.printed is None else cell.printed.partition(" ±")[0]
    absent = _why_absent(cell, filled)
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
        protocol="; ".join(filter(None, (cell.table, value.how))),
        machine=machine(value.device),
        command=command,
    )


def _why_absent(cell: Cell, filled: Filled | None) -> str:
    if cell.row in OTHERS:
        return ONLY_PUBLISHED
    if cell.dataset == DEEZER:
        return PRIVATE
    return NEEDS_FILE if filled is None else NOT_RUN


def _made_here(
    listening: ListeningConfig, learning: Sequence[Learning], workshop: Workshop
) -> Filled:
    """Of all networks of the first kind of learning first, and their seeds beside each other."""
    with _made(listening) as files:
        parts = split_files(files)
        possible = oracle_experts(parts.test, listening)
        measured = {
            **_baselines(parts.test),
            IDEAL: possible.single.measures(),
            IDEAL_EXPERTS: measures_of(possible.experts),
        }
        trained = [_trained_on(parts, one, workshop) for one in learning]
    return Filled(measured, dict(ChainMap(*trained)), workshop.device)


def _of_the_user(folder: Path, learning: Learning, workshop: Workshop) -> Filled:
    parts = split_files(find_files(folder))
    return Filled(_baselines(parts.test), _trained_on(parts, learning, workshop), workshop.device)


def _trained_on(parts: SessionSplit, learning: Learning, workshop: Workshop) -> dict[str, Row]:
    found = train_on(parts, learning, workshop)
    return {row: Row(one, learning.protocol(row), learning.compared) for row, one in found.items()}


def _baselines(files: SessionFiles) -> Found:
    """What predicts without learning, all in one reading of the files."""
    predictors: dict[str, Callable[[SessionBatch], Bools]] = {"random": coin(), **BASELINES}
    scores = [
        {name: score_skips(predict(some), some) for name, predict in predictors.items()}
        for some in batches(files, read_tracks(files.tracks))
    ]
    return {name: concat_scores([one[name] for one in scores]).measures() for name in predictors}


@contextmanager
def _made(listening: ListeningConfig) -> Iterator[SessionFiles]:
    with TemporaryDirectory() as folder:
        yield write_sessions(Path(folder) / "sessions", listening)
