"""The run folder: everything that one training produced, checked when it is opened again."""

from __future__ import annotations

import json
import platform
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from rich.console import Console, Group
from safetensors import SafetensorError
from safetensors.torch import load_file

import whence
from whence import former
from whence.data.catalog import Catalog
from whence.data.copies import keep_copy, needs_copy, open_copy
from whence.data.interactions import Counts, Interactions
from whence.data.sources import reload
from whence.devices import check_device
from whence.errors import InputError, RunError, WhenceError
from whence.files import MANIFEST, new_folder, read_json, save_weights, sha256, write_json
from whence.models import Recommender, model_with
from whence.terminal import captioned, pairs_table, plain_table, to_html

FORMAT = 2
FORMER = 1
"""The format of version 0.1, which had other names for settings and splits."""
SNAPSHOTS = "snapshots"
WRONG_CONTENT = (OSError, KeyError, TypeError, AttributeError, ValueError, RuntimeError)
"""What reading a damaged or foreign file can raise."""


@dataclass(frozen=True, repr=False, eq=False)
class Run:
    """Trained models, one per seed, with their data, settings and accuracy."""

    model: str
    model_settings: Mapping[str, Any]
    training: Mapping[str, Any]
    data: Mapping[str, Any]
    """Origin, hash, counts and verb of the interactions."""
    catalog: Catalog
    models: Mapping[int, Recommender]
    """By seed."""
    metrics: Mapping[int, Mapping[str, Any]]
    """By seed: the accuracy on validation and test events."""
    snapshots: Mapping[int, Mapping[int, Path]] = field(default_factory=dict)
    """By seed and step: files with the weights at that step."""
    folder: Path | None = None
    loaded: Interactions | None = None
    """The interactions, if they are in memory already."""

    def __post_init__(self) -> None:
        if self.loaded is not None and self.catalog.popularity is None:
            events = np.bincount(self.loaded.items, minlength=len(self.catalog))
            object.__setattr__(self, "catalog", replace(self.catalog, popularity=events))

    @property
    def first(self) -> Recommender:
        """The model of the first seed."""
        return next(iter(self.models.values()))

    @property
    def counts(self) -> Counts:
        """The numbers of items and users that the models were built for."""
        return Counts(len(self.catalog), int(self.data["users"]))

    @property
    def verb(self) -> str:
        """What users do with items: watched, bought, …"""
        return str(self.data["verb"])

    @property
    def source(self) -> str:
        """The file, dataset or database of the data, in short."""
        return Path(str(self.data["origin"].get("source", "data in memory"))).name

    @cached_property
    def interactions(self) -> Interactions:
        """The data it was trained on.

        After the run was opened, they come from the private copy of the data or, if there is none,
        from their original source.
        """
        if self.loaded is not None:
            return self.loaded
        origin = self.data["origin"]
        wants_copy = needs_copy(origin)
        copy = open_copy(self.data["hash"]) if wants_copy else None
        if copy is not None:
            return replace(copy, origin=origin, verb=self.verb)
        found = reload(origin)
        if found.content_hash != self.data["hash"]:
            raise InputError(
                f"The data in {origin.get('source')} are not those this run was trained on. "
                "Restore them, or give a history instead of a user."
            )
        if wants_copy:
            keep_copy(found, warn=False)
        return found

    def snapshot(self, step: int, model_seed: int = 0) -> Recommender:
        """Return the snapshot of the model after this number of steps."""
        if model_seed not in self.models:
            known = ", ".join(map(str, self.models))
            raise InputError(f"This run has no model of seed {model_seed}. It has {known}.")
        kept = self.snapshots.get(model_seed, {})
        if step not in kept:
            known = ", ".join(map(str, sorted(kept))) or "none; train with snapshots=11, say"
            raise InputError(f"Seed {model_seed} has no snapshot at step {step}. It has {known}.")
        device = str(next(self.first.parameters()).device)
        try:
            return _load_model(kept[step], self.model, self.model_settings, self.counts, device)
        except (SafetensorError, *WRONG_CONTENT) as problem:
            raise RunError(f"{kept[step]} cannot be used: {problem}.") from None

    def save(self, folder: Path | str, overwrite: bool = False) -> Run:
        """Write the run folder and a private copy of its data; return the run in that folder.

        If writing fails, what was in the folder before is still there.
        """
        with new_folder(Path(folder), overwrite) as partial:
            write_json(partial / "run.json", self._description())
            pq.write_table(self.catalog.to_table(), partial / "catalog.parquet")
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
        if self.loaded is not None and needs_copy(self.data["origin"]):
            keep_copy(self.loaded)
        return replace(self, folder=Path(folder), snapshots=_snapshots(Path(folder), self.models))

    @staticmethod
    def load(folder: Path | str, device: str = "cpu") -> Run:
        """Return the run that `save` wrote to this folder; the same as `whence.open_run`."""
        return open_run(folder, device)

    def as_dict(self) -> dict[str, Any]:
        """Return the settings, the description of the data and the accuracy as plain types."""
        metrics = {str(seed): one for seed, one in self.metrics.items()}
        return {**self._description(), "metrics": metrics}

    def to_json(self) -> str:
        """Return `as_dict` as one JSON document; the weights are only in the run folder."""
        return json.dumps(self.as_dict(), indent=2, ensure_ascii=False, allow_nan=False)

    def show(self) -> None:
        """Print what was trained on what, and the accuracy of each seed."""
        Console().print(self.__rich__())

    def __rich__(self) -> Group:
        facts = {
            "data": f"{self.source}: {self.data['users']:,} users, {self.data['items']:,} items, "
            f"{self.data['events']:,} events",
            "split": self.training["protocol"],
            "steps": self.training["steps"],
            "folder": self.folder or "not saved",
        }
        return Group(pairs_table(f"Run of {self.model}", facts), *self._accuracy_tables())

    def __repr__(self) -> str:
        seeds = f"{len(self.models)} seed{'s' if len(self.models) > 1 else ''}"
        place = f", in {self.folder}" if self.folder else ""
        return f"Run: {self.model} on {self.source}, {seeds}{place}"

    def _repr_html_(self) -> str:
        return to_html(self.__rich__())

    def _accuracy_tables(self) -> Iterable[Group]:
        for held_out in ("validation", "test"):
            by_seed = {seed: one[held_out] for seed, one in self.metrics.items() if held_out in one}
            if not by_seed:
                continue
            first = next(iter(by_seed.values()))
            title = f"Accuracy on {held_out} events"
            table = plain_table(title, "seed", *first, numbers=len(first))
            for seed, metrics in by_seed.items():
                table.add_row(str(seed), *(f"{one['value']:.3f}" for one in metrics.values()))
            yield captioned(table, "\n".join({one["protocol"]: None for one in first.values()}))

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
                "numpy": np.__version__,
            },
        }


