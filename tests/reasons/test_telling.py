"""What is found about a user is told as it was found."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import cast

import numpy as np
import pytest
import torch
from torch import Tensor

from believing import Believing
from conftest import LIVELY, ragged_batch
from whence.contract import PAD
from whence.data import Catalog
from whence.data.interactions import Interactions
from whence.reasons.calibrator import Beliefs, Calibrator
from whence.reasons.figures import BY_MODEL
from whence.reasons.groups import ItemGroups
from whence.reasons.judgement import Kind
from whence.reasons.reason import Check, Reason
from whence.reasons.reasoner import Found, Reasoner
from whence.reasons.smallest import SmallestSet
from whence.reasons.telling import Asked, leaving, tell

ITEMS, SLOTS = 30, 6
HISTORIES = ragged_batch(20, 9, ITEMS)
DRAWN = torch.rand(len(HISTORIES), ITEMS, generator=torch.Generator().manual_seed(0))
TARGETS = DRAWN.argsort(dim=1)[:, :3]
GROUP = np.arange(ITEMS) % 2
GROUPS = ItemGroups.of(np.arange(2)[:, None] == GROUP, None, ("Western", "Horror"))


@pytest.fixture(scope="module")
def catalog(interactions: Interactions) -> Catalog:
    return interactions.catalog


def reasoner(kind: str, models: int = 3, groups: ItemGroups = GROUPS) -> Reasoner:
    calibrator = cast("Calibrator", Believing(kind, 0.95))
    own = [LIVELY["sasrec"](items=ITEMS, length=SLOTS, seed=seed) for seed in range(models)]
    return Reasoner(own, SLOTS, ITEMS, groups, calibrator, "by hand")


def told(
    found: Found,
    catalog: Catalog,
    user: int,
    groups: ItemGroups = GROUPS,
    low: Tensor | None = None,
) -> list[Reason]:
    row = HISTORIES[user]
    items = row[row != PAD].numpy().astype(np.int32)
    rated = None if low is None else low[user][row != PAD].numpy()
    ratings = None if rated is None else np.where(rated, 1.0, 5.0)
    asked = Asked(items, ratings, catalog, "saw", groups, 0.9, "by hand", low=rated)
    return tell(asked, one_user(found, user), TARGETS[user].numpy())


def one_user(found: Found, user: int) -> Found:
    """Return what was found of one user."""
    rows = slice(user, user + 1)
    figures = {
        one.name: (values[:, rows] if one.name in BY_MODEL else values[rows])
        for one in fields(found.figures)
        for values in [getattr(found.figures, one.name)]
    }
    judgement = {
        one.name: getattr(found.judgement, one.name)[rows] for one in fields(found.judgement)
    }
    return Found(
        replace(found.figures, **figures),
        Beliefs(*(one[rows] for one in found.beliefs)),
        replace(found.judgement, **judgement),
    )


def named(checks: tuple[Check, ...]) -> dict[str, Check]:
    found = {one.name: one for one in checks}
    assert len(found) == len(checks)
    return found


@pytest.mark.parametrize("kind", ["item", "set", "taste", "popularity"])
def test_a_user_alone_is_told_the_same_as_in_a_batch(kind: str, catalog: Catalog) -> None:
    own = reasoner(kind)
    every = own.find(HISTORIES, TARGETS, HISTORIES)
    for user in range(len(HISTORIES)):
        rows = slice(user, user + 1)
        alone = own.find(HISTORIES[rows], TARGETS[rows], HISTORIES[rows])
        for name in ("kind", "likeliest", "place", "disliked"):
            batch, single = (getattr(one, name) for one in (every.judgement, alone.judgement))
            assert torch.equal(batch[rows], single), name
        torch.testing.assert_close(every.judgement.confidence[rows], alone.judgement.confidence)


def test_the_checks_of_an_item_have_its_figures(catalog: Catalog) -> None:
    found = reasoner("item").find(HISTORIES, TARGETS, HISTORIES)
    figures, said = found.figures, 0
    for user in range(len(HISTORIES)):
        for target, reason in enumerate(told(found, catalog, user)):
            if found.judgement.likeliest[user, target] != Kind.ITEM:
                continue
            place = int(found.judgement.place[user, target])
            lost = figures.lost[:, user, target, place].double()
            others = [one for one in range(3) if one != target]
            apart = lost.mean() - figures.lost[:, user, others, place].double().mean()
            strongest = figures.lost[:, user, target].amax(dim=1)
            checks = named(reason.checks)
            assert list(checks) == [
                *("direction", "necessity", "sufficiency", "specificity", "agreement"),
                "confidence",
            ]
            expected = {
                "direction": float(lost.mean()),
                "necessity": float(-torch.expm1(-lost.mean())),
                "sufficiency": float(figures.alone[:, user, target, place].double().mean().exp()),
                "specificity": float(apart.exp()),
                "agreement": float((lost >= strongest).double().mean()),
                "confidence": 0.95,
            }
            for name, value in expected.items():
                assert checks[name].value == pytest.approx(value, rel=1e-5), name
            label = catalog.labels([int(figures.candidates[user, place])])[0]
            rank, without = (
                int(figures.rank[user, target]),
                int(figures.rank_without[user, target, place]),
            )
            assert (
                checks["necessity"].says.endswith(
                    f"if {label} is really left out (rank {rank:,} → {without:,})"
                )
                or reason.in_history
            )
            count = int((lost > 1e-4).sum())
            assert checks["direction"].says == f"counts for it in {count} of 3 models"
            if reason.kind == "item":
                said += 1
                assert reason.sentence.endswith(f"because you saw {label}")
                (support,) = reason.supports
                assert support.probability_lost == pytest.approx(checks["necessity"].value)
                assert support.rank_without == without
    assert said > 3


def test_the_checks_of_a_pair_have_its_figures(catalog: Catalog) -> None:
    found = reasoner("set").find(HISTORIES, TARGETS, HISTORIES)
    figures, said = found.figures, 0
    for user in range(len(HISTORIES)):
        for target, reason in enumerate(told(found, catalog, user)):
            if reason.kind != "set":
                continue
            said += 1
            place = int(found.judgement.place[user, target])
            older, newer = figures.pairs[user, target, place].tolist()
            both = figures.candidates[user, [newer, older]]
            labels = catalog.labels(both.numpy())
            assert reason.sentence.endswith(
                f"because you saw {labels[0]} and {labels[1]}, which count together"
            )
            checks = named(reason.checks)
            alone = figures.alone[:, user, target].double().mean(dim=0)
            brought = float(figures.pair_alone[:, user, target, place].double().mean())
            beyond = brought - max(float(alone[older]), float(alone[newer]))
            assert checks["sufficiency"].value == pytest.approx(np.exp(brought), rel=1e-5)
            assert checks["specificity"].value == pytest.approx(np.exp(beyond), rel=1e-4)
            without = int(figures.pair_rank_without[user, target, place])
            assert f"→ {without:,})" in checks["necessity"].says or reason.in_history
            lost = float(figures.pair_lost[:, user, target, place].double().mean())
            assert reason.together is not None
            assert reason.together.rank_without == without
            assert reason.together.probability_lost == pytest.approx(1 - np.exp(-lost), rel=1e-4)
    assert said > 3


@pytest.mark.parametrize("names", [("Western", "Horror"), ()])
def test_a_taste_is_told_with_its_name_or_two_of_its_items(
    names: tuple[str, ...], catalog: Catalog
) -> None:
    groups = ItemGroups(GROUPS.member, GROUPS.share, names)
    low = torch.zeros_like(HISTORIES, dtype=torch.bool)
    low[:, -1] = True
    said = 0
    own = reasoner("taste", groups=groups)
    found = own.find(HISTORIES, TARGETS, HISTORIES, low=low)
    for user in range(len(HISTORIES)):
        for target, reason in enumerate(told(found, catalog, user, groups, low)):
            if reason.kind != "taste":
                continue
            said += 1
            assert reason.taste is not None
            group = int(found.figures.group[user, target])
            row = HISTORIES[user][HISTORIES[user] != PAD].tolist()
            mine = [item for item in row if item % 2 == group]
            assert (reason.taste.count, reason.taste.of) == (len(mine), len(row))
            if names:
                assert reason.taste.name == names[group]
                continue
            liked = [item for item in row[:-1] if item % 2 == group]
            newest = list(dict.fromkeys(liked[::-1]))[:2]
            assert reason.taste.name == f"items like {' and '.join(catalog.labels(newest))}"
    assert said > 1


def test_what_is_popular_is_told_with_what_the_history_adds(catalog: Catalog) -> None:
    found = reasoner("popularity").find(HISTORIES, TARGETS, HISTORIES)
    kinds = set()
    for user in range(len(HISTORIES)):
        for target, reason in enumerate(told(found, catalog, user)):
            checks = named(reason.checks)
            figures = found.figures
            lift = float((figures.full - figures.marginal)[:, user, target].double().mean())
            anyway = int(figures.rank_anyway[user, target])
            high = anyway <= max(10, int(figures.rank[user, target]))
            assert checks["history adds little"].passed is (lift < math.log(2))
            assert checks["recommended anyway"].passed is high
            assert checks["recommended anyway"].value == anyway
            assert (reason.kind == "popularity") is (high and lift < math.log(2))
            kinds.add(reason.kind)
    assert kinds == {"popularity", "none"}


def test_a_smallest_set_in_the_words_of_the_catalog(catalog: Catalog) -> None:
    found = leaving(catalog, SmallestSet((4, 2), 12, True), 10)
    assert found is not None
    assert found.labels == tuple(catalog.labels([4, 2]))
    assert found.items == tuple(catalog.raw_ids(np.array([4, 2])))
    assert leaving(catalog, None, 10) is None
