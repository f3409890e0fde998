"""Accuracy per class against loops, for made-up models of two and three classes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from conftest import NCF_EVENTS, interactions_of, lively_sasrec, ncf_layout
from whence.contract import PAD, All, HasClasses
from whence.data import Split, last_one
from whence.data.histories import Cases
from whence.data.interactions import Counts
from whence.errors import CapabilityError, InputError
from whence.measure import bootstrap_interval
from whence.models import build_model
from whence.models.base import CaseReader
from whence.randomness import Randomness
from whence.trust import published_class_accuracy
from whence.trust.accuracy.class_accuracy import class_accuracy

ITEMS = 12


class ByTable(CaseReader):
    """Logits by the newest item of the history and the target."""

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits
        self.asked: list[int] = []

    def parts(self, batch: Tensor) -> Tensor:
        return batch != PAD

    def score(
        self,
        batch: Tensor,
        targets: Tensor | All,
        *,
        present: Tensor | None = None,
        embedded: Tensor | None = None,
        attention: Sequence[Tensor | None] | None = None,
    ) -> Tensor:
        raise NotImplementedError("accuracy per class needs no scores")

    def classes(
        self,
        batch: Tensor,
        targets: Tensor,
        *,
        attention: Sequence[Tensor | None] | None = None,
    ) -> Tensor:
        self.asked.append(len(batch))
        return self.logits[batch[:, -1, None], targets]


def table(classes: int, seed: int = 0) -> Tensor:
    return torch.randn(ITEMS, ITEMS, classes, generator=torch.Generator().manual_seed(seed))


def cases_of(users: int, seed: int = 0) -> Cases:
    rng = np.random.default_rng(seed)
    return last_one(
        interactions_of([list(range(ITEMS)), *rng.integers(0, ITEMS, (users - 1, 4)).tolist()])
    ).held["test"]


@given(seed=st.integers(0, 10**6), classes=st.sampled_from([2, 3]))
def test_shares_by_loops(seed: int, classes: int) -> None:
    rng = np.random.default_rng(seed)
    cases = cases_of(9, seed)
    negatives = rng.integers(0, ITEMS, (9, 5))
    negatives[2] = cases.targets[2]  # nothing is left to ask about
    ratings = rng.integers(1, 6, 9).astype(np.float64)
    logits = table(classes, seed)
    found = class_accuracy(ByTable(logits), cases, negatives, 3, ratings)
    expected: dict[str, list[float]] = {"liked": [], "nothing": [], "disliked": []}
    for row in range(9):
        newest = cases.items[cases.ends[row] - 1]
        target = cases.targets[row]
        likeliest = int(logits[newest, target].argmax())
        if classes == 3 and ratings[row] <= 2:
            expected["disliked"].append(likeliest == 2)
        else:
            expected["liked"].append(likeliest == 0)
        right = [int(logits[newest, i].argmax()) == 1 for i in negatives[row] if i != target]
        if right:
            expected["nothing"].append(sum(right) / len(right))
    assert list(found) == ["liked", "nothing", "disliked"][:classes]
    for name, measure in found.items():
        values = np.array(expected[name], dtype=np.float64)
        if measure is None:
            assert not len(values)
            continue
        assert measure.value == pytest.approx(values.mean())
        assert measure.n == len(values)
        if len(values) > 1:
            assert measure.interval == pytest.approx(bootstrap_interval(values))
        assert f"likeliest of {classes} classes" in measure.protocol


def test_a_class_that_nobody_has_is_none() -> None:
    cases = cases_of(5)
    model, negatives = ByTable(table(3)), np.ones((5, 2), dtype=np.int64)
    loved = class_accuracy(model, cases, negatives, 3, np.full(5, 3.0))
    hated = class_accuracy(model, cases, negatives, 3, np.full(5, 2.0))
    assert loved["disliked"] is None
    assert loved["liked"] is not None
    assert hated["liked"] is None
    assert hated["disliked"] is not None
    alone = class_accuracy(model, cases, cases.targets[:, None].copy(), 3, np.full(5, 3.0))
    assert alone["nothing"] is None
    assert class_accuracy(model, cases, negatives[:, :0], 3, np.full(5, 3.0))["nothing"] is None


def test_a_model_of_no_numbers_is_never_right() -> None:
    cases = cases_of(5)
    found = class_accuracy(
        ByTable(torch.full((ITEMS, ITEMS, 2), math.nan)), cases, np.ones((5, 2), dtype=np.int64), 3
    )
    assert [measure and measure.value for measure in found.values()] == [0.0, 0.0]


def test_slices_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = cases_of(30)
    negatives = np.random.default_rng(0).integers(0, ITEMS, (30, 4))
    whole, few = ByTable(table(2)), ByTable(table(2))
    one = class_accuracy(whole, cases, negatives, 3)
    monkeypatch.setattr("whence.memory.SCORES_AT_ONCE", 16 * 3 * 5 * 7)
    assert class_accuracy(few, cases, negatives, 3) == one
    assert (whole.asked, few.asked) == ([30], [7, 7, 7, 7, 2])


def test_the_published_negatives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ratings are those of the events that are tested: 1 + 200 % 5 = 1, then 2, 3 and 4."""
    data = ncf_layout(tmp_path, monkeypatch)
    split = last_one(data)

    class Certain(ByTable):
        def classes(
            self,
            batch: Tensor,
            targets: Tensor,
            *,
            attention: Sequence[Tensor | None] | None = None,
        ) -> Tensor:
            raw = data.catalog.table["item"].to_numpy()[targets.numpy()]
            right = np.where(raw < 200, 1, np.where(raw < 202, 2, 0))
            return torch.nn.functional.one_hot(torch.from_numpy(right), 3).double()

    assert [events[-1] for events, _ in NCF_EVENTS.values()] == [200, 201, 202, 203]
    found = published_class_accuracy(Certain(table(3)), split, 5)
    assert [(one.value, one.n) for one in found.values() if one] == [(1.0, 2), (1.0, 4), (1.0, 2)]


