"""A cache of trained runs and measured values, by everything that determines them."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

import whence
from whence.config import build
from whence.data.interactions import Interactions
from whence.data.splits import HeldOut
from whence.engine.checkpoints import checkpoint_folder
from whence.errors import InputError, RunError
from whence.files import make_parent, new_file, read_json, write_json, writing
from whence.locks import lock, lock_file
from whence.models import model_spec
from whence.run import Run, open_run
from whence.training import TrainingConfig, train
from whence.training.plans import with_given
from whence_studies.measurements.measurement import SeedColumn
from whence_studies.study import Cell, Study

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

FOLDER_VARIABLE = "WHENCE_CACHE"
LONGEST_OPTIONS = 80
"""Longer options are hashed, so that they fit into the name of a file."""


@dataclass(frozen=True, eq=False)
class TrainingRecipe:
    """Everything that determines the result of a training, defaults included."""

    data: Interactions
    model: str
    settings: Mapping[str, Any]
    training: Mapping[str, Any]
    split: str
    seeds: int
    device: str
    init_from: tuple[TrainingRecipe, ...] = ()
    """The recipes of the models whose weights it starts from."""

    @cached_property
    def key(self) -> str:
        """A hash that is equal for equal recipes, also across studies."""
        described = {
            "data": self.data.content_hash,
            "model": self.model,
            "settings": dict(self.settings),
            "training": dict(self.training),
            "split": self.split,
            "seeds": self.seeds,
            "device": self.device,
            **({"init_from": [one.key for one in self.init_from]} if self.init_from else {}),
            "whence": whence.__version__,
            "torch": str(torch.__version__),
        }
        canonical = json.dumps(described, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()


@dataclass(frozen=True)
class MeasuringPlan:
    """A measurement of a run: its options, and the held-out events it uses."""

    measurement: str
    held: HeldOut
    options: DataclassInstance
    edition: int = 1

    @property
    def key(self) -> str:
        """The part of a file name that identifies it."""
        chosen = "-".join(f"{name}={value}" for name, value in asdict(self.options).items())
        if len(chosen) > LONGEST_OPTIONS:
            chosen = hashlib.sha256(chosen.encode()).hexdigest()
        edition = [f"edition={self.edition}"] if self.edition > 1 else []
        named = (self.measurement, self.held, *edition, *([chosen] if chosen else []))
        return re.sub(r"[^\w=.-]", "_", "-".join(named))


@dataclass(frozen=True)
class CachedColumns:
    """The measured columns of one run, and the seeds of their values."""

    seeds: tuple[int, ...]
    columns: Mapping[str, SeedColumn]


def resolve_settings(study: Study, cell: Cell) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the complete settings of the model and of the training, checked.

    A model in closed form has no settings of training.
    """
    settings, training = study.settings_of(cell)
    spec = model_spec(study.models[cell.model].name)
    config = build(spec.config, settings)
    if spec.closed_form:
        return asdict(config), {}
    return asdict(config), asdict(build(TrainingConfig, with_given(spec.training, training)))


@dataclass(frozen=True)
class StudyCache:
    """A folder of ordinary run folders, and of small files with measured values."""

    folder: Path

    def run(
        self, recipe: TrainingRecipe, until: float | None = None, show_progress: bool = True
    ) -> Run:
        """Return the cached run, or train it; a stopped training resumes.

        If another study is training it, wait for that.
        """
        folder = self.folder / "runs" / recipe.key
        if not lock_file(folder).exists() and (found := _open(folder, recipe)) is not None:
            return found
        make_parent(folder)
        with lock(folder, wait=True, until=until):
            if (found := _open(folder, recipe)) is not None:
                shutil.rmtree(checkpoint_folder(folder), ignore_errors=True)
                return found
            if folder.exists():  # and cannot be used
                with writing(folder):
                    shutil.rmtree(folder)
            return train(
                recipe.data,
                model=recipe.model,
                model_settings=recipe.settings,
                training=recipe.training,
                seeds=recipe.seeds,
                split=recipe.split,
                init_from=[self.run(one, until, show_progress) for one in recipe.init_from],
                out=folder,
                overwrite=True,  # a training stopped with, say, other threads starts over
                device=recipe.device,
                show_progress=show_progress,
                until=until,
            )

    def measured(self, recipe: TrainingRecipe, measuring: MeasuringPlan) -> CachedColumns | None:
        """Return what was measured before, or nothing if there is none or it cannot be read."""
        path = self._file(recipe, measuring)
        try:
            return build(CachedColumns, read_json(path)) if path.exists() else None
        except InputError:
            return None

    def keep(
        self, recipe: TrainingRecipe, measuring: MeasuringPlan, measured: CachedColumns
    ) -> None:
        """Keep what was measured for the next run."""
        with new_file(self._file(recipe, measuring)) as partial:
            write_json(partial, asdict(measured))

    def _file(self, recipe: TrainingRecipe, measuring: MeasuringPlan) -> Path:
        return self.folder / "measured" / f"{recipe.key}-{measuring.key}.json"


def _open(folder: Path, recipe: TrainingRecipe) -> Run | None:
    """Return the run in a folder, or nothing if there is none that can be used."""
    try:
        return replace(open_run(folder, recipe.device), loaded=recipe.data)
    except RunError:
        return None


def default_folder() -> Path:
    """Return the folder in `WHENCE_CACHE`, or the user's cache folder."""
    return Path(os.environ.get(FOLDER_VARIABLE) or Path.home() / ".cache" / "whence")
