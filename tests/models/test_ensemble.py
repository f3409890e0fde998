"""Several models as one are the weighted mean of their log-probabilities."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from conftest import LIVELY, TRANSFORMERS, ragged_batch
from together import lively_blend, lively_seeds
from whence.contract import (
    ALL,
    PAD,
    HasClasses,
    HasContributions,
    HasEmbeddings,
    HasItemVectors,
    HasUserVectors,
    offers,
)
from whence.errors import CapabilityError, InputError
from whence.explainers import explain_batch
from whence.models import Recommender
from whence.models import ensemble as ensemble_module
from whence.models.ensemble import Ensemble, Member, Weight

LENGTH, ITEMS = 8, 30
BATCH = ragged_batch(6, LENGTH, ITEMS)
SOME = torch.arange(LENGTH).expand_as(BATCH) % 3 != 0
WEIGHTS = (Weight(0.2, 2.0), Weight(0.3, 0.5), Weight(0.5, 1.0))


def blend() -> Ensemble:
    """Three kinds of models that read histories of different lengths."""
    models = [
        LIVELY["sasrec"](items=ITEMS, length=3),
        LIVELY["last-item"](items=ITEMS, length=LENGTH),
        LIVELY["recent-ease"](items=ITEMS, length=5),
    ]
    return Ensemble([Member(model, one.factor) for model, one in zip(models, WEIGHTS, strict=True)])


def newest(model: Recommender, values: Tensor) -> Tensor:
    return values[:, -model.config.max_len :]


@pytest.mark.parametrize("present", [None, SOME])
def test_it_is_the_weighted_mean_of_log_probabilities(present: Tensor | None) -> None:
    """Up to a number for each history, computed case by case and member by member."""
    whole = blend()
    found = whole.score(BATCH, ALL, present=present).log_softmax(dim=1)
    for case in range(len(BATCH)):
        slow = torch.zeros(ITEMS, dtype=torch.float64)
        for (model, _), one in zip(whole.members, WEIGHTS, strict=True):
            row = newest(model, BATCH[[case]])
            seen = None if present is None else newest(model, present[[case]])
            logits = model.score(row, ALL, present=seen)[0] / one.temperature
            slow += one.weight * (logits - logits.exp().sum().log())
        torch.testing.assert_close(found[case], slow.log_softmax(dim=0))


def test_parts_are_those_that_some_member_reads() -> None:
    whole = blend()
    assert whole.config.max_len == LENGTH
    assert torch.equal(whole.parts(BATCH), BATCH != PAD)
    short = Ensemble([member for member in whole.members if member.model.config.max_len < LENGTH])
    assert short.config.max_len == 5
    with pytest.raises(InputError, match="SASRec \\+ EASE reads at most 5 items, not 8"):
        short.score(BATCH, ALL)


def test_coalitions_are_weighted_sums_of_those_of_the_members() -> None:
    whole, targets = blend(), torch.arange(len(BATCH))
    coalitions = torch.rand((len(BATCH), 7, LENGTH), generator=torch.Generator().manual_seed(0))
    for asked in (coalitions < 0.5, coalitions[0] < 0.5):
        found = whole.score_coalitions(BATCH, targets, asked)
        for number in range(asked.shape[-2]):
            present = asked[..., number, :].expand_as(BATCH)
            alone = whole.score(BATCH, targets[:, None], present=present)[:, 0]
            torch.testing.assert_close(found[:, number], alone)


@pytest.mark.parametrize("name", LIVELY)
def test_seeds_of_every_model_are_its_mean(name: str) -> None:
    whole = lively_seeds(name, LENGTH, ITEMS)
    one, two = (model for model, _ in whole.members)
    targets = torch.arange(12).view(6, 2)
    for asked in (ALL, targets):
        mean = (one.score(BATCH, asked) + two.score(BATCH, asked)) / 2
        torch.testing.assert_close(whole.score(BATCH, asked), mean)
    for capability in ensemble_module.SHARED:
        assert offers(whole, capability) == offers(one, capability)
    assert not offers(whole, "attentions")
    assert whole.removal == one.removal
    assert whole.kind == type(one).__name__
    if isinstance(whole, HasEmbeddings):
        rows = whole.embed(BATCH)
        torch.testing.assert_close(
            whole.score(BATCH, targets, embedded=rows), whole.score(BATCH, targets)
        )
        half = rows.shape[-1] // 2
        assert isinstance(two, HasEmbeddings)
        assert torch.equal(rows[..., half:], two.embed(BATCH))
    if isinstance(whole, HasClasses):
        each = [model.classes(BATCH, targets).softmax(dim=-1) for model, _ in whole.members]  # type: ignore[operator]
        torch.testing.assert_close(whole.classes(BATCH, targets), (each[0] * each[1]).log() / 2)
        with pytest.raises(InputError, match="belong to the model of one seed"):
            whole.classes(BATCH, targets, attention=[])
    for kind, vectors in ((HasItemVectors, "item_vectors"), (HasUserVectors, "user_vectors")):
        if isinstance(whole, kind):
            each = [getattr(model, vectors)() for model, _ in whole.members]
            assert torch.equal(getattr(whole, vectors)(), torch.cat(each, dim=1))


@pytest.mark.parametrize("name", TRANSFORMERS)
@pytest.mark.parametrize("present", [None, SOME])
def test_stacked_networks_score_as_one_by_one(name: str, present: Tensor | None) -> None:
    """Also with columns of padding, and with a member of another kind."""
    seeds = lively_seeds(name, LENGTH, ITEMS)
    other = Member(LIVELY["item-to-item"](items=ITEMS, length=LENGTH), 0.7)
    padded = torch.where(torch.arange(LENGTH) < 3, PAD, BATCH)
    for whole in (seeds, Ensemble([*seeds.members, other])):
        assert whole._stack is not None
        for batch in (BATCH, padded):
            slow = torch.zeros(len(batch), ITEMS, dtype=torch.float64)
            for model, factor in whole.members:
                slow += factor * model.score(batch, ALL, present=present)
            torch.testing.assert_close(whole.score(batch, ALL, present=present), slow)


def test_networks_of_other_sizes_are_not_stacked() -> None:
    short, long = (LIVELY["sasrec"](items=ITEMS, length=length) for length in (4, 8))
    whole = Ensemble([Member(short, 0.5), Member(long, 0.5)])
    assert whole._stack is None
    mean = (short.score(BATCH[:, -4:], ALL) + long.score(BATCH, ALL)) / 2
    torch.testing.assert_close(whole.score(BATCH, ALL), mean)


def test_moved_weights_are_stacked_again() -> None:
    whole = lively_seeds("sasrec", LENGTH, ITEMS)
    double = whole.score(BATCH, ALL)
    single = whole.float().score(BATCH, ALL)
    assert (double.dtype, single.dtype) == (torch.float64, torch.float32)
    torch.testing.assert_close(single.double(), double, rtol=1e-4, atol=1e-4)


def test_one_seed_is_that_model() -> None:
    model = LIVELY["sasrec"](items=ITEMS, length=LENGTH)
    whole = Ensemble([Member(model, 1.0)])
    assert torch.equal(whole.score(BATCH, ALL), model.score(BATCH, ALL))


def test_sums_of_sums_have_exact_terms() -> None:
    """The terms of additive members add up to the score of all, and so do Shapley values."""
    names = ("ease", "recent-ease", "item-to-item")
    models = [
        LIVELY[name](items=ITEMS, length=length)
        for name, length in zip(names, (8, 5, 3), strict=True)
    ]
    whole = Ensemble([Member(model, 1 / n) for n, model in enumerate(models, start=1)])
    assert isinstance(whole, HasContributions)
    targets = torch.arange(len(BATCH))
    terms = whole.contributions(BATCH, targets)
    nothing = torch.zeros_like(BATCH, dtype=torch.bool)
    empty = whole.score(BATCH, targets[:, None], present=nothing)[:, 0]
    torch.testing.assert_close(empty + terms.sum(dim=1), whole.score(BATCH, targets[:, None])[:, 0])
    distinct = torch.tensor([[PAD, 3, 9, 1, 12, 7, 20, 5]])
    own = explain_batch(whole, distinct, targets[:1], "contributions")
    shapley = explain_batch(whole, distinct, targets[:1], "shapley")
    np.testing.assert_allclose(own.scores, shapley.scores, atol=1e-9)


def test_an_additive_member_is_explained_exactly_within_a_blend() -> None:
    """Shapley values are linear: those of the network, plus the terms of the simple model."""
    whole = lively_blend(LENGTH, ITEMS)
    *seeds, (simple, factor) = whole.members
    batch, targets = torch.tensor([[PAD, 3, 9, 1, 12, 7, 20, 5]]), torch.tensor([4])
    found = explain_batch(whole, batch, targets, "shapley")
    network = explain_batch(Ensemble(seeds), batch[:, -4:], targets, "shapley")
    assert isinstance(simple, HasContributions)
    expected = factor * simple.contributions(batch, targets).numpy()
    expected[:, -4:] += network.scores
    np.testing.assert_allclose(found.scores, expected, atol=1e-9)


def test_attention_belongs_to_one_seed() -> None:
    whole = lively_seeds("sasrec", LENGTH, ITEMS)
    with pytest.raises(InputError, match="belong to the model of one seed. Choose one with model"):
        whole.score(BATCH, ALL, attention=[None, None])
    with pytest.raises(CapabilityError, match="has no 'attentions', which rollout needs"):
        explain_batch(whole, BATCH, torch.arange(6), "rollout")
