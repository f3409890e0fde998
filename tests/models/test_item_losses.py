"""The losses of questions about items against loops in double precision."""

from __future__ import annotations

import math
from typing import Any, get_args

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.func import vmap

from conftest import TRANSFORMERS, interactions_of
from whence.contract import PAD
from whence.data import Split, last_two
from whence.errors import InputError
from whence.models.lookup import look_up_batch
from whence.models.losses import (
    LossName,
    gbce,
    item_losses,
    log_sum_exp,
    negatives_of,
    sampled_softmax,
)
from whence.models.sasrec import SASRecConfig
from whence.models.tasks import NO_NEGATIVES, ONE_UNSEEN, Batch, Cloze, NextItem
from whence.models.transformer import Transformer, TransformerConfig
from whence.randomness import Randomness, no_dropout
from whence.training import TrainingConfig, fit
from whence.training.history_batches import HistoryBatches
from whence.training.recommenders import new_training

LOSSES: tuple[LossName, ...] = get_args(LossName)
ITEMS, KINDS = 30, [(model, loss) for model in TRANSFORMERS for loss in LOSSES]
SMALL = {"max_len": 12, "dim": 16, "n_negatives": 20}


def slow_loss(
    scores: list[float], right: int, batch: Batch, question: int, config: TransformerConfig
) -> float:
    """The loss of one question from the scores of all items."""

    def sigmoid(score: float) -> float:
        return 1 / (1 + math.exp(-score))

    if config.loss == "softmax":
        return -math.log(math.exp(scores[right]) / sum(math.exp(one) for one in scores))
    if config.loss == "bce":
        assert batch.negatives is not None
        wrong = int(batch.negatives[question])
        return -math.log(sigmoid(scores[right])) - math.log(1 - sigmoid(scores[wrong]))
    assert batch.shared is not None
    assert batch.shared_log_q is not None
    drawn, count = batch.shared.tolist(), len(batch.shared)
    if config.loss == "gbce":
        alpha = count / (len(scores) - 1)
        beta = alpha * (config.calibration * (1 - 1 / alpha) + 1 / alpha)
        total = -beta * math.log(sigmoid(scores[right]))
        return total - sum(math.log(1 - sigmoid(scores[item])) for item in drawn if item != right)
    total = math.exp(scores[right])
    for item, log_q in zip(drawn, batch.shared_log_q.tolist(), strict=True):
        if item != right:
            total += math.exp(scores[item]) / (count * math.exp(log_q))
    return -scores[right] + math.log(total)


def batch_of(model: Transformer, split: Split, part_dropout: float = 0.0) -> Batch:
    task = model.task
    assert isinstance(task, NextItem | Cloze)
    source = HistoryBatches(split, 8, 12, [Randomness(3)], task=task, part_dropout=part_dropout)
    return source.draw(torch.tensor(2)).for_seed(0)


