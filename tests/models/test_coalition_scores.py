"""Shared work between coalitions changes no score."""

from __future__ import annotations

from collections import OrderedDict

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from conftest import TRANSFORMERS, lively_sasrec
from whence.contract import PAD, Explainable
from whence.models import Recommender, coalition_plans, coalition_scores
from whence.models.blocks import Block
from whence.models.coalition_plans import CoalitionPlan, plan_rows

ITEMS = 30


def one_by_one(model: Recommender, batch: Tensor, targets: Tensor, coalitions: Tensor) -> Tensor:
    """The contract's default, which repeats the history for each coalition."""
    return Explainable.score_coalitions(model, batch, targets, coalitions)


def some_coalitions(count: int, slots: int, seed: int = 0) -> Tensor:
    """Return coalitions of all sizes: the empty and the full one, and one twice."""
    generator = torch.Generator().manual_seed(seed)
    share = torch.rand((count, 1), generator=generator)
    drawn = torch.rand((count, slots), generator=generator) < share
    drawn[0], drawn[1], drawn[2] = False, True, drawn[3]
    return drawn


@pytest.fixture(params=list(TRANSFORMERS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("bias", [False, True], ids=["no biases", "biases"])
@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("blocks", [1, 2, 3, 4])
def test_shared_coalitions_are_scored_as_one_by_one(
    name: str, blocks: int, heads: int, bias: bool
) -> None:
    model = TRANSFORMERS[name](
        items=ITEMS, length=12, blocks=blocks, heads=heads, attention_bias=bias
    )
    batch = torch.arange(36).view(3, 12) % ITEMS
    targets, coalitions = torch.tensor([1, 5, 9]), some_coalitions(60, 12)
    found = model.score_coalitions(batch, targets, coalitions)
    torch.testing.assert_close(found, one_by_one(model, batch, targets, coalitions))
    little = model.score_coalitions(batch, targets, coalitions, memory=2**16)
    torch.testing.assert_close(little, found)
    each_its_own = coalitions.expand(3, -1, -1)
    torch.testing.assert_close(model.score_coalitions(batch, targets, each_its_own), found)


@given(
    drawn=st.integers(1, 5).flatmap(
        lambda slots: st.lists(
            st.lists(st.booleans(), min_size=slots, max_size=slots), min_size=1, max_size=9
        )
    ),
    blocks=st.integers(1, 3),
)
@pytest.mark.parametrize("model_name", list(TRANSFORMERS))
def test_any_coalitions_are_scored_as_one_by_one(
    model_name: str, drawn: list[list[bool]], blocks: int
) -> None:
    model = TRANSFORMERS[model_name](items=ITEMS, length=8, blocks=blocks)
    coalitions = torch.tensor(drawn)
    batch = torch.tensor([[4, 1, 4, 9, 2]])[:, : coalitions.shape[1]]
    targets = torch.tensor([7])
    found = model.score_coalitions(batch, targets, coalitions)
    torch.testing.assert_close(found, one_by_one(model, batch, targets, coalitions))


@pytest.mark.parametrize("rows_of_a_slot", [0, 10**9], ids=["by slot", "by row"])
@pytest.mark.parametrize("near", [7, 10**9], ids=["few at a time", "all at once"])
@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("bias", [False, True], ids=["no biases", "biases"])
def test_every_way_to_compute_rows_gives_the_same_scores(
    name: str,
    bias: bool,
    heads: int,
    near: int,
    rows_of_a_slot: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(coalition_scores, "ROWS_OF_A_SLOT", rows_of_a_slot)
    monkeypatch.setattr(coalition_scores, "ROWS_IN_CACHE", near)
    model = TRANSFORMERS[name](items=ITEMS, length=9, blocks=3, heads=heads, attention_bias=bias)
    batch = torch.arange(18).view(2, 9) % ITEMS
    targets, coalitions = torch.tensor([1, 5]), some_coalitions(40, 9)
    found = model.score_coalitions(batch, targets, coalitions)
    torch.testing.assert_close(found, one_by_one(model, batch, targets, coalitions))


def test_histories_longer_than_an_integer_has_bits(name: str) -> None:
    model = TRANSFORMERS[name](items=ITEMS, length=70, blocks=3)
    batch, targets = torch.arange(70)[None] % ITEMS, torch.tensor([3])
    coalitions = some_coalitions(20, 70)
    found = model.score_coalitions(batch, targets, coalitions)
    torch.testing.assert_close(found, one_by_one(model, batch, targets, coalitions))


def test_a_hidden_item_that_took_all_the_weight_leaves_the_others_theirs() -> None:
    model = lively_sasrec(items=ITEMS, length=8, blocks=2).float()
    with torch.no_grad():
        block = model.blocks[0]
        assert isinstance(block, Block)
        block.query.weight.mul_(400)
    batch, targets = torch.arange(8)[None], torch.tensor([3])
    logits = model.attentions(batch)[0][0, 0, -1]
    assert (logits == 0).any(), "weights this far apart are 0 in float32"
    coalitions = ~torch.eye(8, dtype=torch.bool)
    found = model.score_coalitions(batch, targets, coalitions)
    expected = one_by_one(model, batch, targets, coalitions)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)


def test_padding_changes_nothing(name: str) -> None:
    model = TRANSFORMERS[name](items=ITEMS, length=8)
    padded = torch.tensor([[PAD, PAD, 3, 4, 5], [PAD, PAD, 6, 7, 3]])
    targets, coalitions = torch.tensor([1, 2]), some_coalitions(10, 5)
    found = model.score_coalitions(padded, targets, coalitions)
    bare = model.score_coalitions(padded[:, 2:], targets, coalitions[:, 2:])
    torch.testing.assert_close(found, bare)
    ragged = torch.tensor([[PAD, PAD, 3, 4, 5], [PAD, 1, 6, 7, 3]])
    found = model.score_coalitions(ragged, targets, coalitions)
    torch.testing.assert_close(found, one_by_one(model, ragged, targets, coalitions))


def test_coalitions_with_the_same_start_share_rows() -> None:
    chain = torch.ones(6, 6, dtype=torch.bool).tril()  # each starts with all of those before it
    order = torch.arange(6)
    assert plan_rows(chain, order, causal=True, blocks=2).size == 5 + 6
    assert plan_rows(chain, order, causal=False, blocks=2).size == 1 + 2 + 3 + 4 + 5 + 5 + 6
    assert plan_rows(chain, order, causal=True, blocks=1).size == 6


def test_equal_coalitions_are_computed_once() -> None:
    twice = torch.tensor([[True, False, True], [False, True, True], [True, False, True]])
    plan = plan_rows(twice, torch.tensor([1, 0, 2]), causal=True, blocks=1)
    assert plan.answers == 2
    assert plan.answered[1] == plan.answered[2] != plan.answered[0]


def test_no_coalitions_have_no_scores(name: str) -> None:
    model = TRANSFORMERS[name](items=ITEMS, length=8)
    batch, nothing = torch.arange(8)[None], torch.zeros(0, 8, dtype=torch.bool)
    for coalitions in (nothing, nothing[None]):
        found = model.score_coalitions(batch, torch.tensor([3]), coalitions)
        assert found.shape == (1, 0)
        assert found.is_floating_point()


def test_changed_coalitions_get_a_new_plan(name: str) -> None:
    model = TRANSFORMERS[name](items=ITEMS, length=8)
    batch, targets = torch.arange(8)[None], torch.tensor([3])
    coalitions = some_coalitions(6, 8)
    model.score_coalitions(batch, targets, coalitions)
    coalitions.numpy()[:, 3] ^= True  # unseen by PyTorch
    found = model.score_coalitions(batch, targets, coalitions)
    torch.testing.assert_close(found, one_by_one(model, batch, targets, coalitions))


@pytest.mark.parametrize("name", ["sasrec", "bert4rec"])  # gated blocks share no work
def test_plans_are_cached_within_the_memory_limit(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ones last used; one that is larger than all the room is kept alone."""
    kept: OrderedDict[tuple[object, ...], tuple[CoalitionPlan, int]] = OrderedDict()
    monkeypatch.setattr(coalition_plans, "_cache", kept)
    model = TRANSFORMERS[name](items=ITEMS, length=12)
    asked = [some_coalitions(20, slots) for slots in range(5, 13)]

    def check(coalitions: Tensor) -> None:
        batch, targets = torch.arange(coalitions.shape[1])[None], torch.tensor([3])
        found = model.score_coalitions(batch, targets, coalitions)
        torch.testing.assert_close(found, one_by_one(model, batch, targets, coalitions))

    for coalitions in asked:
        check(coalitions)
    assert len(kept) == len(asked)
    sizes = [size for _, size in kept.values()]
    assert sizes == sorted(sizes)
    room = sum(sizes[-3:])
    monkeypatch.setattr(coalition_plans, "memory_for", lambda _: room)
    kept.clear()
    planned: list[Tensor] = []

    def plan(members: Tensor, which: Tensor, causal: bool, blocks: int) -> CoalitionPlan:
        planned.append(members)
        return plan_rows(members, which, causal, blocks)

    monkeypatch.setattr(coalition_plans, "plan_rows", plan)
    first = None
    for number, coalitions in enumerate(asked):
        check(coalitions)
        first = first or next(iter(kept))
        check(asked[0])
        assert sum(size for _, size in kept.values()) <= room
        assert list(kept)[-1] == first, "it was asked for again and again"
        assert len(kept) >= min(number + 1, 3)
    assert len(kept) < len(asked) == len(planned)
    monkeypatch.setattr(coalition_plans, "memory_for", lambda _: 1)
    kept.clear()
    for coalitions in asked:
        check(coalitions)
        assert len(kept) == 1
