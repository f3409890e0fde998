"""A study as its TOML file declares it: data, models, measurements and claims."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from whence.config import build
from whence.data.datasets import DATASETS
from whence.data.splits import HeldOut
from whence.errors import InputError, did_you_mean
from whence.files import read_json
from whence.models import model_spec
from whence.reading import read_text
from whence.text import shortened
from whence_studies.declared_claims import Claim, ClaimSide, Requirement
from whence_studies.sessions.session_files import session_folder

HERE = Path(__file__).parent
LARGEST_FILE = 2**20
NAMES, DEEPEST = re.compile(r"""[=,{}\[\]"'\n]"""), 100
"""What ends a name, and the most dots in one: the time to parse a name grows with their square."""
Settings = Mapping[str, Any]
COUNTS, SKIPS, TOYS, REASONS = "counts", "skips", "toys", "reasons"
"""Measurements that fill a table row by row instead of measuring trained runs."""


ELSEWHERE = "elsewhere"
"""The key of published values of models that a study does not train."""


@dataclass(frozen=True)
class StudyDataset:
    """Interactions, and the settings that go with them."""

    data: str
    """A known name, a file or a prepared folder."""
    settings: Settings = field(default_factory=dict)
    """Model settings on these data."""
    training: Settings = field(default_factory=dict)
    seeds: int | None = None
    measurements: tuple[str, ...] = ()
    """The measurements on these data; all by default."""

    @property
    def available(self) -> bool:
        """Whether the data can be read on this machine."""
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
    """By dataset: settings of this model that differ there."""
    seeds: int | None = None


@dataclass(frozen=True)
class Variant:
    """The settings that a study varies; every model is trained once with each variant."""

    settings: Settings = field(default_factory=dict)
    training: Settings = field(default_factory=dict)
    measuring: Mapping[str, Settings] = field(default_factory=dict)
    """By measurement: options that differ in this variant."""
    models: tuple[str, ...] = ()
    """The models trained with this variant; all models by default."""
    init_from: bool = False
    """Whether models start from the weights of the models trained in the first variant."""
    seeds: int | None = None
    reading_of: str | None = None
    """The published configuration that it is one reading of.

    A paper that leaves a setting open has several readings, which share its published values.
    """


@dataclass(frozen=True)
class Cell:
    """One training of a study, by displayed names."""

    dataset: str
    model: str
    variant: str

    def __str__(self) -> str:
        return f"{self.dataset}, {self.model}, {self.variant}"


