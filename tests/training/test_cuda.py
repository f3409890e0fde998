"""The same promises on a GPU, where there is one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch

import whence
from conftest import CLOSED_FORM, STEPPED, interactions_of
from whence.data import Split, last_two
from whence.devices import deterministic
from whence.engine import Training
from whence.engine.averaging import AveragingRule
from whence.errors import InputError
from whence.explainers import EXPLAINERS, able, compare_batch
from whence.models import MODELS, Recommender
from whence.models.losses import LossName, log_sum_exp
from whence.training import TrainingConfig, evaluate, fit
from whence.training.recommenders import new_training
from whence.training.seeds import fit_seeds

pytestmark = pytest.mark.needs("cuda")

SMALL = {"max_len": 12, "dim": 16}
LOSSES: tuple[LossName, ...] = get_args(LossName)


def small_of(name: str) -> dict[str, int]:
    """A simple model has no dim."""
    return {"max_len": 12} if name in CLOSED_FORM else SMALL


STACKED = [name for name in STEPPED if MODELS[name].stacks]


@pytest.mark.parametrize("model", STEPPED)
def test_same_seed_same_bits_on_cuda(model: str, split: Split) -> None:
    config = TrainingConfig(steps=30, batch_size=64)
    one, two = (
        fit(split, model, SMALL, config, 1, device="cuda", show_progress=False) for _ in range(2)
    )
    assert one[1] == two[1]
    for name, value in one[0].state_dict().items():
        assert torch.equal(value, two[0].state_dict()[name])
    assert not torch.are_deterministic_algorithms_enabled(), "PyTorch is left as it was"


@pytest.mark.parametrize("model", STEPPED)
def test_a_stopped_training_goes_on_to_the_same_bits_on_cuda(
    model: str, split: Split, tmp_path: Path
) -> None:
    """Wherever it stops, before the step is recorded or after."""
    config = TrainingConfig(steps=30, batch_size=64, warmup=10, lr_decay="cosine", clip=0.5)
    whole, losses, *_ = fit(split, model, SMALL, config, 1, device="cuda", show_progress=False)
    for stop in (1, 5, 20):
        part = new_training(split, model, SMALL, config, [1], "cuda")
        for _ in range(stop):
            part.advance()
        part.save(tmp_path / f"{stop}")
        gone_on, same, *_ = fit(
            split, model, SMALL, config, 1,
            device="cuda", show_progress=False, checkpoint=tmp_path / f"{stop}",
        )  # fmt: skip
        assert same == losses
        for name, value in whole.state_dict().items():
            assert torch.equal(value, gone_on.state_dict()[name])


@pytest.mark.parametrize("model", STEPPED)
def test_a_recorded_step_is_the_step(model: str, split: Split) -> None:
    config = TrainingConfig(steps=12, batch_size=64)
    _, losses, *_ = fit(split, model, SMALL, config, 1, device="cuda", show_progress=False)
    plain = new_training(split, model, SMALL, config, [1], "cuda")
    plain.stack.recorded = None
    for _ in range(12):
        plain.advance()
    plain.read_losses()
    assert plain.logs[1].losses == losses


COLLABORATIVE = [
    ("gmf", TrainingConfig(steps=40, batch_size=500, beta2=0.999)),
    ("fism", TrainingConfig(steps=40, batch_size=1, optimizer="adagrad", learning_rate=0.01)),
    ("fism", TrainingConfig(steps=40, batch_size=7, optimizer="adagrad", learning_rate=0.01)),
    ("deepicf-a", TrainingConfig(steps=40, batch_size=1, optimizer="adagrad", learning_rate=0.01)),
    ("deepicf-a", TrainingConfig(steps=40, batch_size=7, optimizer="adagrad", learning_rate=0.01)),
]


def uneven() -> Split:
    """Users of 1 to 60 training events, so that batches of users have many sizes; 7 do not go up
    in an epoch, and 40 steps are more than one."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(3, 63, 120)
    return last_two(interactions_of([rng.permutation(90)[:size].tolist() for size in sizes]))


def losses_of(training: Training[Recommender]) -> dict[int, list[float]]:
    for _ in range(training.plan.steps or 0):
        training.advance()
    training.read_losses()
    return {seed: log.losses for seed, log in training.logs.items()}


