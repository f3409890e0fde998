"""What every explainer promises, asked of every explainer there is."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conftest import LIVELY, ragged_batch
from whence.contract import PAD, Explainable, HasAttentions, offers
from whence.data import Split
from whence.errors import CapabilityError, InputError
from whence.explainers import (
    EXPLAINERS,
    Explainer,
    compare_batch,
    explain_batch,
    find_explainer,
)
from whence.explainers.attention import Attention
from whence.explainers.leave_one_out import LeaveOneOut
from whence.explainers.random import Random
from whence.explainers.registry import READY, name_of
from whence.explainers.shapley import Shapley
from whence.explainers.signed_rollout import SignedRollout
from whence.explanation import Explanation, Labels
from whence.models.baselines import Popularity

LENGTH, ITEMS = 8, 30

Cases = tuple[Explainable, torch.Tensor, torch.Tensor]

# Short histories have all their coalitions asked; these draw them whatever the length.
DRAWING = [
    "shapley:coalitions=64,exact_up_to=0",
    "shapley:sampler=permutation,coalitions=64,exact_up_to=0",
    "shapley:coalitions=32,exact_up_to=0,error=0.1,most=512",
]
METHODS = [*READY, *DRAWING]
ADD_UP = [method for method in METHODS if method.startswith("shapley")]


@pytest.fixture(params=METHODS)
def method(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def able(name: str, method: str) -> Explainable:
    """The model, if it offers what the method needs."""
    model = LIVELY[name](items=ITEMS, length=LENGTH)
    if not all(offers(model, need) for need in find_explainer(method)[1].needs):
        pytest.skip(f"{name} does not offer what {method} needs")
    return model


@pytest.fixture(params=list(LIVELY))
def cases(request: pytest.FixtureRequest, method: str) -> Cases:
    """Every method on every model that offers what it needs."""
    model = able(request.param, method)
    return model, ragged_batch(5, LENGTH, ITEMS), torch.arange(5) * 3


def test_costs_what_it_says(method: str, cases: Cases) -> None:
    model, batch, targets = cases
    limit, most = "at most ", 0 * batch.sum(dim=1)
    cost = find_explainer(method)[1].cost
    for term in cost.removeprefix(limit).split(" + "):
        match term:
            case "n":
                most += (batch != PAD).sum(dim=1)
            case "b":
                assert isinstance(model, HasAttentions)
                most += len(model.attentions(batch, targets))
            case _:
                most += int(term.replace(",", ""))
    asked = explain_batch(model, batch, targets, method).evaluations
    assert (asked <= most.numpy()).all()
    assert cost.startswith(limit) or (asked == most.numpy()).all()


def test_padding_gets_nothing_and_parts_are_the_models(method: str, cases: Cases) -> None:
    model, batch, targets = cases
    found = explain_batch(model, batch, targets, method)
    assert np.array_equal(found.parts, (batch != PAD).numpy())
    assert (found.scores[~found.parts] == 0).all()
    assert np.isfinite(found.scores).all()
    assert np.abs(found.scores[found.parts]).max() > 0


def test_a_batch_equals_its_loop(method: str, cases: Cases) -> None:
    model, batch, targets = cases
    together = explain_batch(model, batch, targets, method)
    for case in range(len(batch)):
        alone = explain_batch(model, batch[[case]], targets[[case]], method)
        np.testing.assert_allclose(together.scores[[case]], alone.scores, rtol=1e-7, atol=1e-12)
        assert together[case].evaluations == alone.evaluations


def test_same_seed_same_bytes(method: str, cases: Cases) -> None:
    model, batch, targets = cases
    one, two = (explain_batch(model, batch, targets, method, seed=4) for _ in range(2))
    assert one.scores.tobytes() == two.scores.tobytes()
    assert one.to_json() == two.to_json()


def test_the_model_is_left_as_it_was(method: str, cases: Cases) -> None:
    model, batch, targets = cases
    assert isinstance(model, torch.nn.Module)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    explain_batch(model, batch, targets, method)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_full_and_empty_scores_are_the_models(method: str, cases: Cases) -> None:
    model, batch, targets = cases
    found = explain_batch(model, batch, targets, method)
    full = model.score(batch, targets[:, None])[:, 0].detach()
    nothing = torch.zeros_like(batch, dtype=torch.bool)
    empty = model.score(batch, targets[:, None], present=nothing)[:, 0].detach()
    np.testing.assert_allclose(found.full_score, full)
    np.testing.assert_allclose(found.empty_score, empty)
    assert found.removal == model.removal
    assert found.signed == find_explainer(method)[1].signed
    if not found.signed:
        assert (found.scores >= 0).all()


@given(history=st.lists(st.integers(0, ITEMS - 1), min_size=1, max_size=LENGTH), pads=st.data())
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", list(LIVELY))
def test_padding_changes_no_importance(
    name: str, method: str, history: list[int], pads: st.DataObject
) -> None:
    model = able(name, method)
    extra = pads.draw(st.integers(0, LENGTH - len(history)))
    target = torch.tensor([7])
    bare = explain_batch(model, torch.tensor([history]), target, method)
    padded = explain_batch(model, torch.tensor([[PAD] * extra + history]), target, method)
    np.testing.assert_allclose(padded.scores[:, extra:], bare.scores, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("method", ADD_UP)
@pytest.mark.parametrize("name", list(LIVELY))
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_what_adds_up_adds_up_exactly(name: str, method: str, kind: torch.dtype) -> None:
    model = LIVELY[name](items=ITEMS, length=LENGTH).to(kind)
    found = explain_batch(model, ragged_batch(5, LENGTH, ITEMS), torch.arange(5), method)
    whole = found.full_score - found.empty_score
    np.testing.assert_allclose(found.scores.sum(axis=1), whole, rtol=1e-12, atol=1e-12)


def test_errors_are_none_or_at_least_0(method: str, cases: Cases) -> None:
    found = explain_batch(*cases, method)
    assert (found.error is None) == (not method.startswith(("shapley", "lime")))
    if found.error is not None:
        assert (found.error >= 0).all()
        assert (found.error[~found.parts] == 0).all()
        assert "error" in found.as_dict()["cases"][0]["parts"][0]


def test_the_result_is_json_with_every_part_once(method: str, cases: Cases) -> None:
    model, batch, targets = cases
    names = tuple(tuple(f"item {item}" for item in row) for row in batch.tolist())
    labels = Labels(names, tuple(f"target {item}" for item in targets.tolist()))
    found = explain_batch(model, batch, targets, method, labels=labels)
    document = json.loads(found.to_json())
    assert document["method"] == method
    assert document["removal"] == model.removal
    for case, told in enumerate(document["cases"]):
        assert [part["slot"] for part in told["parts"]] == (
            np.flatnonzero(found.parts[case]).tolist()
        )
        assert told["target"] == {"index": targets[case], "label": f"target {targets[case]}"}
        assert told["parts"][-1]["label"] == f"item {batch[case, -1]}"


def test_showing_names_the_strongest(
    method: str, cases: Cases, capsys: pytest.CaptureFixture[str]
) -> None:
    model, *_ = cases
    found: Explanation = explain_batch(*cases, method)
    assert (found.labels is None) == (not offers(model, "part_names"))
    replace(found[0], labels=None).show(top=3)
    printed = capsys.readouterr().out
    assert all(f"slot {slot}" in printed for slot in found.strongest(0, 3))
    assert f"slot {found.strongest(0)[-1]}" not in printed


def test_compare_gives_the_same_as_one_at_a_time(method: str, cases: Cases) -> None:
    together = compare_batch(*cases, ["random", method])
    assert together[method].to_json() == explain_batch(*cases, method).to_json()


@pytest.mark.parametrize("name", LIVELY)
def test_in_inference_mode_all_is_as_ever(name: str) -> None:
    model, methods = (
        LIVELY[name](items=ITEMS, length=LENGTH),
        ["gradient-norm", "shapley"],
    )
    if offers(model, "attentions"):
        methods.append("rollout")
    expected = compare_batch(model, ragged_batch(3, LENGTH, ITEMS), torch.arange(3), methods)
    with torch.inference_mode():
        batch, targets = ragged_batch(3, LENGTH, ITEMS).clone(), torch.arange(3)
        assert batch.is_inference()
        assert targets.is_inference()
        found = compare_batch(model, batch, targets, methods)
        assert torch.is_inference_mode_enabled()
    for method in methods:
        np.testing.assert_array_equal(found[method].scores, expected[method].scores)


def test_a_model_without_attention_is_told_so(split: Split) -> None:
    batch = ragged_batch(2, LENGTH, split.interactions.item_count)
    model, targets = Popularity(split), torch.tensor([1, 2])
    with pytest.raises(
        CapabilityError, match="Popularity has no 'attentions', which rollout needs"
    ):
        explain_batch(model, batch, targets, "rollout")
    silent = explain_batch(model, batch, targets, "leave-one-out")
    assert (silent.scores == 0).all(), "popularity owes nothing to the history"


def test_names_with_settings_and_wrong_names() -> None:
    name, explainer = find_explainer("attention:block=2,head=1")
    assert name == "attention:block=2,head=1"
    assert (explainer.block, explainer.head) == (2, 1)  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="no explainer 'rolout': did you mean 'rollout'"):
        find_explainer("rolout")
    with pytest.raises(InputError, match="no setting 'layer'"):
        find_explainer("attention:layer=2")
    with pytest.raises(InputError, match="logit, probability"):
        find_explainer("leave-one-out:unit=percent")


@pytest.mark.parametrize(
    ("explainer", "name"),
    [
        (Attention(block=1), "attention-first"),
        (Attention(block=2, head=1), "attention:block=2,head=1"),
        (LeaveOneOut(unit="probability"), "leave-one-out-probability"),
        (Shapley(), "shapley"),
        (Shapley(error=0.05, most=2048), "shapley:error=0.05,most=2048"),
        (Shapley("uniform"), "shapley:sampler=uniform"),
        (SignedRollout("both"), "signed-rollout:sign=both"),
    ],
)
def test_the_name_of_an_explainer_finds_it(explainer: Explainer, name: str) -> None:
    assert name_of(explainer) == name
    assert find_explainer(name) == (name, explainer)


def test_names_of_all_explainers_find_them() -> None:
    for name, explainer in EXPLAINERS.items():
        assert find_explainer(name_of(explainer)) == (name, explainer)


def test_two_of_one_method_stand_side_by_side() -> None:
    model, batch = LIVELY["sasrec"](items=ITEMS, length=LENGTH), ragged_batch(2, LENGTH, ITEMS)
    given: list[Explainer] = [
        LeaveOneOut(),
        LeaveOneOut("probability"),
        Shapley(coalitions=300),
        Shapley(),
    ]
    found = compare_batch(model, batch, torch.tensor([1, 2]), given)
    assert list(found) == [
        "leave-one-out",
        "leave-one-out-probability",
        "shapley:coalitions=300",
        "shapley",
    ]
    assert all(one.method == name for name, one in found.items())


def test_an_explainer_of_ones_own_is_called_by_its_method() -> None:
    @dataclass(frozen=True)
    class Own(Random):
        weight: float
        names: tuple[str, ...] = field(default_factory=tuple)
        method: ClassVar[str] = "own"

    assert name_of(Own(weight=2.0)) == "own:weight=2.0"
    assert name_of(Own(weight=2.0, names=("a",))) == "own:weight=2.0,names=('a',)"


def test_cases_can_be_taken_one_by_one(method: str, cases: Cases) -> None:
    found = explain_batch(*cases, method)
    assert len(found) == 5
    assert found[-1].target.tolist() == [12]
    with pytest.raises(IndexError):
        found[5]
