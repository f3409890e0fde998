from __future__ import annotations

import gc
import weakref
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from safetensors.torch import load_file

from conftest import STEPPED, interactions_of, pack
from whence.contract import PAD
from whence.data import Interactions, Split, last_two
from whence.errors import InputError
from whence.models import MODELS
from whence.models.sasrec import SASRec, SASRecConfig
from whence.models.tasks import Batch
from whence.randomness import Randomness, no_dropout
from whence.training import TrainingConfig, evaluate, fit
from whence.training.history_batches import HistoryBatches, _largest_sum
from whence.training.plans import with_given
from whence.training.recommenders import new_training

SMALL = {"max_len": 12, "dim": 16}


def test_same_seed_same_bits_and_another_seed_others(split: Split) -> None:
    config = TrainingConfig(steps=15, batch_size=32)
    one, same, other = (
        fit(split, "sasrec", SMALL, config, seed, show_progress=False) for seed in (1, 1, 2)
    )
    assert one[1] == same[1]
    for name, value in one[0].state_dict().items():
        assert torch.equal(value, same[0].state_dict()[name])
    assert one[1] != other[1]


def test_training_does_not_touch_the_global_random_state(split: Split) -> None:
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()  # type: ignore[index]  # noqa: NPY002
    fit(split, "sasrec", SMALL, TrainingConfig(steps=2), 0, show_progress=False)
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == np.random.get_state()[1].tolist()  # type: ignore[index]  # noqa: NPY002


@pytest.mark.parametrize("model", STEPPED)
def test_it_learns_a_world(model: str, split: Split) -> None:
    batch = (
        64 if MODELS[model].training.get("batch_size") != 1 else 16
    )  # users with all they have seen
    config = TrainingConfig(
        **with_given(MODELS[model].training, {"steps": 400, "batch_size": batch})
    )
    trained, losses, *_ = fit(split, model, SMALL, config, 0, show_progress=False)
    untrained, *_ = fit(split, model, SMALL, TrainingConfig(steps=0), 0, show_progress=False)
    assert np.mean(losses[-20:]) < 0.96 * np.mean(losses[:20])
    good, poor = (evaluate(model, split, "test", 12)["recall@10"] for model in (trained, untrained))
    assert good.interval[0] > poor.interval[1]


@pytest.mark.parametrize("model", STEPPED)
def test_the_padding_row_stays_zero(model: str, split: Split) -> None:
    trained, *_ = fit(split, model, SMALL, TrainingConfig(steps=20), 0, show_progress=False)
    weights = trained.state_dict()
    tables = {"item", "user", "history", "target", "bias"} & set(weights)
    assert tables
    assert all((weights[table][0] == 0).all() for table in tables)


def test_batches_are_windows_of_training_events(split: Split) -> None:
    data = split.interactions
    batch = HistoryBatches(split, 6, 500, [Randomness(0)]).draw(torch.tensor(0)).for_seed(0)
    trained = {
        tuple(data.items[data.offsets[user] : split.train_ends[user]].tolist())
        for user in range(data.user_count)
    }
    starts: set[int] = set()
    for history in range(500):
        mine = batch.inputs.histories == history
        inputs, positives = batch.inputs.items[mine].tolist(), batch.positives[mine].tolist()
        window = (*inputs, positives[-1])
        owners = [events for events in trained if _contains(events, window)]
        assert owners, "a window is consecutive events of one user's training part"
        assert inputs[1:] == positives[:-1], "the positive is the next input"
        assert batch.inputs.slots[mine].tolist() == list(range(6 - len(inputs), 6))
        assert batch.negatives is not None
        assert not set(batch.negatives[mine].tolist()) & set.intersection(*map(set, owners))
        starts.update(events.index(window[0]) for events in owners)
    assert len(starts) > 5, "windows of long histories begin anywhere"


def _contains(events: tuple[int, ...], window: tuple[int, ...]) -> bool:
    return any(
        events[start : start + len(window)] == window
        for start in range(len(events) - len(window) + 1)
    )


