"""The run folder: everything that one training produced, checked when it is opened again.

Anybody may have written a run folder. Opening one reads its own files and nothing else: no file, no
database and no address that it names.
"""

from __future__ import annotations

import platform
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
import torch
from rich.console import Group

import whence
from whence.console import SafeConsole
from whence.contract import offers
from whence.data.catalog import Catalog
from whence.data.copies import keep_copy
from whence.data.interactions import Counts, Interactions
from whence.data.origins import how_to_read, read_origin
from whence.data.prepared import read_id_table
from whence.data.readers.tabular import ReadOptions
from whence.data.sources import Source
from whence.devices import check_device, device_of
from whence.errors import InputError, RunError, WhenceError
from whence.files import MANIFEST, new_folder, read_json, save_weights, sha256, write_json
from whence.measure import metrics_table
from whence.models import MODELS, Recommender
from whence.models.ensemble import Ensemble, Member, Weight
from whence.models.weights import read_model
from whence.run_data import known_users, newer_events, private_copy, training_events
from whence.run_document import (
    CALIBRATOR,
    FORMAT,
    SIMPLE,
    SNAPSHOTS,
    WRONG_CONTENT,
    checked_files,
    read_accuracy,
    read_description,
    read_metrics,
    snapshots_of,
)
from whence.terminal import pairs_table, to_html
from whence.text import json_text, visible

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True, repr=False, eq=False)
class Run:
    """Trained models, one per seed, with their data, settings and accuracy.

    Together they are one recommender, `whole`. Simple models can be part of it, too.
    """

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
    simple: Mapping[str, Recommender] = field(default_factory=dict)
    """By name: the simple models that recommend together with those of the seeds."""
    weights: Mapping[str, Weight] = field(default_factory=dict)
    """By name: the weights of `model` and of the simple models, if there are any."""
    accuracy: Mapping[str, Any] = field(default_factory=dict)
    """The accuracy of the whole on validation and test events, if it has several models."""
    calibrator: bytes | None = None
    """A safetensors file: how probable reasons are, learned on worlds like the data."""
    snapshots: Mapping[int, Mapping[int, Path]] = field(default_factory=dict)
    """By seed and step: files with the weights at that step."""
    folder: Path | None = None
    loaded: Interactions | None = None
    """The interactions, if they are in memory already."""
    newer: bool = False
    """Whether `loaded` holds other events than those of the training."""

    def __post_init__(self) -> None:
        if self.loaded is not None and self.catalog.popularity is None:
            events = np.bincount(self.loaded.items, minlength=len(self.catalog))
            object.__setattr__(self, "catalog", replace(self.catalog, popularity=events))

    @property
    def first(self) -> Recommender:
        """The model of the first seed."""
        return next(iter(self.models.values()))

    @cached_property
    def whole(self) -> Recommender:
        """What the run recommends with: its only model, or the mean log-probability of all."""
        weight = self.weights.get(self.model, Weight())
        members = [Member(one, weight.factor / len(self.models)) for one in self.models.values()]
        members += [Member(one, self.weights[name].factor) for name, one in self.simple.items()]
        return members[0].model if len(members) == 1 else Ensemble(members)

    def chosen(self, model_seed: int | None) -> Recommender:
        """Return the model of a seed, or the whole."""
        if model_seed is None:
            return self.whole
        if model_seed not in self.models:
            known = ", ".join(map(str, self.models))
            raise InputError(f"This run has no model of seed {model_seed}. Choose from: {known}.")
        return self.models[model_seed]

    def recommenders(self, model_seed: int | None = None) -> list[Recommender]:
        """Return what the run would be with each seed alone; simple models are part of each.

        The mean of their scores is that of the whole.
        """
        if model_seed is not None or len(self.models) == 1:
            return [self.chosen(model_seed)]
        return [replace(self, models={seed: model}).whole for seed, model in self.models.items()]

    def seed_offering(self, capabilities: Iterable[str]) -> int | None:
        """Return the first seed if its model offers what the whole lacks, such as attention."""
        lacking = [one for one in capabilities if not offers(self.whole, one)]
        alone = bool(lacking) and all(offers(self.first, one) for one in lacking)
        return next(iter(self.models)) if alone else None

    def accuracy_of(self, model_seed: int | None, held: str) -> Mapping[str, Any] | None:
        """Return the recorded accuracy of a seed's model, or of the whole, on a held-out part."""
        if model_seed is None and self.whole is not self.first:
            return self.accuracy.get(held)
        only = next(iter(self.models)) if model_seed is None else model_seed
        return self.metrics[only].get(held)

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
        """The data that you named, or else the private copy of those it was trained on."""
        if self.loaded is not None:
            return self.loaded
        copy = private_copy(self.data, self.catalog)
        if copy is None:
            raise InputError(
                "The data of this run are not here. Name them with --data (in Python data=), or "
                f"give a history instead of a user. {how_to_read(self.data['origin'])}"
            )
        return replace(copy, verb=self.verb)

    def with_data(self, data: Source, reading: ReadOptions | None = None) -> Run:
        """Return the run with histories from data that you name, such as newer events.

        Events with items that the run does not know are left out with a warning. Without `reading`,
        columns are read as those of the training data.
        """
        known_only = MODELS[self.model].known_users_only
        users = known_users(self.model, self.data, self.catalog) if known_only else None
        events = newer_events(data, reading, self.data, self.catalog, users)
        return replace(self, loaded=events, newer=True)

    def with_training_data(self, data: Source, reading: ReadOptions | None = None) -> Run:
        """Return the run with the data of its training, which you name; others are refused."""
        own = training_events(data, reading, self.data, self.catalog)
        return replace(self, loaded=own, newer=False)

    def with_origin(self, code: str) -> Run:
        """Return the run with data read again from their origin, whose code an error has shown."""
        return self.with_training_data(read_origin(self.data["origin"], code))

    def snapshot(self, step: int, model_seed: int = 0) -> Recommender:
        """Return the snapshot of the model after this number of steps."""
        self.chosen(model_seed)
        kept = self.snapshots.get(model_seed, {})
        if step not in kept:
            known = ", ".join(map(str, sorted(kept))) or "none; train with snapshots=11, say"
            raise InputError(f"Seed {model_seed} has no snapshot at step {step}. It has {known}.")
        device = str(device_of(self.first))
        try:
            return read_model(kept[step], self.model, self.model_settings, self.counts, device)
        except (WhenceError, *WRONG_CONTENT) as problem:
            raise RunError(f"{kept[step]} cannot be used: {problem}.") from None

    def save(self, folder: Path | str, overwrite: bool = False) -> Run:
        """Write the run folder and a private copy of its data; return the run in that folder.

        If writing fails, what was in the folder before is still there.
        """
        with new_folder(Path(folder), overwrite) as partial:
            # Before the run: if this is killed on the way, saving the run again completes it.
            if self.loaded is not None and not self.newer:
                keep_copy(self.loaded)
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
            for name, simple in self.simple.items():
                (partial / SIMPLE / name).mkdir(parents=True)
                save_weights(partial / SIMPLE / name / "weights.safetensors", simple.state_dict())
            if self.calibrator is not None:
                (partial / CALIBRATOR).write_bytes(self.calibrator)
            if self.accuracy:
                write_json(partial / "accuracy.json", self.accuracy)
            files = sorted(path for path in partial.rglob("*") if path.is_file())
            checks = {path.relative_to(partial).as_posix(): sha256(path) for path in files}
            write_json(partial / MANIFEST, {"format": FORMAT, "sha256": checks})
        snapshots = {seed: snapshots_of(Path(folder), seed, checks) for seed in self.models}
        return replace(self, folder=Path(folder), snapshots=snapshots)

    @staticmethod
    def load(folder: Path | str, device: str = "cpu") -> Run:
        """Return the run that `save` wrote to this folder; the same as `whence.open_run`."""
        return open_run(folder, device)

    def as_dict(self) -> dict[str, Any]:
        """Return the settings, the description of the data and the accuracy as plain types."""
        metrics = {str(seed): one for seed, one in self.metrics.items()}
        whole = {"accuracy": dict(self.accuracy)} if self.accuracy else {}
        return {**self._description(), "metrics": metrics, **whole}

    def to_json(self) -> str:
        """Return `as_dict` as one JSON document; the weights are only in the run folder."""
        return json_text(self.as_dict())

    def show(self) -> None:
        """Print what was trained on what, and the accuracy of each seed."""
        SafeConsole().print(self.__rich__())

    def __rich__(self) -> Group:
        facts = {
            "recommends": self.members,
            "data": f"{self.source}: {self.data['users']:,} users, {self.data['items']:,} items, "
            f"{self.data['events']:,} events",
            "split": self.training["protocol"],
            "steps": self.training["steps"],
            "folder": self.folder or "not saved",
        }
        if self.calibrator is not None:
            facts["reasons"] = "with a calibrator of this run"
        return Group(pairs_table(f"Run of {self.model}", facts), *self._accuracy_tables())

    @property
    def members(self) -> str:
        """What recommends, in words: "5 seeds of sasrec (80 %), recent-ease (20 %)"."""
        seeds = f"{len(self.models)} seeds of " if len(self.models) > 1 else ""
        if not self.simple:
            return f"{seeds}{self.model}"
        shares = {name: one.weight for name, one in self.weights.items()}
        total = sum(shares.values())
        return ", ".join(
            f"{seeds if name == self.model else ''}{name} ({100 * shares[name] / total:.0f} %)"
            for name in (self.model, *self.simple)
        )

    def __repr__(self) -> str:
        place = f", in {self.folder}" if self.folder else ""
        return visible(f"Run: {self.members} on {self.source}{place}")

    def _repr_html_(self) -> str:
        return to_html(self.__rich__())

    def _accuracy_tables(self) -> Iterable[Group]:
        for held_out in ("validation", "test"):
            rows = {
                str(seed): one[held_out] for seed, one in self.metrics.items() if held_out in one
            }
            if not rows:
                continue
            if held_out in self.accuracy:
                rows["together"] = self.accuracy[held_out]
            first = next(iter(rows.values()))
            # Measures of accuracy have a direction, and those of the lists have none.
            lists = [name for name, one in first.items() if one.get("direction") == "neither"]
            accuracy = [name for name in first if name not in lists]
            yield metrics_table(f"Accuracy on {held_out} events", rows, accuracy)
            if lists:
                yield metrics_table(f"More than accuracy, on {held_out} events", rows, lists)

    def _blend(self) -> list[dict[str, Any]]:
        """Return the models that recommend together, if simple ones are among them."""
        return [
            {
                "model": name,
                "settings": {} if name == self.model else asdict(_config(self.simple[name])),
                **asdict(weight),
            }
            for name, weight in self.weights.items()
        ]

    def _description(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "model": self.model,
            "model_settings": dict(self.model_settings),
            "training": dict(self.training),
            "seeds": list(self.models),
            "blend": self._blend(),
            "data": dict(self.data),
            "versions": {
                "whence": whence.__version__,
                "python": platform.python_version(),
                "torch": torch.__version__,
                "numpy": np.__version__,
            },
        }


