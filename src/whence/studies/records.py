"""What a study leaves behind: one record a figure, ours beside the published one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from whence.files import new_file, write_json

NEEDS_FILE = "needs the user's file"


@dataclass(frozen=True, kw_only=True)
class Record:
    """One figure of a published table or chart, as it came out here."""

    study: str
    dataset: str
    model: str | None = None
    row: str
    column: str
    value: float | None
    spread: float | None = None
    """Standard deviation over seeds."""
    interval: tuple[float, float] | None = None
    n: int | None = None
    """Points a seed."""
    seeds: tuple[int, ...] = ()
    published: float | None
    verdict: str
    protocol: str
    machine: str = f"{os.cpu_count()} CPU cores"
    command: str


def write_records(records: Sequence[Record], folder: Path) -> Path:
    """`<study>.json`, whole or not at all."""
    documents: list[dict[str, Any]] = [asdict(record) for record in records]
    with new_file(folder / f"{records[0].study}.json") as partial:
        write_json(partial, documents)
    return folder / f"{records[0].study}.json"


def as_markdown(records: Sequence[Record]) -> str:
    """A table for people, with what was printed behind what was found."""
    lines = [
        f"# {records[0].study}",
        "",
        f"Made by `{records[0].command}`.",
        "",
        "| table | row | column | found | published | verdict |",
        "|---|---|---|---:|---:|---|",
    ]
    for record in records:
        cells = (
            record.protocol,
            record.row,
            record.column,
            shown(record.value),
            shown(record.published),
            record.verdict,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def shown(value: float | None) -> str:
    """A figure for people."""
    if value is None:
        return ""
    return f"{value:,.4g}" if value % 1 else f"{value:,.0f}"
