"""Session files for tests, and a plain row-by-row reader."""

from __future__ import annotations

import csv
from datetime import date
from pathlib import Path

from whence_studies.sessions import GROUPS
from whence_studies.sessions.schema import CATEGORIES, LOG_COLUMNS

Row = dict[str, str]


def rows_of(path: Path) -> list[Row]:
    with path.open() as file:
        return list(csv.DictReader(file))


def write_rows(path: Path, rows: list[Row], columns: list[str] | None = None) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns or list(rows[0]), extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return path


def row_of(session: str, position: int, length: int, track: str = "t_1", **other: str) -> Row:
    usual = {
        "session_id": session,
        "session_position": str(position),
        "session_length": str(length),
        "track_id_clean": track,
        "hour_of_day": "6",
        "date": "2018-07-15",
        "context_type": "radio",
        "hist_user_behavior_reason_start": "fwdbtn",
        "hist_user_behavior_reason_end": "trackdone",
    }
    return dict.fromkeys(LOG_COLUMNS, "0") | usual | other


def session_of(session: str, length: int, skips: str = "") -> list[Row]:
    """Return a session whose skips are written as 0 and 1."""
    marks = skips.ljust(length, "0")
    return [row_of(session, at + 1, length, skip_2=marks[at]) for at in range(length)]


def logged_features(row: Row) -> list[float]:
    """Return the first 44 features by name."""
    found = []
    for name in (*GROUPS["position"], *GROUPS["context"], *GROUPS["interaction"]):
        kind = next((one for one in CATEGORIES if name.startswith(one)), None)
        if kind is not None:
            found.append(float(row[kind] == name.removeprefix(f"{kind}_")))
        elif name == "hour_of_day":
            found.append(int(row[name]) / 24)
        elif name == "date":
            found.append((date.fromisoformat(row[name]) - date(2018, 7, 13)).days)
        else:
            found.append(float({"true": 1, "false": 0}.get(row[name], row[name])))
    return found
