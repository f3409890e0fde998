"""Tables 2 and 3 of Afchar & Hennequin (2020): baselines, and networks where causes are known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from whence.devices import machine
from whence.measure import Measure
from whence.sessions import (
    BASELINES,
    COLUMNS,
    ListeningConfig,
    SessionFiles,
    batches,
    find_files,
    join_scores,
    read_tracks,
    score_skips,
    split_files,
    write_sessions,
)
from whence.sessions.baselines import coin
from whence.sessions.files import session_folder
from whence.sessions.halves import Flags, Halves
from whence.studies.claims import Estimate, over_seeds
from whence.studies.records import NEEDS_FILE, NOT_RUN, PRIVATE, Record
from whence.studies.results import compare_with_print
from whence.studies.study import Study
from whence.studies.trained_skips import (
    ATTRIBUTED,
    ORDINARY,
    ORDINARY_GRU,
    Learning,
    Trained,
    Workshop,
    train_on,
)

DEEZER: Final = "deezer-sessions"
"""Never published."""
MADE, MADE_TABLE = "listening", "Sessions made here"
LISTENING: Final = ListeningConfig(sessions=20_000, logs=3)
"""As many to learn from, to validate on and to test on."""
LEARNING: Final = Learning()
PERCENT: Final = 100

Found = Mapping[str, Mapping[str, Measure]]
"""By row and column."""


def measure(
    study: Study,
    workshop: Workshop,
    listening: ListeningConfig = LISTENING,
    learning: Learning = LEARNING,
) -> list[Record]:
    """Every cell of both tables, and baselines and networks on sessions made here."""
    measured: dict[str, Found] = {}
    for dataset in study.datasets.values():
        folder = session_folder(dataset.data)
        if folder is not None:
            measured[dataset.data] = _baselines(split_files(find_files(folder)).test)
    with _made(listening) as files:
        parts = split_files(files)
        made = _baselines(parts.test)
        trained = train_on(parts, listening, learning, workshop)
    return [
        *(
            _record(study, table, row, column, printed["dataset"], measured, text)
            for table, rows in study.published.items()
            for row, printed in rows.items()
            for column, text in printed.items()
            if column != "dataset"
        ),
        *(
            _record(study, MADE_TABLE, row, column, MADE, {MADE: made})
            for row in made
            for column in COLUMNS
        ),
        *_trained_records(study, trained, f"{MADE_TABLE}; {learning}", workshop.device),
    ]


def _trained_records(
    study: Study, trained: Mapping[str, Trained], protocol: str, device: str
) -> list[Record]:
    """In percent, means over seeds; a row that has no seed yet has its columns without values."""
    command = study.command if device == "cpu" else f"{study.command} --device {device}"
    records = []
    for row, found in trained.items():
        columns = COLUMNS if row in (ORDINARY, ORDINARY_GRU) else (*COLUMNS, *ATTRIBUTED)
        for column in columns:
            estimate = over_seeds([PERCENT * value for value in found.values(column)])
            records.append(
                Record(
                    study=study.id,
                    dataset=MADE,
                    row=row,
                    column=column,
                    **estimate._asdict(),
                    n=found.sessions,
                    seeds=tuple(found.by_seed),
                    published=None,
                    verdict=NOT_RUN
                    if estimate.value is None
                    else compare_with_print(estimate, None),
                    protocol=protocol,
                    machine=machine(device),
                    command=command,
                )
            )
    return records


def _record(
    study: Study,
    table: str,
    row: str,
    column: str,
    dataset: str,
    measured: Mapping[str, Found],
    printed: str | None = None,
) -> Record:
    """One cell, in percent, beside the print without its ±."""
    number = None if printed is None else printed.partition(" ±")[0]
    found = measured.get(dataset, {}).get(row, {}).get(column)
    estimate = Estimate()
    if found is not None:
        low, high = found.interval
        estimate = Estimate(PERCENT * found.value, None, (PERCENT * low, PERCENT * high))
    absent = PRIVATE if dataset == DEEZER else NOT_RUN if dataset in measured else NEEDS_FILE
    return Record(
        study=study.id,
        dataset=dataset,
        row=row,
        column=column,
        value=estimate.value,
        interval=estimate.interval,
        n=None if found is None else found.n,
        published=None if number is None else float(number),
        verdict=absent if found is None else compare_with_print(estimate, number),
        protocol=table,
        machine=machine("cpu"),
        command=study.command,
    )


def _baselines(files: SessionFiles) -> Found:
    """What predicts without learning, all in one reading of the files."""
    predictors: dict[str, Callable[[Halves], Flags]] = {"random": coin(), **BASELINES}
    scores = [
        {name: score_skips(predict(some), some) for name, predict in predictors.items()}
        for some in batches(files, read_tracks(files.tracks))
    ]
    return {name: join_scores([one[name] for one in scores]).measures() for name in predictors}


@contextmanager
def _made(listening: ListeningConfig) -> Iterator[SessionFiles]:
    with TemporaryDirectory() as folder:
        yield write_sessions(Path(folder) / "sessions", listening)
