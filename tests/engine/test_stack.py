"""Seeds that train as one computation, each as if it were alone."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.func import vmap

import whence
from conftest import STEPPED, AddModel
from whence.data import Interactions, Split, last_two
from whence.engine.checkpoints import CheckpointFolder
from whence.engine.gpu import StackedLayers
from whence.engine.stack import Stack
from whence.errors import InputError, OutOfTime
from whence.models import MODELS, Recommender
from whence.models.lookup import look_up
from whence.models.registry import ModelSpec, items_only
from whence.models.sasrec import SASRec, SASRecConfig
from whence.randomness import Randomness
from whence.training import TrainingConfig, fit
from whence.training.recommenders import TrainedRecommender, new_training
from whence.training.seeds import FEW_ROWS, fit_seeds, seeds_at_once
from whence.worlds import WorldConfig, make_world

SMALL = {"max_len": 12, "dim": 16}
STACKED = [name for name in STEPPED if MODELS[name].stacks]
TRAINED = TrainingConfig(steps=25, batch_size=32)
WITHOUT_GRADIENT = r"layers\.\d+\.bias|norms\.\d+\.running_mean"
"""Of DeepICF."""


def small_of(model: str) -> dict[str, Any]:
    """Small, with vectors large enough that batch normalisation does not blow up their noise."""
    return SMALL | ({"init_std": 0.5, "layer_decay": 0.0} if model.startswith("deepicf") else {})


def together(
    split: Split,
    config: TrainingConfig,
    seeds: list[int],
    model: str = "sasrec",
    checkpoint: Path | None = None,
) -> dict[int, TrainedRecommender]:
    settings = small_of(model)
    return new_training(split, model, settings, config, seeds, "cpu").run(
        show_progress=False, checkpoint=checkpoint
    )


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("model", STACKED)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"clip": 0.05},
        {"warmup": 5, "lr_decay": "cosine"},
        {"averaging": "aswa", "average_every": 6},
        {"averaging": "naswa", "average_every": 6},
        {
            "averaging": "swa",
            "average_every": 4,
            "swa_start": 0.1,
            "swa_lr_factor": 0.3,
            "learning_rate": 0.01,
        },
    ],
)
def test_a_seed_in_a_stack_goes_the_same_way_as_alone(
    model: str, settings: dict[str, Any], split: Split
) -> None:
    """In double precision, since rounding alone can decide whether a rectifier is dead."""
    # A user is many rows, where whole users are a batch.
    batch = MODELS[model].training.get("batch_size", 32)
    config = TrainingConfig(steps=25, batch_size=batch, **settings)
    for seed, stacked in together(split, config, [0, 1, 5], model).items():
        small = small_of(model)
        alone = fit(split, model, small, config, seed, show_progress=False)
        assert stacked.losses == pytest.approx(alone.losses, abs=1e-6)
        assert stacked.losses != pytest.approx(
            fit(split, model, small, config, seed + 7, show_progress=False).losses, abs=2e-4
        )
        weights = alone.model.state_dict()
        for name, value in stacked.model.state_dict().items():
            # Batch normalisation takes away whatever the layer before it adds to all rows, so this
            # bias has no gradient but rounding, which Adam takes for one; and the mean that is
            # remembered has the bias in it.
            if model.startswith("deepicf") and re.fullmatch(WITHOUT_GRADIENT, name):
                continue
            # A weight that has hardly a gradient may turn either way, as Adam takes it.
            apart = (value.double() - weights[name]).abs()
            assert apart.mean() < 1e-4, name
            assert apart.max() < 0.1


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("taught", ["all", "smallest"])
def test_vectors_are_taught_by_the_same_experts_in_a_stack(taught: str, split: Split) -> None:
    """Which changes what is learned."""
    config, settings = (
        TrainingConfig(steps=10, batch_size=32),
        {"dim": 8, "embeddings_trained_by": taught},
    )
    stacked = new_training(split, "intrp-ncf", settings, config, [0, 1], "cpu").run(
        show_progress=False
    )
    alone = fit(split, "intrp-ncf", settings, config, 1, show_progress=False)
    other = {"dim": 8, "embeddings_trained_by": "all" if taught == "smallest" else "smallest"}
    others = fit(split, "intrp-ncf", other, config, 1, show_progress=False)
    assert stacked[1].losses == pytest.approx(alone.losses, abs=1e-6)
    assert stacked[1].losses != pytest.approx(others.losses, abs=1e-6)


@pytest.mark.parametrize("seeds", [[0], [0, 1]])
@pytest.mark.parametrize("model", STACKED)
def test_every_model_computes_in_half_precision(model: str, seeds: list[int], split: Split) -> None:
    """Which is for GPUs, but goes the same way through every model on a processor."""
    small = small_of(model)
    exact, halved = (
        new_training(split, model, small, TRAINED, seeds, "cpu").stack for _ in range(2)
    )
    halved.plan = replace(halved.plan, precision="bfloat16")
    for step in range(3):
        found, expected = (stack.advance(step, 1e-3) for stack in (halved, exact))
        assert found.tolist() == pytest.approx(expected.tolist(), rel=0.05)
    assert all(weight.dtype == torch.float32 for weight in halved.weights.values())


def test_whoever_else_is_in_the_stack_changes_nothing(split: Split) -> None:
    few, many = together(split, TRAINED, [2, 3]), together(split, TRAINED, [0, 1, 2, 3, 4])
    for seed in (2, 3):
        assert few[seed].losses == pytest.approx(many[seed].losses, abs=1e-4)


def test_the_layers_for_many_seeds_are_the_layers() -> None:
    """Values and gradients of a network with biases and norms, in double precision."""
    chance = torch.Generator().manual_seed(0)
    shapes = [(3, 320, 8), (3, 5, 8), (3, 5), (3, 5), (3, 5)]
    values = [
        torch.randn(shape, generator=chance, dtype=torch.float64, requires_grad=True)
        for shape in shapes
    ]

    def network(
        rows: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor,
        scale: torch.Tensor,
        shift: torch.Tensor,
    ) -> torch.Tensor:
        out = torch.nn.functional.linear(rows, weight, bias)
        out = torch.nn.functional.layer_norm(out, [5], scale, shift)
        return (torch.nn.functional.linear(out, weight.T) ** 3).sum()

    plain = vmap(network)(*values)
    with StackedLayers():
        found = vmap(network)(*values)
    torch.testing.assert_close(found, plain)
    expected = torch.autograd.grad(plain.sum(), values)
    torch.testing.assert_close(torch.autograd.grad(found.sum(), values), expected)


def test_rows_of_many_tables_are_rows_of_each() -> None:
    chance = torch.Generator().manual_seed(0)
    tables = torch.randn(3, 11, 4, generator=chance, dtype=torch.float64, requires_grad=True)
    items = torch.randint(-1, 10, (3, 7, 2), generator=chance)
    mix = torch.randn(3, 7, 2, 4, generator=chance, dtype=torch.float64)
    found = vmap(look_up)(tables, items)
    each = torch.stack([table[1 + own] for table, own in zip(tables, items, strict=True)])
    assert torch.equal(found, each)
    (gradient,) = torch.autograd.grad((found * mix).sum(), tables)
    (expected,) = torch.autograd.grad((each * mix).sum(), tables)
    assert (gradient[:, 0] == 0).all(), "padding learns nothing"
    torch.testing.assert_close(gradient[:, 1:], expected[:, 1:])


def test_seeds_stop_by_their_own_validations(split: Split) -> None:
    config = TrainingConfig(
        steps=400, batch_size=32, learning_rate=0.02, validate_every=10, patience=2, metric="MRR"
    )
    found = together(split, config, [0, 1, 2, 3])
    ends = {seed: len(fitted.losses) for seed, fitted in found.items()}
    assert len(set(ends.values())) > 1, "not all at once"
    for fitted in found.values():
        best = max(fitted.validations, key=lambda step: fitted.validations[step])
        assert fitted.kept_step == best == len(fitted.losses) - 20
        measured = whence.evaluate(fitted.model, split, "validation", 12)["MRR"].value
        assert measured == pytest.approx(fitted.validations[best])


@pytest.mark.parametrize("stop", [1, 10, 35, 60, 90])
def test_stopped_with_some_seeds_ended_it_comes_to_the_same_bits(
    stop: int, split: Split, tmp_path: Path
) -> None:
    config = TrainingConfig(
        steps=120, batch_size=32, learning_rate=0.02, validate_every=10, patience=2, metric="MRR"
    )
    whole = together(split, config, [0, 1, 2, 3])
    part = new_training(split, "sasrec", SMALL, config, [0, 1, 2, 3], "cpu")
    while not part.is_over and part.step < stop:
        part.advance()
    part.save(tmp_path / "part")
    gone_on = together(split, config, [0, 1, 2, 3], checkpoint=tmp_path / "part")
    for seed, fitted in gone_on.items():
        assert fitted.losses == whole[seed].losses
        assert fitted.validations == whole[seed].validations
        expected = whole[seed].model.state_dict()
        for name, value in fitted.model.state_dict().items():
            assert torch.equal(value, expected[name])


class Fragile(SASRec):
    """Seed 1 begins with what is no number."""

    def __init__(self, config: SASRecConfig, item_count: int, generator: torch.Generator) -> None:
        super().__init__(config, item_count, generator)
        if generator.initial_seed() == Randomness(1).torch("init").initial_seed():
            self.position.data.fill_(torch.nan)


@pytest.mark.parametrize("clip", [None, 1.0])
def test_a_seed_that_diverges_does_not_stop_the_others(
    clip: float | None, split: Split, add_model: AddModel, tmp_path: Path
) -> None:
    add_model("fragile", ModelSpec(SASRecConfig, items_only(Fragile)))
    config = TrainingConfig(steps=45, batch_size=32, clip=clip)
    found = together(split, config, [0, 1, 2], "fragile", checkpoint=tmp_path / "kept")
    assert list(found) == [0, 2]
    for seed, fitted in found.items():
        alone = fit(split, "sasrec", SMALL, config, seed, show_progress=False)
        assert fitted.losses == pytest.approx(alone.losses, abs=5e-4)
    again = together(split, config, [0, 1, 2], "fragile", checkpoint=tmp_path / "kept")
    assert [fitted.losses for fitted in again.values()] == [one.losses for one in found.values()]


def test_the_run_says_which_seed_is_missing(
    interactions: Interactions, add_model: AddModel, tmp_path: Path
) -> None:
    add_model("fragile", ModelSpec(SASRecConfig, items_only(Fragile)))

    def train(seeds: int, at_once: int | None, out: Path | None) -> whence.Run:
        return whence.train(
            interactions,
            model="fragile",
            model_settings=SMALL,
            training={"steps": 25, "batch_size": 32},
            seeds=seeds,
            seeds_at_once=at_once,
            out=out,
            show_progress=False,
        )

    with pytest.warns(UserWarning, match="seed 1 diverged; the run has the other 2"):
        train(3, None, tmp_path / "run")
    assert list(whence.open_run(tmp_path / "run").models) == [0, 2]
    with pytest.warns(UserWarning, match="seed 1 "):
        assert list(train(3, 1, None).models) == [0, 2]


def test_all_seeds_diverging_is_one_sentence(split: Split) -> None:
    config = TrainingConfig(steps=50, learning_rate=1e38)
    with pytest.raises(InputError, match="diverged at step"):
        together(split, config, [0, 1])


def test_a_run_of_ten_seeds_is_one_folder(interactions: Interactions, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = whence.train(
            interactions,
            model="sasrec",
            model_settings=SMALL,
            training={"steps": 10, "batch_size": 32, "snapshots": 2},
            seeds=10,
            out=tmp_path / "run",
            show_progress=False,
        )
    assert list(run.models) == list(range(10))
    folders = {path.name for path in (tmp_path / "run" / "seeds").iterdir()}
    assert folders == {str(seed) for seed in range(10)}
    assert sorted(run.snapshots[9]) == [0, 10]
    assert not list(tmp_path.glob(".run*")), "nothing is left beside it"


def test_as_many_seeds_at_once_as_memory_holds(split: Split) -> None:
    counts = [
        seeds_at_once(split, "sasrec", SMALL, TRAINED, "cpu", free=free)
        for free in (0, 10**6, 10**8, 10**10)
    ]
    assert counts[0] == counts[1] == 1
    assert 1 < counts[2] < counts[3]
    assert counts[3] / counts[2] == pytest.approx(100, rel=0.1)


def test_larger_batches_need_more_memory(split: Split) -> None:
    """About in proportion, where weights are few."""
    one = seeds_at_once(split, "sasrec", SMALL, TRAINED, "cpu", free=10**10)
    wide = seeds_at_once(
        split, "sasrec", SMALL, TrainingConfig(steps=25, batch_size=90), "cpu", free=10**10
    )
    assert one / 3.5 < wide < one


def test_a_processor_that_is_busy_with_one_seed_gets_one(split: Split) -> None:
    config = TrainingConfig(steps=2, batch_size=FEW_ROWS)
    assert seeds_at_once(split, "sasrec", SMALL, config, "cpu", free=10**12) == 1


def test_a_processor_that_is_busy_with_one_softmax_gets_one() -> None:
    """Over many items; beside one negative, as many seeds as memory holds."""
    data = make_world(WorldConfig(users=60, items=4_000, events=20, genres=4)).interactions
    sizes = {**SMALL, "dim": 64, "mask_prob": 0.6}
    config = TrainingConfig(steps=2, batch_size=48)
    for loss, stacks in (("softmax", False), ("bce", True)):
        settings = {**sizes, "loss": loss}
        found = seeds_at_once(last_two(data), "bert4rec", settings, config, "cpu", free=10**12)
        assert (found > 1) == stacks


def test_a_model_that_cannot_stack_trains_seed_after_seed(
    split: Split, add_model: AddModel
) -> None:
    add_model("lonely", ModelSpec(SASRecConfig, items_only(SASRec), stacks=False))
    assert seeds_at_once(split, "lonely", SMALL, TRAINED, "cpu", free=10**12) == 1


@pytest.mark.parametrize("at_once", [1, 2, 3])
def test_stacks_of_any_size_come_to_the_same(at_once: int, split: Split) -> None:
    arguments = (split, "sasrec", SMALL, TRAINED, range(5), "cpu")
    whole = fit_seeds(*arguments, at_once=5, show_progress=False)
    cut = fit_seeds(*arguments, at_once=at_once, show_progress=False)
    assert list(cut) == list(whole) == [0, 1, 2, 3, 4]
    for seed, fitted in cut.items():
        assert fitted.losses == pytest.approx(whole[seed].losses, abs=1e-4)


def test_a_stack_that_memory_does_not_hold_is_halved_and_goes_on(
    split: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the machine had room for two seeds from the tenth step on."""
    step = Stack.step
    begun: list[tuple[int, int]] = []

    def short_of_memory(self: Stack[Recommender]) -> torch.Tensor:
        now = int(self.clock)
        if not begun or begun[-1][0] != len(self):
            begun.append((len(self), now))
        if now == 10 and len(self) > 2:
            raise torch.OutOfMemoryError("no room")
        return step(self)

    monkeypatch.setattr(Stack, "step", short_of_memory)
    monkeypatch.setattr("whence.engine.checkpoints.SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    monkeypatch.setattr("whence.engine.checkpoints.TRAINING_PER_CHECKPOINT", 0)
    unfinished = CheckpointFolder(tmp_path / "run", {}, overwrite=False)
    arguments = (split, "sasrec", SMALL, TRAINED, range(4), "cpu")
    halved = fit_seeds(*arguments, checkpoints=unfinished, at_once=4, show_progress=False)
    assert begun == [(4, 0), (2, 10)], "gone on with where the larger stack stood"
    monkeypatch.undo()
    for seed, fitted in fit_seeds(*arguments, at_once=4, show_progress=False).items():
        assert halved[seed].losses == pytest.approx(fitted.losses, abs=1e-4)


def test_one_seed_that_memory_does_not_hold_is_one_sentence(
    split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    def short_of_memory(self: Stack[Recommender]) -> torch.Tensor:
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(Stack, "step", short_of_memory)
    with pytest.raises(InputError, match="One seed needs more memory than cpu has"):
        fit_seeds(split, "sasrec", SMALL, TRAINED, range(3), at_once=3, show_progress=False)


def test_going_on_keeps_the_stacks_as_they_were(split: Split, tmp_path: Path) -> None:
    """Whatever memory there is now; otherwise the last bits would change."""
    unfinished = CheckpointFolder(tmp_path / "run", {}, overwrite=False)
    arguments = (split, "sasrec", SMALL, TRAINED, range(5), "cpu")
    with pytest.raises(OutOfTime):
        fit_seeds(*arguments, checkpoints=unfinished, at_once=2, until=0.0, show_progress=False)
    assert unfinished.seeds_at_once() == 2
    gone_on = fit_seeds(*arguments, checkpoints=unfinished, show_progress=False)
    for seed, fitted in fit_seeds(*arguments, at_once=2, show_progress=False).items():
        assert gone_on[seed].losses == fitted.losses


def test_impossible_numbers_of_seeds_are_refused(interactions: Interactions) -> None:
    for seeds, at_once in ((0, None), (2, 0)):
        with pytest.raises(InputError, match="must be at least 1"):
            whence.train(interactions, seeds=seeds, seeds_at_once=at_once)