@dataclass(frozen=True, kw_only=True)
class StudyFile:
    """The content of a study's TOML file; datasets, models and variants by displayed names."""

    title: str
    source: str
    """The published table or figure, or "new here"."""
    measurements: tuple[str, ...]
    datasets: Mapping[str, StudyDataset]
    models: Mapping[str, StudyModel] = field(default_factory=dict)
    variants: Mapping[str, Variant] = field(default_factory=dict)
    training: Settings = field(default_factory=dict)
    """Training settings of every cell."""
    measuring: Mapping[str, Settings] = field(default_factory=dict)
    """By measurement: its options, unless a variant has its own."""
    columns: tuple[str, ...] = ()
    """The measured columns that are shown; all by default."""
    curves: tuple[str, ...] = ()
    """The line plots that are drawn, by the names their measurements give them."""
    maps: tuple[str, ...] = ()
    bars: tuple[str, ...] = ()
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By table title: columns shown next to each other, in one table per variant.

    Without groups, every column has a table with one column per variant.
    """
    figures: Mapping[str, str] = field(default_factory=dict)
    """The charts shown in the Markdown: by short file name, the title of the table they draw.

    By default, the first few.
    """
    variants_down: bool = False
    """Whether the table of a column has variants down, and models and datasets across."""
    seeds: int = 10
    """How many are trained, unless a variant, a model or a dataset says otherwise."""
    split: str = "last-two"
    held: HeldOut = "validation"
    """The held-out events that are measured on."""
    claims: tuple[Claim, ...] = ()
    comparable: tuple[Requirement, ...] = ()
    """What makes a variant comparable with the paper; claims are judged on comparable ones only."""
    readings_differ_by: str = "reading"
    """What the readings of a published configuration differ by, such as "initialisation"."""
    notes: tuple[str, ...] = ()
    """What a reader must know before the figures, in sentences."""


@dataclass(frozen=True, kw_only=True)
class Study(StudyFile):
    """A study that was read from its file."""

    id: str
    name: str
    """What a user types to run it: its id, or the path of its file."""
    published: Mapping[str, Any] = field(default_factory=dict)
    """Published values as texts: by column, model, dataset and variant."""

    @property
    def command(self) -> str:
        """The command that runs it."""
        return f"whence study run {self.name}"

    @property
    def tabulated(self) -> bool:
        """Whether it fills published tables row by row instead of measuring trained runs."""
        return self.measurements in ((COUNTS,), (SKIPS,), (TOYS,), (REASONS,))

    def cells(self) -> list[Cell]:
        """Return every training, dataset by dataset."""
        return [
            Cell(dataset, model, variant)
            for dataset in self.datasets
            for model in self.models
            for variant in self.variants
            if self.trains(model, variant)
        ]

    def trains(self, model: str, variant: str) -> bool:
        """Return whether a model is trained with a variant; unknown names are checked elsewhere."""
        only = self.variants[variant].models if variant in self.variants else ()
        return not only or model in only

    def record_key(self, cell: Cell) -> tuple[str, str, str]:
        """Return the data, model and row that the records of a cell name."""
        return self.datasets[cell.dataset].data, self.models[cell.model].name, cell.variant

    def settings_of(self, cell: Cell) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the settings of the model and of its training; the most specific ones win."""
        dataset, model = self.datasets[cell.dataset], self.models[cell.model]
        variant = self.variants[cell.variant]
        own = model.on.get(cell.dataset, {})
        return (
            {**dataset.settings, **model.settings, **own, **variant.settings},
            {**self.training, **dataset.training, **model.training, **variant.training},
        )

    def seeds_of(self, cell: Cell) -> int:
        """Return how many seeds are trained; a model in closed form is equal for all seeds."""
        model = self.models[cell.model]
        if model_spec(model.name).closed_form:
            return 1
        of = (self.variants[cell.variant], model, self.datasets[cell.dataset])
        return next((one.seeds for one in of if one.seeds is not None), self.seeds)

    def measurements_on(self, dataset: str) -> tuple[str, ...]:
        """Return what is measured on a dataset, by its displayed name."""
        return self.datasets[dataset].measurements or self.measurements

    def initial_cells(self, cell: Cell) -> list[Cell]:
        """Return the cells whose weights the model of this cell starts from."""
        if not self.variants[cell.variant].init_from:
            return []
        wanted = model_spec(self.models[cell.model].name).init_from
        first = next(iter(self.variants))
        named = {model.name: shown for shown, model in self.models.items()}
        missing = [name for name in wanted if name not in named]
        if missing or not wanted:
            lacking = " and ".join(missing) or "another model"
            raise InputError(
                f"{cell} starts from the weights of {lacking}, which {self.id} does not train."
            )
        return [Cell(cell.dataset, named[name], first) for name in wanted]

    def measuring_options(self, cell: Cell, measurement: str) -> Settings:
        """Return the options of a measurement in this cell."""
        own = self.variants[cell.variant].measuring.get(measurement, {})
        return {**self.measuring.get(measurement, {}), **own}

    def claim_places(self, claim: Claim) -> list[tuple[str, str]]:
        """Return the datasets and models, by displayed names, that a claim is judged on.

        A claim that names no model is judged on the models that have its variants.
        """
        datasets = claim.datasets or ([claim.of.dataset] if claim.of.dataset else self.datasets)
        models = claim.models or ([claim.of.model] if claim.of.model else self.models)

        def applies(dataset: str, model: str) -> bool:
            cells = (self.side_place(claim, side, dataset, model)[0] for side in claim.sides)
            return all(self.trains(cell.model, cell.variant) for cell in cells)

        return [
            (dataset, model)
            for dataset in datasets
            for model in models
            if claim.models or applies(dataset, model)
        ]

    def side_place(
        self, claim: Claim, side: ClaimSide, dataset: str, model: str
    ) -> tuple[Cell, str]:
        """Return the cell and column of one side of a claim, judged on this dataset and model."""
        cell = Cell(
            side.dataset or dataset,
            side.model or model,
            side.variant or next(iter(self.variants)),
        )
        return cell, side.column or claim.column or ""

    def printed_side(self, claim: Claim, dataset: str, model: str) -> str | None:
        """Return the published value of a claim's only side, as it is printed."""
        if claim.than is not None:
            return None
        cell, column = self.side_place(claim, claim.of, dataset, model)
        return self.published_text(column, cell)

    def published_text(self, column: str, cell: Cell) -> str | None:
        """Return the published value of a cell as it is printed."""
        variant = self.variants.get(cell.variant)
        configuration = (variant and variant.reading_of) or cell.variant
        by_model = self.published.get(column, {})
        text = by_model.get(cell.model, {}).get(cell.dataset, {}).get(configuration)
        return None if text is None else str(text)

    def published_elsewhere(self) -> dict[Cell, dict[str, str]]:
        """Return published values of what is not trained here, as printed, by column.

        In place of a variant they have a source.
        """
        found: dict[Cell, dict[str, str]] = {}
        for column, by_model in self.published.get(ELSEWHERE, {}).items():
            for model, by_dataset in by_model.items():
                for dataset, by_source in by_dataset.items():
                    for source, text in by_source.items():
                        found.setdefault(Cell(dataset, model, source), {})[column] = str(text)
        return found


