"""eSASRec against a plain one that computes one whole padded history at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from conftest import lively_esasrec, pack, ragged_batch
from whence.contract import ALL, PAD
from whence.errors import InputError
from whence.models.esasrec import ESASRec, ESASRecConfig
from whence.models.tasks import Batch
from whence.randomness import Randomness, no_dropout


def plain_esasrec(model: ESASRec, history: list[int], present: list[bool]) -> torch.Tensor:
    """`[n, d]`: the rows of a history that score items, one row and one head at a time."""
    w = dict(model.named_parameters())
    d, h, count = model.config.dim, model.config.n_heads, len(history)
    first = model.config.max_len - count
    rows = torch.stack(
        [w["item"][1 + item] + w["position"][first + slot] for slot, item in enumerate(history)]
    )
    for depth in range(model.config.n_blocks):
        b = {name: w[f"blocks.{depth}.{name}"] for name in dict(model.blocks[0].named_parameters())}
        new_rows = []
        normal = F.layer_norm(rows, (d,), b["attention_norm.weight"], b["attention_norm.bias"])
        for i in range(count):
            seen = [j for j in range(i + 1) if present[j]]
            heads = []
            for cut in torch.arange(d).chunk(h):
                q, k, v = (
                    normal @ b[f"{name}.weight"][cut].T for name in ("query", "key", "value")
                )
                weights = (k[seen] @ q[i] / (d / h) ** 0.5).softmax(dim=0)
                heads.append(weights @ v[seen] if seen else torch.zeros(d // h).double())
            found = b["output.weight"] @ torch.cat(heads)
            gate = 1 / (
                1 + (-(b["attention_gate.weight"] @ rows[i] + b["attention_gate.bias"])).exp()
            )
            g = rows[i] + gate * found
            inner = F.layer_norm(g, (d,), b["ffn_norm.weight"], b["ffn_norm.bias"])
            switch, hidden = b["switch.weight"] @ inner, b["expand.weight"] @ inner
            ffn = b["contract.weight"] @ (switch / (1 + (-switch).exp()) * hidden)
            gate = 1 / (1 + (-(b["ffn_gate.weight"] @ g + b["ffn_gate.bias"])).exp())
            new_rows.append(g + gate * ffn)
        rows = torch.stack(new_rows)
    return F.layer_norm(rows, (d,), w["norm.weight"], w["norm.bias"])


@pytest.mark.parametrize(("blocks", "heads"), [(1, 1), (2, 1), (3, 1), (2, 2)])
def test_equals_the_plain_one(blocks: int, heads: int) -> None:
    model = lively_esasrec(blocks, heads)
    rng = np.random.default_rng(blocks + heads)
    for size in (1, 2, 5, 8):
        history = rng.integers(0, 30, size).tolist()
        some = (rng.random(size) < 0.6).tolist()
        for present in ([True] * size, some, [False] * size):
            found = model.score(torch.tensor([history]), ALL, present=torch.tensor([present]))[0]
            answering = plain_esasrec(model, history, present)[-1]
            torch.testing.assert_close(found, model.item[1:] @ answering)


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("cases", [1, 2, 5, 40])
def test_the_packed_loss_and_its_gradients_equal_the_plain_ones(heads: int, cases: int) -> None:
    """Whatever window a history falls into."""
    model, padded = lively_esasrec(heads=heads), ragged_batch(cases, 8, 30, seed=cases)
    packed = pack(padded)
    positives = torch.where(packed.real, (packed.items * 7 + packed.slots) % 30, PAD)
    found = model.loss(Batch(packed, positives), no_dropout)
    histories = [[item for item in row if item != PAD] for row in padded.tolist()]
    rows = torch.cat([plain_esasrec(model, one, [True] * len(one)) for one in histories])
    expected = F.cross_entropy(rows @ model.item[1:].T, positives[packed.real])
    torch.testing.assert_close(found, expected)
    weights = list(model.parameters())
    gradients = torch.autograd.grad(found, weights)
    torch.testing.assert_close(gradients, torch.autograd.grad(expected, weights))
    assert (gradients[0][0] == 0).all(), "padding learns nothing"


@pytest.mark.parametrize("heads", [1, 2])
def test_absent_items_of_packed_histories_are_those_of_present(heads: int) -> None:
    model, padded = lively_esasrec(heads=heads), ragged_batch(9, 8, 30)
    packed = pack(padded)
    present = torch.arange(len(packed.items)) % 3 != 0
    inputs = model.packed_inputs(
        model.embed(packed.items), packed._replace(present=present), no_dropout
    )
    found = model.encode_packed(inputs, packed._replace(present=present), no_dropout)
    where = torch.ones_like(padded, dtype=torch.bool)
    where[padded != PAD] = present[packed.real]
    rows, _ = model.encode(padded, present=where)
    torch.testing.assert_close(found[packed.real], rows[padded != PAD])


def test_attention_has_every_block_and_head() -> None:
    model, batch = lively_esasrec(blocks=3, heads=2), ragged_batch(6, 8, 30)
    found = model.attentions(batch)
    assert [one.shape for one in found] == [(6, 2, 8, 8)] * 3
    given = [found[0], None, found[2]]
    torch.testing.assert_close(model.score(batch, ALL, attention=given), model.score(batch, ALL))


def test_a_closed_gate_adds_nothing() -> None:
    """What is left is the normalized row of the newest item."""
    model, batch = lively_esasrec(), ragged_batch(4, 8, 30)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("_gate.weight"):
                weight.zero_()
            if name.endswith("_gate.bias"):
                weight.fill_(-1e6)
    rows = model.norm(model.embed(batch)[:, -1] + model.position[-1])
    torch.testing.assert_close(model.score(batch, ALL), rows @ model.item[1:].T)


def test_initial_weights_and_their_number() -> None:
    """Items and positions, then per block 4 d² + 2 (d² + d) + 3 · 4 d² + 4 d, and the last norm."""
    model = ESASRec(ESASRecConfig(), 1000, Randomness(1).torch("init"))
    d = 64
    expected = (1001 + 50) * d + 2 * (4 * d * d + 2 * (d * d + d) + 12 * d * d + 4 * d) + 2 * d
    assert sum(parameter.numel() for parameter in model.parameters()) == expected
    again = ESASRec(ESASRecConfig(), 1000, Randomness(1).torch("init")).state_dict()
    assert all(torch.equal(value, again[name]) for name, value in model.state_dict().items())


def test_impossible_sizes_are_refused() -> None:
    with pytest.raises(InputError, match=r"^ff_factor must be at least 1, not 0\.$"):
        ESASRecConfig(ff_factor=0)
