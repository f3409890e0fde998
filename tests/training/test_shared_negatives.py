"""The negatives that all questions of a batch share."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from whence.data import Split
from whence.models.tasks import Batch, Cloze, Negatives, NextItem
from whence.randomness import Randomness
from whence.training.history_batches import HistoryBatches
from whence.training.negatives import SharedDraws

HALVES, UNIFORM = Negatives(shared=40, half_by_count=True), Negatives(shared=40)


def source(
    split: Split, task: NextItem | Cloze, seeds: tuple[int, ...] = (0,), one_size: bool = False
) -> HistoryBatches:
    chance = [Randomness(seed) for seed in seeds]
    return HistoryBatches(split, 6, 20, chance, task=task, one_size=one_size)


def shares(split: Split, wanted: Negatives) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """q of every item, from the definition."""
    data, trained = split.interactions, split.trained()
    counts = np.zeros(data.item_count)
    for item, counted in zip(data.items, trained, strict=True):
        counts[item] += counted
    uniform = np.full(data.item_count, 1 / data.item_count)
    return (uniform + counts / counts.sum()) / 2 if wanted.half_by_count else uniform


@pytest.mark.parametrize("wanted", [HALVES, UNIFORM])
def test_items_are_drawn_with_their_probabilities(wanted: Negatives, split: Split) -> None:
    found = source(split, NextItem(wanted))
    q = shares(split, wanted)
    counts = np.zeros(len(q))
    for step in range(500):
        batch = found.draw(torch.tensor(step)).for_seed(0)
        assert batch.negatives is None
        assert batch.shared is not None
        assert batch.shared_log_q is not None
        assert len(batch.shared) == 40
        np.testing.assert_allclose(batch.shared_log_q.exp(), q[batch.shared], rtol=1e-5)
        counts += np.bincount(batch.shared, minlength=len(q))
    expected = q * counts.sum()
    chi2 = ((counts - expected) ** 2 / expected).sum()
    assert chi2 < len(q) + 4 * np.sqrt(2 * len(q))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_an_odd_count_has_the_shares_of_its_draws(count: int, split: Split) -> None:
    draws = SharedDraws(split, Negatives(shared=count, half_by_count=True))
    assert draws.by_count == count // 2
    assert draws.log_q.exp().sum().item() == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("wanted", [HALVES, UNIFORM])
@pytest.mark.parametrize("cloze", [False, True])
def test_a_seed_draws_what_it_draws_alone(wanted: Negatives, cloze: bool, split: Split) -> None:
    """In a stack, and in batches of one size."""
    task = Cloze(0.3, 0.1, wanted) if cloze else NextItem(wanted)
    together = source(split, task, (4, 0, 9)).draw(torch.tensor(7))
    assert together.shared is not None
    assert together.shared.shape == (3, 40)
    for place, seed in enumerate((4, 0, 9)):
        for one_size in (False, True):
            alone = source(split, task, (seed,), one_size).draw(torch.tensor(7)).for_seed(0)
            same(together.for_seed(place), alone)
    assert not torch.equal(together.shared[0], together.shared[1])


def same(one: Batch, other: Batch) -> None:
    for name in ("shared", "shared_log_q"):
        left, right = getattr(one, name), getattr(other, name)
        assert torch.equal(left, right)


def test_the_other_draws_of_a_batch_do_not_depend_on_negatives(split: Split) -> None:
    plain, shared = (
        source(split, NextItem(wanted)).draw(torch.tensor(3))
        for wanted in (Negatives(unseen=True), HALVES)
    )
    assert torch.equal(plain.inputs.items, shared.inputs.items)
    assert torch.equal(plain.positives, shared.positives)
    assert plain.shared is plain.shared_log_q is None
