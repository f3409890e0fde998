"""SASRec against a slow, obvious one written with loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from conftest import lively_sasrec, pack, ragged_batch
from whence.contract import ALL, PAD
from whence.errors import InputError
from whence.models.blocks import Block
from whence.models.lookup import look_up
from whence.models.sasrec import SASRec, SASRecConfig
from whence.randomness import Randomness, no_dropout

Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def layer_norm(row: Array, weight: Array, bias: Array) -> Array:
    centred = row - row.mean()
    normed: Array = centred / math.sqrt((centred**2).mean() + 1e-5) * weight + bias
    return normed


def slow_sasrec(model: SASRec, history: list[int], present: list[bool]) -> Array:
    """All items' scores, one row, one head and one pair of positions at a time."""
    config = model.config
    weights = {name: value.detach().numpy() for name, value in model.state_dict().items()}

    def layer(w: dict[str, Array], name: str, row: Array) -> Array:
        out: Array = w[f"{name}.weight"] @ row
        return out + w[f"{name}.bias"] if f"{name}.bias" in w else out

    count = len(history)
    rows = [
        weights["item"][item + 1] + weights["position"][config.max_len - count + slot]
        for slot, item in enumerate(history)
    ]
    size = config.dim // config.n_heads
    for depth in range(config.n_blocks):
        w = {
            name.removeprefix(f"blocks.{depth}."): value
            for name, value in weights.items()
            if name.startswith(f"blocks.{depth}.")
        }
        new_rows = []
        for i in range(count):
            heads = []
            for head in range(config.n_heads):
                cut = slice(head * size, (head + 1) * size)
                visible = [j for j in range(i + 1) if present[j]]
                query = layer(w, "query", rows[i])[cut]
                logits = [query @ layer(w, "key", rows[j])[cut] / math.sqrt(size) for j in visible]
                exps = [math.exp(logit - max(logits)) for logit in logits]
                mixed = np.zeros(size)
                for j, exp in zip(visible, exps, strict=True):
                    mixed += exp / sum(exps) * layer(w, "value", rows[j])[cut]
                heads.append(mixed)
            g = layer(w, "output", np.concatenate(heads)) + rows[i]
            inner = layer_norm(g, w["inner_norm.weight"], w["inner_norm.bias"])
            hidden = layer(w, "expand", inner)
            hidden = np.where(hidden > 0, hidden, 0.01 * hidden)
            ffn = layer(w, "contract", hidden)
            new_rows.append(layer_norm(ffn + g, w["outer_norm.weight"], w["outer_norm.bias"]))
        rows = new_rows
    scores: Array = weights["item"][1:] @ rows[-1]
    return scores


@pytest.mark.parametrize("bias", [False, True], ids=["no biases", "biases"])
@pytest.mark.parametrize(("blocks", "heads"), [(1, 1), (2, 1), (3, 1), (2, 2)])
def test_equals_the_slow_one(blocks: int, heads: int, bias: bool) -> None:
    model = lively_sasrec(blocks, heads, attention_bias=bias)
    rng = np.random.default_rng(blocks + heads)
    for size in (1, 2, 5, 8):
        history = rng.integers(0, 30, size).tolist()
        present = (rng.random(size) < 0.6).tolist()
        for presence in ([True] * size, present, [False] * size):
            found = model.score(torch.tensor([history]), ALL, present=torch.tensor([presence]))
            expected = slow_sasrec(model, history, presence)
            np.testing.assert_allclose(found.detach().numpy()[0], expected, rtol=1e-9)


def test_masking_a_column_is_dropping_the_item_and_keeping_its_position() -> None:
    """An absent item before the newest leaves no trace, whatever item it was."""
    model = lively_sasrec()
    one, other = torch.tensor([[4, 9, 2, 7]]), torch.tensor([[4, 21, 2, 7]])
    present = torch.tensor([[True, False, True, True]])
    with_one, with_other = (model.score(b, ALL, present=present) for b in (one, other))
    torch.testing.assert_close(with_one, with_other)
    assert not torch.allclose(model.score(one, ALL), model.score(other, ALL))