def test_every_user_with_two_events_takes_part() -> None:
    user = [0, 1, 1, 2, 2, 2, 2]
    item = [0, 1, 2, 3, 4, 5, 6]
    data = Interactions.from_columns(pa.chunked_array([user]), pa.chunked_array([item]))
    batch = (
        HistoryBatches(last_two(data), 4, 200, [Randomness(0)]).draw(torch.tensor(0)).for_seed(0)
    )
    assert set(batch.inputs.items.tolist()) <= {1, 3, PAD}
    assert {1, 3} <= set(batch.inputs.items.tolist())


def test_batches_of_one_size_hold_the_same(split: Split) -> None:
    """As many rows as were announced, and nothing of the batch lost."""
    free, fixed = (
        HistoryBatches(split, 6, 50, [Randomness(0)], one_size=one) for one in (False, True)
    )
    sizes = set()
    for step in range(30):
        expected, found = (
            batches.draw(torch.tensor(step)).for_seed(0) for batches in (free, fixed)
        )
        count = int(expected.inputs.real.sum())
        assert found.inputs.real.sum() == count
        sizes.add(len(found.inputs.items))
        for name in ("items", "slots", "histories"):
            one, other = getattr(expected.inputs, name), getattr(found.inputs, name)
            assert torch.equal(one[:count], other[:count])
        assert torch.equal(expected.positives[:count], found.positives[:count])
        assert expected.negatives is not None
        assert found.negatives is not None
        assert torch.equal(expected.negatives[:count], found.negatives[:count])
    assert sizes == {fixed.rows}
    assert len(sizes) == 1


@pytest.mark.parametrize("count", [1, 10, 128])
def test_the_one_size_is_hardly_ever_too_small(count: int) -> None:
    """Few long histories among many short ones: the worst there is."""
    rng = np.random.default_rng(0)
    sizes = np.where(rng.random(5_000) < 0.01, 200, 1)
    sums = rng.choice(sizes, (20_000, count)).sum(axis=1)
    most = _largest_sum(np.bincount(sizes) / len(sizes), count)
    assert (sums > most).mean() < 2e-3
    exact = np.array([1.0])
    for _ in range(count):
        exact = np.convolve(exact, np.bincount(sizes) / len(sizes))
    assert exact[most + 1 :].sum() < 1e-3 <= exact[most:].sum()


def test_nothing_to_learn_from_is_one_sentence() -> None:
    data = Interactions.from_columns(pa.chunked_array([[1, 2]]), pa.chunked_array([[1, 2]]))
    with pytest.raises(InputError, match="nothing to train on"):
        HistoryBatches(last_two(data), 4, 2, [Randomness(0)])


def test_a_diverged_loss_is_one_sentence(split: Split, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"diverged at step 1 \(loss is NaN or inf\)\. Lower"):
        fit(
            split, "sasrec", SMALL, TrainingConfig(steps=1, learning_rate=1e38), 0,
            show_progress=False,
        )  # fmt: skip
    endless = TrainingConfig(steps=1_000_000, learning_rate=1e38)
    for checkpoint in (None, tmp_path / "seed"):
        with pytest.raises(
            InputError, match="diverged at step 2 .* Lower learning_rate or set clip"
        ):
            fit(split, "sasrec", SMALL, endless, 0, show_progress=False, checkpoint=checkpoint)
        assert not (tmp_path / "seed").exists(), "what has gone wrong is not kept"


def test_validation_needs_something_to_validate_on() -> None:
    data = interactions_of([[0, 1], [1, 0], [0, 1]])
    config = TrainingConfig(validate_every=5)
    with pytest.raises(InputError, match="The split holds out no validation events"):
        fit(last_two(data), "sasrec", SMALL, config, 0, show_progress=False)


