from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import numpy as np
import pytest
import torch
from liking import Liking, items_of, plain_probabilities, plain_weights

from conftest import NO_MODEL, TRANSFORMERS, lively_sasrec, ragged_batch
from whence.contract import ALL, PAD, All, Explainable
from whence.errors import CapabilityError, InputError
from whence.models.transformer import Transformer
from whence.randomness import Randomness
from whence.trust import (
    AttentionPermutation,
    Bins,
    EqualMass,
    attention_permutation,
    symmetrised_kl,
)
from whence.trust.permutation.attention_permutation import shuffled_sources

ITEMS, LENGTH, CASES, REPEATS = 30, 6, 6, 5


@pytest.fixture(params=list(TRANSFORMERS))
def model(request: pytest.FixtureRequest) -> Transformer:
    return TRANSFORMERS[request.param](items=ITEMS, length=LENGTH)


def drawn_by(model: Explainable, batch: torch.Tensor, repeats: int, seed: int = 0) -> torch.Tensor:
    """`[B, repeats, n]`: who has whose weight."""
    number = torch.arange(len(batch) * repeats)
    rows = batch[number // repeats]
    stream = Randomness(seed).sequence("explain")
    found = shuffled_sources(rows, model.parts(rows), number % repeats, stream)
    return found.view(len(batch), repeats, -1)


@torch.no_grad()
@pytest.mark.parametrize("blocks", [None, [1], [2]])
def test_equals_a_plain_loop(model: Transformer, blocks: list[int] | None) -> None:
    batch, targets = ragged_batch(CASES, LENGTH, ITEMS), torch.arange(CASES)
    found = attention_permutation(model, batch, targets, blocks=blocks, repeats=REPEATS)
    drawn = drawn_by(model, batch, REPEATS)
    assert found.target is not None
    for case in range(CASES):
        history = batch[case, None]
        p = model.score(history, ALL).softmax(dim=1)[0]
        top = int(p.argmax())
        changes = []
        for source in drawn[case]:
            given: list[torch.Tensor | None] = []
            for block, weights in enumerate(model.attentions(history), start=1):
                shuffled = weights.clone()
                for slot, other in enumerate(source.tolist()):
                    shuffled[0, :, -1, slot] = weights[0, :, -1, other]
                given.append(shuffled if blocks is None or block in blocks else None)
            q = model.score(history, ALL, attention=given).softmax(dim=1)[0]
            changes.append(
                [
                    float((q - p)[top].abs()),
                    float((q - p)[case].abs()),
                    float(symmetrised_kl(p.log(), q.log())),
                ]
            )
        assert found.confidence[case] == pytest.approx(float(p.max()))
        expected = np.mean(changes, axis=0)
        if (history != PAD).sum() < 2:
            expected[:] = np.nan
        values = [found.top[case], found.target[case], found.moved[case]]
        np.testing.assert_allclose(values, expected, atol=1e-9)


def test_every_item_has_weights_of_its_own() -> None:
    """Which are shuffled alike, item by item, in a plain loop."""
    model, batch = Liking(), ragged_batch(CASES, LENGTH, ITEMS)
    found = attention_permutation(model, batch, torch.arange(CASES), repeats=REPEATS)
    assert found.target is not None
    drawn = drawn_by(model, batch, REPEATS)

    def probabilities(case: int, source: torch.Tensor | None = None) -> list[float]:
        items = items_of(batch[case])
        start = LENGTH - len(items)
        order = range(len(items)) if source is None else (source[start:] - start).tolist()
        odds = []
        for target in range(ITEMS):
            own = plain_weights(model, items, target)
            p = plain_probabilities(model, items, target, [own[slot] for slot in order])[0]
            odds.append(p / (1 - p))  # e to the power of its logit
        return [one / sum(odds) for one in odds]

    for case in range(CASES):
        p = probabilities(case)
        top = p.index(max(p))
        changed = [probabilities(case, source) for source in drawn[case]]
        wanted = [fmean(abs(q[item] - p[item]) for q in changed) for item in (top, case)]
        logs = [torch.tensor(one, dtype=torch.float64).log() for one in (p, *changed)]
        wanted.append(fmean(float(symmetrised_kl(logs[0], log_q)) for log_q in logs[1:]))
        if len(items_of(batch[case])) < 2:
            wanted = [np.nan] * 3
        values = [found.top[case], found.target[case], found.moved[case]]
        np.testing.assert_allclose(values, wanted, atol=1e-9)
        assert found.confidence[case] == pytest.approx(max(p))
    with pytest.raises(InputError, match="among 1 to 1, not"):
        attention_permutation(model, batch, blocks=[2], repeats=1)


@pytest.mark.parametrize("bins", [None, EqualMass(3)])
def test_change_by_confidence(model: Transformer, bins: Bins | None) -> None:
    """The fullest bin is as a mask has it."""
    batch = ragged_batch(40, LENGTH, ITEMS)
    found = attention_permutation(model, batch, repeats=2)
    line = found.by_confidence(bins, users=np.arange(40) // 2)
    known = ~np.isnan(found.top)
    assert line.count.sum() == known.sum()
    assert np.nansum(line.count * line.mean) == pytest.approx(found.top[known].sum())
    fullest = int(line.count.argmax())
    low, high = line.edges[fullest : fullest + 2]
    is_last = fullest == len(line.count) - 1
    below = found.confidence <= high if is_last else found.confidence < high
    inside = known & (found.confidence >= low) & below
    assert line.count[fullest] == inside.sum() > 0
    assert line.mean[fullest] == pytest.approx(found.top[inside].mean())
    assert line.users.max() <= 20
    assert line.protocol.startswith("|Δ probability| of the top item; 2 shuffles")


def test_only_parts_change_places() -> None:
    """Every shuffle is one of the parts; over many, every part has been everywhere alike."""
    model, batch = lively_sasrec(), ragged_batch(8, 8, ITEMS)
    drawn = drawn_by(model, batch, 600)
    for case in range(8):
        parts = batch[case] != PAD
        slots = torch.arange(8)
        assert (drawn[case].sort(dim=1).values == slots).all()
        assert (drawn[case][:, ~parts] == slots[~parts]).all()
        count = int(parts.sum())
        for slot in parts.nonzero()[:, 0].tolist():
            often = torch.bincount(drawn[case, :, slot], minlength=8)[parts] / 600
            assert (often - 1 / count).abs().max() < 0.09


class Pooling(Explainable):
    """One row of weights over the items' embeddings, and a slot of its own after them."""

    removal = "dropped"

    def __init__(self, sharpness: float) -> None:
        generator = torch.Generator().manual_seed(0)
        self.table = torch.randn(ITEMS, 4, generator=generator, dtype=torch.float64)
        self.sharpness = sharpness

    def parts(self, batch: torch.Tensor) -> torch.Tensor:
        return batch != PAD

    def attentions(
        self, batch: torch.Tensor, targets: torch.Tensor | None = None
    ) -> list[torch.Tensor]:
        logits = self.sharpness * torch.arange(batch.shape[1], dtype=torch.float64)
        logits = logits.expand(batch.shape).masked_fill(batch == PAD, -torch.inf)
        own = torch.zeros(len(batch), 1, dtype=torch.float64)
        return [torch.cat((logits, own), dim=1).softmax(dim=1)[:, None, None]]

    def score(
        self,
        batch: torch.Tensor,
        targets: torch.Tensor | All,
        *,
        present: torch.Tensor | None = None,
        embedded: torch.Tensor | None = None,
        attention: Sequence[torch.Tensor | None] | None = None,
    ) -> torch.Tensor:
        (weights,) = attention or self.attentions(batch)
        assert weights is not None
        row = weights[:, 0, 0]
        assert (row[:, :-1][batch == PAD] == 0).all(), "padding has no weight"
        pooled = (row[:, :-1, None] * self.table[batch.clamp(min=0)]).sum(dim=1) + row[:, -1:]
        return pooled @ self.table.T


def test_uniform_attention_can_be_shuffled_at_will() -> None:
    batch = ragged_batch(10, LENGTH, ITEMS)
    even = attention_permutation(Pooling(0.0), batch, repeats=9)
    for measure in (even.top_measure(), even.divergence_measure()):
        assert measure.value == pytest.approx(0, abs=1e-12)
        assert measure.direction == "higher is better"
    uneven = attention_permutation(Pooling(1.0), batch, repeats=9)
    assert uneven.top_measure().interval[0] > 0.01
    assert uneven.divergence_measure().value > 0.01
    assert uneven.top_measure().n == int(((batch != PAD).sum(dim=1) > 1).sum())


def test_a_batch_equals_its_loop_and_little_memory_the_whole(model: Transformer) -> None:
    batch, targets = ragged_batch(CASES, LENGTH, ITEMS), torch.arange(CASES)
    whole = attention_permutation(model, batch, targets, repeats=REPEATS)

    def same(found: AttentionPermutation, cases: slice) -> None:
        assert found.target is not None
        assert whole.target is not None
        np.testing.assert_allclose(found.top, whole.top[cases], atol=1e-9)
        np.testing.assert_allclose(found.target, whole.target[cases], atol=1e-9)
        np.testing.assert_allclose(found.moved, whole.moved[cases], atol=1e-9)
        np.testing.assert_allclose(found.confidence, whole.confidence[cases], atol=1e-9)

    for memory in (1, 20_000, 300_000):
        found = attention_permutation(model, batch, targets, repeats=REPEATS, memory=memory)
        same(found, slice(None))
    for case in range(CASES):
        one = slice(case, case + 1)
        same(attention_permutation(model, batch[one], targets[one], repeats=REPEATS), one)


def test_the_seed_decides_the_shuffles(model: Transformer) -> None:
    batch = ragged_batch(CASES, LENGTH, ITEMS)
    one, same, other = (
        attention_permutation(model, batch, repeats=2, seed=seed).moved for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other, equal_nan=True)


def test_what_cannot_be_shuffled_is_refused() -> None:
    model, batch = lively_sasrec(), ragged_batch(4, 8, ITEMS)
    for blocks in ([], [0], [1, 3]):
        with pytest.raises(InputError, match="among 1 to 2, not"):
            attention_permutation(model, batch, blocks=blocks)
    with pytest.raises(InputError, match="repeats must be at least 1, not 0"):
        attention_permutation(model, batch, repeats=0)
    with pytest.raises(InputError, match=r"must be \[4\], one per case, not \[3\]"):
        attention_permutation(model, batch, torch.arange(3))
    with pytest.raises(InputError, match="numbers from 0 to 29"):
        attention_permutation(model, batch, torch.arange(4) + 28, repeats=1)
    with pytest.raises(InputError, match="There are no targets"):
        attention_permutation(model, batch, repeats=1).target_measure()
    with pytest.raises(InputError, match="two parts"):
        attention_permutation(model, torch.tensor([[PAD, 3]]), repeats=1).top_measure()
    with pytest.raises(CapabilityError, match="has no 'parts', which attention permutation"):
        attention_permutation(NO_MODEL, batch)


@pytest.mark.needs("cuda")
def test_on_a_gpu(model: Transformer) -> None:
    batch = ragged_batch(CASES, LENGTH, ITEMS)
    here = attention_permutation(model, batch, repeats=REPEATS)
    there = attention_permutation(model.cuda(), batch.cuda(), repeats=REPEATS)
    np.testing.assert_allclose(there.top, here.top, atol=1e-6)
    np.testing.assert_allclose(there.moved, here.moved, atol=1e-6)
