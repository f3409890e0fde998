"""BERT4Rec against a plain one that computes one whole padded history at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from conftest import lively_bert4rec, pack, ragged_batch
from whence.contract import ALL, PAD
from whence.errors import InputError
from whence.models.bert4rec import BERT4Rec, BERT4RecConfig
from whence.models.tasks import Batch
from whence.randomness import Randomness, no_dropout

MASK = -2
"""Stands for the mask in a history."""


def plain_bert4rec(model: BERT4Rec, history: list[int], hidden: set[int]) -> torch.Tensor:
    """`[n, d]`: the rows of all slots, padding first; the columns of hidden slots are masked."""
    w = dict(model.named_parameters())
    n, d, h = model.config.max_len + 1, model.config.dim, model.config.n_heads
    padding = n - len(history)
    rows = torch.zeros(n, d, dtype=torch.float64)
    for slot, item in enumerate(history, start=padding):
        rows[slot] = (w["mask"] if item == MASK else w["item"][item + 1]) + w["position"][slot]
    seen = torch.tensor([slot >= padding and slot - padding not in hidden for slot in range(n)])
    for depth in range(model.config.n_blocks):
        b = {name: w[f"blocks.{depth}.{name}"] for name in dict(model.blocks[0].named_parameters())}
        heads = []
        for cut in torch.arange(d).chunk(h):
            q, k, v = (rows @ b[f"{name}.weight"][cut].T for name in ("query", "key", "value"))
            logits = (q @ k.T / (d / h) ** 0.5).masked_fill(~seen, -torch.inf)
            heads.append(logits.softmax(dim=1) @ v)
        g = torch.cat(heads, dim=1) @ b["output.weight"].T + rows
        inner = F.layer_norm(g, (d,), b["inner_norm.weight"], b["inner_norm.bias"])
        ffn = F.leaky_relu(F.linear(inner, b["expand.weight"], b["expand.bias"]), 0.01)
        ffn = F.linear(ffn, b["contract.weight"], b["contract.bias"])
        rows = F.layer_norm(ffn + g, (d,), b["outer_norm.weight"], b["outer_norm.bias"])
    return rows


@pytest.mark.parametrize(("blocks", "heads"), [(1, 1), (2, 1), (3, 1), (2, 2)])
def test_equals_the_plain_one(blocks: int, heads: int) -> None:
    model = lively_bert4rec(blocks, heads)
    rng = np.random.default_rng(blocks + heads)
    for size in (1, 2, 5, 8):
        history = rng.integers(0, 30, size).tolist()
        some = {slot for slot in range(size) if rng.random() < 0.4}
        for hidden in (set[int](), some, set(range(size))):
            present = torch.tensor([[slot not in hidden for slot in range(size)]])
            found = model.score(torch.tensor([history]), ALL, present=present)[0]
            answering = plain_bert4rec(model, [*history, MASK], hidden)[-1]
            torch.testing.assert_close(found, model.item[1:] @ answering)


def test_its_own_slot_comes_last_in_rows_and_columns() -> None:
    model, batch = lively_bert4rec(blocks=3), ragged_batch(6, 8, 30)
    for weights in model.attentions(batch):
        assert weights.shape == (6, 2, 9, 9)
        assert (weights[..., -1].amin(dim=1)[:, -1] > 0).all()
        rows = weights[:, :, :8][(batch != PAD)[:, None].expand(-1, 2, -1)]
        torch.testing.assert_close(rows.sum(-1), torch.ones_like(rows[:, 0]))


def test_the_newest_item_has_the_last_position_but_one() -> None:
    model, batch = lively_bert4rec(), torch.tensor([[4, 9, 2]])
    before = model.score(batch, ALL)
    with torch.no_grad():
        model.position[:5] += 1
    torch.testing.assert_close(model.score(batch, ALL), before)
    for row in (5, 6, 7, 8):
        with torch.no_grad():
            model.position[row] += 1
        assert not torch.allclose(model.score(batch, ALL), before)
        before = model.score(batch, ALL)


def test_an_absent_item_leaves_no_trace() -> None:
    """Nothing of it is left, the newest included: the answering slot is not its own."""
    model = lively_bert4rec()
    present = torch.tensor([[True, False, True, False]])
    one, other = (
        model.score(torch.tensor([history]), ALL, present=present)
        for history in ([4, 9, 2, 7], [4, 21, 2, 3])
    )
    torch.testing.assert_close(one, other)


def test_every_row_sees_what_comes_after_it() -> None:
    model, batch = lively_bert4rec(), ragged_batch(4, 8, 30)
    changed = batch.clone()
    changed[:, -1] = (changed[:, -1] + 1) % 30
    (rows, _), (again, _) = model.encode(batch), model.encode(changed)
    same = torch.isclose(rows, again).all(dim=-1)
    assert torch.equal(same, F.pad(batch == PAD, (0, 1)))


def test_initial_weights_and_their_number() -> None:
    """Items, positions and the mask, then per block 4 d² + 2 (d² + d) + 4 d."""
    model = BERT4Rec(BERT4RecConfig(), 1000, Randomness(1).torch("init"))
    d = 64
    expected = (1001 + 50 + 1) * d + 2 * (4 * d * d + 2 * (d * d + d) + 4 * d)
    assert sum(parameter.numel() for parameter in model.parameters()) == expected
    assert (model.item[0] == 0).all()
    assert model.mask.std().item() == pytest.approx(0.02, rel=0.3)


def test_parts_cannot_be_removed_from_given_attention() -> None:
    model, batch = lively_bert4rec(), ragged_batch(2, 8, 30)
    with pytest.raises(InputError, match="cannot be removed"):
        model.score(batch, ALL, present=batch != PAD, attention=model.attentions(batch))


def test_attention_of_some_blocks_can_be_given() -> None:
    model, batch = lively_bert4rec(), ragged_batch(4, 8, 30)
    first, second = model.attentions(batch)
    for given in ([first, None], [None, second], [None, None]):
        torch.testing.assert_close(
            model.score(batch, ALL, attention=given), model.score(batch, ALL)
        )


def masked_batch(
    cases: int, negatives: bool = False, seed: int = 0
) -> tuple[list[list[int]], Batch]:
    """Histories of up to 9 items, some of which are hidden, and the same as training packs them."""
    rng = np.random.default_rng(seed)
    histories, rows, right = [], [], []
    padded = torch.full((cases, 9), PAD)
    place = 0
    for case in range(cases):
        history = rng.integers(0, 30, rng.integers(1, 10)).tolist()
        hidden = np.flatnonzero(rng.random(len(history)) < 0.4).tolist() or [0]
        rows += [place + slot for slot in hidden]
        right += [history[slot] for slot in hidden]
        place += len(history)
        padded[case, -len(history) :] = torch.tensor(history)
        histories.append([MASK if n in hidden else item for n, item in enumerate(history)])
    packed = pack(padded)
    items = packed.items.clone()
    items[rows] = PAD
    positives = torch.tensor([*right, PAD])  # the last is filling
    return histories, Batch(
        packed._replace(items=items),
        positives,
        (positives + 7) % 30 if negatives else None,
        torch.tensor([*rows, 0]),
    )


def plain_logits(model: BERT4Rec, histories: list[list[int]]) -> torch.Tensor:
    """`[M, I]`: of every mask, in order."""
    answers = []
    for history in histories:
        rows = plain_bert4rec(model, history, set())[-len(history) :]
        answers += [rows[slot] for slot, item in enumerate(history) if item == MASK]
    return torch.stack(answers) @ model.item[1:].T


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("cases", [1, 2, 5, 40])
def test_the_loss_and_its_gradients_equal_the_plain_ones(heads: int, cases: int) -> None:
    """Whatever window a history falls into; where the input has a mask, the table learns twice."""
    model = lively_bert4rec(heads=heads)
    histories, batch = masked_batch(cases, seed=cases)
    expected = F.cross_entropy(plain_logits(model, histories), batch.positives[:-1])
    found = model.loss(batch, no_dropout)
    torch.testing.assert_close(found, expected)
    weights = list(model.parameters())
    gradients = torch.autograd.grad(found, weights)
    torch.testing.assert_close(gradients, torch.autograd.grad(expected, weights))
    assert (gradients[0][0] == 0).all(), "padding learns nothing"


def test_the_sampled_loss_is_that_of_one_negative() -> None:
    model = lively_bert4rec(loss="bce")
    histories, batch = masked_batch(6, negatives=True)
    assert batch.negatives is not None
    logits = plain_logits(model, histories)
    positive, negative = (
        logits.gather(1, items[:-1, None]) for items in (batch.positives, batch.negatives)
    )
    scores = torch.cat((positive, negative))
    labels = torch.cat((torch.ones_like(positive), torch.zeros_like(negative)))
    expected = 2 * F.binary_cross_entropy_with_logits(scores, labels)
    torch.testing.assert_close(model.loss(batch, no_dropout), expected)


@pytest.mark.parametrize(
    "settings", [{"mask_prob": -0.1}, {"mask_prob": 1.1}, {"last_mask_prob": 2.0}]
)
def test_impossible_shares_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(InputError, match="shares from 0 to 1"):
        BERT4RecConfig(**settings)  # type: ignore[arg-type]
