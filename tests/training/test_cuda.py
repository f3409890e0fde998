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
from whence.training.averaging import Rule
from whence.training.loop import Training, fit_together
from whence.training.seeds import fit_seeds

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


@pytest.mark.parametrize("rule", ["none", "swa", "aswa", "naswa", "naswa-printed"])
def test_a_seed_in_a_stack_goes_the_same_way_as_alone_on_cuda(rule: Rule, split: Split) -> None:
    config = TrainingConfig(steps=25, batch=32, averaging=rule, epoch=6)
    together = fit_together(Training(split, "sasrec", SMALL, config, [0, 1, 5], "cuda"), False)
    for seed, stacked in together.items():
        alone = fit(split, "sasrec", SMALL, config, seed, device="cuda", show_progress=False)
        assert stacked.losses == pytest.approx(alone.losses, abs=1e-3)
        here = fit(split, "sasrec", SMALL, config, seed, show_progress=False)
        assert stacked.losses == pytest.approx(here.losses, abs=1e-3), "chance is the same"


@pytest.mark.parametrize("rule", ["none", "aswa", "naswa"])
def test_a_stopped_stack_goes_on_to_the_same_bits_on_cuda(
    rule: Rule, split: Split, tmp_path: Path
) -> None:
    config = TrainingConfig(steps=30, batch=32, averaging=rule, epoch=8)
    seeds = [0, 1, 2]
    whole = fit_together(Training(split, "sasrec", SMALL, config, seeds, "cuda"), False)
    for stop in (1, 2, 9, 20):
        part = Training(split, "sasrec", SMALL, config, seeds, "cuda")
        for _ in range(stop):
            part.advance()
        part.save(tmp_path / f"{stop}")
        again = Training(split, "sasrec", SMALL, config, seeds, "cuda")
        for seed, fitted in fit_together(again, False, tmp_path / f"{stop}").items():
            assert fitted.losses == whole[seed].losses
            expected = whole[seed].model.state_dict()
            for name, value in fitted.model.state_dict().items():
                assert torch.equal(value, expected[name])


def test_a_stack_that_the_gpu_does_not_hold_is_halved(split: Split) -> None:
    """With a share of its memory, as if others had the rest."""
    config = TrainingConfig(steps=5, batch=2_000)
    sizes = {"length": 12, "width": 256}
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    alone = fit(split, "sasrec", sizes, config, 0, device="cuda", show_progress=False)
    needed = torch.cuda.max_memory_reserved()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(4 * needed / total)
    try:
        found = fit_seeds(split, "sasrec", sizes, config, range(16), "cuda", at_once=16)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert list(found) == list(range(16))
    assert found[0].losses == pytest.approx(alone.losses, abs=1e-3)


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
