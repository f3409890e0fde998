"""Averaged weights in training: stacked seeds, your own loop, schedules and batch normalization."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, update_bn

from conftest import AddModel
from whence.data import Split
from whence.engine.averaging import (
    AVERAGING_RULES,
    Averaging,
    AveragingRule,
    average_weights,
    in_one_row,
)
from whence.errors import InputError
from whence.models.lookup import look_up
from whence.models.registry import ModelSpec, items_only
from whence.models.sasrec import SASRec, SASRecConfig
from whence.models.tasks import Packed
from whence.randomness import DropoutFunction, Randomness, no_dropout
from whence.training import TrainingConfig, fit
from whence.training.history_batches import HistoryBatches
from whence.training.recommenders import new_training

SMALL = {"max_len": 12, "dim": 16}
STEPS, EPOCH = 40, 7


@pytest.mark.parametrize("rule", AVERAGING_RULES)
def test_seeds_side_by_side_are_averaged_as_alone(rule: AveragingRule) -> None:
    chance = torch.Generator().manual_seed(0)
    start = [torch.randn(3, *shape, generator=chance) for shape in ((4, 2), (5,))]
    moves = [[torch.randn(one.shape, generator=chance) for one in start] for _ in range(12)]
    together = [one.clone() for one in start]
    apart = [[one[seed].clone() for one in start] for seed in range(3)]
    stacked = Averaging(together, rule, 5, 2, seeds=3)
    alone = [Averaging(weights, rule, 5, 2) for weights in apart]
    for move in moves:
        for averaging, weights in ((stacked, together), *zip(alone, apart, strict=True)):
            averaging.before_step()
            seed = None if averaging is stacked else alone.index(averaging)
            for weight, step in zip(weights, move, strict=True):
                weight += step if seed is None else step[seed]
            averaging.after_step()
    for seed, averaging in enumerate(alone):
        for one, other in zip(averaging.average, stacked.average, strict=True):
            torch.testing.assert_close(one, other[seed])
        for one, other in zip(apart[seed], together, strict=True):
            torch.testing.assert_close(one, other[seed])


@pytest.mark.parametrize("rule", AVERAGING_RULES)
@pytest.mark.parametrize("shapes", [[(3,)], [(3,), (2, 5), (1,)]])
def test_weights_in_one_row_are_averaged_as_apart(
    rule: AveragingRule, shapes: list[tuple[int, ...]]
) -> None:
    chance = torch.Generator().manual_seed(0)
    apart = [torch.randn(shape, generator=chance) for shape in shapes]
    together = [weight.clone() for weight in apart]
    pairs = (
        (apart, Averaging(apart, rule, 5, 2)),
        (together, Averaging(together, rule, 5, 2, row=in_one_row(together))),
    )
    for _ in range(12):
        moves = [torch.randn(shape, generator=chance) for shape in shapes]
        for weights, averaging in pairs:
            averaging.before_step()
            for weight, move in zip(weights, moves, strict=True):
                weight += move
            averaging.after_step()
    torch.testing.assert_close(pairs[0][1].average, pairs[1][1].average)
    torch.testing.assert_close(apart, together)


def network(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))


def batches() -> list[Tensor]:
    chance = torch.Generator().manual_seed(1)
    return [3 + torch.randn(16, 4, generator=chance) for _ in range(20)]


@pytest.mark.parametrize("optimiser", [torch.optim.SGD, torch.optim.Adam, torch.optim.Adagrad])
def test_one_line_in_a_loop_of_ones_own(optimiser: type[torch.optim.Optimizer]) -> None:
    """SWA over all steps is the mean that PyTorch's own class keeps, statistics included."""
    model = network()
    chosen = optimiser(model.parameters(), lr=0.01)  # type: ignore[call-arg]
    averaging = average_weights(model, chosen, "swa", epoch=1)
    reference: AveragedModel | None = None
    for batch in batches():
        loss = model(batch).square().mean()
        chosen.zero_grad()
        loss.backward()
        chosen.step()
        if reference is None:
            reference = AveragedModel(model)
        reference.update_parameters(model)
    assert reference is not None
    averaging.finish(batches())
    update_bn(batches(), reference)
    # Its mean has the weights before the first step too: as many models as steps, and one.
    assert averaging.steps == 20
    model.eval()
    reference.eval()
    with torch.no_grad():
        before = torch.cat([one.flatten() for one in network().parameters()])
        mean = torch.cat([one.flatten() for one in reference.module.parameters()])
        found = torch.cat([one.flatten() for one in model.parameters()])
    torch.testing.assert_close(found, (20 * mean + before) / 21, rtol=1e-4, atol=1e-5)


def test_statistics_of_batch_norm_are_of_the_average() -> None:
    model = network()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    averaging = average_weights(model, optimiser, "aswa", epoch=7)
    for batch in batches():
        optimiser.zero_grad()
        model(batch).square().mean().backward()
        optimiser.step()
    with pytest.raises(InputError, match=r"finish\(loader\)"):
        averaging.finish()
    averaging.finish(iter(batches()))
    norm = model[1]
    assert isinstance(norm, nn.BatchNorm1d)
    with torch.no_grad():
        inputs = [model[0](batch) for batch in batches()]
    mean = torch.stack([one.mean(dim=0) for one in inputs]).mean(dim=0)
    torch.testing.assert_close(norm.running_mean, mean, rtol=1e-4, atol=1e-5)
    optimiser.step()
    assert averaging.steps == 20, "after the end nobody counts"


