"""What a recommendation owes to its history, computed history by history."""

from __future__ import annotations

from dataclasses import fields
from itertools import combinations

import numpy as np
import pytest
import torch
from torch import Tensor

from conftest import LIVELY, ragged_batch
from whence.contract import ALL, ATTENTION_COLUMN, DROPPED, PAD
from whence.models import Recommender
from whence.reasons import reasoner as reasoning
from whence.reasons.features import features_of
from whence.reasons.figures import PAIRED, Figures, find_figures
from whence.reasons.groups import ItemGroups
from whence.reasons.of_run import default_calibrator
from whence.reasons.reasoner import Reasoner
from whence.reasons.shown import USERS_AT_ONCE, Shown
from whence.reasons.singles import SingleItems

ITEMS, SLOTS, K = 30, 6, 3
HISTORIES = ragged_batch(5, 9, ITEMS)
"""Longer than what the models read."""
TARGETS = torch.tensor([[1, 2, 3], [29, 5, 1], [0, 9, 7], [11, 12, 13], [4, 4, 8]])
GROUP = torch.arange(ITEMS) % 3


def models_of(name: str, count: int) -> list[Recommender]:
    return [LIVELY[name](items=ITEMS, length=SLOTS, seed=seed) for seed in range(count)]


GROUPS = ItemGroups.of((torch.arange(3)[:, None] == GROUP).numpy(), None)


def figures_of(
    models: list[Recommender],
    histories: Tensor = HISTORIES,
    targets: Tensor = TARGETS,
    groups: ItemGroups | None = GROUPS,
    removal: str = DROPPED,
) -> Figures:
    singles = [SingleItems.of(one, ITEMS) for one in models]
    return find_figures(
        Shown(models, histories, targets, histories, SLOTS, removal), singles, groups
    )


@torch.no_grad()
def said(model: Recommender, history: list[int], target: int) -> float:
    """The log-probability of one target for one history, which may be empty."""
    row = torch.tensor([([PAD] * SLOTS + history)[-SLOTS:]])
    scores: Tensor = model.score(row, ALL)[0].double()
    return float(scores[target] - scores.exp().sum().log())


def usual_of(model: Recommender, target: int) -> float:
    return float(np.mean([said(model, [item], target) for item in range(ITEMS)]))


@pytest.mark.parametrize("name", ["sasrec", "bert4rec", "recent-ease"])
def test_figures_equal_those_of_single_histories(name: str) -> None:
    models = models_of(name, 2)
    found = figures_of(models)
    for s, model in enumerate(models):
        for user, row in enumerate(HISTORIES.tolist()):
            history = [item for item in row if item != PAD]
            read = ([PAD] * SLOTS + history)[-SLOTS:]
            for place, target in enumerate(TARGETS[user].tolist()):
                full, usual = said(model, history, target), usual_of(model, target)
                at = (s, user, place)
                assert float(found.full[at]) == pytest.approx(full)
                assert float(found.usual[at]) == pytest.approx(usual)
                for name, wanted in (("usual_in_group", True), ("usual_elsewhere", False)):
                    asked = [
                        said(model, [item], target)
                        for item in range(ITEMS)
                        if (item % 3 == target % 3) is wanted and item != target
                    ]
                    assert float(getattr(found, name)[at]) == pytest.approx(np.mean(asked))
                for slot, item in enumerate(read):
                    real = item != PAD and item not in read[slot + 1 :]
                    left = [one for one in history if one != item]
                    lost = full - said(model, left, target) if real else 0.0
                    alone = said(model, [item], target) - usual if real else 0.0
                    assert float(found.lost[*at, slot]) == pytest.approx(lost)
                    assert float(found.alone[*at, slot]) == pytest.approx(alone)


def probabilities(model: Recommender, history: list[int]) -> list[float]:
    return [float(np.exp(said(model, history, item))) for item in range(ITEMS)]


def for_everyone(model: Recommender) -> list[float]:
    """The probability of each item after one item that the model draws itself."""
    after = [probabilities(model, [item]) for item in range(ITEMS)]
    first = [float(np.mean([row[item] for row in after])) for item in range(ITEMS)]
    return [
        sum(weight * row[item] for weight, row in zip(first, after, strict=True)) / sum(first)
        for item in range(ITEMS)
    ]


def test_the_rank_whatever_the_history_is_among_what_is_not_in_it() -> None:
    models = models_of("sasrec", 2)
    found = figures_of(models).rank_anyway
    each = [for_everyone(model) for model in models]
    mean = [sum(map(np.log, one)) for one in zip(*each, strict=True)]
    for user, row in enumerate(HISTORIES.tolist()):
        ranked = sorted((item for item in range(ITEMS) if item not in row), key=lambda i: -mean[i])
        for place, target in enumerate(TARGETS[user].tolist()):
            if target in ranked:
                assert int(found[user, place]) == 1 + ranked.index(target)