@pytest.mark.parametrize("classes", [1, 2, 3])
def test_a_model_that_looks_with_the_target_in_mind(classes: int) -> None:
    """DeepICF+a, asked about one item at a time; one output stands for two classes."""
    counts, generator = Counts(ITEMS, 9), Randomness(classes).torch("init")
    settings = {"max_len": 4, "dim": 3, "hidden_dims": (4,), "n_classes": classes, "init_std": 1.0}
    model = build_model("deepicf-a", settings, counts, generator).eval()
    cases = cases_of(9)
    negatives = np.random.default_rng(0).integers(0, ITEMS, (9, 3))
    ratings = (np.arange(9) % 5 + 1).astype(np.float64)
    found = class_accuracy(model, cases, negatives, 4, ratings)
    assert list(found) == ["liked", "nothing", "disliked"][: max(2, classes)]
    shares = []
    for row in range(9):
        batch = model.read(cases[np.array([row])], 4)
        assert isinstance(model, HasClasses)
        told = [
            int(model.classes(batch, torch.tensor([[item]]))[0, 0].argmax()) == 1
            for item in negatives[row]
            if item != cases.targets[row]
        ]
        shares.append(np.mean(told))
    assert found["nothing"] is not None
    assert found["nothing"].value == pytest.approx(np.mean(shares))


@pytest.mark.parametrize("disliked", [1.0, 2.0, 4.0])
def test_disliked_is_what_the_model_learned_as_such(disliked: float) -> None:
    settings = {
        "max_len": 4,
        "dim": 3,
        "hidden_dims": (4,),
        "n_classes": 3,
        "dislike_threshold": disliked,
    }
    model = build_model("deepicf-a", settings, Counts(ITEMS, 9), Randomness(0).torch("init"))
    ratings = (np.arange(9) % 5 + 1).astype(np.float64)
    negatives = np.random.default_rng(0).integers(0, ITEMS, (9, 3))
    found = class_accuracy(model.eval(), cases_of(9), negatives, 4, ratings)
    assert found["disliked"] is not None
    assert found["disliked"].n == (ratings <= disliked).sum()


def test_what_cannot_be_asked_is_one_sentence(split: Split) -> None:
    cases, negatives = cases_of(5), np.ones((5, 2), dtype=np.int64)
    with pytest.raises(InputError, match="needs the rating of every item that came"):
        class_accuracy(ByTable(table(3)), cases, negatives, 3)
    with pytest.raises(CapabilityError, match=r"or 3 \(and disliked\), not 1"):
        class_accuracy(ByTable(table(1)), cases, negatives, 3)
    with pytest.raises(InputError, match=r"not shape \[4, 2\] for 5 cases"):
        class_accuracy(ByTable(table(2)), cases, negatives[:4], 3)
    with pytest.raises(InputError, match="for 0 cases"):
        class_accuracy(ByTable(table(2)), cases[:0], negatives[:0], 3)
    with pytest.raises(CapabilityError, match="has no 'classes', which accuracy per class needs"):
        class_accuracy(lively_sasrec(), cases, negatives, 3)
    with pytest.raises(InputError, match="No negatives are published for"):
        published_class_accuracy(ByTable(table(2)), split, 3)
