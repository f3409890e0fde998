from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import torch

from whence.contract import PAD
from whence.data import Interactions, Split, leave_one_out
from whence.errors import InputError
from whence.randomness import Randomness
from whence.training import TrainingConfig, evaluate, fit
from whence.training.batches import Batch, Batches
from whence.training.losses import sampled_bce

SMALL = {"length": 12, "width": 16}


def test_same_seed_same_bits_and_another_seed_others(split: Split) -> None:
    config = TrainingConfig(steps=15, batch=32)
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


def test_it_learns_a_world(split: Split) -> None:
    config = TrainingConfig(steps=400, batch=64)
    trained, losses = fit(split, "sasrec", SMALL, config, 0, show_progress=False)
    untrained, _ = fit(split, "sasrec", SMALL, TrainingConfig(steps=0), 0, show_progress=False)
    assert np.mean(losses[-20:]) < 0.9 * np.mean(losses[:20])
    good, poor = (evaluate(model, split, "test", 12)["recall@10"] for model in (trained, untrained))
    assert good.interval[0] > poor.interval[1]


def test_the_padding_row_stays_zero(split: Split) -> None:
    trained, _ = fit(split, "sasrec", SMALL, TrainingConfig(steps=20), 0, show_progress=False)
    assert (trained.state_dict()["item"][0] == 0).all()


def test_batches_are_windows_of_training_events(split: Split) -> None:
    data = split.interactions
    batch = Batches(split, 6, 500, Randomness(0)).draw()
    trained = {
        tuple(data.items[data.offsets[user] : split.train_ends[user]].tolist())
        for user in range(data.user_count)
    }
    starts: set[int] = set()
    for inputs, positives, negatives in zip(
        batch.inputs.tolist(), batch.positives.tolist(), batch.negatives.tolist(), strict=True
    ):
        window = [item for item in inputs if item != PAD]
        window.append(positives[-1])
        owners = [events for events in trained if _contains(events, tuple(window))]
        assert owners, "a window is consecutive events of one user's training part"
        assert (
            inputs[1:]
            == [
                after if before != PAD else inputs[slot + 1]
                for slot, (before, after) in enumerate(zip(inputs, positives, strict=True))
            ][:-1]
        ), "at every slot the positive is the next input"
        assert [item == PAD for item in inputs] == [item == PAD for item in negatives]
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
    batch = Batches(leave_one_out(data), 4, 200, Randomness(0)).draw()
    assert set(batch.inputs.unique().tolist()) == {PAD, 1, 3}


def test_nothing_to_learn_from_is_one_sentence() -> None:
    data = Interactions.from_columns(pa.chunked_array([[1, 2]]), pa.chunked_array([[1, 2]]))
    with pytest.raises(InputError, match="nothing to train on"):
        Batches(leave_one_out(data), 4, 2, Randomness(0))


def test_a_diverged_loss_is_one_sentence(split: Split) -> None:
    for steps in (1, 30):
        config = TrainingConfig(steps=steps, learning_rate=1e38)
        with pytest.raises(InputError, match="smaller learning rate"):
            fit(split, "sasrec", SMALL, config, 0, show_progress=False)


class Fixed(torch.nn.Module):
    """Scores that are given."""

    def __init__(self, scores: torch.Tensor) -> None:
        super().__init__()
        self.scores = scores

    def next_scores(self, *_: object) -> torch.Tensor:
        return self.scores


def test_the_loss_by_hand() -> None:
    """Slots 2 and 3 hold items: mean of −ln σ(p) − ln(1 − σ(q)) over them."""
    scores = torch.tensor([[[9.0, 9.0], [1.0, -1.0], [0.0, 2.0]]])
    inputs = torch.tensor([[PAD, 4, 5]])
    batch = Batch(inputs, inputs, inputs)
    found = sampled_bce(Fixed(scores), batch, drop=lambda values: values)  # type: ignore[arg-type]
    second = np.log1p(np.exp(-1.0)) + np.log1p(np.exp(-1.0))
    third = np.log(2.0) + np.log1p(np.exp(2.0))
    assert found.item() == pytest.approx((second + third) / 2, rel=1e-6)


@pytest.mark.parametrize(
    "settings",
    [
        {"steps": -1},
        {"batch": 0},
        {"learning_rate": 0.0},
        {"learning_rate": float("nan")},
        {"second_moment": 1.0},
    ],
)
def test_impossible_training_is_refused(settings: dict[str, float]) -> None:
    with pytest.raises(InputError):
        TrainingConfig(**settings)  # type: ignore[arg-type]
