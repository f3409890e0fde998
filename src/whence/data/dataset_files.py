"""Named datasets: where their files may be, how to download them, and what they must hold."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from whence.data.archives import unpack
from whence.data.download import WrongFileError, check_file, download
from whence.data.interactions import Interactions
from whence.errors import InputError
from whence.files import reason

NOT_AS_PUBLISHED = (pa.ArrowException, LookupError, TypeError, ValueError, OSError)
"""What reading raises if columns are missing or hold something else."""
FOLDER_VARIABLE = "WHENCE_DATA"
SUFFIXES = ("", ".gz", ".zst")
DatasetFiles = Mapping[str, Path]
"""Role to path."""


@dataclass(frozen=True)
class Download:
    """A file at its publisher."""

    url: str
    path: str
    """The path in the data folder."""
    max_bytes: int
    checksum: str | None = None
    why_no_checksum: str = ""
    """The reason if there is none."""
    members: tuple[str, ...] = ()
    """The files to unpack from a zip archive."""
    max_unpacked: int = 0
    """The bytes that these may have in all."""


@dataclass(frozen=True)
class FileLayout:
    """A set of files in a data folder, and the function that reads them."""

    files: Mapping[str, str]
    """Role to path in a data folder; the files may be compressed."""
    read: Callable[[DatasetFiles], Interactions]
    negatives: str | None = None
    """The path of published negatives for the test events, with the same raw ids."""


@dataclass(frozen=True)
class NamedDataset:
    """A dataset known by name."""

    summary: str
    layouts: tuple[FileLayout, ...] = ()
    downloads: tuple[Download, ...] = ()
    counts: tuple[int, int | None, int] | None = None
    """The numbers of users, items (if published) and events that it must have."""
    terms: str = ""
    make: Callable[[], Interactions] | None = None
    """Makes data that need no files."""
    package: str | None = None
    """The optional package that contains it."""

    @property
    def available(self) -> bool:
        """Whether it can be read without a download."""
        if self.make is not None:
            return self.package is None or importlib.util.find_spec(self.package) is not None
        return any(find_files(layout) is not None for layout in self.layouts)


def data_folders() -> list[Path]:
    """Return the folders to search for files; downloads go to the first."""
    shared = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "whence"
    named = os.environ.get(FOLDER_VARIABLE)
    return [Path(named), shared] if named else [shared]


def find_files(layout: FileLayout) -> dict[str, Path] | None:
    """Return the files of a layout, if all of them are in one data folder."""
    for folder in data_folders():
        found = {}
        for use, name in layout.files.items():
            path = next((p for end in SUFFIXES if (p := folder / f"{name}{end}").is_file()), None)
            if path is not None:
                found[use] = path
        if len(found) == len(layout.files):
            return found
    return None


def find_file(name: str) -> Path | None:
    """Return a file in any data folder, compressed or not."""
    places = (folder / f"{name}{end}" for folder in data_folders() for end in SUFFIXES)
    return next((path for path in places if path.is_file()), None)


def layout_here(named: NamedDataset) -> FileLayout | None:
    """Return the first layout whose files are here."""
    return next((layout for layout in named.layouts if find_files(layout) is not None), None)


def read_published(name: str, named: NamedDataset) -> Interactions:
    """Return the dataset, if its files are here and hold what they should."""
    if named.make is not None:
        events = named.make()
        return events if events.origin else replace(events, origin={"source": name})
    for layout in named.layouts:
        files = find_files(layout)
        if files is not None:
            try:
                events = layout.read(files)
            except NOT_AS_PUBLISHED as problem:
                raise InputError(
                    f"{' or '.join(map(str, files.values()))} is not as it was published "
                    f"({problem}). Remove it, and download it again."
                ) from None
            _check_counts(name, named, events, files)
            return replace(events, origin={"source": name})
    raise InputError(_how_to_get(name, named))


def get_published(
    name: str, named: NamedDataset, mirror: str | None = None, show_progress: bool = True
) -> Interactions:
    """Return the dataset, downloaded into the first data folder if it is not here."""
    if not named.available:
        folder = data_folders()[0]
        for one in named.downloads:
            url = f"{mirror.rstrip('/')}/{one.url.rsplit('/', 1)[1]}" if mirror else one.url
            path = folder / one.path
            if path.is_file():
                _check_given(path, one.checksum)
            else:
                download(url, path, one.max_bytes, one.checksum, show_progress=show_progress)
            if one.members:
                unpack(path, one.members, folder, one.max_unpacked)
    return read_published(name, named)


def unchecked_files(named: NamedDataset) -> list[str]:
    """Return which of the downloads have no checksum, and why."""
    return [
        f"{one.url.rsplit('/', 1)[1]} has no checksum: {one.why_no_checksum}"
        for one in named.downloads
        if one.checksum is None
    ]


def _check_given(path: Path, checksum: str | None) -> None:
    """Raise if a file that somebody put here is not the published one."""
    try:
        check_file(path, checksum)
    except WrongFileError as problem:
        raise InputError(
            f"{path} is not the published file: {problem}. Remove it, and repeat the command."
        ) from None
    except OSError as problem:
        raise InputError(f"{path} cannot be read: {reason(problem)}.") from None


def _check_counts(
    name: str, named: NamedDataset, events: Interactions, files: DatasetFiles
) -> None:
    """Raise if the numbers of users, items and events are not as published."""
    if named.counts is None:
        return
    found = (events.user_count, events.item_count, len(events))
    expected = tuple(
        is_ if should is None else should for is_, should in zip(found, named.counts, strict=True)
    )
    if found != expected:
        counts = "{:,} users, {:,} items and {:,} events"
        raise InputError(
            f"{next(iter(files.values()))} holds {counts.format(*found)}, but {name} has "
            f"{counts.format(*expected)}. Remove it, and download it again."
        )


def _how_to_get(name: str, named: NamedDataset) -> str:
    """Return which files are missing and how to get them."""
    if named.package is not None:
        return f"{name} needs the package {named.package}. Install it."
    wanted = " and ".join(named.layouts[0].files.values())
    advice = f"Download it with 'whence data get {name}', or put" if named.downloads else "Put"
    return (
        f"{name} is not here. {advice} {wanted} into {data_folders()[0]}. Set {FOLDER_VARIABLE} to "
        "use another folder."
    )
