"""What is hidden in the batches of a cloze."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch

from conftest import interactions_of
from whence.contract import PAD
from whence.data import Split, last_two
from whence.models.tasks import Batch, Cloze, Negatives
from whence.randomness import Randomness
from whence.training.history_batches import HistoryBatches, MaskDraws

STEPS = 40


def cloze(mask_prob: float = 0.3, last_mask_prob: float = 0.0, negatives: bool = False) -> Cloze:
    return Cloze(mask_prob, last_mask_prob, Negatives(unseen=negatives))


def batches(
    split: Split, task: Cloze, seeds: tuple[int, ...] = (0,), one_size: bool = False
) -> HistoryBatches:
    chance = [Randomness(seed) for seed in seeds]
    return HistoryBatches(split, 6, 50, chance, one_size=one_size, task=task)


def drawn(split: Split, task: Cloze, one_size: bool = False) -> list[Batch]:
    source = batches(split, task, one_size=one_size)
    return [source.draw(torch.tensor(step)).for_seed(0) for step in range(STEPS)]


def hidden(batch: Batch) -> torch.Tensor:
    return batch.inputs.real & (batch.inputs.items == PAD)


def whole(batch: Batch) -> list[list[int]]:
    """The histories with what was hidden in its place."""
    assert batch.rows is not None
    items = batch.inputs.items.clone()
    asked = batch.positives != PAD
    items[batch.rows[asked]] = batch.positives[asked]
    return [items[batch.inputs.histories == number].tolist() for number in range(50)]


def test_histories_are_windows_of_training_events(split: Split) -> None:
    """Of up to 7 items: one more than the model reads, in place of its own slot."""
    data = split.interactions
    trained = [
        data.items[data.offsets[user] : split.train_ends[user]].tolist()
        for user in range(data.user_count)
    ]
    windows = {
        tuple(events[start : start + 7]) for events in trained for start in range(len(events) - 6)
    }
    whole_lives = {tuple(events) for events in trained if len(events) < 7}
    for batch in drawn(split, cloze())[:5]:
        for number, history in enumerate(whole(batch)):
            assert tuple(history) in windows | whole_lives
            mine = batch.inputs.histories == number
            assert batch.inputs.slots[mine].tolist() == list(range(7 - len(history), 7))
        assert len(batch.inputs.items) % 7 == 0


@pytest.mark.parametrize("share", [0.0, 0.2, 0.6, 1.0])
def test_at_least_one_of_every_history_and_otherwise_the_share(share: float, split: Split) -> None:
    masks, masked, items = Counter[int](), 0.0, 0
    expected = 0.0
    for batch in drawn(split, cloze(share)):
        assert batch.rows is not None
        asked = batch.positives != PAD
        assert sorted(batch.rows[asked].tolist()) == hidden(batch).nonzero()[:, 0].tolist()
        for number in range(50):
            mine = batch.inputs.histories == number
            count, size = int(hidden(batch)[mine].sum()), int(mine.sum())
            masks[count] += 1
            masked, items = masked + count, items + size
            expected += share * size + (1 - share) ** size
    assert masks[0] == 0
    assert masked / items == pytest.approx(expected / items, abs=0.01)
    if share == 0:
        assert set(masks) == {1}


def test_where_none_was_drawn_every_place_is_as_likely() -> None:
    split = last_two(interactions_of([[0, 1, 2, 3, 4, 5]]))
    places = Counter[int]()
    for batch in drawn(split, cloze(0.0)):
        places.update(batch.positives.tolist())
    counts = np.array([places[item] for item in range(4)])
    assert counts.sum() == STEPS * 50
    assert ((counts - counts.mean()) ** 2 / counts.mean()).sum() < 11.3  # chi², 3 degrees, 1 %


def test_the_last_alone_in_its_share_of_histories(split: Split) -> None:
    alone, total = 0, 0
    for batch in drawn(split, cloze(1.0, last_mask_prob=0.25)):
        for number in range(50):
            places = hidden(batch)[batch.inputs.histories == number].tolist()
            assert all(places) or not any(places[:-1])
            alone, total = alone + (not any(places[:-1])), total + 1
            assert places[-1]
    assert alone / total == pytest.approx(0.25, abs=0.03)


def test_batches_of_one_size_ask_the_same(split: Split) -> None:
    task = cloze(negatives=True)
    sizes = set()
    for free, fixed in zip(drawn(split, task), drawn(split, task, one_size=True), strict=True):
        rows, count = int(free.inputs.real.sum()), int((free.positives != PAD).sum())
        for name in ("items", "slots", "histories"):
            one, other = getattr(free.inputs, name), getattr(fixed.inputs, name)
            assert torch.equal(one[:rows], other[:rows])
        for name in ("positives", "negatives", "rows"):
            one, other = getattr(free, name), getattr(fixed, name)
            assert torch.equal(one[:count], other[:count])
        assert (fixed.positives[count:] == PAD).all()
        sizes.add((len(fixed.inputs.items), len(fixed.positives)))
    assert len(sizes) == 1


@pytest.mark.parametrize("one_size", [False, True])
def test_a_seed_draws_the_same_in_a_stack(one_size: bool, split: Split) -> None:
    task = cloze(0.2, last_mask_prob=0.1, negatives=True)
    together = batches(split, task, (3, 4, 5), one_size=one_size)
    for place, seed in enumerate((3, 4, 5)):
        alone = batches(split, task, (seed,), one_size=one_size)
        for step in map(torch.tensor, range(5)):
            one, other = alone.draw(step).for_seed(0), together.draw(step).for_seed(place)
            rows, asked = int(one.inputs.real.sum()), int((one.positives != PAD).sum())
            assert torch.equal(one.inputs.items[:rows], other.inputs.items[:rows])
            assert (other.inputs.histories[rows:] == -1).all()
            for name in ("positives", "negatives", "rows"):
                assert torch.equal(getattr(one, name)[:asked], getattr(other, name)[:asked])
            assert (other.positives[asked:] == PAD).all()


def test_negatives_are_items_the_user_has_not_met(split: Split) -> None:
    data = split.interactions
    trained = [
        set(data.items[data.offsets[user] : split.train_ends[user]].tolist())
        for user in range(data.user_count)
    ]
    batch = drawn(split, cloze(negatives=True))[0]
    assert batch.negatives is not None
    assert batch.rows is not None
    histories = whole(batch)
    for row, negative in zip(batch.rows.tolist(), batch.negatives.tolist(), strict=True):
        if negative != PAD:
            history = set(histories[int(batch.inputs.histories[row])])
            assert any(history <= events and negative not in events for events in trained)


def test_how_often_a_history_has_so_many_masks() -> None:
    """By counting: histories of 1 or 4 rows, as often."""
    masks = MaskDraws(cloze(0.3, last_mask_prob=0.2), [Randomness(0)], "cpu")
    found = masks.share_of_counts(np.array([0, 0.5, 0, 0, 0.5]))
    chance = np.random.default_rng(0)
    sizes = chance.choice([1, 4], 100_000)
    counts = np.maximum(chance.binomial(sizes, 0.3), 1)
    counts[chance.random(100_000) < 0.2] = 1
    np.testing.assert_allclose(found, np.bincount(counts, minlength=5) / 100_000, atol=0.005)
