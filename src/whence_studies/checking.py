"""Check a whole study before anything is read or trained."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from whence.data import DATASETS, SPLITS
from whence.errors import InputError, did_you_mean
from whence.trust.stability.seed_pairs import check_interval_over
from whence_studies.cache import resolve_settings
from whence_studies.claims import BANDS
from whence_studies.declared_claims import Claim
from whence_studies.measurements.measurement import BarPlot
from whence_studies.measurements.registry import (
    MEASUREMENTS,
    columns_of,
    figures_of,
    is_over_users,
)
from whence_studies.study import REASONS, SKIPS, TOYS, Study
from whence_studies.tables.dataset_statistics import COUNTS

BETWEEN_SEEDS: Final = frozenset(("stability", "class-stability", "confidence"))
"""Measurements that compare seeds with each other."""


def check_study(study: Study) -> None:
    """Raise an error that names the study if it cannot be run."""
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
    for dataset in study.datasets.values():
        for measurement in dataset.measurements:
            _check_known("measurement of this study", measurement, study.measurements)
    _check_models(study)
    if not study.cells() or min(map(study.seeds_of, study.cells())) < 1:
        raise InputError("A study needs at least one dataset, model, variant and seed.")
    _check_columns(study)
    _check_measuring(study)
    if not BETWEEN_SEEDS.isdisjoint(study.measurements):
        check_interval_over(min(map(study.seeds_of, study.cells())))
    _check_known("split", study.split, SPLITS)
    _check_claims(study)
    _check_published(study)
    _check_comparable(study)


def _check_tables(study: Study) -> None:
    """Check a study of published tables; skips and toys find or make their own data."""
    if not study.published and study.measurements != (REASONS,):
        raise InputError("A study of published tables needs published values, and there are none.")
    _check_unique("claims", [claim.text for claim in study.claims])
    for claim in study.claims:
        _check_expectation(claim)
        if not all(side.dataset and side.variant for side in claim.sides):
            raise InputError(
                f"“{claim.text}” compares table cells: give a dataset and a row on each side."
            )
        if not all(side.column or claim.column for side in claim.sides):
            raise InputError(f"“{claim.text}” names no column.")
    if study.measurements in ((SKIPS,), (TOYS,), (REASONS,)):
        return
    _check_data(study)
    for table in study.published:
        _check_known("table", table, COUNTS)


def _check_data(study: Study) -> None:
    for shown, dataset in study.datasets.items():
        if dataset.data not in DATASETS and not dataset.available:
            raise InputError(
                f"The data of {shown}, '{dataset.data}', are neither a file nor a known dataset: "
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
        raise InputError(f"“{claim.text}” compares spreads and needs a second side ('than').")
    if claim.expect == "spread lower" and claim.between_datasets:
        raise InputError(
            f"“{claim.text}” compares spreads on different data, where seeds are not paired."
        )
    if claim.expect in BANDS and claim.than is not None:
        raise InputError(f"“{claim.text}” expects a band and takes no second side ('than').")
    if not all(side.times > 0 for side in claim.sides):
        raise InputError(f"“{claim.text}” multiplies a side by a factor that is not above 0.")
    for threshold in claim.given:
        if threshold not in claim.thresholds:
            raise InputError(f"“{claim.text}” says that its {threshold} is given and has none.")


def _check_claim(study: Study, claim: Claim) -> None:
    _check_expectation(claim)
    if not study.claim_places(claim):
        raise InputError(f"“{claim.text}” compares variants that no model is trained with.")
    for dataset, model in study.claim_places(claim):
        _check_known("dataset", dataset, study.datasets)
        _check_known("model", model, study.models)
        for side in claim.sides:
            cell, column = study.side_place(claim, side, dataset, model)
            _check_known("column", column, columns_of(study))
            if claim.than is not None and is_over_users(column):
                raise InputError(
                    f"“{claim.text}” compares two sides by “{column}”, whose interval is over "
                    "users. Compare one side with a limit."
                )
            _check_known("variant", cell.variant, study.variants)
            _check_known("dataset", cell.dataset, study.datasets)
            _check_known("model", cell.model, study.models)
            if not study.trains(cell.model, cell.variant):
                raise InputError(f"“{claim.text}” is about {cell}, which is not trained.")


def _check_published(study: Study) -> None:
    try:
        for cell in study.cells():
            for column in columns_of(study):
                float(study.published_text(column, cell) or 0)
        for values in study.published_elsewhere().values():
            for text in values.values():
                float(text)
    except (AttributeError, ValueError):
        raise InputError(
            f"published/{study.id}.json must hold numbers as texts, by column, model, dataset and "
            "variant."
        ) from None


def _check_comparable(study: Study) -> None:
    """Every requirement needs a published value in every cell."""
    for requirement in study.comparable:
        for column in (requirement.column, requirement.towards):
            if column is not None:
                _check_known("column", column, columns_of(study))
        if (requirement.towards is None) != (requirement.share == 0):
            raise InputError(f"The requirement on “{requirement.column}” needs towards and share.")
        for cell in study.cells():
            named = replace(cell, variant=requirement.published_as or cell.variant)
            if study.published_text(requirement.column, named) is None:
                raise InputError(
                    f"“{requirement.column}” has no published value for {cell}, so that it cannot "
                    "be required there."
                )


def _check_columns(study: Study) -> None:
    measured = [MEASUREMENTS[one] for one in study.measurements]
    for column in (*study.columns, *(one for group in study.groups.values() for one in group)):
        _check_known("column", column, [known for one in measured for known in one.columns])
    if study.columns and study.groups:
        raise InputError("A study names columns or groups, not both.")
    for curves in study.curves:
        _check_known("curve", curves, [known for one in measured for known in one.curves])
    for drawn in study.maps:
        _check_known("map", drawn, [known for one in measured for known in one.maps])
    for bars in study.bars:
        _check_known("bar chart", bars, [known for one in measured for known in one.bars])
    for figure in figures_of(study):
        if isinstance(figure, BarPlot):
            _check_known("column", figure.about, columns_of(study))


def _check_measuring(study: Study) -> None:
    for settings in (study.measuring, *(one.measuring for one in study.variants.values())):
        for name in settings:
            _check_known("measurement of this study", name, study.measurements)
    for cell in study.cells():
        for name in study.measurements:
            MEASUREMENTS[name].build_options(study.measuring_options(cell, name))


def _check_known(what: str, name: str, known: Iterable[str]) -> None:
    if name not in known:
        raise InputError(f"There is no {what} '{name}': {did_you_mean(name, known)}")


def _check_unique(what: str, names: list[str]) -> None:
    """Records are identified by these names."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"'{twice}' occurs twice among the {what}; each may occur once.")
