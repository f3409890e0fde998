"""Sizes and ratings of datasets, as published by Baumhauer (2021) and Jain (2019)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from whence.data import DATASETS, Interactions, last_one, load, statistics
from whence.devices import machine
from whence_studies.records import NEEDS_FILE, Record
from whence_studies.study import Study

EQUAL, DIFFERS = "equal", "differs"
MISPRINTS = {
    ("Beauty", "users"): f"{DIFFERS}: two digits are swapped in the paper",
    ("Train", "items"): (
        f"{DIFFERS}: the paper counts the catalog, and two films occur only in the test part"
    ),
    ("Full", "mean rating"): f"{DIFFERS}: the paper says 'around 3' next to the figure",
}
"""Published values that are wrong themselves."""


def count(study: Study) -> list[Record]:
    """Return every cell of the tables."""
    return [
        record
        for table, rows in study.published.items()
        for row, printed in rows.items()
        for record in _row_records(study, table, row, printed)
    ]


def _row_records(study: Study, table: str, row: str, printed: Mapping[str, str]) -> list[Record]:
    name = printed["dataset"]
    found = COUNTS[table](row, load(name)) if DATASETS[name].available else {}
    return [
        Record(
            study=study.id,
            dataset=name,
            row=row,
            column=column,
            value=found.get(column),
            published=float(text.replace(",", "")),
            verdict=_verdict(row, column, found.get(column), text),
            protocol=table,
            machine=machine("cpu"),
            command=study.command,
        )
        for column, text in printed.items()
        if column != "dataset"
    ]


def _baumhauer(_: str, data: Interactions) -> dict[str, float]:
    found = statistics(data)
    return {
        "users": found["users"],
        "items": found["items"],
        "actions": found["events"],
        "median actions per item": found["median events per item"],
        "median actions per user": found["median events per user"],
        "density (%)": 100 * found["density"],
    }


def _jain(row: str, data: Interactions) -> dict[str, float]:
    """Count all ratings, all but each user's last one, or only these."""
    test = np.zeros(len(data), dtype=bool)
    test[last_one(data).held["test"].ends] = True
    part = {"Full": np.ones(len(data), dtype=bool), "Train": ~test, "Test": test}[row]
    return {
        "interactions": int(part.sum()),
        "users": len(np.unique(data.user_of_event()[part])),
        "items": len(np.unique(data.items[part])),
    }


def _ratings(_: str, data: Interactions) -> dict[str, float]:
    return {} if data.ratings is None else {"mean rating": float(data.ratings.mean())}


COUNTS: dict[str, Callable[[str, Interactions], dict[str, float]]] = {
    "Table 3.1 (Baumhauer 2021)": _baumhauer,
    "Table 3.1 (Jain 2019)": _jain,
    "Figure 3.5 (Jain 2019)": _ratings,
}


def _verdict(row: str, column: str, found: float | None, printed: str) -> str:
    """Return whether both are equal to the published precision."""
    if found is None:
        return NEEDS_FILE
    decimals = len(printed.partition(".")[2])
    if f"{found:,.{decimals}f}" == printed:
        return EQUAL
    return MISPRINTS.get((row, column), DIFFERS)
