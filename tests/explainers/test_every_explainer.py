"""What every explainer promises, checked for every explainer on every model it supports."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import ragged_batch
from together import EVERY
from whence.contract import PAD, offers
from whence.errors import CapabilityError, InputError
from whence.explainers import (
    EXPLAINERS,
    Explainer,
    able,
    compare_batch,
    explain_batch,
    find_explainer,
)
from whence.explainers.attention import Attention
from whence.explainers.base import name_of
from whence.explainers.leave_one_out import LeaveOneOut
from whence.explainers.random import Random
from whence.explainers.shapley import Shapley
from whence.explainers.shapley_printed import PrintedShapley
from whence.explainers.signed_rollout import SignedRollout
from whence.explanation import Labels
from whence.testing import EXPLAINER_CHECKS, ModelCases

MAX_LEN, ITEMS = 8, 30

# Short histories have all their coalitions enumerated; these sample them whatever the length.
SAMPLING = [
    "shapley:coalitions=64,exact_up_to=0",
    "shapley:sampler=permutation,coalitions=64,exact_up_to=0",
    "shapley:coalitions=32,exact_up_to=0,error=0.1,most=512",
]
MODELS = {name: build(items=ITEMS, length=MAX_LEN) for name, build in EVERY.items()}
PAIRS = [
    (name, method)
    for name, model in MODELS.items()
    for method in able(model, [*EXPLAINERS, *SAMPLING])
    if name != "popularity"  # which has nothing to explain, as a test below says
]
"""Every model with every explainer whose needs it meets."""
ADDING_UP = [pair for pair in PAIRS if find_explainer(pair[1])[1].adds_up]


def cases_of(name: str) -> ModelCases:
    return MODELS[name], ragged_batch(5, MAX_LEN, ITEMS), torch.arange(5) * 3


@pytest.mark.parametrize("check", EXPLAINER_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize(("name", "method"), PAIRS)
def test_every_explainer_passes_every_check(
    name: str, method: str, check: Callable[[str, ModelCases], None]
) -> None:
    check(method, cases_of(name))


@pytest.mark.parametrize("name", EVERY)
def test_padding_is_no_part(name: str) -> None:
    _, batch, _ = cases = cases_of(name)
    assert np.array_equal(explain_batch(*cases, "random").parts, (batch != PAD).numpy())


@settings(max_examples=6)
@given(history=st.lists(st.integers(0, ITEMS - 1), min_size=1, max_size=MAX_LEN), pads=st.data())
@pytest.mark.parametrize(("name", "method"), PAIRS)
def test_padding_changes_no_importance(
    name: str, method: str, history: list[int], pads: st.DataObject
) -> None:
    model = MODELS[name]
    extra = pads.draw(st.integers(0, MAX_LEN - len(history)))
    target = torch.tensor([7])
    bare = explain_batch(model, torch.tensor([history]), target, method)
    padded = explain_batch(model, torch.tensor([[PAD] * extra + history]), target, method)
    np.testing.assert_allclose(padded.scores[:, extra:], bare.scores, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize(("name", "method"), ADDING_UP)
def test_scores_add_up_in_single_precision_too(name: str, method: str) -> None:
    model = EVERY[name](items=ITEMS, length=MAX_LEN).float()
    found = explain_batch(model, ragged_batch(5, MAX_LEN, ITEMS), torch.arange(5), method)
    whole = found.full_score - found.empty_score
    np.testing.assert_allclose(found.scores.sum(axis=1), whole, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("name", "method"), PAIRS)
def test_json_names_every_part_once(name: str, method: str) -> None:
    model, batch, targets = cases_of(name)
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


@pytest.mark.parametrize(("name", "method"), PAIRS)
def test_showing_names_the_strongest(
    name: str, method: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = explain_batch(*cases_of(name), method)
    assert (found.labels is None) == (not offers(MODELS[name], "part_names"))
    replace(found[0], labels=None).show(top=3)
    printed = capsys.readouterr().out
    assert all(f"slot {slot}" in printed for slot in found.strongest(0, 3))
    assert f"slot {found.strongest(0)[-1]}" not in printed


@pytest.mark.parametrize("name", EVERY)
def test_inference_mode_changes_nothing(name: str) -> None:
    model = MODELS[name]
    methods = able(model, ["gradient-norm", "shapley", "rollout"])
    expected = compare_batch(model, ragged_batch(3, MAX_LEN, ITEMS), torch.arange(3), methods)
    with torch.inference_mode():
        batch, targets = ragged_batch(3, MAX_LEN, ITEMS).clone(), torch.arange(3)
        assert batch.is_inference()
        assert targets.is_inference()
        found = compare_batch(model, batch, targets, methods)
        assert torch.is_inference_mode_enabled()
    for method in methods:
        np.testing.assert_array_equal(found[method].scores, expected[method].scores)


def test_a_model_without_attention_is_an_error() -> None:
    with pytest.raises(
        CapabilityError, match="Popularity has no 'attentions', which rollout needs"
    ):
        explain_batch(*cases_of("popularity"), "rollout")


def test_popularity_owes_nothing_to_the_history() -> None:
    methods = able(MODELS["popularity"], [*EXPLAINERS, *SAMPLING])
    for method, found in compare_batch(*cases_of("popularity"), methods).items():
        if method != "random":
            np.testing.assert_allclose(found.scores, 0, atol=1e-12)


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
        (PrintedShapley(coalitions=300), "shapley-printed:coalitions=300"),
        (SignedRollout("both"), "signed-rollout:sign=both"),
    ],
)
def test_the_name_of_an_explainer_finds_it(explainer: Explainer, name: str) -> None:
    assert name_of(explainer) == name
    assert find_explainer(name) == (name, explainer)


def test_names_of_all_explainers_find_them() -> None:
    for name, explainer in EXPLAINERS.items():
        assert find_explainer(name_of(explainer)) == (name, explainer)


def test_two_explainers_of_one_method_have_different_names() -> None:
    model, batch = MODELS["sasrec"], ragged_batch(2, MAX_LEN, ITEMS)
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


def test_an_unregistered_explainer_goes_by_its_method() -> None:
    @dataclass(frozen=True)
    class Own(Random):
        weight: float
        names: tuple[str, ...] = field(default_factory=tuple)
        method = "own"

    assert name_of(Own(weight=2.0)) == "own:weight=2.0"
    assert name_of(Own(weight=2.0, names=("a",))) == "own:weight=2.0,names=('a',)"


def test_cases_can_be_taken_one_by_one() -> None:
    found = explain_batch(*cases_of("sasrec"))
    assert len(found) == 5
    assert found[-1].target.tolist() == [12]
    with pytest.raises(IndexError):
        found[5]
