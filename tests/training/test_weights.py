"""Events that count more than others, as something to foretell."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from conftest import interactions_of
from whence.contract import ALL, PAD
from whence.data import Split, last_two
from whence.errors import InputError
from whence.models.tasks import Cloze, NextItem
from whence.randomness import Randomness
from whence.training import TrainingConfig, fit
from whence.training.history_batches import HistoryBatches
from whence.training.recommenders import new_training

SMALL = {"max_len": 8, "dim": 8}
TRANSFORMERS = {"sasrec": NextItem(), "bert4rec": Cloze(0.4, 0.1)}


def weighed(split: Split) -> Split:
    """By chance, some events not at all."""
    drawn = np.random.default_rng(3).integers(0, 5, len(split.interactions))
    return replace(split, weights=drawn.astype(np.float32))


@pytest.mark.parametrize("one_size", [False, True])
@pytest.mark.parametrize("task", TRANSFORMERS.values())
def test_every_question_has_the_weight_of_the_event_it_asks_for(
    task: NextItem | Cloze, one_size: bool
) -> None:
    """Every event is of an item of its own, and so can be told by it."""
    sizes = np.random.default_rng(0).integers(4, 20, 12).tolist()
    starts = np.cumsum([0, *sizes]).tolist()
    data = interactions_of([list(range(a, b)) for a, b in pairwise(starts)])
    split = weighed(last_two(data))
    assert split.weights is not None
    of_item = np.zeros(data.item_count)
    of_item[data.items] = split.weights / split.weights[split.trained()].mean()
    chance = [Randomness(0), Randomness(1)]
    batch = (
        HistoryBatches(split, 6, 30, chance, one_size=one_size, task=task)
        .draw(torch.tensor(2))
        .for_seed(1)
    )
    assert batch.weights is not None
    asked = batch.positives != PAD
    assert asked.any()
    expected = torch.from_numpy(of_item[batch.positives[asked].numpy()]).float()
    torch.testing.assert_close(batch.weights[asked], expected)
    losses = torch.arange(1.0, 1 + len(batch.weights))
    assert torch.equal(batch.weigh(losses), losses * batch.weights)


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_only_ratios_matter(name: str, split: Split) -> None:
    """Equal weights change no bit, and twice the weights are the same ones."""
    own = weighed(split)
    assert own.weights is not None
    alike, double = np.full_like(own.weights, 4), 2 * own.weights
    plain, equal, some, twice = (
        fit(one, name, SMALL, TrainingConfig(steps=8, batch_size=32), 0, show_progress=False).losses
        for one in (
            split,
            replace(split, weights=alike),
            own,
            replace(own, weights=double),
        )
    )
    assert plain == equal
    assert some == twice
    assert some != pytest.approx(plain, abs=1e-4)


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_what_has_no_weight_is_not_learned(name: str) -> None:
    """After 0 and 1 most users choose 2, some 5; only the choice of the few counts."""
    common, rare = ([0, 1, choice, 3, 4] for choice in (2, 5))
    data = interactions_of([common] * 30 + [rare] * 10)
    split = last_two(data)
    weights = (data.items != 2).astype(np.float32)
    config = TrainingConfig(steps=200, batch_size=40, learning_rate=0.01)
    history = torch.tensor([[PAD] * 6 + [0, 1]])
    for one, first in ((split, 2), (replace(split, weights=weights), 5)):
        model = fit(one, name, {**SMALL, "dropout": 0.0}, config, 0, show_progress=False).model
        with torch.no_grad():
            scores = model.score(history, ALL)[0]
        assert (2, 5)[int(scores[[2, 5]].argmax())] == first


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_a_seed_in_a_stack_weighs_as_alone(name: str, split: Split) -> None:
    config = TrainingConfig(steps=10, batch_size=32)
    together = new_training(weighed(split), name, SMALL, config, [0, 4], "cpu").run(
        show_progress=False
    )
    for seed, stacked in together.items():
        alone = fit(weighed(split), name, SMALL, config, seed, show_progress=False)
        assert stacked.losses == pytest.approx(alone.losses, abs=2e-4)


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf")])
def test_weights_that_cannot_be_are_refused(bad: float, split: Split) -> None:
    weights = np.ones(len(split.interactions), dtype=np.float32)
    with pytest.raises(InputError, match="one finite number from 0 for each event"):
        replace(split, weights=weights[1:])
    with pytest.raises(InputError, match="No training event has a weight above 0"):
        replace(split, weights=(~split.trained()).astype(np.float32))
    weights[5] = bad
    with pytest.raises(InputError, match="one finite number from 0"):
        replace(split, weights=weights)


@pytest.mark.parametrize("name", ["gmf", "deepicf"])
def test_models_of_single_choices_do_not_weigh(name: str, split: Split) -> None:
    with pytest.raises(InputError, match="Leave out weights"):
        fit(weighed(split), name, {"dim": 4}, TrainingConfig(steps=1), 0, show_progress=False)