def test_the_floor_is_that_of_the_groups_that_a_history_speaks_for_least() -> None:
    (model,) = models = models_of("sasrec", 1)
    found = figures_of(models).group_floor
    usual = for_everyone(model)
    for user, row in enumerate(HISTORIES.tolist()):
        now = probabilities(model, [item for item in row if item != PAD])
        raised = sorted(np.log(sum(now[one::3]) / sum(usual[one::3])) for one in range(3))
        floor = (raised[0] + raised[1]) / 2  # the quartile of three values
        assert found[0, user].tolist() == pytest.approx([floor] * K, abs=1e-4)


def rank_of(models: list[Recommender], history: list[int], seen: list[int], target: int) -> int:
    """The rank by the mean score, if only `history` is left of what was seen."""
    row = torch.tensor([([PAD] * SLOTS + history)[-SLOTS:]])
    with torch.no_grad():
        mean = torch.stack([model.score(row, ALL)[0] for model in models]).mean(dim=0)
    return 1 + sum(bool(mean[item] > mean[target]) for item in range(ITEMS) if item not in seen)


@pytest.mark.parametrize("count", [1, 2])
def test_ranks_equal_those_counted_one_by_one(count: int) -> None:
    models = models_of("sasrec", count)
    found = figures_of(models)
    for user, row in enumerate(HISTORIES.tolist()):
        history = [item for item in row if item != PAD]
        for place, target in enumerate(TARGETS[user].tolist()):
            rank = rank_of(models, history, history, target)
            assert int(found.rank[user, place]) == rank
            for slot, item in enumerate(found.candidates[user].tolist()):
                left = [one for one in history if one != item]
                wanted = rank if item == PAD else rank_of(models, left, history, target)
                assert int(found.rank_without[user, place, slot]) == wanted


def test_items_can_be_hidden_in_their_place() -> None:
    (model,) = models = models_of("sasrec", 1)
    found = figures_of(models, removal=ATTENTION_COLUMN)
    batch = HISTORIES[:, -SLOTS:]
    for user, row in enumerate(batch):
        for place, target in enumerate(TARGETS[user].tolist()):
            for slot, item in enumerate(row.tolist()):
                if item == PAD or item in row[slot + 1 :].tolist():
                    continue
                changed = {
                    "lost": row != item,
                    "alone": torch.arange(SLOTS) == slot,
                }
                with torch.no_grad():
                    left = {
                        name: model.score(row[None], ALL, present=present[None])[0]
                        .log_softmax(0)[target]
                        .item()
                        for name, present in changed.items()
                    }
                at = (0, user, place)
                lost = float(found.full[at]) - left["lost"]
                alone = left["alone"] - float(found.usual[at])
                assert float(found.lost[*at, slot]) == pytest.approx(lost, abs=1e-4)
                assert float(found.alone[*at, slot]) == pytest.approx(alone, abs=1e-4)


def test_the_pairs_are_those_of_the_items_that_bring_most_alone() -> None:
    models = models_of("sasrec", 2)
    found = figures_of(models)
    for user, row in enumerate(HISTORIES.tolist()):
        history = [item for item in row if item != PAD]
        places = [slot for slot, item in enumerate(found.candidates[user].tolist()) if item != PAD]
        for place, target in enumerate(TARGETS[user].tolist()):
            brought = {
                slot: np.mean(
                    [said(one, [int(found.candidates[user, slot])], target) for one in models]
                )
                for slot in places
            }
            best = sorted(brought, key=lambda slot: -brought[slot])[:PAIRED]
            wanted = set(combinations(sorted(best), 2))
            own = [(older, newer) for older, newer in found.pairs[user, place].tolist()]
            assert {pair for pair in own if pair[0] != pair[1]} == wanted
            for p, (older, newer) in enumerate(own):
                if older == newer:
                    continue
                both = [int(found.candidates[user, one]) for one in (older, newer)]
                left = [item for item in history if item not in both]
                for s, model in enumerate(models):
                    lost = said(model, history, target) - said(model, left, target)
                    alone = said(model, both, target) - usual_of(model, target)
                    assert float(found.pair_lost[s, user, place, p]) == pytest.approx(lost)
                    assert float(found.pair_alone[s, user, place, p]) == pytest.approx(alone)


