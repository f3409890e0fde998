"""What every model promises, asked of every model there is."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conftest import LIVELY, ragged_batch
from whence.contract import (
    ALL,
    PAD,
    Explainable,
    answers_by_groups,
    has_reasons,
    no_history,
    offers,
    require,
    require_reasons,
)
from whence.data import Split
from whence.errors import CapabilityError, InputError
from whence.models import MODELS
from whence.models.baselines import BASELINES
from whence.models.deepicf import AttentiveDeepICF

LENGTH, ITEMS = 8, 30


def test_every_model_is_tested_here() -> None:
    assert set(LIVELY) == set(MODELS)


@pytest.fixture(params=[*MODELS, *BASELINES])
def model(request: pytest.FixtureRequest, split: Split) -> Explainable:
    if request.param in MODELS:
        return LIVELY[request.param](items=split.interactions.item_count)
    return BASELINES[request.param](split)


@pytest.fixture
def batch(split: Split) -> torch.Tensor:
    return ragged_batch(6, LENGTH, split.interactions.item_count)


def test_padding_is_never_a_part(model: Explainable, batch: torch.Tensor) -> None:
    assert torch.equal(model.parts(batch), batch != PAD)


def test_a_batch_equals_its_loop(model: Explainable, batch: torch.Tensor) -> None:
    together = model.score(batch, ALL)
    alone = torch.cat([model.score(batch[[row]], ALL) for row in range(len(batch))])
    torch.testing.assert_close(together, alone)


def test_targets_are_columns_of_all(model: Explainable, batch: torch.Tensor) -> None:
    targets = torch.tensor([[3, 1, 3]]).repeat(len(batch), 1)
    expected = model.score(batch, ALL).gather(1, targets)
    torch.testing.assert_close(model.score(batch, targets), expected)


def test_everything_present_changes_nothing(model: Explainable, batch: torch.Tensor) -> None:
    present = torch.ones_like(batch, dtype=torch.bool)
    full = model.score(batch, ALL)
    torch.testing.assert_close(model.score(batch, ALL, present=present), full)


def test_presence_of_padding_means_nothing(model: Explainable, batch: torch.Tensor) -> None:
    some = torch.arange(LENGTH).expand_as(batch) % 3 != 0
    one = model.score(batch, ALL, present=some | (batch == PAD))
    other = model.score(batch, ALL, present=some & (batch != PAD))
    torch.testing.assert_close(one, other)


def test_more_padding_changes_nothing(model: Explainable, batch: torch.Tensor) -> None:
    short = batch[:, -4:]
    padded = torch.full_like(batch, PAD)
    padded[:, -4:] = short
    torch.testing.assert_close(model.score(short, ALL), model.score(padded, ALL))


def test_coalitions_are_scores_with_parts_removed(model: Explainable, batch: torch.Tensor) -> None:
    generator = torch.Generator().manual_seed(0)
    coalitions = torch.rand((len(batch), 5, LENGTH), generator=generator) < 0.5
    targets = torch.arange(len(batch))
    found = model.score_coalitions(batch, targets, coalitions)
    for case in range(len(batch)):
        for c in range(5):
            row, target = batch[[case]], targets[[case], None]
            alone = model.score(row, target, present=coalitions[[case], c])
            torch.testing.assert_close(found[case, c], alone[0, 0])


def test_removal_is_named(model: Explainable) -> None:
    assert model.removal != Explainable.removal


def offered(model: Explainable, capability: str, batch: torch.Tensor) -> bool:
    """Whether it is; if not, asking for it must say so."""
    if offers(model, capability):
        return True
    with pytest.raises(CapabilityError):
        getattr(model, capability)(batch)
    return False


def test_own_embeddings_change_nothing(model: Explainable, batch: torch.Tensor) -> None:
    if offered(model, "embed", batch):
        again = model.score(batch, ALL, embedded=model.embed(batch))
        torch.testing.assert_close(again, model.score(batch, ALL))


def test_own_attention_changes_nothing(model: Explainable, batch: torch.Tensor) -> None:
    if offered(model, "attentions", batch):
        targets = torch.arange(len(batch))
        own = model.attentions(batch, targets)
        again = model.score(batch, targets[:, None], attention=own)
        torch.testing.assert_close(again, model.score(batch, targets[:, None]))


def test_vectors_are_those_of_embeddings(model: Explainable, batch: torch.Tensor) -> None:
    if not offers(model, "item_vectors"):
        with pytest.raises(CapabilityError, match="has no 'item_vectors'"):
            model.item_vectors()
        return
    vectors = model.item_vectors()
    assert len(vectors) == model.score(batch, ALL).shape[1]
    if offers(model, "embed") and not offers(model, "user_vectors"):
        parts = model.parts(batch)
        assert torch.equal(model.embed(batch)[parts], vectors[batch[parts]])


def test_attention_is_a_distribution_over_parts_and_own_slots(
    model: Explainable, batch: torch.Tensor
) -> None:
    if offered(model, "attentions", batch):
        parts = model.parts(batch)
        for weights in model.attentions(batch, torch.arange(len(batch))):
            answering = weights[:, :, -1]
            assert (answering >= 0).all()
            assert (answering[..., :LENGTH] * ~parts[:, None] == 0).all()
            if not isinstance(model, AttentiveDeepICF):  # which is more where there is more to see
                torch.testing.assert_close(answering.sum(-1), torch.ones_like(answering[..., 0]))


@pytest.mark.parametrize("name", list(LIVELY))
@given(order=st.permutations(range(6)))
def test_order_in_the_batch_does_not_matter(name: str, order: list[int]) -> None:
    model, batch = LIVELY[name](items=ITEMS), ragged_batch(6, LENGTH, ITEMS)
    shuffled = model.score(batch[order], ALL)
    torch.testing.assert_close(shuffled, model.score(batch, ALL)[order])


@pytest.mark.parametrize("name", list(LIVELY))
@given(history=st.lists(st.integers(0, ITEMS - 1), min_size=1, max_size=LENGTH), pads=st.data())
def test_any_amount_of_padding_gives_the_same(
    name: str, history: list[int], pads: st.DataObject
) -> None:
    model = LIVELY[name](items=ITEMS)
    extra = pads.draw(st.integers(0, LENGTH - len(history)))
    bare, padded = torch.tensor([history]), torch.tensor([[PAD] * extra + history])
    torch.testing.assert_close(model.score(padded, ALL), model.score(bare, ALL))
    if offers(model, "attentions"):
        target = torch.tensor([3])
        both = (model.attentions(one, target) for one in (padded, bare))
        for one, other in zip(*both, strict=True):
            torch.testing.assert_close(one[:, :, -other.shape[2] :, extra:], other)
            assert (one[..., :extra] == 0).all()


class OnlyParts(Explainable):
    def parts(self, batch: torch.Tensor) -> torch.Tensor:
        return batch >= 0


@pytest.mark.parametrize("name", MODELS)
def test_reasons_are_items_or_groups(name: str) -> None:
    """Users by their numbers are neither."""
    model = LIVELY[name]()
    assert answers_by_groups(model) == (name in {"content-ncf", "intrp-ncf"})
    assert has_reasons(model) == (name not in {"gmf", "mlp", "neumf"})


def test_why_there_are_no_items_to_speak_of() -> None:
    assert no_history(LIVELY["intrp-ncf"](), "a map") == (
        "InterpretableNCF answers by groups of features and reads no history, so that a map has no "
        "items to speak of; for items as reasons, train a model that reads histories."
    )
    require_reasons(LIVELY["intrp-ncf"](), "a map")
    with pytest.raises(CapabilityError, match="^GMF knows users by their numbers and reads no"):
        require_reasons(LIVELY["gmf"](), "a map")


def test_what_is_missing_is_said() -> None:
    with pytest.raises(
        CapabilityError, match=r"OnlyParts has no 'attentions', which rollout needs"
    ):
        require(OnlyParts(), ("parts", "attentions"), who="rollout")
    with pytest.raises(CapabilityError, match="it offers parts"):
        OnlyParts().score(torch.zeros(1, 1), ALL)
    with pytest.raises(CapabilityError, match="OnlyParts has no 'user_vectors', which this needs"):
        OnlyParts().user_vectors()
    assert not offers(OnlyParts(), "score_coalitions")


@pytest.mark.parametrize("name", [name for name in LIVELY if not MODELS[name].knows_users])
def test_a_history_too_long_is_one_sentence(name: str) -> None:
    with pytest.raises(InputError, match="reads 8 items, not 9"):
        LIVELY[name](items=ITEMS).score(torch.zeros(1, 9, dtype=torch.int64), ALL)
