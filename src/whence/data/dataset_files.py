"""What a dataset with a name is: where its files may lie, whence they come, what they must hold."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from whence.data.download import download, unpack
from whence.data.interactions import Interactions
from whence.errors import InputError

NOT_AS_PUBLISHED = (pa.ArrowException, LookupError, TypeError, ValueError, OSError)
"""What reading columns that should be there raises where they are not, or hold something else."""
FOLDER_VARIABLE = "WHENCE_DATA"
PACKED = ("", ".gz", ".zst")
Files = Mapping[str, Path]


@dataclass(frozen=True)
class Download:
    """One file of a publisher's."""

    url: str
    path: str
    """Where it goes in the data folder."""
    checksum: str | None = None
    """The publisher's where one is printed."""
    members: tuple[str, ...] = ()
    """Of a zip archive, the files that are wanted."""


@dataclass(frozen=True)
class Layout:
    """Files as someone has them, and how they are read together."""

    files: Mapping[str, str]
    """What each is for, and where it lies in a data folder, packed or not."""
    read: Callable[[Files], Interactions]
    negatives: str | None = None
    """Where the negatives lie that were published for its test events, with the same raw ids."""


@dataclass(frozen=True)
class NamedDataset:
    """A dataset known by name."""

    summary: str
    layouts: tuple[Layout, ...] = ()
    downloads: tuple[Download, ...] = ()
    counts: tuple[int, int | None, int] | None = None
    """Users, items (where published) and events that it must have."""
    terms: str = ""
    make: Callable[[], Interactions] | None = None
    """For data that need no files."""
    package: str | None = None
    """The optional package it comes in."""

    @property
    def available(self) -> bool:
        """Whether it can be read here and now."""
        if self.make is not None:
            return self.package is None or importlib.util.find_spec(self.package) is not None
        return any(find_files(layout) is not None for layout in self.layouts)


def data_folders() -> list[Path]:
    """Where files are looked for; downloads go to the first."""
    shared = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "whence"
    named = os.environ.get(FOLDER_VARIABLE)
    return [Path(named), shared] if named else [shared]


def find_files(layout: Layout) -> dict[str, Path] | None:
    """The layout's files, if all of them are in one data folder."""
    for folder in data_folders():
        found = {}
        for use, name in layout.files.items():
            path = next((p for end in PACKED if (p := folder / f"{name}{end}").is_file()), None)
            if path is not None:
                found[use] = path
        if len(found) == len(layout.files):
            return found
    return None


def find_file(name: str) -> Path | None:
    """A single file in any data folder, packed or not."""
    places = (folder / f"{name}{end}" for folder in data_folders() for end in PACKED)
    return next((path for path in places if path.is_file()), None)


def layout_here(named: NamedDataset) -> Layout | None:
    """The layout that the dataset is read by."""
    return next((layout for layout in named.layouts if find_files(layout) is not None), None)


def read_published(name: str, named: NamedDataset) -> Interactions:
    """The dataset, if its files are here and hold what they should."""
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
                    f"({problem}); remove it, and get it again."
                ) from None
            _check_counts(name, named, events, files)
            return replace(events, origin={"source": name})
    raise InputError(_how_to_get(name, named))


def get_published(
    name: str, named: NamedDataset, mirror: str | None = None, show_progress: bool = True
) -> Interactions:
    """The dataset, downloaded into the first data folder unless it is here already."""
    if not named.available:
        folder = data_folders()[0]
        for one in named.downloads:
            url = f"{mirror.rstrip('/')}/{one.url.rsplit('/', 1)[1]}" if mirror else one.url
            path = folder / one.path
            if not path.exists():
                download(url, path, one.checksum, show_progress=show_progress)
            if one.members:
                unpack(path, one.members, folder)
    return read_published(name, named)


def _check_counts(name: str, named: NamedDataset, events: Interactions, files: Files) -> None:
    """What has no checksum is known by its counts."""
    if named.counts is None:
        return
    found = (events.user_count, events.item_count, len(events))
    expected = tuple(
        is_ if should is None else should for is_, should in zip(found, named.counts, strict=True)
    )
    if found != expected:
        counts = "{:,} users, {:,} items and {:,} events"
        raise InputError(
            f"{next(iter(files.values()))} holds {counts.format(*found)}, and {name} has "
            f"{counts.format(*expected)}; remove it, and get it again."
        )


def _how_to_get(name: str, named: NamedDataset) -> str:
    """One sentence: which file to put where."""
    if named.package is not None:
        return f"{name} comes with the package {named.package}; install it."
    wanted = " and ".join(named.layouts[0].files.values())
    order = f"'whence data get {name}' downloads it, or put" if named.downloads else "put"
    return (
        f"{name} is not here: {order} {wanted} into {data_folders()[0]} (another folder: set "
        f"{FOLDER_VARIABLE})."
    )
