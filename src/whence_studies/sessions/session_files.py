"""A folder with the challenge's files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from whence.data.dataset_files import data_folders
from whence.errors import InputError

LOGS, TRACKS, CAUSES = "training_set", "track_features", "causes"
ENDINGS: Final = (".csv", ".csv.gz")
HELD: Final = 0.1
"""Share of the logs that validates, and that tests."""


@dataclass(frozen=True)
class SessionFiles:
    """The logs, in the order of their names, and what goes with them."""

    logs: tuple[Path, ...]
    tracks: tuple[Path, ...]
    causes: tuple[Path, ...] = ()
    """Of each log, where the sessions were made."""


@dataclass(frozen=True)
class SessionSplit:
    """The files of the three parts."""

    train: SessionFiles
    validation: SessionFiles
    test: SessionFiles


def find_files(folder: Path) -> SessionFiles:
    """The files of a folder as the challenge has it: `training_set/` and `track_features/`."""
    logs, tracks = (_csv_files(folder / one) for one in (LOGS, TRACKS))
    for found, name in ((logs, LOGS), (tracks, TRACKS)):
        if not found:
            raise InputError(f"{folder / name} has no files that end in {' or '.join(ENDINGS)}.")
    causes = tuple(folder / CAUSES / log.name for log in logs)
    return SessionFiles(logs, tracks, causes if all(one.exists() for one in causes) else ())


def session_folder(name: str) -> Path | None:
    """The folder of that name where the user keeps data, if it is there and has logs."""
    folders = (folder / name for folder in data_folders())
    return next((folder for folder in folders if (folder / LOGS).is_dir()), None)


def split_files(files: SessionFiles) -> SessionSplit:
    """The last tenth of the logs tests, the tenth before it validates, at least one each."""
    count = len(files.logs)
    if count < 3:
        raise InputError(
            f"Three parts need at least 3 logs, and there {'is' if count == 1 else 'are'} {count}."
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