def open_run(folder: Path | str, device: str = "cpu") -> Run:
    """Return a run that `Run.save` wrote; nothing in the folder is executed."""
    folder = Path(folder)
    check_device(device)
    if not (folder / MANIFEST).exists():
        raise RunError(f"{folder} is not a run folder. Write one with 'whence train'.")
    try:
        _check_files(folder)
        described = read_json(folder / "run.json")
        is_former = described["format"] == FORMER
        if is_former:
            described = former.current_run(described)
        catalog = Catalog.from_table(pq.read_table(folder / "catalog.parquet"))
        seeds: list[int] = described["seeds"]
        if not seeds:
            raise RunError(f"{folder} holds no trained model. Train it again.")
        counts = Counts(len(catalog), described["data"]["users"])
        models, metrics = {}, {}
        for seed in seeds:
            place = folder / "seeds" / str(seed)
            models[seed] = _load_model(
                place / "weights.safetensors",
                described["model"],
                described["model_settings"],
                counts,
                device,
            )
            found = read_json(place / "metrics.json")
            metrics[seed] = former.current_metrics(found) if is_former else found
        return Run(
            model=described["model"],
            model_settings=described["model_settings"],
            training=described["training"],
            data=described["data"],
            catalog=catalog,
            models=models,
            metrics=metrics,
            snapshots=_snapshots(folder, seeds),
            folder=folder,
        )
    except RunError:
        raise
    except (WhenceError, SafetensorError, *WRONG_CONTENT) as problem:
        raise RunError(f"{folder} cannot be used: {problem}. Train it again.") from None
    except pa.ArrowException as problem:
        raise RunError(f"{folder}/catalog.parquet cannot be read: {problem}.") from None


def _check_files(folder: Path) -> None:
    manifest = read_json(folder / MANIFEST)
    if manifest.get("format") not in (FORMER, FORMAT):
        raise RunError(
            f"{folder} has run format {manifest.get('format')}, but this version of Whence reads "
            f"formats {FORMER} and {FORMAT}. Open it with a newer version of Whence."
        )
    if "sha256" not in manifest:
        raise RunError(f"{folder} holds prepared data, not a run. Train a model on it first.")
    for name, expected in manifest["sha256"].items():
        path = folder / name
        if not path.is_file():
            raise RunError(f"{path} is missing. Copy the run again, or train it again.")
        if sha256(path) != expected:
            raise RunError(
                f"{path} has changed since it was written. Copy the run again, or train it again."
            )


def _load_model(
    weights: Path, name: str, settings: Mapping[str, Any], counts: Counts, device: str
) -> Recommender:
    return model_with(load_file(weights, device=device), name, settings, counts, device)


def snapshot_files(folder: Path) -> dict[int, Path]:
    """Return the weight files in a folder of snapshots, by step."""
    return {int(path.stem): path for path in folder.glob("*.safetensors")}


def _snapshots(folder: Path, seeds: Iterable[int]) -> dict[int, dict[int, Path]]:
    return {seed: snapshot_files(folder / "seeds" / str(seed) / SNAPSHOTS) for seed in seeds}
