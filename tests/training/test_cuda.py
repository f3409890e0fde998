"""The same promises on a GPU, where there is one."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import whence
from whence.data import Split
from whence.explainers import EXPLAINERS, compare_batch
from whence.training import TrainingConfig, evaluate, fit

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


def test_a_model_says_the_same_on_both_devices(split: Split) -> None:
    config = TrainingConfig(steps=100, batch=64)
    model, _ = fit(split, "sasrec", SMALL, config, 0, device="cuda", show_progress=False)
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
