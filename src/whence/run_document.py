"""The files of a run folder and what they say, checked: anybody may have written one."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from whence import former
from whence.config import build
from whence.data.copies import HASH
from whence.data.splits import SPLITS
from whence.errors import InputError, RunError
from whence.files import MANIFEST, read_json, sha256
from whence.models import MODELS

FORMAT = 3
WITHOUT_LOSS = 2
"""The last format in which SASRec had no setting for its loss."""
FORMER = 1
"""The format of version 0.1, which had other names for settings and splits."""
SNAPSHOTS, SIMPLE = "snapshots", "simple"
CALIBRATOR = "calibrator.safetensors"
OWN_NAMES = re.compile(
    r"run\.json|catalog\.parquet|accuracy\.json"
    rf"|{re.escape(CALIBRATOR)}|{SIMPLE}/[a-z0-9][a-z0-9-]{{0,60}}/weights\.safetensors"
    rf"|seeds/\d{{1,20}}/(weights\.safetensors|metrics\.json|{SNAPSHOTS}/\d{{1,20}}\.safetensors)"
)
MOST = 2**31
"""More users, items or events than Whence can count."""
WRONG_CONTENT = (
    OSError,
    KeyError,
    TypeError,
    AttributeError,
    ValueError,
    RuntimeError,
    ArithmeticError,
    MemoryError,
    pa.ArrowException,
)
"""What reading a damaged or foreign file can raise."""


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
    """The hash of the events without titles and features; version 0.1 did not write it."""

    def __post_init__(self) -> None:
        if not HASH.fullmatch(self.hash) or not HASH.fullmatch(self.event_hash or self.hash):
            raise InputError("the hash of the data is not a sha256")
        reading, steps = self.origin.get("reading", {}), self.origin.get("preparation", [])
        if not isinstance(reading, Mapping) or not isinstance(steps, list):
            raise InputError("data.origin does not say how the data were read")
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
class MemberDocument:
    """One of the models that recommend together."""

    model: str
    settings: Mapping[str, Any]
    """Of a simple model; those of the trained one stand elsewhere."""
    weight: float
    temperature: float

    def __post_init__(self) -> None:
        usable = 0 < self.weight < math.inf and 0 < self.temperature < math.inf
        if not usable or not 0 < self.weight / self.temperature < math.inf:
            raise InputError(f"the weight of {self.model} is not a number above 0")


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
    blend: tuple[MemberDocument, ...] = ()
    """The trained model and the simple ones that recommend with it; empty without such."""

    def __post_init__(self) -> None:
        names = [one.model for one in self.blend]
        if self.blend and (len(set(names)) < len(names) or self.model not in names):
            raise InputError("the models that recommend together must differ, and include its own")
        simple = MODELS.tagged("simple")
        for name in names:
            if name not in (self.model, *simple):
                raise InputError(f"{name} is no simple model that recommends with another")
        used = TrainingDocument.__dataclass_fields__
        known = {name: value for name, value in self.training.items() if name in used}
        build(TrainingDocument, known, "training")
        if not self.seeds or len(set(self.seeds)) < len(self.seeds) or min(self.seeds) < 0:
            raise InputError("it needs seeds that differ, each with a trained model")


def read_description(document: Mapping[str, Any]) -> RunDocument:
    """Return a checked description; names of former formats become those of today."""
    format = document.get("format")
    if format == FORMER:
        document = former.current_run(document)
    if format in (FORMER, WITHOUT_LOSS):
        document = former.with_loss(document)
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


def read_accuracy(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the accuracy of the whole by held-out part, checked."""
    for measures in document.values():
        _check_measures(measures)
    return dict(document)


def _check_measures(measures: object) -> None:
    if not isinstance(measures, Mapping):
        raise InputError("metrics.json needs a table of measures for each held-out part")
    for name, one in measures.items():
        value = one.get("value") if isinstance(one, Mapping) else None
        number = isinstance(value, int | float) and math.isfinite(value)
        if not number or not isinstance(one["protocol"], str):
            raise InputError(f"metrics.json needs a value and a protocol for '{name}'")


class RunFiles(dict[str, Path]):
    """The files that the manifest lists, by name."""

    def __missing__(self, name: str) -> Path:
        raise InputError(f"{name} is not listed in {MANIFEST}")


def checked_files(folder: Path) -> RunFiles:
    """Return the files of the manifest; each must lie in the folder and be unchanged."""
    manifest = read_json(own_file(folder, MANIFEST))
    if manifest.get("format") not in (FORMER, WITHOUT_LOSS, FORMAT):
        raise RunError(
            f"{folder} has run format {manifest.get('format')}, but this version of Whence reads "
            f"formats {FORMER} to {FORMAT}. Open it with a newer version of Whence."
        )
    if "sha256" not in manifest:
        raise RunError(f"{folder} holds prepared data, not a run. Train a model on it first.")
    files = RunFiles()
    for name, expected in manifest["sha256"].items():
        if not OWN_NAMES.fullmatch(name):
            raise RunError(f"{folder} lists {name}, which is no file of a run. Copy it again.")
        files[name] = path = own_file(folder, name)
        if sha256(path) != expected:
            raise RunError(
                f"{path} has changed since it was written. Copy the run again, or train it again."
            )
    return files


def own_file(folder: Path, name: str) -> Path:
    """Return a regular file inside the folder; a link may lead anywhere, so it is refused."""
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()) or path.is_symlink():
        raise RunError(f"{path} leads out of the run folder. Copy the run again, without links.")
    if not path.is_file():
        raise RunError(f"{path} is missing. Copy the run again, or train it again.")
    return path


def snapshots_of(folder: Path, seed: int, listed: Iterable[str]) -> dict[int, Path]:
    """Return the snapshots that the manifest lists, by step."""
    here = f"seeds/{seed}/{SNAPSHOTS}/"
    found = [folder / name for name in listed if name.startswith(here)]
    return {int(path.stem): path for path in found}


def snapshot_files(folder: Path) -> dict[int, Path]:
    """Return the weight files in a folder of snapshots, by step."""
    return {int(path.stem): path for path in folder.glob("*.safetensors") if path.stem.isdecimal()}
