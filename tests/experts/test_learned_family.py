"""Learned subsets compared with those that the toy tasks need."""

from __future__ import annotations

from collections.abc import Iterator
from math import comb

import pytest
import torch
from torch import Tensor

from whence.errors import InputError
from whence.experts import Family, LearnedFamily, all_subsets, learn_family
from whence.experts.learned import Round, _drop_experts
from whence.randomness import Randomness
from whence_studies.toy_data import TOYS

NOISE = 1
"""Groups of noise."""


def learned(budget: int, seed: int, noise: int = NOISE) -> LearnedFamily:
    """Learn the subsets of task (d) with noise columns."""
    toy = TOYS["d"]
    generator = torch.Generator().manual_seed(seed)

    def with_noise(rows: Tensor) -> Tensor:
        return torch.cat((rows, torch.randn(len(rows), noise, generator=generator)), dim=1)

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        return ((with_noise(rows), labels) for rows, labels in toy.batches(150, 128, seed))

    groups = {f"x{place + 1}": [place] for place in range(4 + noise)}
    rows = with_noise(toy.draw(1024, Randomness(seed).torch("evaluation")).rows)
    return learn_family(
        groups, batches, rows, (16, 16), budget=budget, seed=seed, learning_rate=0.02
    )


@pytest.mark.parametrize("budget", [3, 6])
def test_learn_family_finds_the_needed_subsets(budget: int) -> None:
    found = learned(budget, seed=budget)
    assert found.subsets == {frozenset({"x1"}), frozenset({"x2"}), frozenset({"x3", "x4"})}
    assert len(found.rounds[0].family) == 5 + comb(5, 2) + 1
    sizes = [len(one.family) for one in found.rounds]
    assert sizes == sorted(set(sizes), reverse=True)
    assert all(sum(one.shares) == pytest.approx(1) for one in found.rounds)
    assert found.family == found.rounds[-1].family, "what is handed back has been trained"


def test_learn_family_keeps_the_budget() -> None:
    found = learned(1, seed=0, noise=0)
    assert found.subsets == {frozenset({"x3", "x4"})}, "it decides over half of the cases"


def test_least_selected_experts_are_dropped() -> None:
    """Half of the surplus, rounded up; then those below the minimum share; never the top."""
    family = all_subsets({"a": [0], "b": [1], "c": [2]}, max_groups=1)
    assert family.names == ("a", "b", "c", "a+b+c")
    done = Round(family, (0.5, 0.04, 0.46, 0.0))
    assert _drop_experts(done, 1, 0.05).names == ("a", "c", "a+b+c")
    assert _drop_experts(done, 2, 0.05).names == ("a", "c", "a+b+c")
    assert _drop_experts(done, 3, 0.05).names == ("a", "c", "a+b+c")
    assert len(_drop_experts(done, 3, 0.01)) == 4


@pytest.mark.parametrize(("count", "most"), [(1, 2), (2, 2), (4, 1), (5, 3)])
def test_all_subsets_up_to_a_size(count: int, most: int) -> None:
    groups = {f"x{place}": [place] for place in range(count)}
    family = all_subsets(groups, most)
    assert isinstance(family, Family)
    smaller = sum(comb(count, size) for size in range(1, min(most, count) + 1))
    assert len(family) == smaller + (count > most)


def test_invalid_requests_are_rejected() -> None:
    groups = {f"x{place}": [place] for place in range(30)}
    with pytest.raises(InputError, match="466 subsets of at most 2 of 30 groups, but only 256"):
        all_subsets(groups)
    with pytest.raises(InputError, match="Set max_groups to at least 1"):
        all_subsets(groups, 0)
    with pytest.raises(InputError, match=r"^The group 'a\+b' has a '\+' in its name, which joins"):
        all_subsets({"a": [0], "b": [1], "a+b": [2]})
    with pytest.raises(InputError, match="Set budget to at least 1"):
        learn_family(groups, list, torch.zeros(1, 30), (2,), budget=0)
    with pytest.raises(InputError, match="no rows to measure the selection on"):
        learn_family({"x": [0]}, list, torch.zeros(0, 1), (2,), budget=1)


def test_rows_are_checked_before_the_first_round() -> None:
    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        pytest.fail("training has started")

    for rows in (torch.zeros(3), torch.zeros(3, 1, dtype=torch.long)):
        with pytest.raises(InputError, match=r"^Rows "):
            learn_family({"x": [0]}, batches, rows, (2,), budget=1)
