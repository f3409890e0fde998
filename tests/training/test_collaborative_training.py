"""Collaborative models in training: epochs, interruptions, averages, classes and memory."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import whence
from conftest import interactions_of
from whence.contract import ALL, HasClasses
from whence.data import Interactions, Split, last_two
from whence.engine import Training
from whence.engine.averaging import AveragingRule
from whence.engine.loop import BATCHES_FOR_NORMS
from whence.errors import InputError
from whence.models import Recommender
from whence.models.tasks import UserBatch
from whence.randomness import Randomness, no_dropout
from whence.training import TrainingConfig, fit
from whence.training.recommenders import draws_for, new_training

SMALL: dict[str, Any] = {"max_len": 12, "dim": 8}


@pytest.fixture(scope="module")
def few(interactions: Interactions) -> Split:
    """Eleven users, so that an epoch is over soon and its last batch is not full."""
    events = [
        interactions.items[interactions.offsets[user] : interactions.offsets[user + 1]].tolist()
        for user in range(11)
    ]
    return last_two(interactions_of(events))


EPOCHS = {
    "gmf": TrainingConfig(epochs=3, batch_size=100, validate_every=1),
    "fism": TrainingConfig(epochs=3, batch_size=4, optimizer="adagrad", validate_every=1),
    "deepicf-a": TrainingConfig(epochs=3, batch_size=4, optimizer="adagrad", validate_every=1),
}


@pytest.mark.parametrize("model", list(EPOCHS))
def test_epochs_become_steps(model: str, few: Split) -> None:
    events = int(few.trained().sum())
    of_an_epoch = -(-5 * events // 100) if model == "gmf" else 3
    found = fit(few, model, SMALL, EPOCHS[model], 0, show_progress=False)
    assert len(found.losses) == 3 * of_an_epoch
    assert list(found.validations) == [of_an_epoch, 2 * of_an_epoch, 3 * of_an_epoch]
    training = new_training(few, model, SMALL, EPOCHS[model], [0], "cpu")
    assert training.plan.average_every == of_an_epoch, "averaging takes the same epochs"


@pytest.mark.parametrize("model", list(EPOCHS))
@pytest.mark.parametrize("seeds", [[4], [4, 6]])
def test_stopped_in_the_middle_of_an_epoch_it_comes_to_the_same_bits(
    model: str, seeds: list[int], few: Split, tmp_path: Path
) -> None:
    def training() -> Training[Recommender]:
        return new_training(few, model, SMALL, EPOCHS[model], seeds, "cpu")

    whole = training().run(show_progress=False)
    steps = training().plan.steps
    assert steps is not None
    for stop in (1, steps // 3, steps // 3 + 1, steps - 1):
        part = training()
        for _ in range(stop):
            part.advance()
        part.save(tmp_path / f"{stop}")
        resumed = training().run(show_progress=False, checkpoint=tmp_path / f"{stop}")
        for seed, found in resumed.items():
            assert found.losses == whole[seed].losses
            assert found.validations == whole[seed].validations
            expected = whole[seed].model.state_dict()
            for name, value in found.model.state_dict().items():
                assert torch.equal(value, expected[name]), name


@pytest.mark.parametrize("rule", ["swa", "aswa", "naswa"])
@pytest.mark.parametrize("model", ["deepicf", "deepicf-a"])
def test_averaged_weights_have_statistics_of_their_own(
    model: str, rule: AveragingRule, few: Split
) -> None:
    """The mean over batches of those of every batch, all by the averaged weights."""
    config = TrainingConfig(
        steps=12, batch_size=4, averaging=rule, average_every=3, learning_rate=0.01
    )
    training = new_training(few, model, SMALL, config, [3], "cpu")
    found = training.run(show_progress=False)[3].model
    averaged = training.stack.final_weights(0)
    for name, value in found.state_dict().items():
        same = torch.equal(value, averaged[name])
        assert same != ("running" in name or "tracked" in name), name
    first = []
    found.norms[0].register_forward_pre_hook(lambda _, given: first.append(given))  # type: ignore[union-attr, index]
    batches = draws_for(found, few, config, [Randomness(3)], "cpu")
    means, variances = [], []
    for step in range(BATCHES_FOR_NORMS):
        batches.prepare(step)
        batch = batches.draw(torch.tensor(step)).for_seed(0)
        assert isinstance(batch, UserBatch)
        with torch.no_grad():
            found.loss(batch, no_dropout)
        rows, counted = first[-1]
        real = counted.share > 0
        means.append(rows[real].mean(dim=0))
        variances.append(rows[real].var(dim=0))
    state = found.state_dict()
    torch.testing.assert_close(state["norms.0.running_mean"], torch.stack(means).mean(dim=0))
    torch.testing.assert_close(
        state["norms.0.running_var"], torch.stack(variances).mean(dim=0), rtol=1e-4, atol=1e-9
    )
    assert not found.training


def rated(split: Split, ratings: np.ndarray[Any, np.dtype[np.float32]]) -> Split:
    return replace(split, interactions=replace(split.interactions, ratings=ratings))


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("all_there", [True, False])
def test_three_classes_are_learned_whether_or_not_all_are_there(
    all_there: bool, balanced: bool, few: Split
) -> None:
    """Where but one event is disliked, nothing is in most batches."""
    ratings = np.arange(len(few.interactions), dtype=np.float32) % 3 + 1
    if not all_there:
        ratings = np.where(np.arange(len(ratings)) == 0, np.float32(1), np.float32(4))
    settings = {**SMALL, "n_classes": 3, "class_balanced": balanced}
    config = TrainingConfig(steps=80, batch_size=4, optimizer="adagrad", learning_rate=0.05)
    found = fit(rated(few, ratings), "deepicf-a", settings, config, 0, show_progress=False)
    assert np.isfinite(found.losses).all()
    batch = found.model.read(few.held["validation"], 12)
    targets = torch.arange(few.interactions.item_count).repeat(len(batch), 1)
    assert isinstance(found.model, HasClasses)
    p = found.model.classes(batch, targets).softmax(dim=2)
    assert p.shape == (*targets.shape, 3)
    assert (p[..., 2].mean() > 0.05) == all_there or balanced


def test_three_classes_without_ratings_are_one_sentence(few: Split) -> None:
    with pytest.raises(InputError, match="Three classes need ratings"):
        fit(few, "deepicf", {**SMALL, "n_classes": 3}, TrainingConfig(steps=1), 0)


@pytest.mark.parametrize("model", ["gmf", "mlp", "neumf"])
def test_users_who_are_not_known_are_one_sentence(model: str, interactions: Interactions) -> None:
    with pytest.raises(InputError, match=f"{model} only knows the users it was trained on"):
        whence.train(interactions, model=model, split="user-holdout", show_progress=False)
    run = whence.train(interactions, model=model, training={"steps": 1}, show_progress=False)
    assert len(whence.recommend(run, user=1, k=3).picks) == 3
    with pytest.raises(InputError, match="knows users only by id"):
        whence.recommend(run, history=[5, 9], k=3)


@pytest.mark.parametrize("model", ["gmf", "fism", "deepicf", "deepicf-a"])
def test_items_and_users_that_training_never_saw_have_scores(model: str) -> None:
    """Some items are held out alone, and of the last user there is one event."""
    split = last_two(interactions_of([[0, 1, 2, 8], [3, 4, 5, 9], [6, 7, 0, 8, 9], [4]]))
    assert (split.item_counts() == 0).sum() == 4
    config = TrainingConfig(steps=20, batch_size=2, learning_rate=0.05)
    found = fit(split, model, {"dim": 4, "max_len": 3}, config, 0, show_progress=False).model
    batch = found.read(split.held["test"], 3)
    assert found.score(batch, ALL).isfinite().all()
    accuracy = whence.evaluate(found, split, "test", 3)
    assert 0 <= accuracy["MRR"].value <= 1


def test_items_cannot_be_absent_where_no_windows_are_trained_on(few: Split) -> None:
    for model in ("gmf", "deepicf-a"):
        with pytest.raises(InputError, match="part_dropout cannot remove items"):
            fit(few, model, SMALL, TrainingConfig(steps=1, part_dropout=0.5), 0)


TRAIN_AND_TELL = """
import resource, whence
from whence.data import last_two, load
from whence.training import TrainingConfig, fit
split = last_two(load("ml-1m"))
config = TrainingConfig(steps=4, batch_size=8, optimizer="adagrad", learning_rate=0.01)
found = fit(split, "deepicf-a", {}, config, 0, show_progress=False)
print(found.losses[-1], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
"""


@pytest.mark.needs("data")
def test_deepicf_on_movielens_1m_needs_less_than_2_gb() -> None:
    """Histories of 299 items, and five questions for each of them, of eight users at once."""
    done = subprocess.run(
        [sys.executable, "-c", TRAIN_AND_TELL],
        capture_output=True, text=True, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    loss, gigabytes = map(float, done.stdout.split())
    assert np.isfinite(loss)
    assert gigabytes < 2