def study_files() -> dict[str, Path]:
    """Return the files of the studies that come with Whence, by id."""
    return {path.stem: path for path in sorted((HERE / "definitions").glob("*.toml"))}


def find_study(name: str) -> Study:
    """Return a study by its id, or from a user's own TOML file."""
    known = study_files()
    if (study := name.lower()) in known:
        return read_study(known[study], study)
    if name.endswith(".toml"):
        return read_study(Path(name), name)
    raise InputError(
        f"There is no study '{name}': {did_you_mean(name, known)} For your own study, give the "
        "path of its .toml file."
    )


def read_study(path: Path, name: str) -> Study:
    """Return the study in this file, with the values in `published/<id>.json` next to it."""
    text = read_text(path, LARGEST_FILE)
    try:
        if any(part.count(".") > DEEPEST for part in NAMES.split(text)):
            raise RecursionError
        declared = build(StudyFile, tomllib.loads(text))
    except (ValueError, OverflowError) as problem:  # also an impossible date
        raise InputError(f"{path} is not a TOML file: {shortened(str(problem), 200)}.") from None
    except RecursionError:
        raise InputError(f"{path} is not the file of a study: it is nested too deeply.") from None
    except InputError as problem:
        raise InputError(f"{path}: {problem}") from None
    printed = path.parent / "published" / f"{path.stem}.json"
    published = read_json(printed) if printed.exists() else {}
    judged = replace(declared, claims=tuple(_every_reading(declared)))
    return Study(**vars(judged), id=path.stem, name=name, published=published)


def _every_reading(declared: StudyFile) -> Iterator[Claim]:
    """Yield the claims, those about a published configuration once for each of its readings."""
    for claim in declared.claims:
        if claim.readings_of is None:
            yield claim
            continue
        readings = [
            name for name, one in declared.variants.items() if one.reading_of == claim.readings_of
        ]
        if not readings:
            raise InputError(f"“{claim.text}”: no variant is a reading of “{claim.readings_of}”.")
        yield from map(claim.read_as, readings)