def test_a_training_leaves_its_model_alone_in_memory(split: Split) -> None:
    fitted = fit(split, "sasrec", SMALL, TrainingConfig(steps=2), 0, show_progress=False)
    assert all(weight.grad is None for weight in fitted.model.parameters())
    training = new_training(split, "sasrec", SMALL, TrainingConfig(), [0], "cpu")
    training.advance()
    watched = weakref.ref(training)
    gc.disable()
    try:
        del training
        assert watched() is None, "nothing of it waits for the garbage collector"
    finally:
        gc.enable()


class Fixed(SASRec):
    """Rows that are given."""

    def encode_packed(self, *_: object) -> torch.Tensor:
        return torch.tensor([[1.0, -1.0], [0.0, 2.0], [7.0, 7.0]])  # the last is filling


def test_the_loss_by_hand() -> None:
    """Two items with a next one: mean of −ln σ(p) − ln(1 − σ(q)) over them."""
    inputs = pack(torch.tensor([[PAD, 4, 5]]))
    model = Fixed(SASRecConfig(dim=2, loss="bce"), 9, torch.Generator())
    with torch.no_grad():
        model.item[1 + 6], model.item[1 + 7] = torch.eye(2)
    batch = Batch(inputs, torch.tensor([6, 6, PAD]), torch.tensor([7, 7, PAD]))
    found = model.loss(batch, no_dropout)
    second = np.log1p(np.exp(-1.0)) + np.log1p(np.exp(-1.0))
    third = np.log(2.0) + np.log1p(np.exp(2.0))
    assert found.item() == pytest.approx((second + third) / 2, rel=1e-6)


@pytest.mark.parametrize(
    "settings",
    [
        {"steps": -1},
        {"batch_size": 0},
        {"learning_rate": 0.0},
        {"learning_rate": float("nan")},
        {"beta2": 1.0},
        {"clip": 0.0},
        {"warmup": -1},
        {"patience": 3},
        {"clip": float("inf")},
        {"snapshots": 1},
        {"snapshots": 5, "steps": 3},
        {"snapshots": 5, "validate_every": 10, "patience": 2},
    ],
)
def test_impossible_training_is_refused(settings: dict[str, float]) -> None:
    with pytest.raises(InputError):
        TrainingConfig(**settings)  # type: ignore[arg-type]


def test_the_pace_by_hand() -> None:
    config = TrainingConfig(steps=10, warmup=4, lr_decay="linear")
    assert [config.lr_factor(step) for step in range(10)] == pytest.approx(
        [1 / 4, 2 / 4, 3 / 4, 1, 6 / 6, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6]
    )
    cosine = TrainingConfig(steps=8, lr_decay="cosine")
    assert [cosine.lr_factor(step) for step in (0, 4)] == pytest.approx([1.0, 0.5])
    assert cosine.lr_factor(7) == pytest.approx((1 - np.cos(np.pi / 8)) / 2)
    assert {TrainingConfig().lr_factor(step) for step in (0, 9, 2_499)} == {1.0}


def test_the_pace_is_kept(split: Split) -> None:
    """With a pace of 1/1000 in the first step, the weights move a thousandth as far."""
    moved = []
    for warmup in (0, 1_000):
        config = TrainingConfig(steps=1, batch_size=32, warmup=warmup)
        untrained = new_training(split, "sasrec", SMALL, config, [0], "cpu").stack.weights["item"]
        trained, *_ = fit(split, "sasrec", SMALL, config, 0, show_progress=False)
        moved.append((trained.state_dict()["item"] - untrained.detach()).abs().max().item())
    assert moved[1] == pytest.approx(moved[0] / 1_000, rel=0.02)


