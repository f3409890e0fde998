"""The same promises on a GPU, where there is one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import whence
from whence.data import Split
from whence.errors import InputError
from whence.explainers import EXPLAINERS, compare_batch
from whence.training import TrainingConfig, evaluate, fit
from whence.training.loop import Training

pytestmark = pytest.mark.needs("cuda")

SMALL = {"length": 12, "width": 16}


def test_same_seed_same_bits_on_cuda(split: Split) -> None:
    config = TrainingConfig(steps=30, batch=64)
    one, two = (
        fit(split, "sasrec", SMALL, config, 1, device="cuda", show_progress=False) for _ in range(2)
    )
    assert one[1] == two[1]
    for name, value in one[0].state_dict().items():
        assert torch.equal(value, two[0].state_dict()[name])
    assert not torch.are_deterministic_algorithms_enabled(), "PyTorch is left as it was"


def test_a_stopped_training_goes_on_to_the_same_bits_on_cuda(split: Split, tmp_path: Path) -> None:
    """Wherever it stops, before the step is recorded or after."""
    config = TrainingConfig(steps=30, batch=64, warmup=10, decay="cosine", clip=0.5)
    whole, losses, *_ = fit(split, "sasrec", SMALL, config, 1, device="cuda", show_progress=False)
    for stop in (1, 5, 20):
        part = Training(split, "sasrec", SMALL, config, [1], "cuda")
        for _ in range(stop):
            part.advance()
        part.save(tmp_path / f"{stop}")
        gone_on, same, *_ = fit(
            split, "sasrec", SMALL, config, 1,
            device="cuda", show_progress=False, checkpoint=tmp_path / f"{stop}",
        )  # fmt: skip
        assert same == losses
        for name, value in whole.state_dict().items():
            assert torch.equal(value, gone_on.state_dict()[name])


def test_a_recorded_step_is_the_step(split: Split) -> None:
    config = TrainingConfig(steps=12, batch=64)
    _, losses, *_ = fit(split, "sasrec", SMALL, config, 1, device="cuda", show_progress=False)
    plain = Training(split, "sasrec", SMALL, config, [1], "cuda")
    plain.stack.recorded = None
    for _ in range(12):
        plain.advance()
    plain.read_losses()
    assert plain.logs[1].losses == losses


def test_both_devices_learn_alike(split: Split) -> None:
    """The streams of chance differ, what is learnt does not."""
    config = TrainingConfig(steps=300, batch=64)
    found = [
        np.mean(fit(split, "sasrec", SMALL, config, 0, device=device, show_progress=False)[1][-50:])
        for device in ("cpu", "cuda")
    ]
    assert found[0] == pytest.approx(found[1], rel=0.05)


def test_half_precision_learns_the_same(split: Split) -> None:
    """Losses in step with those in full precision, and weights that stay float32."""
    config = TrainingConfig(steps=60, batch=64)
    _, full, *_ = fit(split, "sasrec", SMALL, config, 0, device="cuda", show_progress=False)
    half = replace(config, precision="bfloat16")
    model, losses, *_ = fit(split, "sasrec", SMALL, half, 0, device="cuda", show_progress=False)
    assert full != losses
    np.testing.assert_allclose(losses, full, rtol=0.03)
    assert {value.dtype for value in model.state_dict().values()} == {torch.float32}


def test_a_diverged_loss_is_one_sentence_on_cuda(split: Split) -> None:
    config = TrainingConfig(steps=1_000_000, learning_rate=1e38)
    with pytest.raises(InputError, match="seed 0 has gone beyond all numbers after 2 steps"):
        fit(split, "sasrec", SMALL, config, 0, device="cuda", show_progress=False)


def test_a_model_says_the_same_on_both_devices(split: Split) -> None:
    config = TrainingConfig(steps=100, batch=64)
    model, *_ = fit(split, "sasrec", SMALL, config, 0, device="cuda", show_progress=False)
    cases = split.held["test"][:40]
    batch, targets = torch.from_numpy(cases.histories(12)), torch.from_numpy(cases.targets)
    there = compare_batch(model, batch.cuda(), targets.cuda(), list(EXPLAINERS))
    recall = evaluate(model, split, "test", 12)["recall@10"].value
    model.cpu()
    here = compare_batch(model, batch, targets, list(EXPLAINERS))
    for name in EXPLAINERS:
        np.testing.assert_allclose(there[name].scores, here[name].scores, atol=2e-3)
    assert evaluate(model, split, "test", 12)["recall@10"].value == pytest.approx(recall, abs=0.01)


def test_the_verbs_work_on_cuda(split: Split) -> None:
    run = whence.train(
        split.interactions,
        model_settings=SMALL,
        training={"steps": 50},
        device="cuda",
        show_progress=False,
    )
    assert len(whence.recommend(run, user=1, k=3).picks) == 3
    assert set(whence.compare(run, user=1)) == set(EXPLAINERS)
