"""What measures that give every case a number share: checks, slices, and the mean over cases."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from whence.arrays import Bools, Floats
from whence.errors import InputError
from whence.explanation import Explanation
from whence.measure import Direction, Measure, mean_measure
from whence.memory import cases_at_once, row_slices


def by_case(
    compute: Callable[..., Floats], parts: Bools, *importances: Floats, numbers_each: int
) -> Floats:
    """`[B]`: `compute(*importances, parts)`, of some cases at a time if each needs so many numbers.

    All are `[B, n]`; what importances are where there is no part is not looked at.
    """
    if parts.ndim != 2 or any(values.shape != parts.shape for values in importances):
        shapes = " and ".join(str(list(values.shape)) for values in (*importances, parts))
        raise InputError(f"Importances and parts are all [cases, slots], not {shapes}.")
    if not all(np.isfinite(values[parts]).all() for values in importances):
        raise InputError("An importance is a number that is finite, which not all of these are.")
    slices = row_slices(len(parts), cases_at_once(max(1, numbers_each)))
    pieces = [compute(*(values[some] for values in importances), parts[some]) for some in slices]
    return np.concatenate(pieces) if pieces else np.zeros(0)


def check_sizes(sizes: Floats) -> None:
    """Refuse what is below 0 or no finite number."""
    if not ((sizes >= 0) & (sizes < np.inf)).all():
        raise InputError("Importances must be numbers from 0 on; take the sizes of signed ones.")


def same_parts(first: Explanation, second: Explanation) -> Bools:
    """`[B, n]`: the parts that both speak of; explanations of other cases cannot be compared."""
    if not np.array_equal(first.parts, second.parts):
        raise InputError(
            f"Explanations can be compared of the same cases, which those by '{first.method}' and "
            f"'{second.method}' are not."
        )
    return first.parts


def mean_over_cases(
    values: Floats, protocol: str, direction: Direction, range: tuple[float, float]
) -> Measure:
    """The mean over the cases that have a value; NaN is none."""
    there = values[~np.isnan(values)]
    if not len(there):
        raise InputError(f"None of the {len(values):,} cases can be measured: {protocol}.")
    return mean_measure(there, protocol, direction, range)
