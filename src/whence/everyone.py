"""The recommendations of all users as a file, each with its reason."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from whence.arrays import Bools, Ints
from whence.csv_export import CSVWriter
from whence.data.catalog import Catalog
from whence.data.histories import Cases
from whence.data.sources import Source
from whence.errors import InputError
from whence.files import new_file
from whence.memory import cases_at_once, row_slices
from whence.progress import progress_bar
from whence.ranking import top_unseen
from whence.reasons.judgement import SURE
from whence.reasons.of_many import Told, find_all, without_history
from whence.reasons.of_run import COMPANIONS, Options
from whence.reasons.similar_users import Choices
from whence.recommendation import serving
from whence.run import Run

USERS_WITH_REASONS: Final = 512
"""So many users' reasons are found and written at a time."""


class Writer(Protocol):
    """Writes tables into a file."""

    def write_table(self, table: pa.Table) -> None:
        """Write some rows."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *problem: object) -> None: ...


class JSONLinesWriter:
    """Writes each row as a JSON object of its own line."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._file = path.open("w", encoding="utf-8", newline="\n")

    def write_table(self, table: pa.Table) -> None:
        """Write some rows; what JSON has no type for, such as a date, becomes text."""
        self._file.writelines(
            json.dumps(row, ensure_ascii=False, allow_nan=False, default=str) + "\n"
            for row in table.to_pylist()
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self._file.close()


WRITERS: Final[dict[str, Any]] = {
    ".csv": CSVWriter,
    ".jsonl": JSONLinesWriter,
    ".parquet": pq.ParquetWriter,
}


def recommend_all(
    run: Run,
    path: Path | str,
    *,
    k: int = 10,
    model_seed: int | None = None,
    reasons: bool = True,
    sure: float = SURE,
    low_rating: float | None = None,
    data: Source | None = None,
    show_progress: bool = True,
) -> int:
    """Write the top `k` items of every user, with reasons, into a file; return the row count.

    The ending of the file is .parquet, .jsonl or .csv. Reasons are those of `recommend`, which
    explains `sure` and `low_rating`. The file is written in chunks, so memory does not grow with
    the users. If writing stops early, no file is left.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in WRITERS:
        raise InputError(
            f"{path} ends in none of {', '.join(WRITERS)}. Give the file one of these endings."
        )
    if k < 1:
        raise InputError(f"The number of recommendations must be at least 1, not {k}.")
    options = Options(sure, low_rating, k=k) if reasons else None
    everyone = Everyone(serving(run, data), k, model_seed, options, flat=suffix == ".csv")
    rows = 0
    with new_file(path) as partial, ExitStack() as stack:
        writer: Writer | None = None
        for table in everyone.tables(show_progress):
            writer = writer or stack.enter_context(WRITERS[suffix](partial, table.schema))
            writer.write_table(table)
            rows += table.num_rows
        assert writer is not None, "interactions without a user cannot be read"
        stack.close()  # the file is complete before it gets its name
    return rows


@dataclass(frozen=True, eq=False)
class Everyone:
    """All users of a run's data and what is recommended to them, some users at a time."""

    run: Run
    k: int = 10
    model_seed: int | None = None
    options: Options | None = None
    """How reasons are found; `None` leaves them out."""
    flat: bool = False
    """Whether to leave out what needs lists."""

    def tables(self, show_progress: bool = False) -> Iterator[pa.Table]:
        """Yield tables with a row for each recommendation, one user after the other."""
        everyone = self._cases()
        at_once = cases_at_once(self.run.interactions.item_count)
        if self.options is not None:
            at_once = min(at_once, USERS_WITH_REASONS)
        chunks = list(row_slices(len(everyone), at_once))
        bar = progress_bar("recommending", len(chunks), show_progress)
        for rows in bar.track(chunks):
            yield self._table(everyone[rows])

    def _cases(self) -> Cases:
        """Return the whole histories; a user without events cannot be served from them."""
        data = self.run.interactions
        reads = self.run.chosen(self.model_seed).reads_history
        served = np.diff(data.offsets) > 0 if reads else np.ones(data.user_count, bool)
        users = np.flatnonzero(served)
        return Cases(data.items, users, data.offsets[users], data.offsets[users + 1], users)

    def _table(self, cases: Cases) -> pa.Table:
        data, model = self.run.interactions, self.run.chosen(self.model_seed)
        looked_at = self.k if self.options is None else max(self.k, COMPANIONS)
        items, scores = top_unseen(model, cases, model.config.max_len, looked_at)
        unseen = np.isfinite(scores)
        told = [] if self.options is None else self._reasons(cases, items, unseen, self.options)
        unseen = unseen[:, : self.k]
        flat = items[:, : self.k][unseen]
        user, rank = unseen.nonzero()
        columns = {
            "user": data.users["user"].take(pa.array(cases.users[user])),
            "rank": pa.array(rank + 1),
            "item": data.catalog.table["item"].take(pa.array(flat)),
            "title": pa.array(data.catalog.labels(flat), pa.string()),
            "score": pa.array(scores[:, : self.k][unseen]),
        }
        if self.options is not None:
            columns |= reason_columns(told, data.catalog, self.flat)
        return pa.table(columns)

    def _reasons(self, cases: Cases, items: Ints, unseen: Bools, options: Options) -> list[Told]:
        run, seed = self.run, self.model_seed
        if run.chosen(seed).reads_history:
            return find_all(run, cases, items, unseen, self.k, model_seed=seed, options=options)
        items, unseen = items[:, : self.k], unseen[:, : self.k]
        return without_history(run, cases, items, unseen, seed, lambda: self._choices)

    @cached_property
    def _choices(self) -> Choices:
        return Choices.of(self.run.interactions)


def reason_columns(told: Sequence[Told], catalog: Catalog, flat: bool) -> dict[str, pa.Array]:
    """Return reasons as columns, without lists if `flat`."""

    def column(name: str, kind: pa.DataType) -> pa.Array:
        return pa.array([getattr(one, name) for one in told], kind)

    said = {
        "kind": column("kind", pa.string()),
        "confidence": column("confidence", pa.float64()),
        "sentence": column("sentence", pa.string()),
    }
    if flat:
        return said
    stops = np.cumsum([0, *(len(one.named) for one in told)], dtype=np.int32)
    named = pa.array([item for one in told for item in one.named], pa.int64())
    titles = pa.array([title for one in told for title in one.labels], pa.string())
    ids = catalog.table["item"].take(named).combine_chunks()
    return {
        **said,
        "because": pa.ListArray.from_arrays(stops, ids),
        "because_titles": pa.ListArray.from_arrays(stops, titles),
        "taste": column("taste", pa.string()),
        "rank_without": column("rank_without", pa.int64()),
        "probability_lost": column("probability_lost", pa.float64()),
    }