def test_a_group_is_left_out_without_the_strongest_item() -> None:
    (model,) = models = models_of("sasrec", 1)
    found = figures_of(models)
    for user, row in enumerate(HISTORIES.tolist()):
        history = [item for item in row if item != PAD]
        for place, target in enumerate(TARGETS[user].tolist()):
            strength = (found.lost + found.alone)[0, user, place]
            strongest = int(found.candidates[user, int(strength.argmax())])
            group = [
                item
                for item in history
                if int(GROUP[item]) == int(GROUP[target]) and item != strongest
            ]
            full = said(model, history, target)
            left = [item for item in history if item not in group]
            lost = full - said(model, left, target) if group else 0.0
            alone = said(model, group, target) - usual_of(model, target) if group else 0.0
            at = (0, user, place)
            assert float(found.group_lost[at]) == pytest.approx(lost)
            assert float(found.group_alone[at]) == pytest.approx(alone)


def test_features_do_not_depend_on_padding_or_on_other_users() -> None:
    models = models_of("sasrec", 2)
    whole = features_of(figures_of(models), TARGETS)
    for user in range(len(HISTORIES)):
        own = slice(user, user + 1)
        alone = features_of(figures_of(models, HISTORIES[own], TARGETS[own]), TARGETS[own])
        for name in ("items", "sets", "general"):
            torch.testing.assert_close(
                getattr(alone, name)[0], getattr(whole, name)[user], rtol=1e-4, atol=1e-4
            )
        assert torch.equal(alone.known_items[0], whole.known_items[user])
        assert torch.equal(alone.known_sets[0], whole.known_sets[user])


def test_the_target_itself_is_no_reason() -> None:
    history = torch.tensor([[PAD, 3, 4, 5]])
    models = models_of("sasrec", 1)
    targets = torch.tensor([[4]])
    found = features_of(figures_of(models, history, targets, None), targets)
    assert found.known_items[0, 0].tolist() == [False, True, False, True]
    assert all(torch.isfinite(getattr(found, one)).all() for one in ("items", "sets", "general"))


@pytest.mark.parametrize("history", [[7], [7, 7, 7], [7, 7, 8, 8]])
def test_short_and_repeated_histories_have_finite_features(history: list[int]) -> None:
    rows = torch.tensor([[PAD] * (9 - len(history)) + history])
    models = models_of("sasrec", 2)
    targets = torch.tensor([[1, 2]])
    found = features_of(figures_of(models, rows, targets), targets)
    assert int(found.known_items[0, 0].sum()) == len(set(history))
    assert all(torch.isfinite(getattr(found, one)).all() for one in ("items", "sets", "general"))


@pytest.mark.parametrize("threads", [1, 3])
def test_users_of_several_threads_get_the_same(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = models_of("sasrec", 2)
    reasoner = Reasoner(models, SLOTS, ITEMS, GROUPS, default_calibrator(), "default")
    whole = reasoner.find(HISTORIES, TARGETS, HISTORIES)
    monkeypatch.setitem(USERS_AT_ONCE, "cpu", 2)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        found = reasoner.find(HISTORIES, TARGETS, HISTORIES)
        assert torch.get_num_threads() == threads
        monkeypatch.setattr(reasoning, "find_figures", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            reasoner.find(HISTORIES, TARGETS, HISTORIES)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    for one in fields(Figures):
        torch.testing.assert_close(
            getattr(found.figures, one.name), getattr(whole.figures, one.name)
        )
    torch.testing.assert_close(found.beliefs, whole.beliefs)


@torch.no_grad()
def test_equal_inputs_are_ranked_in_parts() -> None:
    shown = Shown(models_of("sasrec", 2), HISTORIES, TARGETS, HISTORIES, SLOTS)
    everything = torch.ones(len(HISTORIES), 4, HISTORIES.shape[1], dtype=torch.bool)
    ranks = shown.every_target(everything).rank
    assert len({*ranks.flatten().tolist()}) > 1
    for copy in ranks.unbind(dim=2):
        torch.testing.assert_close(copy, figures_of(models_of("sasrec", 2)).rank)


@pytest.mark.parametrize("name", ["sasrec", "recent-ease"])
def test_what_items_alone_bring_is_the_same_if_all_are_asked(name: str) -> None:
    models = models_of(name, 2)
    singles = [SingleItems.of(one, ITEMS) for one in models]
    shown = Shown(models, HISTORIES, TARGETS, HISTORIES, SLOTS)
    each = find_figures(shown, singles, GROUPS)
    for one in singles:
        assert not one.are_tabulated
        assert one.lift.shape == (ITEMS, ITEMS)
        assert one.are_tabulated
    found = find_figures(shown, singles, GROUPS)
    for figure in ("alone", "alone_place", "alone_beaten", "pair_alone"):
        torch.testing.assert_close(getattr(found, figure), getattr(each, figure))
