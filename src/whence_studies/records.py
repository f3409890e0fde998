"""What a study leaves behind: one record a figure, ours beside the published one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from whence.config import build
from whence.errors import InputError
from whence.files import new_file, reason, write_json

NEEDS_FILE = "needs the user's file"
NOT_RUN = "not run yet"
PRIVATE = "private data"
ONLY_PUBLISHED = "published alone"
NOT_THERE = "not measured on these data"


@dataclass(frozen=True, kw_only=True)
class Record:
    """One figure of a published table or chart, as it came out here."""

    study: str
    dataset: str
    model: str | None = None
    row: str
    column: str
    label: str | None = None
    """What the column is about, where only the data know."""
    value: float | None
    spread: float | None = None
    """Standard deviation over seeds; of what is measured between seeds, over its pseudo-values."""
    interval: tuple[float, float] | None = None
    """Low and high, at 95 %."""
    n: int | None = None
    """Points a seed."""
    seeds: tuple[int, ...] = ()
    published: float | None
    verdict: str
    protocol: str
    machine: str
    command: str

    def as_dict(self) -> dict[str, Any]:
        """Plain types only; few have a label, and the others need not say so."""
        document = asdict(self)
        if self.label is None:
            del document["label"]
        return document


def with_former(records: Sequence[Record], former: Sequence[Record]) -> list[Record]:
    """What has no value now, as it was found before, or found to be absent, on any machine."""
    found = {
        _about(record): record
        for record in former
        if record.value is not None or record.verdict == NOT_THERE
    }
    return [
        record if record.value is not None else found.get(_about(record), record)
        for record in records
    ]


def _about(record: Record) -> tuple[str | None, ...]:
    return record.study, record.dataset, record.model, record.row, record.column


def records_file(study: str, folder: Path) -> Path:
    """Where the records of a study are."""
    return folder / f"{study}.json"


def write_records(records: Sequence[Record], folder: Path) -> Path:
    """`<study>.json`, whole or not at all."""
    path = records_file(records[0].study, folder)
    with new_file(path) as partial:
        write_json(partial, [record.as_dict() for record in records])
    return path


def read_records(study: str, folder: Path) -> list[Record]:
    """What `write_records` wrote."""
    path = records_file(study, folder)
    if not path.exists():
        raise InputError(f"There are no records in {path}; 'whence study run {study}' makes them.")
    try:
        documents = json.loads(path.read_text(encoding="utf-8"))
        return [build(Record, document) for document in documents]
    except OSError as problem:
        raise InputError(f"{path} cannot be read: {reason(problem)}.") from None
    except (ValueError, TypeError, InputError) as problem:
        raise InputError(f"{path} does not hold a study's records: {problem}") from None
