"""The content of `run.json` and `metrics.json`, checked: anybody may have written a run folder."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from whence import former
from whence.config import build
from whence.data.splits import SPLITS
from whence.errors import InputError

FORMAT = 2
FORMER = 1
"""The format of version 0.1, which had other names for settings and splits."""
HASH = re.compile(r"[0-9a-f]{64}")
MOST = 2**31
"""More users, items or events than Whence can count."""


@dataclass(frozen=True)
class DataDocument:
    """What a run records about its data. Nothing here is ever opened without being asked for."""

    origin: Mapping[str, Any]
    """Where the data came from, for people to read."""
    hash: str
    """The content hash, by which the private copy of the data is found."""
    users: int
    items: int
    events: int
    verb: str
    event_hash: str = ""
    """The hash of the events without titles and features; version 0.2 did not write it."""

    def __post_init__(self) -> None:
        if not HASH.fullmatch(self.hash) or not HASH.fullmatch(self.event_hash or self.hash):
            raise InputError("the hash of the data is not a sha256")
        for name in ("users", "items", "events"):
            if not 0 < getattr(self, name) < MOST:
                raise InputError(f"data.{name} cannot be {getattr(self, name)}")


@dataclass(frozen=True)
class TrainingDocument:
    """The settings of the training that later commands use."""

    split: str
    protocol: str
    steps: int
    patience: int

    def __post_init__(self) -> None:
        if self.split not in SPLITS:
            raise InputError(f"there is no split '{self.split}'")


@dataclass(frozen=True)
class RunDocument:
    """The content of `run.json`."""

    format: int
    model: str
    model_settings: Mapping[str, Any]
    training: Mapping[str, Any]
    seeds: tuple[int, ...]
    data: DataDocument
    versions: Mapping[str, Any]

    def __post_init__(self) -> None:
        used = TrainingDocument.__dataclass_fields__
        known = {name: value for name, value in self.training.items() if name in used}
        build(TrainingDocument, known, "training")
        if not self.seeds or len(set(self.seeds)) < len(self.seeds) or min(self.seeds) < 0:
            raise InputError("it needs seeds that differ, each with a trained model")


def read_description(document: Mapping[str, Any]) -> RunDocument:
    """Return a checked description; names of version 0.1 become those of today."""
    if document.get("format") == FORMER:
        document = former.current_run(document)
    return build(RunDocument, document, "run.json")


def read_metrics(document: Mapping[str, Any], format: int) -> dict[str, Any]:
    """Return the course and the accuracy of one seed, checked."""
    found: dict[str, Any] = former.current_metrics(document) if format == FORMER else dict(document)
    for name in ("steps", "kept_step"):
        if not isinstance(found.get(name), int) or isinstance(found[name], bool):
            raise InputError(f"metrics.json needs a whole number '{name}'")
    for held in ("validation", "test"):
        _check_measures(found.get(held, {}))
    return found


def _check_measures(measures: object) -> None:
    if not isinstance(measures, Mapping):
        raise InputError("metrics.json needs a table of measures for each held-out part")
    for name, one in measures.items():
        value = one.get("value") if isinstance(one, Mapping) else None
        number = isinstance(value, int | float) and math.isfinite(value)
        if not number or not isinstance(one["protocol"], str):
            raise InputError(f"metrics.json needs a value and a protocol for '{name}'")