def open_run(folder: Path | str, device: str = "cpu") -> Run:
    """Return a run that `Run.save` wrote; nothing in the folder is executed or followed."""
    folder = Path(folder)
    check_device(device)
    try:
        if not (folder / MANIFEST).exists():
            raise RunError(f"{folder} is not a run folder. Write one with 'whence train'.")
        return _open(folder, device)
    except RunError:
        raise
    except (WhenceError, *WRONG_CONTENT) as problem:
        said = str(problem).removesuffix(" Prepare it again.").rstrip(".")
        said = said or type(problem).__name__
        raise RunError(f"{folder} cannot be used: {said}. Train it again.") from None


def _open(folder: Path, device: str) -> Run:
    files = checked_files(folder)
    described = read_description(read_json(files["run.json"]))
    catalog = Catalog.from_table(read_id_table(files["catalog.parquet"], "item"))
    if len(catalog) != described.data.items:
        raise InputError(f"catalog.parquet has {len(catalog):,} items, not {described.data.items}")
    counts = Counts(len(catalog), described.data.users)
    models, metrics = {}, {}
    for seed in described.seeds:
        place = f"seeds/{seed}"
        models[seed] = read_model(
            files[f"{place}/weights.safetensors"],
            described.model,
            described.model_settings,
            counts,
            device,
        )
        metrics[seed] = read_metrics(read_json(files[f"{place}/metrics.json"]), described.format)
    simple = {
        one.model: read_model(
            files[f"{SIMPLE}/{one.model}/weights.safetensors"],
            one.model,
            one.settings,
            counts,
            device,
        )
        for one in described.blend
        if one.model != described.model
    }
    accuracy = read_json(files["accuracy.json"]) if "accuracy.json" in files else {}
    return Run(
        model=described.model,
        model_settings=described.model_settings,
        training=described.training,
        data=asdict(described.data),
        catalog=catalog,
        models=models,
        metrics=metrics,
        simple=simple,
        weights={one.model: Weight(one.weight, one.temperature) for one in described.blend},
        accuracy=read_accuracy(accuracy),
        calibrator=files[CALIBRATOR].read_bytes() if CALIBRATOR in files else None,
        snapshots={seed: snapshots_of(folder, seed, files) for seed in described.seeds},
        folder=folder,
    )


def _config(model: Recommender) -> DataclassInstance:
    """Return the configuration of a model of the registry, which is a dataclass."""
    assert is_dataclass(model.config)
    return model.config
