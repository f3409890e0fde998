"""The records that a study leaves: one measured value each, with the published one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from whence.config import build
from whence.errors import InputError
from whence.files import new_file, read_document, write_json
from whence.text import shortened

NEEDS_FILE: Final = "needs your copy of the data"
NOT_RUN: Final = "not run yet"
PRIVATE: Final = "private data"
ONLY_PUBLISHED: Final = "published only"
NOT_THERE: Final = "not measured on these data"
LONGEST_REASON: Final = 200
SHIPPED: Final = (Path(__file__).parent / "results", Path(__file__).parents[2] / "results")
"""Where the records of the studies are: in an installed package, and in a clone."""

OPTIONAL: Final = ("label", "at_half", "at_double", "source", "transferred_from")
"""The fields of a record that are left out if they are not set."""
ValuesBySeed = dict[str, list[float]]
"""By column, one value per seed."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """One value of a published table or chart, as measured here."""

    study: str
    dataset: str
    model: str | None = None
    row: str
    column: str
    label: str | None = None
    """What the column is about if only the data know, such as the title of a film."""
    value: float | None
    spread: float | None = None
    """Standard deviation over seeds; for a comparison of seeds, over its pseudo-values."""
    interval: tuple[float, float] | None = None
    """Low and high, at 95 %."""
    n: int | None = None
    """Cases per seed."""
    seeds: tuple[int, ...] = ()
    published: float | None
    verdict: str
    at_half: str | None = None
    """The verdict on a claim if our limit and margin were half as large; nothing without them."""
    at_double: str | None = None
    source: str | None = None
    """Where a claim is made."""
    transferred_from: str | None = None
    """What the source makes a claim about, if that is not what it is judged on here."""
    protocol: str
    machine: str
    command: str

    def as_dict(self) -> dict[str, Any]:
        """Return plain types only, without the optional fields that are not set."""
        document = asdict(self)
        for name in OPTIONAL:
            if document[name] is None:
                del document[name]
        return document


def fill_from_earlier(records: Sequence[Record], earlier: Sequence[Record]) -> list[Record]:
    """Replace records without a value by earlier ones, which another machine may have made."""
    found = {
        _key(record): record
        for record in earlier
        if record.value is not None or record.verdict == NOT_THERE
    }
    return [
        record if record.value is not None else found.get(_key(record), record)
        for record in records
    ]


def _key(record: Record) -> tuple[str | None, ...]:
    return record.study, record.dataset, record.model, record.row, record.column


def records_file(study: str, folder: Path) -> Path:
    """Return the file of a study's records in this folder."""
    return folder / f"{study}.json"


def find_records(study: str, given: Path | None, here: Path) -> Path:
    """Return the folder with the records of a study.

    That is the given folder. Without one it is `here` if it has the records, then the installed
    package, then the clone that this file is part of.
    """
    if given is not None:
        return given
    folders = (here, *SHIPPED)
    return next((one for one in folders if records_file(study, one).exists()), here)


def write_records(records: Sequence[Record], folder: Path) -> Path:
    """Write `<study>.json`, whole or not at all."""
    path = records_file(records[0].study, folder)
    with new_file(path) as partial:
        write_json(partial, [record.as_dict() for record in records])
    return path


def read_records(study: str, folder: Path) -> list[Record]:
    """Return what `write_records` wrote."""
    path = records_file(study, folder)
    if not path.exists():
        raise InputError(
            f"There are no records in {path}. Run 'whence study run {study}' to make them, or name "
            "another folder with --results."
        )
    try:
        documents = read_document(path)
        if not isinstance(documents, list):
            raise InputError("it is not a list.")
        return [build(Record, document) for document in documents]
    except (ValueError, TypeError, ArithmeticError, RecursionError, InputError) as problem:
        said = shortened(str(problem), LONGEST_REASON)
        raise InputError(f"{path} does not hold the records of a study: {said}") from None
