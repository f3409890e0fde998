"""What the studies of Chapter 4 hold as published, transcribed a second time from its tables."""

from __future__ import annotations

import math
from itertools import product

import pytest

from whence_studies.measurements.registry import columns_of
from whence_studies.study import Cell, find_study

DATASETS = ("ML-1M", "Steam", "Beauty", "Games")
FIRST, LAST, ROLLOUT = "ρ(∇, α first)", "ρ(∇, α last)", "ρ(∇, α)"
SHAPLEY_FIRST, SHAPLEY_ROLLOUT = "ρ(|φ|, α first)", "ρ(|φ|, α)"
BLOCKS = (FIRST, LAST, ROLLOUT, SHAPLEY_FIRST, SHAPLEY_ROLLOUT)
P = "log₁₀ p of μ log < μ lin (|φ|, α first)"
PAGES: dict[str, tuple[tuple[str, ...], str]] = {
    "sequential-agreement-b1": (
        (FIRST, ROLLOUT, SHAPLEY_FIRST, SHAPLEY_ROLLOUT),
        """
        .97±.04 .98±.02 .47±.15 .48±.15   .84±.27 .98±.06 .30±.34 .27±.33
        .60±.44 .99±.04 .26±.47 .12±.48   .61±.43 .99±.02 .11±.45 .16±.44
        .99±.01 .99±.01 .53±.11 .53±.11   .97±.08 .97±.08 .58±.29 .58±.29
        .97±.08 .97±.08 .49±.41 .49±.41   .96±.09 .96±.09 .48±.43 .48±.43
        """,
    ),
    "sequential-agreement-b2": (
        BLOCKS,
        """
        .94±.06 .88±.08 .98±.03 .44±.16 .45±.16   .70±.29 .63±.29 .90±.14 .25±.35 .25±.35
        .54±.42 .33±.47 .86±.23 .24±.46 .17±.48   .44±.45 .19±.48 .87±.19 .13±.45 .07±.44
        .95±.04 .81±.12 .97±.03 .50±.14 .50±.14   .87±.16 .90±.16 .96±.08 .49±.31 .47±.33
        .93±.12 .52±.42 .94±.12 .45±.40 .45±.41   .90±.20 .86±.18 .95±.13 .37±.44 .40±.43
        """,
    ),
    "sequential-agreement-b3": (
        BLOCKS,
        """
        .89±.12 .75±.15 .97±.03 .38±.15 .41±.14   .63±.33 .43±.38 .91±.13 .27±.35 .30±.33
        .59±.38 .28±.45 .71±.38 .30±.45 .30±.44   .46±.43 .21±.47 .71±.37 .06±.46 .13±.44
        .93±.06 .85±.11 .97±.04 .37±.14 .40±.14   .87±.19 .80±.27 .94±.12 .46±.31 .45±.32
        .95±.11 .64±.38 .92±.14 .34±.46 .35±.46   .87±.22 .65±.42 .94±.12 .30±.46 .34±.45
        """,
    ),
    "sequential-agreement-h2": (
        ("ρ(∇, α first 1)", "ρ(∇, α first 2)", FIRST, ROLLOUT, "ρ(α first 1, α first 2)"),
        """
        .87±.10 .87±.10 .94±.07 .97±.03 .76±.16   .60±.30 .70±.24 .71±.24 .88±.18 .77±.31
        .71±.31 .72±.31 .72±.31 .93±.15 .96±.10   .55±.39 .54±.40 .55±.39 .91±.15 .93±.15
        .89±.06 .76±.13 .90±.07 .96±.03 .74±.10   .68±.35 .69±.27 .90±.18 .95±.11 .24±.45
        .90±.19 .90±.20 .91±.19 .97±.08 .97±.07   .78±.26 .82±.23 .82±.22 .94±.14 .89±.18
        """,
    ),
    "sequential-entropy": (
        ("entropy of α first",),
        "4.41±.45 3.71±1.02 2.58±1.05 2.98±1.05  3.97±.23 3.57±.95 2.50±.93 2.72±.85",
    ),
    "sequential-top-heavy": (
        (SHAPLEY_FIRST, "μ log(|φ|, α first)", "μ lin(|φ|, α first)", P, "J3(|φ|, α first)"),
        """
        .47±.15 .609±.17 .635±.19 6.3e-107 .08±.12   .30±.34 .351±.38 .359±.39 4.8e-23 .28±.31
        .26±.47 .296±.50 .300±.50 1.3e-11 .50±.36    .11±.45 .146±.48 .151±.49 1.2e-07 .39±.35
        .53±.11 .781±.07 .826±.07 3.0e-164 .07±.13   .58±.29 .642±.32 .650±.32 1.6e-43 .34±.31
        .49±.41 .536±.43 .541±.43 5.2e-20 .55±.36    .48±.43 .529±.46 .535±.46 6.3e-27 .49±.36
        """,
    ),
}
"""By study the columns of its table, and its cells: those of SASRec, then those of BERT4Rec."""


@pytest.mark.parametrize("name", PAGES)
def test_published_values_of_tables_4_1_to_4_6(name: str) -> None:
    study = find_study(name)
    columns, page = PAGES[name]
    variant = next(iter(study.variants))
    expected: dict[tuple[str, Cell], str] = {}
    places = product(("SASRec", "BERT4Rec"), DATASETS, columns)
    for (model, dataset, column), text in zip(places, page.split(), strict=True):
        cell = Cell(dataset, model, variant)
        mean, _, spread = text.partition("±")
        expected[column, cell] = with_zero(mean) if spread else f"{math.log10(float(mean)):.1f}"
        if spread:
            expected[f"sd of {column}", cell] = with_zero(spread)
    held = {
        (column, Cell(dataset, model, shown)): text
        for column, by_model in study.published.items()
        for model, by_dataset in by_model.items()
        for dataset, by_variant in by_dataset.items()
        for shown, text in by_variant.items()
    }
    assert held == expected
    assert {column for column, _ in held} <= set(columns_of(study))


def with_zero(text: str) -> str:
    return f"0{text}" if text.startswith(".") else text