@pytest.mark.parametrize(("model", "config"), COLLABORATIVE)
@pytest.mark.parametrize("seeds", [[1], [1, 4]])
def test_recorded_steps_of_many_sizes_are_the_steps(
    model: str, config: TrainingConfig, seeds: list[int]
) -> None:
    """Bit for bit, over several epochs, whichever sizes come after which."""
    split = uneven()
    recorded, again, plain = (
        new_training(split, model, {"dim": 8}, config, seeds, "cuda") for _ in range(3)
    )
    plain.stack.recorded = None
    losses = losses_of(recorded)
    assert losses == losses_of(plain)
    assert losses == losses_of(again), "the same bits twice"
    assert recorded.stack.recorded is not None
    if model != "gmf":
        assert len(recorded.stack.recorded.graphs) > 2, "sizes differ"
    for number in range(len(seeds)):
        expected = plain.stack.state(number)
        for name, value in recorded.stack.state(number).items():
            assert torch.equal(value, expected[name]), name


@pytest.mark.parametrize(("model", "config"), COLLABORATIVE)
def test_a_collaborative_model_learns_the_same_on_both_devices(
    model: str, config: TrainingConfig
) -> None:
    """Chance is the same; vectors are large, so that batch normalisation blows up no noise."""
    settings = {"dim": 8, "init_std": 0.5}
    there, here = (
        fit(uneven(), model, settings, config, 1, device=device, show_progress=False).losses
        for device in ("cuda", "cpu")
    )
    assert there == pytest.approx(here, rel=2e-3)


@pytest.mark.parametrize(("model", "config"), COLLABORATIVE)
def test_a_stopped_collaborative_training_goes_on_to_the_same_bits_on_cuda(
    model: str, config: TrainingConfig, tmp_path: Path
) -> None:
    """In the middle of an epoch, with other sizes recorded before and after."""
    split = uneven()
    whole = losses_of(new_training(split, model, {"dim": 8}, config, [1], "cuda"))
    for stop in (2, 9, 25):
        part = new_training(split, model, {"dim": 8}, config, [1], "cuda")
        for _ in range(stop):
            part.advance()
        part.save(tmp_path / f"{stop}")
        again = new_training(split, model, {"dim": 8}, config, [1], "cuda")
        found = again.run(show_progress=False, checkpoint=tmp_path / f"{stop}")
        assert found[1].losses == whole[1]


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("rule", ["none", "swa", "aswa", "naswa", "naswa-printed"])
@pytest.mark.parametrize("model", STACKED)
def test_a_seed_in_a_stack_goes_the_same_way_as_alone_on_cuda(
    rule: AveragingRule, model: str, split: Split
) -> None:
    """In double precision, as on a processor."""
    config = TrainingConfig(steps=25, batch_size=32, averaging=rule, average_every=6)
    together = new_training(split, model, SMALL, config, [0, 1, 5], "cuda").run(show_progress=False)
    for seed, stacked in together.items():
        alone = fit(split, model, SMALL, config, seed, device="cuda", show_progress=False)
        assert stacked.losses == pytest.approx(alone.losses, abs=1e-3)
        here = fit(split, model, SMALL, config, seed, show_progress=False)
        assert stacked.losses == pytest.approx(here.losses, abs=1e-3), "chance is the same"


@pytest.mark.parametrize("rule", ["none", "aswa", "naswa"])
@pytest.mark.parametrize("model", STACKED)
def test_a_stopped_stack_goes_on_to_the_same_bits_on_cuda(
    rule: AveragingRule, model: str, split: Split, tmp_path: Path
) -> None:
    config = TrainingConfig(steps=30, batch_size=32, averaging=rule, average_every=8)
    seeds = [0, 1, 2]
    whole = new_training(split, model, SMALL, config, seeds, "cuda").run(show_progress=False)
    for stop in (1, 2, 9, 20):
        part = new_training(split, model, SMALL, config, seeds, "cuda")
        for _ in range(stop):
            part.advance()
        part.save(tmp_path / f"{stop}")
        again = new_training(split, model, SMALL, config, seeds, "cuda")
        for seed, fitted in again.run(show_progress=False, checkpoint=tmp_path / f"{stop}").items():
            assert fitted.losses == whole[seed].losses
            expected = whole[seed].model.state_dict()
            for name, value in fitted.model.state_dict().items():
                assert torch.equal(value, expected[name])


