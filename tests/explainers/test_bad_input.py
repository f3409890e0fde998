"""Unusual input has a defined result, and wrong input an error."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from conftest import TRANSFORMERS, lively_bert4rec, lively_sasrec, ragged_batch
from whence.contract import PAD
from whence.errors import InputError
from whence.explainers import EXPLAINERS, Explainer, able, compare_batch, explain_batch
from whence.explainers.leave_one_out import LeaveOneOut
from whence.explainers.rollout import rollout
from whence.explainers.shapley import Shapley
from whence.explainers.signed_rollout import SignedRollout
from whence.models.transformer import Transformer

ALL_METHODS = able(lively_sasrec(), EXPLAINERS)


@pytest.fixture(params=list(TRANSFORMERS))
def model(request: pytest.FixtureRequest) -> Transformer:
    """Each transformer, for 30 items and 8 slots."""
    return TRANSFORMERS[request.param](items=30, length=8)


def test_one_item(model: Transformer) -> None:
    """It gets the whole difference if scores add up; LIME's ridge shrinks it."""
    found = compare_batch(model, torch.tensor([[5]]), torch.tensor([8]), ALL_METHODS)
    whole = found["shapley"].full_score - found["shapley"].empty_score
    for method in ("shapley", "shapley-printed", "shapley-permutation", "leave-one-out"):
        np.testing.assert_allclose(found[method].scores[:, 0], whole)
    assert found["shapley"].evaluations.tolist() == [0]
    assert 0 < (found["lime"].scores[:, 0] / whole).item() < 1


def test_one_item_alone_has_all_attention() -> None:
    """Fading, which compares items, is 0."""
    found = compare_batch(lively_sasrec(), torch.tensor([[5]]), torch.tensor([8]), ALL_METHODS)
    assert found["fading"].scores.tolist() == found["signed-rollout"].scores.tolist() == [[0.0]]
    for method in ("rollout", "attention-flow", "attention-last"):
        np.testing.assert_allclose(found[method].scores, 1)


def test_one_item_with_a_slot_of_the_model() -> None:
    """BERT4Rec's [CLS] keeps some of the attention, and an item can fade in favour of it."""
    model, batch = lively_bert4rec(), torch.tensor([[5]])
    found = compare_batch(model, batch, torch.tensor([8]), ALL_METHODS)
    assert found["fading"].scores.item() != 0
    for method in ("rollout", "attention-flow", "attention-last"):
        assert 0 < found[method].scores.item() < 1
    kept = float(rollout(model.attentions(batch)).detach()[0, -1])
    assert found["rollout"].scores.item() == pytest.approx(1 - kept)


def test_every_repetition_of_an_item_is_a_part(model: Transformer) -> None:
    found = compare_batch(model, torch.tensor([[5, 7, 5, 5]]), torch.tensor([8]), ALL_METHODS)
    for method, one in found.items():
        assert one.parts.all()
        if method not in ("random", "attention-head", "neighbours"):
            assert len(set(np.round(one.scores[0, [0, 2, 3]], 12))) == 3, method


def test_an_empty_history_has_no_scores(model: Transformer) -> None:
    for batch in (torch.full((2, 4), PAD), torch.tensor([[PAD] * 4, [PAD, 1, 2, 3]])):
        found = compare_batch(model, batch, torch.tensor([8, 9]), ALL_METHODS)
        for one in found.values():
            assert (one.scores[0] == 0).all()
            assert one.strongest(0) == []
            assert one.as_dict()["cases"][0]["parts"] == []
            one[0].show()


def test_an_empty_batch(model: Transformer) -> None:
    nothing = torch.zeros(0, dtype=torch.int64)
    found = compare_batch(model, nothing.view(0, 4), nothing, ALL_METHODS)
    for one in found.values():
        assert one.scores.shape == (0, 4)


@pytest.mark.parametrize("method", ALL_METHODS)
@pytest.mark.parametrize("target", [PAD, 30, 10_000])
def test_an_unknown_target_is_an_error(model: Transformer, method: str, target: int) -> None:
    with pytest.raises(InputError, match=f"There is no target {target}; .* 0 to 29"):
        explain_batch(model, ragged_batch(2, 8, 30), torch.tensor([1, target]), method)


@pytest.mark.parametrize("method", ALL_METHODS)
def test_a_history_longer_than_max_len_is_an_error(model: Transformer, method: str) -> None:
    with pytest.raises(InputError, match="reads at most 8 items, not 9"):
        explain_batch(model, ragged_batch(2, 9, 30), torch.tensor([1, 2]), method)


@pytest.mark.parametrize("item", [30, 31, 10_000])
@pytest.mark.parametrize("case", [0, 1])
def test_an_unknown_item_is_an_error(model: Transformer, item: int, case: int) -> None:
    batch = torch.tensor([[PAD, 1, 2], [3, 4, 5]])
    batch[case, 1] = item
    sentence = f"an item that {type(model).__name__} does not know. .* is {item}"
    with pytest.raises(InputError, match=sentence):
        explain_batch(model, batch, torch.tensor([1, 2]))


def test_a_method_that_is_no_explainer_is_an_error(model: Transformer) -> None:
    with pytest.raises(InputError, match="A method is a name or an explainer"):
        explain_batch(model, torch.tensor([[1, 2]]), torch.tensor([3]), 3)  # type: ignore[arg-type]


def test_an_item_below_padding_is_an_error(model: Transformer) -> None:
    batch = torch.tensor([[PAD, 1, 2], [3, -2, 5]])
    with pytest.raises(InputError, match="There is no item -2; .* from 0, and -1 is padding"):
        explain_batch(model, batch, torch.tensor([1, 2]))


@pytest.mark.parametrize(
    ("made", "setting", "sentence"),
    [
        (LeaveOneOut, {"unit": "probabilty"}, "unit cannot be 'probabilty': did you mean 'pro"),
        (Shapley, {"sampler": "pared"}, "sampler cannot be 'pared': did you mean 'paired'"),
        (Shapley, {"coalitions": 0}, "coalitions is 0; set it to 1 or more"),
        (SignedRollout, {"sign": "fadin"}, "sign cannot be 'fadin': did you mean 'fading'"),
        (SignedRollout, {"sign": None}, "sign cannot be 'None': known: both, fading"),
    ],
)
def test_parameters_given_in_python_are_checked(
    made: Callable[..., Explainer], setting: dict[str, object], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        made(**setting)


@pytest.mark.parametrize(
    ("batch", "targets", "sentence"),
    [
        (torch.zeros(2, 0).long(), torch.tensor([1, 2]), "at least one slot"),
        (torch.zeros(4).long(), torch.tensor([1]), "the shape \\[histories, slots\\]"),
        (torch.zeros(2, 3).long(), torch.tensor([1]), "Every case has one target: 2 of them"),
        (torch.zeros(2, 3).long(), torch.tensor([[1], [2]]), "Every case has one target"),
    ],
)
def test_wrong_shapes_are_errors(
    model: Transformer, batch: torch.Tensor, targets: torch.Tensor, sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        explain_batch(model, batch, targets)