@pytest.fixture(scope="module")
def small_split() -> Split:
    """Of 30 items, so that some shared negatives are right for a question."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(4, 14, 40)
    users = [rng.permutation(ITEMS)[:size].tolist() for size in sizes]
    assert last_two(interactions_of(users)).interactions.item_count == ITEMS
    return last_two(interactions_of(users))


@pytest.mark.parametrize("part_dropout", [0.0, 0.7])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("name", "loss"), KINDS)
def test_every_loss_is_that_of_a_loop(
    name: str, loss: LossName, weighted: bool, part_dropout: float, small_split: Split
) -> None:
    model = TRANSFORMERS[name](loss=loss)
    batch = batch_of(model, small_split, part_dropout)
    if weighted:
        generator = torch.Generator().manual_seed(1)
        weights = torch.rand(batch.positives.shape, generator=generator)
        batch = batch._replace(weights=weights)
    inputs = look_up_batch(model.item, batch).inputs
    rows = model.packed_inputs(inputs, batch.inputs, no_dropout)
    rows = model.encode_packed(rows, batch.inputs, no_dropout)
    rows = rows if batch.rows is None else rows[batch.rows]
    asked = (batch.positives != PAD).nonzero()[:, 0].tolist()
    total = 0.0
    for question in asked:
        scores = (model.item[1:] @ rows[question]).tolist()
        right = int(batch.positives[question])
        weight = 1.0 if batch.weights is None else float(batch.weights[question])
        total += weight * slow_loss(scores, right, batch, question, model.config)
    found = model.loss(batch, no_dropout).item()
    assert found == pytest.approx(total / len(asked), rel=1e-6)  # log q is in single precision
    if batch.shared is not None:
        assert any(one in batch.shared for one in batch.positives), "one is masked"


def slow_tensors(
    rows: torch.Tensor, table: torch.Tensor, batch: Batch, config: SASRecConfig
) -> torch.Tensor:
    """The same with logarithms of probabilities, so that it has gradients."""
    losses = []
    for question, right in enumerate(batch.positives.tolist()):
        scores = table[1:] @ rows[question]
        assert batch.shared is not None
        assert batch.shared_log_q is not None
        count = len(batch.shared)
        kept = batch.shared != right
        others = scores[batch.shared[kept]]
        if config.loss == "gbce":
            alpha = count / (len(scores) - 1)
            beta = alpha * (config.calibration * (1 - 1 / alpha) + 1 / alpha)
            loss = -beta * scores[right].sigmoid().log() - (1 - others.sigmoid()).log().sum()
        else:
            share = others.exp() / (count * batch.shared_log_q[kept].exp())
            loss = (scores[right].exp() + share.sum()).log() - scores[right]
        losses.append(loss)
    return torch.stack(losses)


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()


def question_batch(split: Split, config: SASRecConfig, seeds: int = 1) -> Batch:
    """Questions in every row."""
    chance = [Randomness(seed) for seed in range(seeds)]
    task = NextItem(negatives_of(config))
    return HistoryBatches(split, 8, 5, chance, task=task).draw(torch.tensor(0))


@pytest.mark.parametrize("loss", ["sampled-softmax", "gbce"])
@given(count=st.integers(1, 60), calibration=st.floats(0, 1), seed=st.integers(0, 50))
def test_gradients_are_those_of_a_loop(
    loss: LossName, count: int, calibration: float, seed: int, small_split: Split
) -> None:
    config = SASRecConfig(loss=loss, n_negatives=count, calibration=calibration)
    batch = question_batch(small_split, config).for_seed(0)
    assert batch.shared_log_q is not None
    batch = batch._replace(shared_log_q=batch.shared_log_q.double())
    asked = batch.positives != PAD
    table, rows = drawn(1 + ITEMS, 4, seed=seed), drawn(len(asked), 4, seed=seed + 1)
    mix = drawn(len(asked), seed=2).detach()[asked]
    found = item_losses(rows, look_up_batch(table, batch), table, batch, config)[asked]
    expected = slow_tensors(
        rows[asked], table, batch._replace(positives=batch.positives[asked]), config
    )
    torch.testing.assert_close(found, expected)
    gradients = torch.autograd.grad((found * mix).sum(), (rows, table))
    plain = torch.autograd.grad((expected * mix).sum(), (rows, table))
    torch.testing.assert_close(gradients, plain)
    assert (gradients[1][0] == 0).all(), "padding learns nothing"


def test_every_item_once_is_the_whole_softmax() -> None:
    rows, table = drawn(7, 4), drawn(1 + ITEMS, 4, seed=1)
    positives = torch.arange(7) * 4
    positive = (rows * table[1 + positives]).sum(dim=1)
    logits = rows @ table[1:].T
    right = torch.arange(ITEMS) == positives[:, None]
    uniform = torch.full((ITEMS,), -math.log(ITEMS), dtype=torch.float64)
    found = sampled_softmax(positive, logits, right, uniform)
    torch.testing.assert_close(found, log_sum_exp(rows, table) - positive)


@pytest.mark.parametrize("count", [1, 2, 7, 20])
def test_the_sum_over_all_items_is_estimated_without_bias(count: int, small_split: Split) -> None:
    """The mean over many draws, with its standard error; also if the count is odd."""
    config = SASRecConfig(loss="sampled-softmax", n_negatives=count)
    task = NextItem(negatives_of(config))
    source = HistoryBatches(small_split, 8, 2, [Randomness(n) for n in range(4_000)], task=task)
    batch = source.draw(torch.tensor(0))
    assert batch.shared is not None
    assert batch.shared_log_q is not None
    scores, right = drawn(ITEMS).detach(), 4
    positive = scores[right].expand(1)
    sums = []
    for shared, log_q in zip(batch.shared, batch.shared_log_q, strict=True):
        loss = sampled_softmax(positive, scores[shared][None], (shared == right)[None], log_q)
        sums.append(float((loss + positive).exp()))
    exact = float(scores.exp().sum())
    error = np.std(sums) / math.sqrt(len(sums))
    assert abs(np.mean(sums) - exact) < 3.5 * error
    assert error < 0.02 * exact


def test_nothing_overflows() -> None:
    for scale in (1e4, -1e4):
        positive = torch.tensor([scale, -scale, scale], requires_grad=True)
        logits = torch.full((3, 4), -scale, requires_grad=True)
        right = torch.zeros(3, 4, dtype=torch.bool)
        right[2] = True  # no negative is left
        log_q = torch.full((4,), -5.0)
        for losses in (
            sampled_softmax(positive, logits, right, log_q),
            gbce(positive, logits, right, 9, 0.75),
        ):
            assert losses.isfinite().all()
            both = torch.autograd.grad(losses.sum(), (positive, logits), retain_graph=True)
            assert all(one.isfinite().all() for one in both)
            assert (both[1][2] == 0).all()
        assert sampled_softmax(positive, logits, right, log_q)[2] == 0


@pytest.mark.parametrize("calibration", [0.0, 1.0])
def test_the_ends_of_calibration(calibration: float) -> None:
    """β is 1, which is plain binary cross-entropy, or the sampling rate."""
    positive, logits = drawn(3).detach(), torch.full((3, 5), -1e9, dtype=torch.float64)
    right = torch.zeros(3, 5, dtype=torch.bool)
    found = gbce(positive, logits, right, 21, calibration)
    beta = 1.0 if calibration == 0 else 0.25
    torch.testing.assert_close(found, beta * -positive.sigmoid().log())


@pytest.mark.parametrize("loss", LOSSES)
def test_a_stack_of_losses_equals_each_alone(loss: LossName, small_split: Split) -> None:
    config = SASRecConfig(loss=loss, n_negatives=9)
    batch = question_batch(small_split, config, seeds=3)
    tables, rows = drawn(3, 1 + ITEMS, 4), drawn(3, batch.positives.shape[1], 4, seed=1)

    def losses(row: torch.Tensor, table: torch.Tensor, one: Batch) -> torch.Tensor:
        return item_losses(row, look_up_batch(table, one), table, one, config)

    in_dims = Batch(*(None if one is None else 0 for one in batch))  # type: ignore[arg-type]
    in_dims = in_dims._replace(inputs=type(batch.inputs)(0, 0, 0, None))  # type: ignore[arg-type]
    found = vmap(losses, in_dims=(0, 0, in_dims))(rows, tables, batch)
    each = torch.stack([losses(rows[n], tables[n], batch.for_seed(n)) for n in range(3)])
    torch.testing.assert_close(found, each)
    gradients = torch.autograd.grad(found.sum(), (rows, tables))
    torch.testing.assert_close(gradients, torch.autograd.grad(each.sum(), (rows, tables)))


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("part_dropout", [0.0, 0.5])
@pytest.mark.parametrize(("name", "loss"), KINDS)
def test_a_seed_in_a_stack_learns_as_alone(
    name: str, loss: LossName, part_dropout: float, split: Split
) -> None:
    config = TrainingConfig(steps=12, batch_size=32, part_dropout=part_dropout)
    settings = {**SMALL, "loss": loss}
    stacked = new_training(split, name, settings, config, [0, 5], "cpu").run(show_progress=False)
    for seed, trained in stacked.items():
        alone = fit(split, name, settings, config, seed, show_progress=False)
        assert trained.losses == pytest.approx(alone.losses, abs=1e-6)
        weights = alone.model.state_dict()
        for key, value in trained.model.state_dict().items():
            torch.testing.assert_close(value, weights[key], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("name", "loss"), KINDS)
def test_every_loss_falls(name: str, loss: LossName, split: Split) -> None:
    config = TrainingConfig(steps=80, batch_size=64, learning_rate=0.01)
    settings = {**SMALL, "loss": loss}
    losses = fit(split, name, settings, config, 0, show_progress=False).losses
    assert np.mean(losses[-10:]) < 0.99 * np.mean(losses[:10])


def test_each_loss_asks_for_its_negatives() -> None:
    found = {loss: negatives_of(SASRecConfig(loss=loss, n_negatives=9)) for loss in LOSSES}
    assert found["softmax"] == NO_NEGATIVES
    assert found["bce"] == ONE_UNSEEN
    assert (found["gbce"].shared, found["gbce"].half_by_count) == (9, False)
    assert (found["sampled-softmax"].shared, found["sampled-softmax"].half_by_count) == (9, True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "full"}, r"^loss cannot be 'full'"),
        ({"n_negatives": 0}, r"^n_negatives must be at least 1, not 0\.$"),
        ({"calibration": 1.5}, r"^calibration must be from 0 to 1, not 1\.5\.$"),
        ({"calibration": float("nan")}, r"^calibration must be from 0 to 1, not nan\.$"),
    ],
)
def test_impossible_losses_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SASRecConfig(**settings)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_catalog_of_one_item(loss: LossName) -> None:
    """There is nothing else to draw; the two old losses train, and learn nothing of use."""
    split = last_two(interactions_of([[0] * 5, [0] * 6]))
    config, settings = TrainingConfig(steps=2, batch_size=4), {**SMALL, "loss": loss}
    if loss in ("softmax", "bce"):
        trained = fit(split, "sasrec", settings, config, 0, show_progress=False)
        assert np.isfinite(trained.losses).all()
    else:
        with pytest.raises(InputError, match=r"^The data have a single item, so there is no other"):
            fit(split, "sasrec", settings, config, 0, show_progress=False)
