"""The rules of the default recipe, and the settings of the papers."""

from __future__ import annotations

from dataclasses import asdict, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from whence.data import last_one, last_two, load
from whence.errors import InputError
from whence.models import MODELS
from whence.models.losses import LossName
from whence.models.sasrec import SASRecConfig
from whence.training import TrainingConfig
from whence.training.plans import Asked
from whence.training.recipes import (
    BUDGETS,
    DEFAULT,
    DROPOUTS,
    EFFORTS,
    MANY_EVENTS,
    RECIPES,
    DataShape,
    Effort,
    default_seeds,
    default_settings,
)
from whence.worlds import World
from whence_studies.study import Cell, find_study

DEFAULTS = {
    "Beauty": DataShape(12_101, 153_776, 6.876, 19.0, 22_363),
    "Toys": DataShape(11_924, 128_773, 6.634, 18.0, 19_412),
    "ML-1M 3416": DataShape(3_416, 987_531, 163.499, 554.0, 6_040),
    "Games": DataShape(23_715, 225_305, 7.326, 20.0, 30_901),
    "MovieLens small 2016": DataShape(9_066, 98_662, 147.037, 518.0, 671),
    "MovieLens small 2018": DataShape(9_724, 99_616, 163.305, 608.75, 610),
    "ML-100K": DataShape(1_682, 98_114, 104.045, 308.6, 943),
    "LastFM": DataShape(3_646, 50_371, 46.212, 204.1, 1_090),
}
"""The shapes of the data of `sequential-default` and `sequential-quick`."""
SHAPE = DataShape(items=1_000, events=60_000, mean_length=12.0, long_length=33.0, validation=5_000)


def settings(
    effort: Effort = "normal",
    device: str = "cpu",
    **shape: Any,  # noqa: ANN401
) -> tuple[dict[str, Any], dict[str, Any]]:
    return default_settings(replace(SHAPE, **shape), effort, device)


@pytest.mark.parametrize(
    ("long", "effort", "device", "max_len"),
    [
        (63.0, "normal", "cpu", 70),
        (70.0, "normal", "cpu", 70),
        (70.5, "normal", "cpu", 80),
        (3.0, "normal", "cpu", 50),
        (900.0, "quick", "cpu", 50),
        (900.0, "quick", "cuda", 50),
        (900.0, "normal", "cpu", 100),
        (900.0, "normal", "cuda", 200),
        (900.0, "best", "cuda", 200),
    ],
)
def test_the_length_is_that_of_nearly_all_histories(
    long: float, effort: Effort, device: str, max_len: int
) -> None:
    """The next ten, from 50 to what the effort allows."""
    assert settings(effort, device, long_length=long)[0]["max_len"] == max_len


def test_dropout_falls_with_the_events_of_an_item() -> None:
    found = [settings(events=each * 1_000)[0]["dropout"] for each in (1, 39, 40, 99, 100, 5_000)]
    assert found == [0.5, 0.5, 0.3, 0.3, 0.2, 0.2]
    assert [least for least, _ in DROPOUTS] == sorted((one[0] for one in DROPOUTS), reverse=True)
    assert DROPOUTS[-1][0] == 0, "every catalog has a dropout"


def test_embeddings_are_larger_with_many_events() -> None:
    few, many = settings(events=MANY_EVENTS - 1)[0], settings(events=MANY_EVENTS)[0]
    assert (few["dim"], few["n_heads"]) == (64, 1)
    assert (many["dim"], many["n_heads"]) == (128, 2)
    assert settings("quick", events=MANY_EVENTS)[0]["dim"] == 64


@pytest.mark.parametrize(("device", "most"), [("cpu", 2**25), ("cuda", 2**31)])
@pytest.mark.parametrize("length", [7.0, 40.0, 5_000.0])
def test_the_loss_follows_the_size_of_the_catalog(device: str, most: int, length: float) -> None:
    """A step computes a score for each event of its batch and each item."""
    for items in (100, 5_000, 20_000, 200_000, 10**6):
        own, training = settings(device=device, mean_length=length, items=items)
        scores = training["batch_size"] * min(length, own["max_len"]) * items
        assert own["loss"] == ("softmax" if scores <= most else "sampled-softmax")