def test_a_stack_that_the_gpu_does_not_hold_is_halved(split: Split) -> None:
    """With a share of its memory, as if others had the rest."""
    config = TrainingConfig(steps=5, batch_size=2_000)
    sizes = {"max_len": 12, "dim": 256}
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


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        *((model, {"loss": loss}) for model in ("sasrec", "bert4rec") for loss in LOSSES),
        ("bert4rec", {"mask_prob": 0.6, "last_mask_prob": 0.2}),
    ],
)
def test_items_absent_and_hidden_are_the_same_on_both_devices(
    settings: dict[str, float | str], model: str, split: Split
) -> None:
    """All of them in a recorded graph, alone and in a stack."""
    config = TrainingConfig(steps=12, batch_size=32, part_dropout=0.5)
    sizes = {**SMALL, **settings}
    there = new_training(split, model, sizes, config, [0, 1, 5], "cuda").run(show_progress=False)
    for seed, stacked in there.items():
        for device in ("cuda", "cpu"):
            alone = fit(split, model, sizes, config, seed, device=device, show_progress=False)
            assert stacked.losses == pytest.approx(alone.losses, abs=1e-3)


@pytest.mark.parametrize("at_once", [500, None])
def test_the_softmax_in_chunks_is_recorded_and_repeats(at_once: int | None) -> None:
    """The same bits from a graph as from its kernels, and those of a processor nearly."""
    chance = torch.Generator().manual_seed(0)
    given = [torch.randn(shape, generator=chance) for shape in ((40, 16), (501, 16))]
    rows, table = (one.cuda().requires_grad_() for one in given)

    def gradients() -> tuple[torch.Tensor, ...]:
        return torch.autograd.grad(log_sum_exp(rows, table, at_once).mean(), (rows, table))

    with deterministic("cuda"):
        plain = [gradients() for _ in range(3)][-1]
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            recorded = gradients()
        graph.replay()
    torch.cuda.synchronize()
    here = [one.clone().requires_grad_() for one in given]
    expected = torch.autograd.grad((here[0] @ here[1][1:].T).logsumexp(1).mean(), here)
    for one, other, on_cpu in zip(plain, recorded, expected, strict=True):
        assert torch.equal(one, other)
        torch.testing.assert_close(one.cpu(), on_cpu, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("model", STEPPED)
def test_half_precision_learns_the_same(model: str, split: Split) -> None:
    """Losses in step with those in full precision, and weights that stay float32."""
    config = TrainingConfig(steps=60, batch_size=64)
    # What weights cost would outweigh what is learned.
    settings = SMALL | ({"layer_decay": 0.0} if model.startswith("deepicf") else {})
    _, full, *_ = fit(split, model, settings, config, 0, device="cuda", show_progress=False)
    half = replace(config, precision="bfloat16")
    found, losses, *_ = fit(split, model, settings, half, 0, device="cuda", show_progress=False)
    assert (full == losses) == (model == "deepicf-a")  # all that one computes needs its digits
    np.testing.assert_allclose(losses, full, rtol=0.03)
    assert {value.dtype for value in found.parameters()} == {torch.float32}


def test_a_diverged_loss_is_one_sentence_on_cuda(split: Split) -> None:
    config = TrainingConfig(steps=1_000_000, learning_rate=1e38)
    with pytest.raises(InputError, match="diverged at step 2"):
        fit(split, "sasrec", SMALL, config, 0, device="cuda", show_progress=False)


@pytest.mark.parametrize("name", list(MODELS))
def test_a_model_says_the_same_on_both_devices(name: str, split: Split) -> None:
    config = TrainingConfig(steps=100, batch_size=64)
    model, *_ = fit(split, name, small_of(name), config, 0, device="cuda", show_progress=False)
    cases = split.held["test"][:40]
    batch, targets = model.read(cases, 12), torch.from_numpy(cases.targets)
    methods = able(model, EXPLAINERS)
    there = compare_batch(model, batch.cuda(), targets.cuda(), methods)
    recall = evaluate(model, split, "test", 12)["recall@10"].value
    model.cpu()
    here = compare_batch(model, batch, targets, methods)
    for method in methods:
        np.testing.assert_allclose(there[method].scores, here[method].scores, atol=2e-3)
    assert evaluate(model, split, "test", 12)["recall@10"].value == pytest.approx(recall, abs=0.01)


@pytest.mark.parametrize("name", list(MODELS))
def test_the_verbs_work_on_cuda(name: str, split: Split) -> None:
    run = whence.train(
        split.interactions,
        model=name,
        model_settings=small_of(name),
        training={} if name in CLOSED_FORM else {"steps": 50},
        device="cuda",
        show_progress=False,
    )
    assert len(whence.recommend(run, user=1, k=3).picks) == 3
    if name not in {"gmf", "mlp", "neumf"}:  # they know a user's number, which has no parts
        assert set(whence.compare(run, user=1)) == set(able(run.first, EXPLAINERS))
