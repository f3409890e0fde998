"""Folders with the challenge's files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from whence.data.dataset_files import data_folders
from whence.errors import InputError

LOGS, TRACKS, CAUSES = "training_set", "track_features", "causes"
ENDINGS: Final = (".csv", ".csv.gz")
HELD: Final = 0.1
"""Share of the logs for validation, and again for testing."""


@dataclass(frozen=True)
class SessionFiles:
    """The logs, sorted by name, and the files that belong to them."""

    logs: tuple[Path, ...]
    tracks: tuple[Path, ...]
    causes: tuple[Path, ...] = ()
    """One file per log, for synthetic sessions."""


@dataclass(frozen=True)
class SessionSplit:
    """The files for training, validation and testing."""

    train: SessionFiles
    validation: SessionFiles
    test: SessionFiles


def find_files(folder: Path) -> SessionFiles:
    """Find the files in a folder laid out as in the challenge.

    Such a folder holds `training_set/` and `track_features/`.
    """
    logs, tracks = (_csv_files(folder / one) for one in (LOGS, TRACKS))
    for found, name in ((logs, LOGS), (tracks, TRACKS)):
        if not found:
            raise InputError(f"{folder / name} has no {' or '.join(ENDINGS)} files.")
    causes = tuple(folder / CAUSES / log.name for log in logs)
    return SessionFiles(logs, tracks, causes if all(one.exists() for one in causes) else ())


def session_folder(name: str) -> Path | None:
    """Return the folder of that name in the user's data folders if it has logs."""
    folders = (folder / name for folder in data_folders())
    return next((folder for folder in folders if (folder / LOGS).is_dir()), None)


def split_files(files: SessionFiles) -> SessionSplit:
    """Split by logs: the last tenth tests and the tenth before validates, at least one log each."""
    count = len(files.logs)
    if count < 3:
        raise InputError(
            f"Training, validation and testing need at least 3 logs, but there "
            f"{'is' if count == 1 else 'are'} {count}."
        )
    held = max(1, round(HELD * count))
    return SessionSplit(
        _some(files, slice(count - 2 * held)),
        _some(files, slice(count - 2 * held, count - held)),
        _some(files, slice(count - held, count)),
    )


def _some(files: SessionFiles, which: slice) -> SessionFiles:
    return replace(files, logs=files.logs[which], causes=files.causes[which])


def _csv_files(folder: Path) -> tuple[Path, ...]:
    found = folder.iterdir() if folder.is_dir() else ()
    return tuple(sorted(path for path in found if path.name.endswith(ENDINGS)))
