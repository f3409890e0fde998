"""What was asked for, and the complete settings that it comes to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from whence.errors import InputError
from whence.models.sasrec import SASRecConfig
from whence.training import TrainingConfig
from whence.training.plans import Asked, Plan, default_model, with_given
from whence.training.recipes import DEFAULT, RECIPES, DataShape

SHAPE = DataShape(items=1_000, events=60_000, mean_length=12.0, long_length=33.0, validation=5_000)


def asked(**given: object) -> Asked:
    """Return a training that was asked for; what is not given is left open."""
    usual: dict[str, Any] = dict.fromkeys(("model", "settings", "training", "seeds"))
    return Asked.of(**{**usual, "recipe": DEFAULT, "effort": "normal", "device": "cpu", **given})


def plan(shape: DataShape = SHAPE, **given: object) -> Plan:
    return asked(**given).resolve(shape)


def test_what_is_given_comes_before_the_recipe() -> None:
    usual = plan()
    found = plan(settings={"dim": 24}, training={"patience": 2}, seeds=3)
    assert usual.settings["dim"] == 64
    assert usual.training.patience == 10
    assert found == Plan(
        {**usual.settings, "dim": 24}, replace(usual.training, patience=2), 3, found.notes
    )
    paper = plan(recipe="kang-2018", settings={"max_len": 50})
    assert (paper.settings["max_len"], paper.settings["dim"]) == (50, 50)


def test_typed_settings_are_those_that_differ_from_their_defaults() -> None:
    found = plan(settings=SASRecConfig(dim=24), training=TrainingConfig(steps=70))
    assert found.settings == {**plan().settings, "dim": 24}
    assert found.training == TrainingConfig(steps=70), "it is used as it is"


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ({}, {"steps": 9, "validate_every": 3, "patience": 2}),
        ({"epochs": 4}, {"epochs": 4, "validate_every": 1, "patience": 2}),
        ({"snapshots": 2}, {"steps": 9, "snapshots": 2}),
        ({"validate_every": 0}, {"steps": 9, "validate_every": 0}),
        ({"steps": 5}, {"steps": 5, "validate_every": 3, "patience": 2}),
    ],
)
def test_what_cannot_go_with_the_given_settings_is_left_out(
    given: dict[str, int], left: dict[str, int]
) -> None:
    recipe = {"steps": 9, "validate_every": 3, "patience": 2}
    assert with_given(recipe, given) == left
    TrainingConfig(**left)  # type: ignore[arg-type]


def test_steps_replace_the_epochs_of_a_recipe() -> None:
    assert with_given({"epochs": 20}, {"steps": 5}) == {"steps": 5}


def test_only_what_nobody_chose_is_searched() -> None:
    assert asked().searches
    assert asked().model == "sasrec"
    assert not asked(model="SASRec").searches
    for recipe in RECIPES:
        if recipe != DEFAULT:
            found = asked(recipe=recipe)
            assert (found.model, found.searches) == (default_model(recipe), False)
            assert found.model == next(iter(RECIPES[recipe].models))


def test_a_paper_trains_one_seed_as_its_settings_say() -> None:
    assert plan(recipe="he-2017").seeds == 1
    assert plan(recipe="he-2017").notes == ()
    assert plan(model="gmf").seeds == 1, "its settings do not follow the data"
    assert plan().seeds == 5


def test_the_notes_say_what_was_chosen_and_why() -> None:
    loss, seeds, end = plan().notes
    most = 2**25 // (plan().training.batch_size * 12)
    assert loss == (
        "Loss: softmax over all items, because the catalog has 1,000 items, not more than "
        f"{most:,}."
    )
    assert seeds == (
        "5 seeds recommend together: histories are short, 12 items on average. They take up to 5 "
        "times as long as one. --seeds 1 trains one."
    )
    assert end == (
        "Training ends after 10 validations without a better NDCG@10, or after 5,000 steps."
    )
    loss, seeds, end = plan(
        replace(SHAPE, items=50_000, mean_length=150.0, events=10**6, validation=7)
    ).notes
    assert loss == (
        "Loss: sampled softmax with 512 negatives, because the catalog has 50,000 items, more "
        "than 20,971."
    )
    assert seeds.startswith("One seed: on a processor, 5 take long with 1,000,000 events")
    assert "that needs 100 validation events, and there are only 7 of them" in end
    assert "nothing is chosen by validation" in end
    assert "and there are none" in plan(replace(SHAPE, validation=0)).notes[2]
    assert plan(effort="quick").notes[1] == "One seed (effort quick)."
    assert "a GPU trains them together" in plan(device="cuda").notes[1]
    few = plan(replace(SHAPE, mean_length=60.0)).notes[1]
    assert few.startswith(
        "5 seeds recommend together: there are at most 200,000 training events. They take up to 5 "
    )


def test_the_notes_do_not_explain_what_was_given() -> None:
    found = plan(settings={"loss": "bce"}, training={"steps": 9}, seeds=2)
    assert found.notes == ()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"model": "sasrek"}, "There is no model 'sasrek': did you mean 'sasrec'"),
        ({"recipe": "he-2018"}, "There is no recipe 'he-2018': did you mean 'he-2017'"),
        ({"effort": "bast"}, "effort"),
        ({"seeds": 0}, "seeds must be at least 1"),
        ({"settings": {"dims": 3}}, "did you mean 'dim'"),
        ({"training": {"step": 3}}, "did you mean 'steps'"),
        ({"recipe": "he-2017", "model": "sasrec"}, "no settings for sasrec, only for neumf"),
        ({"recipe": "he-2017", "effort": "best"}, "The settings of the recipe he-2017 are fixed"),
        ({"model": "gmf", "effort": "quick"}, "The settings of gmf do not follow an effort"),
        ({"model": "ease", "training": {"steps": 3}}, "Leave out steps"),
        ({"model": "ease", "seeds": 2}, "all 2 seeds would be equal"),
        ({"training": {"precision": "bfloat16"}}, "bfloat16 is for GPUs"),
    ],
)
def test_a_mistake_is_one_sentence_before_any_data_are_read(
    given: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InputError) as found:
        asked(**given)
    assert sentence in str(found.value)
