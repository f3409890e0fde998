"""A dropped item leaves no trace: the model reads the shorter history, as if typed by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from conftest import LIVELY, READING, ragged_batch
from together import EVERY, TOGETHER
from whence import contract
from whence.contract import (
    ALL,
    ATTENTION_COLUMN,
    AVERAGES,
    DROPPED,
    PAD,
    ZEROED,
    All,
    Explainable,
    HasEmbeddings,
    offers,
    removals,
)
from whence.errors import InputError
from whence.explainers import compare_batch, explain_batch
from whence.models import Recommender
from whence.models.dropping import Dropping, packed, unless_own, with_removal
from whence.models.ensemble import Ensemble, Member

LENGTH, ITEMS = 8, 30
MODELS = {name: EVERY[name](length=LENGTH, items=ITEMS) for name in (*READING, *TOGETHER)}
BATCH = ragged_batch(6, LENGTH, ITEMS)
TARGETS = torch.arange(len(BATCH)) * 3


def shortened(history: list[int], present: list[bool]) -> Tensor:
    """Return what is left of one history as a batch of one, written out slot by slot."""
    kept = [item for item, stays in zip(history, present, strict=True) if stays and item != PAD]
    return torch.tensor([[PAD] * (len(history) - len(kept)) + kept])


def slow_scores(model: Explainable, batch: Tensor, targets: Tensor, coalitions: Tensor) -> Tensor:
    """Return `[B, c]`, coalition by coalition, each shortened history scored alone."""
    return torch.tensor(
        [
            [
                model.score(shortened(history, one), torch.tensor([[target]])).item()
                for one in of_case
            ]
            for history, target, of_case in zip(
                batch.tolist(), targets.tolist(), coalitions.tolist(), strict=True
            )
        ],
        dtype=torch.float64,
    )


def some_coalitions(count: int, *shape: int) -> Tensor:
    drawn = torch.rand((*shape, count, LENGTH), generator=torch.Generator().manual_seed(1)) < 0.6
    drawn[..., 0, :], drawn[..., 1, :] = True, False
    return drawn


histories = st.lists(st.integers(0, 5), min_size=1, max_size=LENGTH)
"""Of few items, so that most of them occur several times."""


@given(history=histories, data=st.data())
def test_packing_keeps_the_order_and_pads_on_the_left(
    history: list[int], data: st.DataObject
) -> None:
    padding = data.draw(st.integers(0, 3))
    row = [PAD] * padding + history
    present = data.draw(st.lists(st.booleans(), min_size=len(row), max_size=len(row)))
    batch, kept = torch.tensor([row]), torch.tensor([present])
    found = packed(batch, kept & (batch != PAD), PAD)
    assert torch.equal(found, shortened(row, present))
    vectors = torch.arange(1.0, 1 + 2 * len(row)).view(1, len(row), 2)
    left = [one for one, stays in zip(vectors[0].tolist(), present, strict=True) if stays]
    empty = [[0.0, 0.0]] * (len(row) - len(left))
    assert packed(vectors, kept, 0).tolist() == [empty + left]


@pytest.mark.parametrize("name", MODELS)
def test_coalitions_are_histories_written_without_the_others(name: str) -> None:
    """Also of the models that drop by themselves."""
    model = MODELS[name]
    dropping = with_removal(model, DROPPED)
    assert dropping.removal == DROPPED
    own, shared = some_coalitions(5, len(BATCH)), some_coalitions(5)
    for asked in (own, shared):
        expected = slow_scores(model, BATCH, TARGETS, asked.expand(len(BATCH), 5, LENGTH))
        found = dropping.score_coalitions(BATCH, TARGETS, asked)
        torch.testing.assert_close(found.double(), expected)
    one_each = own[:, 2]
    expected = slow_scores(model, BATCH, TARGETS, one_each[:, None])
    found = dropping.score(BATCH, TARGETS[:, None], present=one_each)
    torch.testing.assert_close(found.double(), expected)


@pytest.mark.parametrize("name", ["sasrec", "bert4rec", "blend", "ease"])
@given(history=histories, target=st.integers(0, ITEMS - 1))
def test_leaving_one_out_is_scoring_the_shorter_history(
    name: str, history: list[int], target: int
) -> None:
    """Slot by slot: another copy of the same item stays."""
    model, batch = MODELS[name], torch.tensor([history])
    found = explain_batch(model, batch, torch.tensor([target]), "leave-one-out", removal=DROPPED)
    asked = torch.tensor([[target]])
    full = model.score(batch, asked).item()
    expected = [
        full
        - model.score(torch.tensor([[PAD, *history[:slot], *history[slot + 1 :]]]), asked).item()
        for slot in range(len(history))
    ]
    torch.testing.assert_close(torch.from_numpy(found.scores[0]), torch.tensor(expected).double())
    assert found.removal == DROPPED


@pytest.mark.parametrize("name", MODELS)
def test_without_any_item_it_reads_an_empty_history(name: str) -> None:
    model = MODELS[name]
    found = explain_batch(model, BATCH, TARGETS, "random", removal=DROPPED)
    empty = model.score(torch.full_like(BATCH, PAD), TARGETS[:, None])[:, 0]
    torch.testing.assert_close(torch.from_numpy(found.empty_score), empty.double())
    assert np.isfinite(found.empty_score).all()


def test_probabilities_and_gradients_work_on_the_shorter_history() -> None:
    model = MODELS["sasrec"]
    dropping = with_removal(model, DROPPED)
    present = some_coalitions(3, len(BATCH))[:, 2]
    expected = torch.cat(
        [
            model.score(shortened(*row), ALL)
            for row in zip(BATCH.tolist(), present.tolist(), strict=True)
        ]
    )
    torch.testing.assert_close(dropping.score(BATCH, ALL, present=present), expected)
    assert isinstance(model, HasEmbeddings)
    embedded = model.embed(BATCH).detach().requires_grad_()
    found = dropping.score(BATCH, ALL, present=present, embedded=embedded)
    torch.testing.assert_close(found, expected)
    found[:, 7].sum().backward()
    assert embedded.grad is not None
    moved = embedded.grad.abs().sum(dim=-1) > 0
    assert torch.equal(moved, present & (BATCH != PAD))


def test_methods_that_only_read_do_not_change() -> None:
    methods = ["rollout", "attention", "gradient-norm", "integrated-gradients", "fading"]
    own = compare_batch(MODELS["sasrec"], BATCH, TARGETS, methods)
    dropped = compare_batch(MODELS["sasrec"], BATCH, TARGETS, methods, removal=DROPPED)
    for name, one in own.items():
        assert one.removal == ATTENTION_COLUMN
        assert (dropped[name].scores == one.scores).all()
        assert (dropped[name].empty_score != one.empty_score).all()


def test_its_own_removal_is_the_default_bit_for_bit() -> None:
    for name, model in MODELS.items():
        default = explain_batch(model, BATCH, TARGETS, "leave-one-out")
        named = explain_batch(model, BATCH, TARGETS, "leave-one-out", removal=model.removal)
        assert default.to_json() == named.to_json(), name


def recorded(model: Recommender, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Tensor, Tensor]]:
    """Return the batches and targets that the model scores from now on."""
    seen: list[tuple[Tensor, Tensor]] = []
    score: Callable[..., Tensor] = model.score

    def recording(batch: Tensor, targets: Tensor, **more: object) -> Tensor:
        assert not more, "what is dropped is not there, so nothing else need be hidden"
        seen.append((batch, targets))
        return score(batch, targets)

    monkeypatch.setattr(model, "score", recording)
    return seen


@pytest.mark.parametrize("memory", [2**29, 2**17, 1])
def test_what_is_left_is_scored_once_and_in_bounded_slices(
    memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = LIVELY["sasrec"](length=LENGTH, items=ITEMS)
    batch = torch.tensor([[PAD, PAD, 1, 2, 1, 1, 2, 1], [3, 4, 5, 6, 7, 8, 9, 3]])
    dropping, targets = with_removal(model, DROPPED), torch.tensor([2, 5])
    every = torch.tensor([[number >> slot & 1 for slot in range(LENGTH)] for number in range(256)])
    expected = slow_scores(model, batch, targets, every.bool().expand(2, -1, -1))
    seen = recorded(model, monkeypatch)
    found = dropping.score_coalitions(batch, targets, every.bool(), memory=memory)
    torch.testing.assert_close(found, expected)
    rows = [
        (*items, *target)
        for some, targets in seen
        for items, target in zip(some.tolist(), targets.tolist(), strict=True)
    ]
    assert len(rows) == len(set(rows))
    assert len([row for row in rows if row[-1] == 2]) < 2**6 / 2, "the copies are the same"
    assert max(len(some) for some, _ in seen) <= contract.inputs_at_once(LENGTH, memory)


def test_no_case_and_no_coalition() -> None:
    dropping = with_removal(MODELS["sasrec"], DROPPED)
    none = some_coalitions(3)[:0]
    assert dropping.score_coalitions(BATCH, TARGETS, none).shape == (len(BATCH), 0)
    assert dropping.score_coalitions(BATCH[:0], TARGETS[:0], some_coalitions(3)).shape == (0, 3)
    nothing = torch.full((2, LENGTH), PAD)
    found = dropping.score_coalitions(nothing, TARGETS[:2], some_coalitions(3))
    assert (found == found[:, :1]).all()


def test_which_removals_a_model_offers() -> None:
    offered = {name: removals(build()) for name, build in {**LIVELY, **TOGETHER}.items()}
    assert offered["sasrec"] == offered["bert4rec"] == (ATTENTION_COLUMN, DROPPED)
    assert offered["seeds"] == (ATTENTION_COLUMN, DROPPED)
    assert offered["blend"] == (f"{ATTENTION_COLUMN} + {ZEROED}", DROPPED)
    assert offered["recent-ease"] == (ZEROED, DROPPED)
    assert offered["ease"] == offered["item-to-item"] == offered["fism"] == (DROPPED,)
    assert offered["gmf"] == (ZEROED,)
    assert offered["content-ncf"] == (AVERAGES,)
    assert removals(object()) == (Explainable.removal,)


def test_a_model_that_drops_is_returned_unchanged() -> None:
    for model in MODELS.values():
        assert with_removal(model, None) is model
        assert with_removal(model, model.removal) is model
        assert isinstance(with_removal(model, DROPPED), Dropping) == (model.removal != DROPPED)
        assert unless_own(model, model.removal) is None
    assert unless_own(MODELS["sasrec"], DROPPED) == DROPPED


def test_in_a_short_member_nothing_moves_up_unless_it_is_dropped_from_the_whole() -> None:
    """Its window of the newest slots has gaps otherwise, although the member itself drops."""
    short, long = LIVELY["ease"](length=3, items=ITEMS), LIVELY["ease"](length=LENGTH, items=ITEMS)
    whole = Ensemble([Member(short, 0.5), Member(long, 0.5)])
    assert short.removal == long.removal == DROPPED
    assert whole.removal == ZEROED
    asked = some_coalitions(4, len(BATCH))
    expected = slow_scores(whole, BATCH, TARGETS, asked)
    found = with_removal(whole, DROPPED).score_coalitions(BATCH, TARGETS, asked)
    torch.testing.assert_close(found, expected)
    assert not torch.allclose(whole.score_coalitions(BATCH, TARGETS, asked), expected)
    assert Ensemble([Member(short, 0.5), Member(short, 0.5)]).removal == DROPPED


def test_the_rest_of_the_contract_is_that_of_the_model() -> None:
    for name, model in MODELS.items():
        dropping = Dropping(model)
        for capability in contract.CAPABILITIES:
            assert offers(dropping, capability) == offers(model, capability), (name, capability)
        assert dropping.kind == model.kind
        assert dropping.config is model.config
        assert dropping.reads_history
        assert dropping.predicts_probabilities == model.predicts_probabilities
        scores = torch.tensor([0.3])
        assert torch.equal(dropping.probabilities(scores), model.probabilities(scores))


class Newest:
    """A recommender of somebody else: the newest item counts twice; absent items count 0."""

    removal = "not counted"
    reads_history = True

    def parts(self, batch: Tensor) -> Tensor:
        return batch != PAD

    def score(
        self, batch: Tensor, targets: Tensor | All, *, present: Tensor | None = None
    ) -> Tensor:
        there = self.parts(batch) if present is None else self.parts(batch) & present
        values = (batch * there).double()
        scores = (values.sum(dim=1) + values[:, -1])[:, None].expand(-1, 12)
        return scores if isinstance(targets, All) else scores.gather(1, targets)


def test_a_model_of_your_own_can_drop(monkeypatch: pytest.MonkeyPatch) -> None:
    batch, target = torch.tensor([[PAD, 2, 3, 10]]), torch.tensor([0])
    own, dropped = (
        explain_batch(Newest(), batch, target, "leave-one-out", removal=removal)  # type: ignore[arg-type]
        for removal in (None, DROPPED)
    )
    assert own.scores.tolist() == [[0, 2, 3, 20]]
    assert dropped.scores.tolist() == [[0, 2, 3, 25 - 8]]
    assert (own.removal, dropped.removal) == ("not counted", DROPPED)
    monkeypatch.delattr(Newest, "removal")
    assert isinstance(with_removal(Newest(), DROPPED), Dropping)  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("name", "removal", "sentence"),
    [
        (
            "sasrec",
            "droped",
            "SASRec cannot remove parts by 'droped'. Choose from: attention-column, dropped.",
        ),
        ("ease", "zeroed", "EASE cannot remove parts by 'zeroed'. Choose from: dropped."),
        (
            "content-ncf",
            "dropped",
            "ContentNCF cannot remove parts by 'dropped'. Choose from: averages.",
        ),
        ("gmf", "dropped", "GMF cannot remove parts by 'dropped'. Choose from: zeroed."),
    ],
)
def test_a_removal_that_a_model_lacks_is_one_sentence(
    name: str, removal: str, sentence: str
) -> None:
    model = LIVELY[name]()
    with pytest.raises(InputError) as raised:
        explain_batch(model, BATCH, TARGETS, "random", removal=removal)
    assert str(raised.value) == sentence


def test_nothing_is_dropped_from_given_attention() -> None:
    dropping = with_removal(MODELS["sasrec"], DROPPED)
    own = dropping.attentions(BATCH)  # type: ignore[operator]
    torch.testing.assert_close(
        dropping.score(BATCH, ALL, attention=own), MODELS["sasrec"].score(BATCH, ALL)
    )
    with pytest.raises(InputError, match="cannot be removed from given attention"):
        dropping.score(BATCH, ALL, present=BATCH != PAD, attention=own)