def test_the_newest_item_answers_even_when_absent() -> None:
    model = lively_sasrec()
    nothing = torch.zeros(1, 3, dtype=torch.bool)
    one = model.score(torch.tensor([[4, 9, 2]]), ALL, present=nothing)
    same = model.score(torch.tensor([[8, 1, 2]]), ALL, present=nothing)
    other = model.score(torch.tensor([[4, 9, 3]]), ALL, present=nothing)
    torch.testing.assert_close(one, same)
    assert not torch.allclose(one, other)


def test_no_row_sees_the_future() -> None:
    model, batch = lively_sasrec(), ragged_batch(4, 8, 30)
    rows, _ = model.encode(batch)
    changed = batch.clone()
    changed[:, -1] = (changed[:, -1] + 1) % 30
    again, _ = model.encode(changed)
    torch.testing.assert_close(rows[:, :-1], again[:, :-1])
    assert not torch.allclose(rows[:, -1], again[:, -1])


def test_a_masked_top_logit_does_not_underflow() -> None:
    """Without the item that had all the attention, the others share it."""
    block = Block(2, 1).double()
    with torch.no_grad():
        for layer in (block.query, block.key):
            layer.weight.copy_(torch.eye(2))
    rows = torch.tensor([[[40.0, 0], [1, 0], [2, 0], [30, 0]]], dtype=torch.float64)
    visible = torch.tensor([[[[False, True, True, False]]]]).expand(1, 1, 4, 4)
    weights = block.attention(rows, visible)[0, 0, -1]
    assert weights.sum().item() == pytest.approx(1.0)
    assert weights[0] == weights[3] == 0


@pytest.mark.parametrize("bias", [False, True], ids=["no biases", "biases"])
@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("cases", [1, 2, 5, 40])
def test_packed_histories_score_as_padded_ones(heads: int, cases: int, bias: bool) -> None:
    """At every item and for every weight's gradient, whatever window it falls into."""
    model = lively_sasrec(heads=heads, attention_bias=bias)
    batch = ragged_batch(cases, 8, 30, seed=cases)
    packed = pack(batch)
    generator = torch.Generator().manual_seed(0)
    targets = torch.randint(0, 30, (len(packed.items), 2), generator=generator)
    rows, _ = model.encode(batch)
    padded = (model.embed(targets[packed.real]) @ rows[batch != PAD][:, :, None]).squeeze(-1)
    inputs = model.packed_inputs(look_up(model.item, packed.items), packed, no_dropout)
    answers = model.encode_packed(inputs, packed, no_dropout)[packed.real]
    found = (model.embed(targets[packed.real]) @ answers[:, :, None]).squeeze(-1)
    torch.testing.assert_close(found, padded)
    weights = list(model.parameters())
    mix = torch.randn(found.shape, dtype=found.dtype, generator=generator)
    expected = torch.autograd.grad((padded * mix).sum(), weights)
    torch.testing.assert_close(torch.autograd.grad((found * mix).sum(), weights), expected)


def test_initial_weights_follow_the_seed_alone() -> None:
    def build(seed: int) -> SASRec:
        return SASRec(SASRecConfig(), 50, Randomness(seed).torch("init"))

    one, same, other = build(1).state_dict(), build(1).state_dict(), build(2).state_dict()
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not torch.equal(one["item"], other["item"])
    assert (one["item"][0] == 0).all()
    assert one["item"][1:].std().item() == pytest.approx(0.02, rel=0.05)


def test_parameter_count() -> None:
    """Items and positions, then per block 4 d² + 2 (d² + d) + 4 d."""
    model = SASRec(SASRecConfig(max_len=50, dim=64, n_blocks=2), 1000, torch.Generator())
    d = 64
    expected = (1001 + 50) * d + 2 * (4 * d * d + 2 * (d * d + d) + 4 * d)
    assert sum(parameter.numel() for parameter in model.parameters()) == expected


@pytest.mark.parametrize(
    "settings",
    [{"n_heads": 3}, {"n_blocks": 0}, {"dropout": 1.0}, {"dropout": -0.1}, {"max_len": 0}],
)
def test_impossible_sizes_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(InputError):
        SASRecConfig(**settings)  # type: ignore[arg-type]


def test_parts_cannot_be_removed_from_given_attention() -> None:
    model, batch = lively_sasrec(), ragged_batch(2, 8, 30)
    with pytest.raises(InputError, match="cannot be removed"):
        model.score(batch, ALL, present=batch != PAD, attention=model.attentions(batch))
