"""Trained with items absent: exactly as `present` takes them away."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy import stats

from conftest import TRANSFORMERS, interactions_of, lively_bert4rec, lively_sasrec
from whence.coalitions import size_shares
from whence.contract import ALL, PAD
from whence.data import Split, last_two
from whence.errors import InputError
from whence.models.tasks import Batch, Cloze, NextItem
from whence.randomness import Randomness, no_dropout
from whence.training import TrainingConfig, fit
from whence.training.history_batches import HistoryBatches
from whence.training.recommenders import new_training

SMALL = {"max_len": 12, "dim": 16}
TASKS: dict[str, NextItem | Cloze] = {
    "next item": NextItem(),
    "cloze": Cloze(0.3, 0.0),
}


def batch_of(
    split: Split,
    task: NextItem | Cloze,
    part_dropout: float = 1.0,
    size: int = 60,
    one_size: bool = False,
) -> Batch:
    batches = HistoryBatches(
        split, 8, size, [Randomness(0)], one_size=one_size, task=task, part_dropout=part_dropout
    )
    return batches.draw(torch.tensor(0)).for_seed(0)


def presence(batch: Batch) -> torch.Tensor:
    assert batch.inputs.present is not None
    return batch.inputs.present


@pytest.mark.parametrize("one_size", [False, True])
@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_some_and_not_all_of_the_items_that_can_be(
    task: NextItem | Cloze, one_size: bool, split: Split
) -> None:
    batch = batch_of(split, task, one_size=one_size)
    present, inputs = presence(batch), batch.inputs
    assert present[~inputs.real].all()
    hidden = inputs.real & (inputs.items == PAD)
    assert present[hidden].all(), "what is masked is never absent"
    for history in range(60):
        items = present[(inputs.histories == history) & ~hidden]
        assert len(items) < 2 or 0 < items.sum() < len(items)
        assert len(items) != 1 or items.all()


def test_sizes_by_the_kernel_and_all_of_a_size_alike() -> None:
    """A single user, whose six training events make five inputs."""
    split = last_two(interactions_of([list(range(8))]))
    present = presence(batch_of(split, NextItem(), size=4_000)).view(4_000, -1)[:, :5]
    sizes = np.bincount(present.sum(1).numpy(), minlength=6)
    assert sizes[0] == sizes[5] == 0
    assert stats.chisquare(sizes[1:5], 4_000 * size_shares(5)[1:5]).pvalue > 0.01
    pairs = Counter(tuple(row.nonzero()[:, 0].tolist()) for row in present if row.sum() == 2)
    assert set(pairs) == set(combinations(range(5), 2))
    assert stats.chisquare(list(pairs.values())).pvalue > 0.01


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_a_share_of_the_histories(task: NextItem | Cloze) -> None:
    split = last_two(interactions_of([list(range(12))]))
    batch = batch_of(split, task, part_dropout=0.25, size=2_000)
    absent = batch.inputs.histories[~presence(batch)].unique()
    assert len(absent) / 2_000 == pytest.approx(0.25, abs=0.03)
    plain = batch_of(split, task, part_dropout=0.0, size=2_000)
    assert plain.inputs.present is None
    assert torch.equal(plain.inputs.items, batch.inputs.items), "nothing else changes"


def padded(batch: Batch, values: torch.Tensor, slots: int, fill: int) -> torch.Tensor:
    """`[B, n]` from what packed rows hold."""
    found = torch.full((60, slots), fill, dtype=values.dtype)
    real = batch.inputs.real
    found[batch.inputs.histories[real], batch.inputs.slots[real]] = values[real]
    return found


def test_the_loss_of_sasrec_is_that_of_present(split: Split) -> None:
    model = lively_sasrec(items=split.interactions.item_count, loss="bce")
    batch = batch_of(split, NextItem())
    assert batch.negatives is not None
    items, positives, negatives = (
        padded(batch, values, 8, PAD)
        for values in (batch.inputs.items, batch.positives, batch.negatives)
    )
    present = padded(batch, presence(batch).long(), 8, 1).bool()
    rows, _ = model.encode(items, present=present)
    losses = F.softplus(-(rows * model.embed(positives)).sum(-1))
    losses = losses + F.softplus((rows * model.embed(negatives)).sum(-1))
    expected = losses[items != PAD].mean()
    found = model.loss(batch, no_dropout)
    torch.testing.assert_close(found, expected)
    weights = list(model.parameters())
    torch.testing.assert_close(
        torch.autograd.grad(found, weights, retain_graph=True),
        torch.autograd.grad(expected, weights),
    )
    newest = model.score(items, positives[:, -1:], present=present)[:, 0]
    torch.testing.assert_close(newest, (rows[:, -1] * model.embed(positives[:, -1])).sum(-1))
    whole = model.loss(batch._replace(inputs=batch.inputs._replace(present=None)), no_dropout)
    assert not torch.isclose(found, whole)


def test_the_loss_of_bert4rec_is_that_of_present(split: Split) -> None:
    """Where the last item alone is hidden, it is what the model is asked outside training."""
    model = lively_bert4rec(items=split.interactions.item_count)
    batch = batch_of(split, Cloze(0.3, last_mask_prob=1.0))
    items = padded(batch, batch.inputs.items, 9, PAD)[:, :-1]
    present = padded(batch, presence(batch).long(), 9, 1).bool()[:, :-1]
    targets = batch.positives[batch.positives != PAD].long()
    scores = model.score(items, ALL, present=present)
    found = model.loss(batch, no_dropout)
    torch.testing.assert_close(found, F.cross_entropy(scores, targets))
    assert not torch.isclose(found, F.cross_entropy(model.score(items, ALL), targets))


def test_a_row_that_sees_nothing_attends_to_nothing() -> None:
    """SASRec's oldest items, where they are absent themselves."""
    model = lively_sasrec()
    split = last_two(interactions_of([[4, 9, 2, 7, 1]]))
    batch = batch_of(split, NextItem(), size=1)
    present = torch.tensor([False, True]).repeat(4)
    inputs = batch.inputs._replace(present=present)
    expected, _ = model.encode(inputs.items[None, :2], present=present[None, :2])
    rows = model.embed(inputs.items) + model.position[inputs.slots]
    found = model.encode_packed(rows, inputs, no_dropout)
    torch.testing.assert_close(found[:2], expected[0])


@pytest.mark.parametrize("name", list(TRANSFORMERS))
def test_no_absence_changes_no_bit_and_some_changes_the_loss(name: str, split: Split) -> None:
    config = TrainingConfig(steps=8, batch_size=32)
    plain, none, some = (
        fit(split, name, SMALL, one, 0, show_progress=False)
        for one in (config, replace(config, part_dropout=0.0), replace(config, part_dropout=0.5))
    )
    assert plain.losses == none.losses
    assert some.losses != pytest.approx(none.losses, abs=1e-6)


@pytest.mark.parametrize("name", list(TRANSFORMERS))
def test_a_seed_in_a_stack_misses_the_same_items_as_alone(name: str, split: Split) -> None:
    config = TrainingConfig(steps=25, batch_size=32, part_dropout=0.5)
    training = new_training(split, name, SMALL, config, [0, 1, 5], "cpu")
    for seed, stacked in training.run(show_progress=False).items():
        alone = fit(split, name, SMALL, config, seed, show_progress=False)
        assert stacked.losses == pytest.approx(alone.losses, abs=2e-4)


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_that_cannot_be_is_refused(share: float) -> None:
    with pytest.raises(InputError, match="part_dropout must be from 0 to 1"):
        TrainingConfig(part_dropout=share)