def test_a_clipped_gradient_is_no_longer_than_asked(
    split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    norms: list[float] = []
    step = torch.optim.Adam.step

    def measured(self: torch.optim.Adam, closure: None = None) -> None:
        gradients = [one.grad for group in self.param_groups for one in group["params"]]
        norms.append(torch.cat([one.flatten() for one in gradients]).norm().item())
        step(self, closure)

    monkeypatch.setattr(torch.optim.Adam, "step", measured)
    for clip in (None, 1e-3):
        config = TrainingConfig(steps=2, batch_size=32, clip=clip)
        fit(split, "sasrec", SMALL, config, 0, show_progress=False)
    assert min(norms[:2]) > 1e-2
    assert norms[2:] == pytest.approx([1e-3] * 2, rel=1e-3)


def test_training_stops_when_validation_gets_no_better_and_keeps_the_best(split: Split) -> None:
    config = TrainingConfig(
        steps=2_000, batch_size=64, learning_rate=0.02, validate_every=20, patience=2, metric="MRR"
    )
    training = new_training(split, "sasrec", SMALL, config, [0], "cpu")
    while not training.is_over:
        training.advance()
    validations = training.logs[0].validations
    best = int(np.argmax(validations))
    assert len(validations) == best + 3
    fitted = fit(split, "sasrec", SMALL, config, 0, show_progress=False)
    assert len(fitted.losses) == training.step < 2_000
    found = evaluate(fitted.model, split, "validation", 12)["MRR"].value
    assert found == validations[best]
    assert list(fitted.validations.values()) == validations
    assert fitted.kept_step == 20 * (best + 1)
    assert fitted.validations[fitted.kept_step] == found


def test_validations_change_nothing_in_training(split: Split) -> None:
    plain, losses, *_ = fit(
        split, "sasrec", SMALL, TrainingConfig(steps=12), 0, show_progress=False
    )
    watched, same, *_ = fit(
        split, "sasrec", SMALL, TrainingConfig(steps=12, validate_every=5), 0, show_progress=False
    )
    assert losses == same
    assert all(
        torch.equal(value, watched.state_dict()[name]) for name, value in plain.state_dict().items()
    )


def test_snapshots_are_equally_spaced_from_the_untrained_to_the_last(
    split: Split, tmp_path: Path
) -> None:
    config = TrainingConfig(steps=10, batch_size=32, snapshots=5)
    assert config.snapshot_steps() == {0, 2, 5, 8, 10}
    assert TrainingConfig().snapshot_steps() == set()
    folder = tmp_path / "snapshots"
    training = new_training(split, "sasrec", SMALL, config, [0], "cpu")
    _, losses, *_ = training.run(show_progress=False, snapshots=lambda _: folder)[0]
    assert {path.name for path in folder.iterdir()} == {
        f"{step}.safetensors" for step in config.snapshot_steps()
    }
    plain, same, *_ = fit(
        split, "sasrec", SMALL, TrainingConfig(steps=10, batch_size=32), 0, show_progress=False
    )
    assert losses == same, "snapshots change nothing"
    untrained, *_ = fit(split, "sasrec", SMALL, TrainingConfig(steps=0), 0, show_progress=False)
    for step, model in ((0, untrained), (10, plain)):
        kept = load_file(folder / f"{step}.safetensors")
        assert all(torch.equal(kept[name], value) for name, value in model.state_dict().items())


def test_half_precision_is_for_gpus(split: Split) -> None:
    """Processors compute it slowly, or crash."""
    config = TrainingConfig(steps=1, precision="bfloat16")
    with pytest.raises(InputError, match="bfloat16 is for GPUs"):
        fit(split, "sasrec", SMALL, config, 0, show_progress=False)


def test_an_unknown_measure_is_one_sentence() -> None:
    with pytest.raises(InputError, match="no measure 'recal@10': did you mean 'recall@10'"):
        TrainingConfig(metric="recal@10")


@pytest.mark.parametrize("measure", ["recall@3", "NDCG@20", "MRR", "recall@7 of 101"])
def test_validation_by_any_measure(measure: str, split: Split) -> None:
    config = TrainingConfig(steps=2, validate_every=1, metric=measure)
    training = new_training(split, "sasrec", SMALL, config, [0], "cpu")
    training.advance()
    top = int("".join(filter(str.isdigit, measure.partition(" ")[0])) or 10)
    found = evaluate(training.stack.models[0].eval(), split, "validation", 12, top=top)
    assert training.logs[0].validations == [found[measure].value]
