"""The run folder: everything that one training produced, checked when it is opened again.

Anybody may have written a run folder. Opening one reads its own files and nothing else: no file, no
database and no address that it names.
"""

from __future__ import annotations

import platform
import shutil
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from rich.console import Group

import whence
from whence.console import SafeConsole
from whence.data.alignment import UNKNOWN, align, places
from whence.data.catalog import Catalog
from whence.data.copies import keep_copy, open_copy
from whence.data.interactions import Counts, Interactions
from whence.data.origins import how_to_read, load_like, prepare_like, read_origin
from whence.data.prepared import read_id_table
from whence.data.readers.tabular import ReadOptions
from whence.data.sources import Source
from whence.devices import check_device
from whence.errors import InputError, RunError, WhenceError
from whence.files import MANIFEST, new_folder, read_json, save_weights, sha256, write_json
from whence.measure import NOT_SHOWN, protocol_lines
from whence.models import MODELS, Recommender
from whence.models.weights import read_model
from whence.run_document import (
    FORMAT,
    SNAPSHOTS,
    RunDocument,
    checked_files,
    read_description,
    read_metrics,
    snapshots_of,
)
from whence.terminal import captioned, pairs_table, plain_table, to_html
from whence.text import json_text, visible

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
NAMED_UNKNOWN = 3
"""How many unknown items a warning names."""


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
        copy = self._copy()
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
        origin = self.data["origin"]
        # Filters by counts are for training: a new user has few events.
        given = prepare_like(load_like(data, origin, reading), origin, by_counts=False)
        return replace(self, loaded=self._newer_events(given), newer=True)

    def with_training_data(self, data: Source, reading: ReadOptions | None = None) -> Run:
        """Return the run with the data of its training, which you name; others are refused."""
        given = load_like(data, self.data["origin"], reading)
        prepared = prepare_like(given, self.data["origin"])
        for events in (given, prepared):
            if (own := self._as_trained(events)) is not None:
                return replace(self, loaded=own, newer=False)
        raise InputError(
            "These are not the data that the run was trained on. They have "
            f"{len(prepared):,} events of {prepared.user_count:,} users; the training had "
            f"{self.data['events']:,} of {self.data['users']:,}. Name the data of the training."
        )

    def with_origin(self, code: str) -> Run:
        """Return the run with data read again from their origin, whose code an error has shown."""
        return self.with_training_data(read_origin(self.data["origin"], code))

    def _as_trained(self, events: Interactions) -> Interactions | None:
        """Return the events under the numbers of the training, if they are those of the training.

        Titles and features may be others.
        """
        if (events.user_count, len(events)) != (self.data["users"], self.data["events"]):
            return None
        if events.content_hash == self.data["hash"]:
            return replace(events, verb=self.verb)
        aligned = replace(align(events, self.catalog), verb=self.verb)
        return aligned if aligned.event_hash == self.data["event_hash"] else None

    def _newer_events(self, events: Interactions) -> Interactions:
        ids = events.catalog.table["item"]
        unknown = places(ids, self.catalog.table["item"]) == UNKNOWN
        some = ", ".join(str(one) for one in ids.filter(pa.array(unknown))[:NAMED_UNKNOWN])
        if unknown.all():
            raise InputError(
                f"No item of these data is in the catalog of the run. Their ids are like {some}, "
                f"those of the run like {self.catalog.table['item'][0]}. Name data of the same "
                "items."
            )
        if unknown.any():
            warnings.warn(
                f"The run does not know {int(unknown.sum()):,} of the {len(unknown):,} items in "
                f"these data ({some}{', …' if unknown.sum() > NAMED_UNKNOWN else ''}). Events with "
                f"them are left out: {int(unknown[events.items].sum()):,}. Train again to include "
                "them.",
                stacklevel=3,
            )
        return replace(align(events, self.catalog, self._known_users()), verb=self.verb)

    def _copy(self) -> Interactions | None:
        """Return the private copy of the data; a run that does not fit it states a wrong hash."""
        copy = open_copy(self.data["hash"])
        if copy is None:
            return None
        counts = (self.data["users"], self.data["events"])
        same = (copy.user_count, len(copy)) == counts
        if not same or not copy.catalog.table["item"].equals(self.catalog.table["item"]):
            raise RunError(
                "The data of this run are not those that its hash names. Train it again."
            )
        return copy

    def _known_users(self) -> pa.Table | None:
        """Return the users of the training, in order, for a model that knows them by number."""
        if not MODELS[self.model].known_users_only:
            return None
        copy = self._copy()
        if copy is None:
            raise InputError(
                f"{self.model} recommends only to users it was trained on, and the data of the "
                "training, which list them, are not here. Name those data."
            )
        return copy.users

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
        return {**self._description(), "metrics": metrics}

    def to_json(self) -> str:
        """Return `as_dict` as one JSON document; the weights are only in the run folder."""
        return json_text(self.as_dict())

    def show(self) -> None:
        """Print what was trained on what, and the accuracy of each seed."""
        SafeConsole().print(self.__rich__())

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
        return visible(f"Run: {self.model} on {self.source}, {seeds}{place}")

    def _repr_html_(self) -> str:
        return to_html(self.__rich__())

    def _accuracy_tables(self) -> Iterable[Group]:
        for held_out in ("validation", "test"):
            by_seed = {seed: one[held_out] for seed, one in self.metrics.items() if held_out in one}
            if not by_seed:
                continue
            first = next(iter(by_seed.values()))
            # Measures of accuracy have a direction, and those of the lists have none.
            lists = [name for name, one in first.items() if one.get("direction") == "neither"]
            accuracy = [name for name in first if name not in lists]
            yield _metrics_table(f"Accuracy on {held_out} events", by_seed, accuracy)
            if lists:
                yield _metrics_table(f"More than accuracy, on {held_out} events", by_seed, lists)

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


def _metrics_table(title: str, by_seed: Mapping[int, Mapping[str, Any]], names: list[str]) -> Group:
    table = plain_table(title, "seed", *names, numbers=len(names))
    for seed, metrics in by_seed.items():
        found = (metrics[name]["value"] if name in metrics else None for name in names)
        shown = (NOT_SHOWN if value is None else f"{value:.3f}" for value in found)
        table.add_row(str(seed), *shown)
    first = next(iter(by_seed.values()))
    return captioned(table, "\n".join(protocol_lines({n: first[n]["protocol"] for n in names})))


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
    return _run(folder, described, catalog, models, metrics, files)


def _run(
    folder: Path,
    described: RunDocument,
    catalog: Catalog,
    models: Mapping[int, Recommender],
    metrics: Mapping[int, Mapping[str, Any]],
    files: Iterable[str],
) -> Run:
    return Run(
        model=described.model,
        model_settings=described.model_settings,
        training=described.training,
        data=asdict(described.data),
        catalog=catalog,
        models=models,
        metrics=metrics,
        snapshots={seed: snapshots_of(folder, seed, files) for seed in described.seeds},
        folder=folder,
    )


def snapshot_files(folder: Path) -> dict[int, Path]:
    """Return the weight files in a folder of snapshots, by step."""
    return {int(path.stem): path for path in folder.glob("*.safetensors") if path.stem.isdecimal()}