def test_an_effort_allows_more_than_the_one_before() -> None:
    found = [asdict(BUDGETS[effort]) for effort in EFFORTS]
    assert EFFORTS == ("quick", "normal", "best")
    for less, more in pairwise(found):
        assert all(less[name] <= more[name] for name in less)
        assert less["steps"] < more["steps"]


def test_many_events_take_more_steps() -> None:
    for effort, budget in BUDGETS.items():
        assert settings(effort)[1]["steps"] == budget.steps
        assert settings(effort, events=MANY_EVENTS)[1]["steps"] == budget.steps_for_many


@pytest.mark.parametrize("effort", EFFORTS)
def test_a_training_is_validated_twenty_times(effort: Effort) -> None:
    training = settings(effort)[1]
    assert training["steps"] == 20 * training["validate_every"]
    assert training["patience"] == 10


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("events", [3_000, 60_000, 10**7])
@pytest.mark.parametrize("length", [1.0, 7.0, 80.0, 5_000.0])
def test_a_batch_has_about_as_many_events_for_any_length(
    length: float, events: int, device: str
) -> None:
    """Within half a power of two, and at most a twentieth of all events."""
    own, training = settings(device=device, mean_length=length, long_length=length, events=events)
    size = training["batch_size"]
    assert size in (16, 32, 64, 128, 256)
    wanted = min(2_000 if device == "cpu" else 20_000, events / 20)
    ratio = size * min(length, own["max_len"]) / wanted
    assert 2**-0.5 <= ratio <= 2**0.5 or (size == 16 and ratio > 1) or (size == 256 and ratio < 1)


def test_too_few_validations_choose_nothing(world: World) -> None:
    _, enough = settings(validation=100)
    _, few = settings(validation=99)
    assert (enough["patience"], enough["validate_every"]) == (10, 250)
    assert (few["patience"], few["validate_every"]) == (0, 0)
    assert few["steps"] == BUDGETS["quick"].steps
    assert not DataShape.of(last_one(world.interactions)).can_validate, "last-one holds out none"


@pytest.mark.parametrize(
    ("effort", "device", "length", "events", "seeds"),
    [
        ("normal", "cpu", 8.0, 9_000_000, 5),
        ("normal", "cpu", 150.0, 100_000, 5),
        ("normal", "cpu", 150.0, 900_000, 1),
        ("normal", "cuda", 150.0, 900_000, 5),
        ("quick", "cuda", 8.0, 1_000, 1),
        ("best", "cpu", 8.0, 1_000, 5),
    ],
)
def test_several_seeds_where_they_cost_little(
    effort: Effort, device: str, length: float, events: int, seeds: int
) -> None:
    shape = replace(SHAPE, mean_length=length, events=events)
    assert default_seeds(shape, effort, device) == seeds


def test_the_shape_is_counted(world: World) -> None:
    data = world.interactions
    split = last_two(data)
    shape = DataShape.of(split)
    lengths = []
    for user in range(data.user_count):
        count = int(data.offsets[user + 1] - data.offsets[user])
        trained = count - 2 if count >= 3 else count
        if trained >= 2:
            lengths.append(trained)
    assert shape.items == data.item_count
    assert shape.events == len(data) - 2 * len(split.held["test"])
    assert shape.validation == len(split.held["validation"])
    assert shape.mean_length == pytest.approx(np.mean(lengths))
    assert sum(length <= shape.long_length for length in lengths) >= 0.95 * len(lengths)


