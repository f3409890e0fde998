"""A study as its file declares it: models, data, what is measured and what is claimed."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from whence.config import build
from whence.data.datasets import DATASETS
from whence.data.splits import HeldOut
from whence.errors import InputError, did_you_mean
from whence.files import read_json, reason
from whence.models import model_spec
from whence_studies.sessions.session_files import session_folder

HERE = Path(__file__).parent
Expectation = Literal[
    "higher", "lower", "not higher", "not lower", "spread lower", "weak", "moderate", "strong"
]
Settings = Mapping[str, Any]
COUNTS, SKIPS, TOYS = "counts", "skips", "toys"
"""The measurements that fill printed tables row by row, of other things than trained runs."""


@dataclass(frozen=True)
class StudyDataset:
    """Interactions, and the settings that go with them."""

    data: str
    """A known name, a file or a prepared folder."""
    settings: Settings = field(default_factory=dict)
    """Of the models."""
    training: Settings = field(default_factory=dict)

    @property
    def available(self) -> bool:
        """Whether it can be read here and now."""
        if self.data in DATASETS:
            return DATASETS[self.data].available
        return Path(self.data).exists() or session_folder(self.data) is not None


@dataclass(frozen=True)
class StudyModel:
    """A model by its registered name, and its settings."""

    name: str
    settings: Settings = field(default_factory=dict)
    training: Settings = field(default_factory=dict)
    on: Mapping[str, Settings] = field(default_factory=dict)
    """By dataset: what is set otherwise there, for this model alone."""


@dataclass(frozen=True)
class Variant:
    """What is varied: a row of settings that every model is trained with."""

    settings: Settings = field(default_factory=dict)
    training: Settings = field(default_factory=dict)
    measuring: Mapping[str, Settings] = field(default_factory=dict)
    """By measurement: how it is measured."""
    models: tuple[str, ...] = ()
    """Those that it is of; all, where none is named."""
    init_from: bool = False
    """Whether models start from the weights of the models trained in the first variant."""


@dataclass(frozen=True)
class ClaimSide:
    """What a claim speaks of; what is left open is as of the cell that is judged."""

    variant: str | None = None
    """In a study of tables, the row."""
    column: str | None = None
    model: str | None = None
    dataset: str | None = None

    def __str__(self) -> str:
        return ", ".join(
            one for one in (self.dataset, self.model, self.variant, self.column) if one
        )


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a paper says, as a comparison that can be judged on every dataset and model."""

    text: str
    source: str
    of: ClaimSide
    than: ClaimSide | None = None
    """Without it, what is spoken of is compared with a limit or with the bounds of a band."""
    column: str | None = None
    """Of both, where they do not say."""
    expect: Expectation
    limit: float = 0.0
    margin: float = 0.0
    """A difference that is not larger than this counts as none."""
    datasets: tuple[str, ...] = ()
    """Those that it is about; all, where none is named."""
    models: tuple[str, ...] = ()

    @property
    def between_datasets(self) -> bool:
        """Whether its sides are of different data, where the same seed makes no pair."""
        return self.than is not None and self.of.dataset != self.than.dataset

    @property
    def sides(self) -> tuple[ClaimSide, ...]:
        """One, or the two that are compared."""
        return (self.of,) if self.than is None else (self.of, self.than)


@dataclass(frozen=True)
class Cell:
    """One training of a study, by the names that are shown."""

    dataset: str
    model: str
    variant: str

    def __str__(self) -> str:
        return f"{self.dataset}, {self.model}, {self.variant}"


