"""Ratings of held-out events, predicted as numbers and as classes, case by case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import whence
from conftest import ncf_layout
from whence.contract import HasClasses
from whence.data import Interactions, last_two
from whence.errors import InputError
from whence.models import Recommender
from whence_studies.measurements import held_out_ratings as measurement
from whence_studies.measurements.held_out_ratings import ALWAYS, OF_ALL, OF_ITEM, RIGHT, RMSE, TOLD
from whence_studies.measurements.measurement import MeasuredRun, NoOptions

Asked = Callable[..., MeasuredRun]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Interactions:
    return ncf_layout(tmp_path, monkeypatch)


@pytest.fixture
def asked(data: Interactions) -> Asked:
    def train(model: str = "intrp-ncf", **settings: object) -> MeasuredRun:
        small = {"dim": 4, "hidden_dims": [6, 4]} if model.endswith("ncf") else {"dim": 8}
        run = whence.train(
            data,
            model=model,
            model_settings={**small, **settings},
            training={"epochs": 3, "batch_size": 16, "learning_rate": 0.05},
            seeds=2,
            split="last-two",
            show_progress=False,
        )
        return MeasuredRun(run, last_two(data), "test", show_progress=False)

    return train


def last_events(data: Interactions) -> list[tuple[int, int, float]]:
    """Every user's last item and its rating, from the columns of the data."""
    assert data.ratings is not None
    ends = (data.offsets[1:] - 1).tolist()
    return [(user, int(data.items[end]), float(data.ratings[end])) for user, end in enumerate(ends)]


def score_of(model: Recommender, data: Interactions, user: int, item: int) -> float:
    cases = last_two(data).held["test"][user : user + 1]
    with torch.no_grad():
        return model.score(model.read(cases, 50), torch.tensor([[item]])).item()


def classes_of(model: Recommender, data: Interactions, user: int, item: int) -> list[float]:
    cases = last_two(data).held["test"][user : user + 1]
    assert isinstance(model, HasClasses)
    with torch.no_grad():
        logits = model.classes(model.read(cases, 50), torch.tensor([[item]]))[0, 0]
    return [one.item() for one in logits]


@pytest.mark.parametrize("model", ["intrp-ncf", "content-ncf"])
def test_errors_of_ratings_and_of_means(model: str, data: Interactions, asked: Asked) -> None:
    what = asked(model, predict_ratings=True)
    found = measurement.held_out_ratings(what, NoOptions())
    assert set(found) == {RMSE, OF_ITEM, OF_ALL}
    came = last_events(data)
    for place, one in enumerate(what.run.models.values()):
        squares = [(score_of(one, data, user, item) - given) ** 2 for user, item, given in came]
        assert found[RMSE].per_seed[place] == pytest.approx((sum(squares) / len(squares)) ** 0.5)
    assert data.ratings is not None
    known: dict[int, list[float]] = {}
    for start, end in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        for event in range(start, end - 2):
            known.setdefault(int(data.items[event]), []).append(float(data.ratings[event]))
    overall = np.mean([one for some in known.values() for one in some])
    of_items = [(np.mean(known.get(item, overall)) - given) ** 2 for _, item, given in came]
    assert found[OF_ITEM].per_seed == pytest.approx([np.sqrt(np.mean(of_items))] * 2)
    of_all = [(overall - given) ** 2 for *_, given in came]
    assert found[OF_ALL].per_seed == pytest.approx([np.sqrt(np.mean(of_all))] * 2)
    assert {(one.n, one.direction) for one in found.values()} == {(len(came), "lower is better")}


@pytest.mark.parametrize("classes", [1, 2, 3])
def test_classes_of_rated_items(classes: int, data: Interactions, asked: Asked) -> None:
    what = asked(n_classes=classes)
    found = measurement.held_out_ratings(what, NoOptions())
    assert set(found) == {RIGHT, ALWAYS} | ({TOLD} if classes == 3 else set())
    came = last_events(data)
    true = [2 if classes == 3 and given <= 2 else 0 for *_, given in came]
    for place, one in enumerate(what.run.models.values()):
        logits = [classes_of(one, data, user, item) for user, item, _ in came]
        right = [row.index(max(row)) == own for row, own in zip(logits, true, strict=True)]
        assert found[RIGHT].per_seed[place] == pytest.approx(100 * np.mean(right))
        if classes == 3:
            told = [
                (2 if row[2] > row[0] else 0) == own for row, own in zip(logits, true, strict=True)
            ]
            assert found[TOLD].per_seed[place] == pytest.approx(100 * np.mean(told))
    assert found[ALWAYS].per_seed == pytest.approx([100 * np.mean([one == 0 for one in true])] * 2)
    assert f"most probable of {max(2, classes)} classes" in found[RIGHT].protocol


def test_an_item_without_training_ratings_has_the_mean_of_all(data: Interactions) -> None:
    split = last_two(data)
    of_items, of_all = measurement.mean_ratings(split)
    trained = set(data.items[split.trained()].tolist())
    unknown = [item for item in range(data.item_count) if item not in trained]
    assert unknown
    assert of_items[unknown] == pytest.approx([of_all] * len(unknown))


def test_events_without_ratings_raise(data: Interactions, asked: Asked) -> None:
    what = asked(n_classes=2)
    split = last_two(replace(data, ratings=None))
    with pytest.raises(InputError, match="No test event has a rating"):
        measurement.held_out_ratings(replace(what, split=split), NoOptions())


def test_a_model_without_classes_has_no_columns(asked: Asked) -> None:
    assert measurement.held_out_ratings(asked("sasrec"), NoOptions()) == {}
