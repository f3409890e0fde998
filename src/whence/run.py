"""The run folder: everything one training produced, checked when it is opened again."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

import whence
from whence import former
from whence.data.catalog import Catalog
from whence.data.interactions import Counts, Interactions
from whence.data.sources import reload
from whence.devices import check_device
from whence.errors import InputError, RunError, WhenceError
from whence.files import MANIFEST, new_folder, read_json, save_weights, sha256, write_json
from whence.models import Recommender, model_with

FORMAT = 2
FORMER = 1
"""The format of version 0.1, which had other names for settings."""
SNAPSHOTS = "snapshots"
WRONG_CONTENT = (OSError, KeyError, TypeError, AttributeError, ValueError, RuntimeError)
"""What reading a file that is not as it was written can raise."""


@dataclass(frozen=True)
class Run:
    """Trained models, one a seed, with what they were trained on and how well they do."""

    model: str
    model_settings: Mapping[str, Any]
    training: Mapping[str, Any]
    data: Mapping[str, Any]
    """Origin, hash, counts and verb of the interactions."""
    catalog: Catalog
    models: Mapping[int, Recommender]
    """By seed."""
    metrics: Mapping[int, Mapping[str, Any]]
    """By seed: the accuracy on each held-out part."""
    snapshots: Mapping[int, Mapping[int, Path]] = field(default_factory=dict)
    """By seed and step: files with the weights at that time."""
    folder: Path | None = None
    loaded: Interactions | None = field(default=None, repr=False, compare=False)
    """The data, where they are in memory anyway."""

    @property
    def first(self) -> Recommender:
        """The model of the first seed."""
        return next(iter(self.models.values()))

    @property
    def counts(self) -> Counts:
        """What its models were made for."""
        return Counts(len(self.catalog), int(self.data["users"]))

    @property
    def verb(self) -> str:
        """What users do with items: watched, bought, …"""
        return str(self.data["verb"])

    @cached_property
    def interactions(self) -> Interactions:
        """The data it was trained on, if need be read again from where they came from."""
        if self.loaded is not None:
            return self.loaded
        found = reload(self.data["origin"])
        if found.content_hash != self.data["hash"]:
            raise InputError(
                f"The data in {self.data['origin'].get('source')} are not those this run was "
                "trained on; put them back, or give a history by hand."
            )
        return found

    def at(self, step: int, seed: int = 0) -> Recommender:
        """The model as it was after so many steps, where a snapshot was kept."""
        if seed not in self.models:
            known = ", ".join(map(str, self.models))
            raise InputError(f"This run has no seed {seed}; it has {known}.")
        kept = self.snapshots.get(seed, {})
        if step not in kept:
            known = ", ".join(map(str, sorted(kept))) or "none; train with snapshots=11, say"
            raise InputError(f"Seed {seed} has no snapshot at step {step}; it has {known}.")
        device = str(next(self.first.parameters()).device)
        try:
            return _load_model(kept[step], self.model, self.model_settings, self.counts, device)
        except (SafetensorError, *WRONG_CONTENT) as problem:
            raise RunError(f"{kept[step]} cannot be used: {problem}.") from None

    def save(self, folder: Path | str, overwrite: bool = False) -> Run:
        """Write the folder, whole or not at all; return the run that lives there."""
        with new_folder(Path(folder), overwrite) as partial:
            write_json(partial / "run.json", self._description())
            pq.write_table(self.catalog.table, partial / "catalog.parquet")
            for seed, model in self.models.items():
                place = partial / "seeds" / str(seed)
                place.mkdir(parents=True)
                save_weights(place / "weights.safetensors", model.state_dict())
                write_json(place / "metrics.json", self.metrics[seed])
                for kept in self.snapshots.get(seed, {}).values():
                    (place / SNAPSHOTS).mkdir(exist_ok=True)
                    shutil.copyfile(kept, place / SNAPSHOTS / kept.name)
            files = sorted(path for path in partial.rglob("*") if path.is_file())
            checks = {path.relative_to(partial).as_posix(): sha256(path) for path in files}
            write_json(partial / MANIFEST, {"format": FORMAT, "sha256": checks})
        return replace(self, folder=Path(folder), snapshots=_snapshots(Path(folder), self.models))

    def _description(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "model": self.model,
            "model_settings": dict(self.model_settings),
            "training": dict(self.training),
            "seeds": list(self.models),
            "data": dict(self.data),
            "versions": {
                "whence": whence.__version__,
                "python": platform.python_version(),
                "torch": torch.__version__,
                "numpy": numpy.__version__,
            },
        }


def open_run(folder: Path | str, device: str = "cpu") -> Run:
    """A run written by `Run.save`; nothing in it is executed."""
    folder = Path(folder)
    check_device(device)
    if not (folder / MANIFEST).exists():
        raise RunError(f"{folder} is not a run; 'whence train' writes one.")
    try:
        _check_files(folder)
        described = _described(folder)
        catalog = Catalog(pq.read_table(folder / "catalog.parquet"))
        seeds: list[int] = described["seeds"]
        if not seeds:
            raise RunError(f"{folder} holds no trained seed; train it again.")
        models = {
            seed: _load_model(
                folder / "seeds" / str(seed) / "weights.safetensors",
                described["model"],
                described["model_settings"],
                Counts(len(catalog), described["data"]["users"]),
                device,
            )
            for seed in seeds
        }
        return Run(
            model=described["model"],
            model_settings=described["model_settings"],
            training=described["training"],
            data=described["data"],
            catalog=catalog,
            models=models,
            metrics={
                seed: read_json(folder / "seeds" / str(seed) / "metrics.json") for seed in seeds
            },
            snapshots=_snapshots(folder, seeds),
            folder=folder,
        )
    except RunError:
        raise
    except (WhenceError, SafetensorError, *WRONG_CONTENT) as problem:
        raise RunError(f"{folder} cannot be used: {problem}. Train it again.") from None
    except pa.ArrowException as problem:
        raise RunError(f"{folder}/catalog.parquet cannot be read: {problem}.") from None


def _described(folder: Path) -> dict[str, Any]:
    """What `run.json` says, with today's names of settings."""
    described: dict[str, Any] = read_json(folder / "run.json")
    if described["format"] == FORMER:
        for key, names in (("model_settings", former.MODEL), ("training", former.TRAINING)):
            described[key] = former.renamed(described[key], names)
    return described


def _check_files(folder: Path) -> None:
    manifest = read_json(folder / MANIFEST)
    if manifest.get("format") not in (FORMER, FORMAT):
        raise RunError(
            f"{folder} has run format {manifest.get('format')}, and this version of Whence reads "
            f"formats {FORMER} and {FORMAT}."
        )
    if "sha256" not in manifest:
        raise RunError(f"{folder} holds prepared data, not a run; train on it first.")
    for name, expected in manifest["sha256"].items():
        path = folder / name
        if not path.is_file():
            raise RunError(f"{path} is missing; copy the run again or train it anew.")
        if sha256(path) != expected:
            raise RunError(f"{path} has changed since it was written; train the run anew.")


def _load_model(
    weights: Path, name: str, settings: Mapping[str, Any], counts: Counts, device: str
) -> Recommender:
    return model_with(load_file(weights, device=device), name, settings, counts, device)


def snapshot_files(folder: Path) -> dict[int, Path]:
    """By step, what training kept in a folder."""
    return {int(path.stem): path for path in folder.glob("*.safetensors")}


def _snapshots(folder: Path, seeds: Iterable[int]) -> dict[int, dict[int, Path]]:
    return {seed: snapshot_files(folder / "seeds" / str(seed) / SNAPSHOTS) for seed in seeds}