def of_study(study: str, model: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the file of a study says about a model, beyond the defaults of the model."""
    found = find_study(study)
    return dict(found.models[model].settings), {**found.training, **found.models[model].training}


def complete(recipe: str, model: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return all settings that a recipe comes to."""
    own, training = RECIPES[recipe].settings(model)
    return asdict(MODELS[model].config(**own)), asdict(TrainingConfig(**training))


def test_the_recipe_of_baumhauer_is_that_of_the_studies() -> None:
    """But for the length, the epochs and the masks, which differ by dataset there."""
    for name, model in (("SASRec", "sasrec"), ("BERT4Rec", "bert4rec")):
        settings, training = of_study("sequential-accuracy", name)
        assert complete("baumhauer-2021", model) == (
            asdict(MODELS[model].config(**settings)),
            asdict(TrainingConfig(**training)),
        )


def test_the_recipes_of_the_collaborative_models_are_those_of_the_studies() -> None:
    """But for validations on the test events, by which the published tables choose the epoch."""
    of_tables = {"validate_every", "validate_on", "metric", "patience"}
    for recipe, names, epochs in (
        ("he-2017", {"GMF": "gmf", "MLP": "mlp", "NeuMF": "neumf"}, None),
        ("xue-2019", {"FISM": "fism"}, None),
        ("xue-2019", {"DeepICF": "deepicf", "DeepICF+a": "deepicf-a"}, 20),
    ):
        for name, model in names.items():
            settings, training = of_study("collaborative-accuracy", name)
            wanted = {**MODELS[model].training, **training}
            wanted = {one: value for one, value in wanted.items() if one not in of_tables}
            if epochs is not None:
                wanted["epochs"] = epochs
            assert complete(recipe, model) == (
                asdict(MODELS[model].config(**settings)),
                asdict(TrainingConfig(**wanted)),
            )


def test_the_recipe_of_jain_is_a_row_of_the_study() -> None:
    row = find_study("collaborative-accuracy").variants["two classes"]
    settings, training = RECIPES["jain-2019"].settings("deepicf-a")
    assert settings == dict(row.settings)
    assert training["epochs"] == row.training["epochs"]


@pytest.mark.parametrize("recipe", [name for name in RECIPES if name != DEFAULT])
def test_every_recipe_is_complete_and_says_what_it_is(recipe: str) -> None:
    assert RECIPES[recipe].summary.endswith(".")
    assert RECIPES[recipe].models
    for model in RECIPES[recipe].models:
        own, _ = complete(recipe, model)
        if "loss" in own:
            assert own["loss"] in LossName.__args__  # type: ignore[attr-defined]


def test_a_recipe_without_the_model_is_one_sentence() -> None:
    with pytest.raises(InputError, match=r"no settings for gmf, only for sasrec, bert4rec"):
        RECIPES["baumhauer-2021"].settings("gmf")
    with pytest.raises(InputError, match="did you mean 'kang-2018'"):
        RECIPES["kang"]


@pytest.mark.parametrize(
    ("name", "effort"),
    [
        *((name, "normal") for name in find_study("sequential-default").datasets),
        *((name, "quick") for name in find_study("sequential-quick").datasets),
    ],
)
def test_the_studies_of_the_default_train_by_its_rules(name: str, effort: Effort) -> None:
    quick = effort == "quick"
    study = find_study("sequential-quick" if quick else "sequential-default")
    model, training = study.settings_of(Cell(name, "SASRec", "quick" if quick else "default"))
    own, schedule = default_settings(DEFAULTS[name], effort, "cpu" if quick else "cuda")
    defaults = asdict(SASRecConfig())
    if own["loss"] == "softmax":  # which has no negatives
        own["n_negatives"] = defaults["n_negatives"]
    assert {**defaults, **model} == {**defaults, **own}
    assert {"precision": "float32", **training} == schedule


@pytest.mark.needs("data")
@pytest.mark.parametrize("name", [one for one in DEFAULTS if one != "MovieLens small 2016"])
def test_the_shapes_are_those_of_the_data(name: str) -> None:
    studies = [find_study(f"sequential-{one}") for one in ("default", "quick")]
    data = next(one.datasets[name].data for one in studies if name in one.datasets)
    found = DataShape.of(last_two(load(data)))
    assert asdict(found) == pytest.approx(asdict(DEFAULTS[name]), rel=1e-3)


def test_the_schedule_follows_the_steps_that_are_given() -> None:
    _, few = default_settings(SHAPE, "normal", "cpu", {"steps": 60})
    assert (few["warmup"], few["validate_every"]) == (6, 3)
    _, one = default_settings(SHAPE, "normal", "cpu", {"steps": 1})
    assert (one["warmup"], one["validate_every"]) == (0, 1)
    asked = Asked.of(None, DEFAULT, "normal", None, {"steps": 60}, None, "cpu")
    training = asked.resolve(SHAPE).training
    assert (training.steps, training.warmup, training.validate_every) == (60, 6, 3)