@dataclass(frozen=True, kw_only=True)
class StudyFile:
    """What may stand in a study's TOML file; datasets, models and variants by the names shown."""

    title: str
    source: str
    """The published table or figure, or "new here"."""
    measurements: tuple[str, ...]
    datasets: Mapping[str, StudyDataset]
    models: Mapping[str, StudyModel] = field(default_factory=dict)
    variants: Mapping[str, Variant] = field(default_factory=dict)
    training: Settings = field(default_factory=dict)
    """For all of them."""
    measuring: Mapping[str, Settings] = field(default_factory=dict)
    """By measurement: how it is measured, where a variant does not say otherwise."""
    columns: tuple[str, ...] = ()
    """Those that are shown of all that is measured; every one, where none is named."""
    curves: tuple[str, ...] = ()
    """The curves that are drawn, of those that are measured."""
    maps: tuple[str, ...] = ()
    bars: tuple[str, ...] = ()
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Columns that stand side by side in a table of this title, one for each variant.

    Without groups every column has a table, with the variants side by side.
    """
    seeds: int = 10
    split: str = "last-two"
    held: HeldOut = "validation"
    """The part of the events that is measured on."""
    claims: tuple[Claim, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Study(StudyFile):
    """A study that was read."""

    id: str
    name: str
    """What one types to run it: its id, or the path of its file."""
    published: Mapping[str, Any] = field(default_factory=dict)
    """What is printed, as texts: by column, model, dataset and variant."""

    @property
    def command(self) -> str:
        """What runs it."""
        return f"whence study run {self.name}"

    @property
    def tabulated(self) -> bool:
        """Whether it fills printed tables row by row, of other things than trained runs."""
        return self.measurements in ((COUNTS,), (SKIPS,), (TOYS,))

    def cells(self) -> list[Cell]:
        """Every training, dataset after dataset."""
        return [
            Cell(dataset, model, variant)
            for dataset in self.datasets
            for model in self.models
            for variant in self.variants
            if self.has(model, variant)
        ]

    def has(self, model: str, variant: str) -> bool:
        """Whether a model is trained in a variant; what is not known is refused elsewhere."""
        only = self.variants[variant].models if variant in self.variants else ()
        return not only or model in only

    def record_key(self, cell: Cell) -> tuple[str, str, str]:
        """What the records of a cell name it by: data, model and variant."""
        return self.datasets[cell.dataset].data, self.models[cell.model].name, cell.variant

    def settings_of(self, cell: Cell) -> tuple[dict[str, Any], dict[str, Any]]:
        """Of the model and of the training; what is said later, and of less, goes first."""
        dataset, model = self.datasets[cell.dataset], self.models[cell.model]
        variant = self.variants[cell.variant]
        own = model.on.get(cell.dataset, {})
        return (
            {**dataset.settings, **model.settings, **own, **variant.settings},
            {**self.training, **dataset.training, **model.training, **variant.training},
        )

    def initial_cells(self, cell: Cell) -> list[Cell]:
        """The cells whose models this one begins with."""
        if not self.variants[cell.variant].init_from:
            return []
        wanted = model_spec(self.models[cell.model].name).init_from
        first = next(iter(self.variants))
        named = {model.name: shown for shown, model in self.models.items()}
        missing = [name for name in wanted if name not in named]
        if missing or not wanted:
            lacking = " and ".join(missing) or "another model"
            raise InputError(f"{cell} begins with {lacking}, which {self.id} does not train.")
        return [Cell(cell.dataset, named[name], first) for name in wanted]

    def measuring_of(self, cell: Cell, measurement: str) -> Settings:
        """How the measurement is made in this cell."""
        own = self.variants[cell.variant].measuring.get(measurement, {})
        return {**self.measuring.get(measurement, {}), **own}

    def judged_on(self, claim: Claim) -> list[tuple[str, str]]:
        """The datasets and models, by the names shown, that a claim is judged on.

        Where it names no model, those that have its variants.
        """
        datasets = claim.datasets or ([claim.of.dataset] if claim.of.dataset else self.datasets)
        models = claim.models or ([claim.of.model] if claim.of.model else self.models)

        def applies(dataset: str, model: str) -> bool:
            cells = (self.side_of(claim, side, dataset, model)[0] for side in claim.sides)
            return all(self.has(cell.model, cell.variant) for cell in cells)

        return [
            (dataset, model)
            for dataset in datasets
            for model in models
            if claim.models or applies(dataset, model)
        ]

    def side_of(self, claim: Claim, side: ClaimSide, dataset: str, model: str) -> tuple[Cell, str]:
        """The cell and the column that one side of a claim is about, when it is judged there."""
        cell = Cell(
            side.dataset or dataset,
            side.model or model,
            side.variant or next(iter(self.variants)),
        )
        return cell, side.column or claim.column or ""

    def printed(self, column: str, cell: Cell) -> str | None:
        """The published text of a cell."""
        by_model = self.published.get(column, {})
        text = by_model.get(cell.model, {}).get(cell.dataset, {}).get(cell.variant)
        return None if text is None else str(text)


def study_files() -> dict[str, Path]:
    """The studies that come with Whence, by id."""
    return {path.stem: path for path in sorted((HERE / "definitions").glob("*.toml"))}


def find_study(name: str) -> Study:
    """A study by its id, or from a TOML file of one's own."""
    known = study_files()
    if name in known:
        return read_study(known[name], name)
    if name.endswith(".toml"):
        return read_study(Path(name), name)
    raise InputError(
        f"No study is '{name}': {did_you_mean(name, known)} One of your own is a .toml file."
    )


def read_study(path: Path, name: str) -> Study:
    """The study in this file, with what `published/<id>.json` beside it holds."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        declared = build(StudyFile, document)
    except OSError as problem:
        raise InputError(f"{path} cannot be read: {reason(problem)}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise InputError(f"{path} is no TOML file: {problem}.") from None
    except InputError as problem:
        raise InputError(f"{path}: {problem}") from None
    printed = path.parent / "published" / f"{path.stem}.json"
    published = read_json(printed) if printed.exists() else {}
    return Study(**vars(declared), id=path.stem, name=name, published=published)
