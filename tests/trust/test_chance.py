"""Importances dealt anew among cases: nothing is lost, and the case is forgotten."""

from __future__ import annotations

import numpy as np
import pytest

from whence.errors import InputError
from whence.trust import attention_kl
from whence_studies.tables.skip_seeds import shuffle_cases


def test_every_seed_deals_its_own_among_cases_of_the_same_parts() -> None:
    rng = np.random.default_rng(0)
    importances = rng.random((3, 40, 4))
    parts = np.ones((40, 4), dtype=np.bool_)
    parts[::3, 2:] = False
    parts[7, :] = [True, False, True, True]
    dealt = shuffle_cases(importances, parts, np.random.default_rng(1))
    kinds = [np.flatnonzero((parts == kind).all(axis=1)) for kind in np.unique(parts, axis=0)]
    assert sorted(map(len, kinds)) == [1, 14, 25]
    came_from = np.array(
        [
            [next(b for b in range(40) if (own[b] == row).all()) for row in new]
            for own, new in zip(importances, dealt, strict=True)
        ]
    )
    for kind in kinds:
        for seed in came_from:
            assert sorted(seed[kind]) == list(kind)
    assert (came_from[0] != came_from[1]).mean() > 0.7
    assert (came_from[0] != np.arange(40)).mean() > 0.7


def test_who_knows_the_case_is_nearer_on_it_than_on_others_and_chance_is_not() -> None:
    rng = np.random.default_rng(2)
    parts = np.ones((2_000, 5), dtype=np.bool_)

    def share(importances: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
        same, other = (
            attention_kl(one, parts).measure().value
            for one in (importances, shuffle_cases(importances, parts, rng))
        )
        return same / other

    of_case, of_seed = rng.random((1, 2_000, 5)), rng.random((3, 1, 5))
    noise = rng.random((3, 2_000, 5))
    assert share(of_case + 0.1 * noise) < 0.1
    assert share(noise) == pytest.approx(1, abs=0.05)
    assert share(of_seed + 0 * noise) == pytest.approx(1), "steady, but of no case"


def test_what_cases_have_need_not_be_their_parts() -> None:
    """Five cases of one kind and two of another, whose importances are of three slots each."""
    importances = np.random.default_rng(3).random((2, 7, 3))
    having = np.array([[True, False]] * 5 + [[True, True]] * 2)
    dealt = shuffle_cases(importances, having, np.random.default_rng(4))
    for own, new in zip(importances, dealt, strict=True):
        for kind in (slice(0, 5), slice(5, 7)):
            assert sorted(map(tuple, new[kind])) == sorted(map(tuple, own[kind]))


@pytest.mark.parametrize("shape", [(3, 2), (4,)])
def test_shapes_that_do_not_fit(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="Importances must have the shape"):
        shuffle_cases(np.ones((3, 4, 2)), np.ones(shape, dtype=np.bool_), np.random.default_rng())
