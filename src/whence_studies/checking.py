"""A study is checked as a whole before anything is read or trained."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from whence.data import DATASETS, SPLITS
from whence.errors import InputError, did_you_mean
from whence.trust.stability.seed_pairs import check_interval_over
from whence_studies.cache import resolve_settings
from whence_studies.claims import BANDS
from whence_studies.measurements.measurement import BarPlot
from whence_studies.measurements.registry import MEASUREMENTS, columns_of, figures_of
from whence_studies.study import SKIPS, TOYS, Claim, Study
from whence_studies.tables.dataset_statistics import COUNTS

BETWEEN_SEEDS: Final = frozenset(("stability", "class-stability", "confidence"))
"""The measurements that compare seeds with each other."""


def check_study(study: Study) -> None:
    """Refuse, in one sentence that names the study, what cannot be run."""
    try:
        _check(study)
    except InputError as problem:
        raise InputError(f"{study.name}: {problem}") from None


def _check(study: Study) -> None:
    if study.tabulated:
        _check_tables(study)
        return
    _check_data(study)
    for measurement in study.measurements:
        _check_known("measurement", measurement, MEASUREMENTS)
    if not study.cells() or study.seeds < 1:
        raise InputError("A study needs a dataset, a model, a variant and a seed.")
    _check_columns(study)
    _check_measuring(study)
    if not BETWEEN_SEEDS.isdisjoint(study.measurements):
        check_interval_over(study.seeds)
    _check_known("split", study.split, SPLITS)
    _check_models(study)
    _check_claims(study)
    _check_published(study)


def _check_tables(study: Study) -> None:
    """Skips and toys are of other data than interactions, which they find or make themselves."""
    if not study.published:
        raise InputError("Tables are filled beside what is published, and nothing is.")
    _check_unique("claims", [claim.text for claim in study.claims])
    for claim in study.claims:
        _check_expectation(claim)
        if not all(side.dataset and side.variant for side in claim.sides):
            raise InputError(f"“{claim.text}” is of tables; each side names a dataset and a row.")
        if not all(side.column or claim.column for side in claim.sides):
            raise InputError(f"“{claim.text}” does not say of which column.")
    if study.measurements in ((SKIPS,), (TOYS,)):
        return
    _check_data(study)
    for table in study.published:
        _check_known("table that is counted", table, COUNTS)


def _check_data(study: Study) -> None:
    for shown, dataset in study.datasets.items():
        if dataset.data not in DATASETS and not dataset.available:
            raise InputError(
                f"The data of {shown}, '{dataset.data}', are no file and no dataset of that name: "
                f"{did_you_mean(dataset.data, DATASETS)}"
            )
    _check_unique("datasets", [dataset.data for dataset in study.datasets.values()])


def _check_models(study: Study) -> None:
    _check_unique("models", [model.name for model in study.models.values()])
    for model in study.models.values():
        for dataset in model.on:
            _check_known("dataset", dataset, study.datasets)
    for variant in study.variants.values():
        for model_name in variant.models:
            _check_known("model", model_name, study.models)
    for cell in study.cells():
        resolve_settings(study, cell)


def _check_claims(study: Study) -> None:
    # Variants and claims are both rows of the records.
    _check_unique("claims", [*study.variants, *(claim.text for claim in study.claims)])
    for claim in study.claims:
        _check_claim(study, claim)


def _check_expectation(claim: Claim) -> None:
    if claim.expect == "spread lower" and claim.than is None:
        raise InputError(f"“{claim.text}” compares a spread, and does not say with which.")
    if claim.expect == "spread lower" and claim.between_datasets:
        raise InputError(f"“{claim.text}” compares spreads of different data, which are no pairs.")
    if claim.expect in BANDS and claim.than is not None:
        raise InputError(f"“{claim.text}” is about a band; it has no other side.")


def _check_claim(study: Study, claim: Claim) -> None:
    _check_expectation(claim)
    if not study.judged_on(claim):
        raise InputError(f"“{claim.text}” is about variants that no model has together.")
    for dataset, model in study.judged_on(claim):
        _check_known("dataset", dataset, study.datasets)
        _check_known("model", model, study.models)
        for side in claim.sides:
            cell, column = study.side_of(claim, side, dataset, model)
            _check_known("column", column, columns_of(study))
            _check_known("variant", cell.variant, study.variants)
            _check_known("dataset", cell.dataset, study.datasets)
            _check_known("model", cell.model, study.models)
            if not study.has(cell.model, cell.variant):
                raise InputError(f"“{claim.text}” is about {cell}, which is not trained.")


def _check_published(study: Study) -> None:
    try:
        for cell in study.cells():
            for column in columns_of(study):
                float(study.printed(column, cell) or 0)
    except (AttributeError, ValueError):
        raise InputError(
            f"published/{study.id}.json holds something else than numbers by column, model, "
            "dataset and variant, as they are printed."
        ) from None


def _check_columns(study: Study) -> None:
    measured = [MEASUREMENTS[one] for one in study.measurements]
    for column in (*study.columns, *(one for group in study.groups.values() for one in group)):
        _check_known("column", column, [known for one in measured for known in one.columns])
    if study.columns and study.groups:
        raise InputError("A study names its columns or groups of them, not both.")
    for curves in study.curves:
        _check_known("curve", curves, [known for one in measured for known in one.curves])
    for drawn in study.maps:
        _check_known("map", drawn, [known for one in measured for known in one.maps])
    for bars in study.bars:
        _check_known("set of bars", bars, [known for one in measured for known in one.bars])
    for figure in figures_of(study):
        if isinstance(figure, BarPlot):
            _check_known("column", figure.about, columns_of(study))


def _check_measuring(study: Study) -> None:
    for settings in (study.measuring, *(one.measuring for one in study.variants.values())):
        for name in settings:
            _check_known("measurement of this study", name, study.measurements)
    for cell in study.cells():
        for name in study.measurements:
            MEASUREMENTS[name].choose(study.measuring_of(cell, name))


def _check_known(what: str, name: str, known: Iterable[str]) -> None:
    if name not in known:
        raise InputError(f"There is no {what} '{name}': {did_you_mean(name, known)}")


def _check_unique(what: str, names: list[str]) -> None:
    """Records are told apart by these names."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"Two of the {what} are '{twice}'; a study has each once.")