def test_counts_go_on_in_half_precision() -> None:
    """Where 256 + 1 is 256."""
    weight = torch.zeros(1, dtype=torch.bfloat16)
    averaging = Averaging([weight], "naswa-printed", 1_000)
    for _ in range(300):
        averaging.before_step()
        weight += 1
        averaging.after_step()
    assert averaging.count.item() == 301


def test_what_cannot_be_averaged_is_one_sentence() -> None:
    with pytest.raises(InputError, match="'asva': did you mean 'aswa'"):
        Averaging([torch.zeros(1)], "asva", 1)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="epoch ≥ 1"):
        Averaging([torch.zeros(1)], "aswa", 0)
    for name, value in (("average_every", -1), ("swa_start", 1.0), ("swa_lr_factor", 0.0)):
        with pytest.raises(InputError, match=f"{name} must be .*, not {value}"):
            TrainingConfig(**{name: value})  # type: ignore[arg-type]


def test_the_cycles_of_swa_by_hand() -> None:
    """From step 60 on, in cycles of 10: from the whole rate to a fifth of it."""
    config = TrainingConfig(
        steps=80, averaging="swa", average_every=10, swa_start=0.7, swa_lr_factor=0.2
    )
    assert config.first_average == 60
    assert [config.lr_factor(step) for step in (0, 59)] == [1, 1]
    assert [config.lr_factor(step) for step in (60, 64, 69, 70, 79)] == pytest.approx(
        [0.92, 0.6, 0.2, 0.92, 0.2]
    )


def test_swa_begins_so_that_whole_epochs_follow() -> None:
    """Also where the share of the steps is no round number in binary."""
    for share, epochs in ((0.9, 1), (0.8, 2), (0.75, 2), (0.7, 3), (0.0, 10)):
        for steps in (1_000, 2_360, 2_500):
            config = TrainingConfig(steps=steps, averaging="swa", swa_start=share)
            assert config.first_average == steps - epochs * steps // 10
    with pytest.raises(InputError, match="No epoch of 1000 steps is left for SWA"):
        TrainingConfig(steps=2_500, averaging="swa", average_every=1_000)


@pytest.mark.parametrize("rule", AVERAGING_RULES)
def test_a_training_ends_with_its_average(rule: AveragingRule, split: Split) -> None:
    """The same as averaging by the one line would do in the same loop."""
    config = TrainingConfig(steps=STEPS, batch_size=32, averaging=rule, average_every=EPOCH)
    fitted = fit(split, "sasrec", SMALL, config, 3, show_progress=False)
    plain = new_training(
        split, "sasrec", SMALL, TrainingConfig(steps=STEPS, batch_size=32), [3], "cpu"
    )
    start = config.first_average if rule == "swa" else 0
    stack = plain.stack
    averaging = average_weights(stack.models[0], stack.optimizer, rule, epoch=EPOCH, start=start)
    for _ in range(STEPS):
        plain.advance()
    averaging.finish()
    for one, other in zip(fitted.model.parameters(), stack.models[0].parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("rule", AVERAGING_RULES)
@pytest.mark.parametrize("stop", [1, 2, 3, 13, 21, 33])
def test_a_stopped_training_keeps_its_average(
    rule: AveragingRule, stop: int, split: Split, tmp_path: Path
) -> None:
    config = TrainingConfig(steps=STEPS, batch_size=32, averaging=rule, average_every=EPOCH)
    seeds = [0, 1, 2]
    whole = new_training(split, "sasrec", SMALL, config, seeds, "cpu").run(show_progress=False)
    part = new_training(split, "sasrec", SMALL, config, seeds, "cpu")
    for _ in range(stop):
        part.advance()
    part.save(tmp_path / "part")
    again = new_training(split, "sasrec", SMALL, config, seeds, "cpu")
    for seed, fitted in again.run(show_progress=False, checkpoint=tmp_path / "part").items():
        assert fitted.losses == whole[seed].losses
        expected = whole[seed].model.state_dict()
        for name, value in fitted.model.state_dict().items():
            assert torch.equal(value, expected[name])


class Normed(SASRec):
    """A recommender with batch normalisation."""

    def __init__(self, config: SASRecConfig, item_count: int, generator: torch.Generator) -> None:
        super().__init__(config, item_count, generator)
        self.norm = nn.BatchNorm1d(config.dim)

    def packed_inputs(self, embedded: Tensor, batch: Packed, drop: DropoutFunction) -> Tensor:
        rows: Tensor = self.norm(super().packed_inputs(embedded, batch, drop))
        return rows


@pytest.mark.parametrize("absence", [0.0, 0.5])
def test_a_model_with_batch_norm_trains_in_a_stack_and_is_refreshed(
    split: Split, add_model: AddModel, absence: float
) -> None:
    """Its statistics are the means over a hundred of the seed's batches, by the final weights."""
    add_model("normed", ModelSpec(SASRecConfig, items_only(Normed)))
    config = TrainingConfig(
        steps=30, batch_size=32, averaging="aswa", average_every=10, part_dropout=absence
    )
    together = new_training(split, "normed", SMALL, config, [0, 1], "cpu").run(show_progress=False)
    for seed, (model, *_) in together.items():
        assert isinstance(model, Normed)
        batches = HistoryBatches(split, 12, 32, [Randomness(seed)], part_dropout=absence)
        means = []
        for step in range(100):
            batch = batches.draw(torch.tensor(step)).for_seed(0)
            inputs = batch.inputs
            with torch.no_grad():
                rows = SASRec.packed_inputs(
                    model, look_up(model.item, inputs.items), inputs, no_dropout
                )
            means.append(rows.mean(dim=0))
        torch.testing.assert_close(
            model.norm.running_mean, torch.stack(means).mean(dim=0), rtol=1e-4, atol=1e-6
        )
