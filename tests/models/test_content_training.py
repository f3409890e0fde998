"""Content models of classes and of ratings, trained, audited and refused."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from typer.testing import CliRunner

import whence
from conftest import interactions_of
from whence.cli import app
from whence.contract import HasClasses, HasSelections
from whence.data import Interactions, last_two
from whence.data.catalog import Catalog
from whence.errors import InputError
from whence.measure import Measure
from whence.models import build_model
from whence.models.mean_rating import MeanRating
from whence.models.rated_ncf import InterpretableRatedNCF, RatedNCF
from whence.models.tasks import DISLIKED, LIKED, NO_QUESTION, Ratings
from whence.randomness import Randomness
from whence.reasons.evidence import find_evidence
from whence.run import Run
from whence.training import Evaluation, TrainingConfig, evaluate, fit
from whence.training.choice_batches import ChoiceBatches
from whence.training.recommenders import new_training
from whence.trust.audit.auditor import audit
from whence.trust.audit.context import CONTROL, AuditContext
from whence.trust.audit.finding import Finding
from whence.trust.audit.stage import STAGES

KINDS: list[dict[str, Any]] = [{"n_classes": 2}, {"n_classes": 3}, {"predict_ratings": True}]


@cache
def rated(of: str = "genre", users: int = 60, items: int = 24) -> Interactions:
    """Ratings decided by the genre of the item alone, or by the user alone."""
    rng = np.random.default_rng(3)
    chosen = [rng.permutation(items)[:14] for _ in range(users)]
    user, item = np.repeat(np.arange(users), 14), np.concatenate(chosen)
    high = (item if of == "genre" else user) % 2 == 0
    rating = np.where(high, 4.5, 1.5) + rng.choice([-0.5, 0.0, 0.5], len(item))
    events = Interactions.from_columns(
        pa.chunked_array([user]), pa.chunked_array([item]), rating=rating.astype(np.float32)
    )
    raw = events.catalog.table["item"].to_pylist()
    genres = ["Drama" if one % 2 == 0 else "War" for one in raw]
    return replace(events, catalog=Catalog(pa.table({"item": raw, "genres": genres})))


SMALL = {"dim": 4, "hidden_dims": (8, 6)}


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("name", ["content-ncf", "intrp-ncf"])
@pytest.mark.parametrize("settings", KINDS)
def test_a_seed_trains_the_same_in_a_stack_and_alone(name: str, settings: dict[str, Any]) -> None:
    split, config = last_two(rated()), TrainingConfig(steps=20, batch_size=32)
    chosen = {**SMALL, **settings}
    stacked = new_training(split, name, chosen, config, [0, 1], "cpu").run(show_progress=False)
    alone = fit(split, name, chosen, config, 1, show_progress=False)
    assert stacked[1].losses == pytest.approx(alone.losses, abs=1e-9)
    assert stacked[0].losses != pytest.approx(alone.losses, abs=1e-3)


def test_batches_of_ratings_hold_events_only() -> None:
    """Every one once an epoch, with its own rating, and filling at the end."""
    data = rated()
    split = last_two(data)
    batches = ChoiceBatches(split, Ratings(), 100, [Randomness(0)])
    assert data.ratings is not None
    by_pair = dict(zip(data.pairs().tolist(), data.ratings.tolist(), strict=True))
    seen = []
    for step in range(batches.steps_per_epoch):
        batches.prepare(step)
        batch = batches.draw(torch.tensor(step)).for_seed(0)
        numbers = (one.tolist() for one in batch if one is not None)
        for user, item, outcome, rating in zip(*numbers, strict=True):
            if outcome != NO_QUESTION:
                seen.append(user * data.item_count + item)
                assert by_pair[seen[-1]] == rating
    assert sorted(seen) == sorted(data.pairs()[split.trained()].tolist())


@cache
def trained(
    name: str,
    of: str,
    seeds: int = 1,
    steps: int = 400,
    **settings: Any,  # noqa: ANN401
) -> Run:
    return whence.train(
        rated(of),
        model=name,
        model_settings={**SMALL, **settings},
        training={"steps": steps, "batch_size": 128, "learning_rate": 0.01},
        seeds=seeds,
        show_progress=False,
    )


@pytest.mark.parametrize("of", ["genre", "user"])
def test_the_expert_that_explains_the_ratings_is_selected(of: str) -> None:
    """If ratings depend on the genre, content suffices; if on the user, the user is needed too."""
    model, data = trained("intrp-ncf", of, predict_ratings=True).first, rated(of)
    split = last_two(data)
    held = split.held["test"]
    batch, targets = model.read(held, 1), torch.from_numpy(held.targets)
    with torch.no_grad():
        assert isinstance(model, HasSelections)
        weights = model.selections(batch, targets).weights.mean(dim=0)
        found = model.score(batch, targets[:, None])[:, 0].numpy()
    assert int(weights.argmax()) == {"genre": 0, "user": 1}[of]
    assert data.ratings is not None
    assert np.abs(found - data.ratings[held.ends]).mean() < 0.6
    (first, *_) = find_evidence(model, batch, targets)
    assert "its genres" in first.seen
    assert ("your personal history" in first.seen) == (of == "user")


def test_the_error_of_ratings_by_hand() -> None:
    """|expected − given| of held-out events one by one, but for those without a rating."""
    data = rated()
    split, model = last_two(data), trained("intrp-ncf", "genre", predict_ratings=True).first
    held, ratings = split.held["test"], data.ratings
    assert ratings is not None
    gaps = ratings.copy()
    gaps[held.ends[::3]] = np.nan
    some = replace(split, interactions=replace(data, ratings=gaps))
    of_model, of_mean = [], []
    mean = float(ratings[split.trained()].astype(np.float64).mean())
    for case in range(len(held)):
        (user,), (item,) = held.users[[case]].tolist(), held.targets[[case]].tolist()
        given = gaps[data.offsets[user + 1] - 1]
        if not np.isnan(given):
            batch = torch.tensor([[3 * user, 3 * user + 1, 3 * user + 2]])
            with torch.no_grad():
                of_model.append(abs(float(model.score(batch, torch.tensor([[item]]))) - given))
            of_mean.append(abs(mean - given))
    assert len(of_model) == 40
    found = evaluate(model, some, "test", 1)["rating error"]
    assert found.value == pytest.approx(np.mean(of_model), abs=1e-6)
    assert (found.n, found.direction) == (40, "lower is better")
    assert Measure.from_dict(json.loads(json.dumps(found.as_dict()))) == found
    rule = Evaluation(some, "test", 1).rated(MeanRating(some)).measures()["rating error"]
    assert rule.value == pytest.approx(np.mean(of_mean), abs=1e-6)


def test_only_models_that_predict_ratings_have_a_rating_error() -> None:
    classes = trained("intrp-ncf", "genre", n_classes=3, n_negatives=1)
    assert "rating error" not in classes.metrics[0]["test"]
    run = trained("intrp-ncf", "genre", predict_ratings=True)
    assert {"rating error", "recall@10"} <= set(run.metrics[0]["test"])
    split = last_two(rated())
    unrated = replace(split, interactions=replace(split.interactions, ratings=None))
    assert "rating error" not in evaluate(run.first, unrated, "test", 1)


def test_weights_are_chosen_by_the_lowest_rating_error() -> None:
    """The error falls and rises again; training keeps the weights with the lowest."""
    split = last_two(rated())
    config = TrainingConfig(
        steps=400,
        batch_size=32,
        learning_rate=0.1,
        validate_every=5,
        patience=3,
        metric="rating error",
    )
    settings = {**SMALL, "predict_ratings": True}
    fitted = fit(split, "intrp-ncf", settings, config, 0, show_progress=False)
    errors = list(fitted.validations.values())
    lowest = int(np.argmin(errors))
    assert lowest > 0
    assert len(errors) == lowest + 4 < 400 // 5
    assert errors[lowest] < min(errors[0], errors[-1])
    assert fitted.kept_step == 5 * (lowest + 1)
    found = evaluate(fitted.model, split, "validation", 1)["rating error"].value
    assert found == errors[lowest]


def test_only_models_that_predict_ratings_are_chosen_by_the_rating_error() -> None:
    split, config = last_two(rated()), TrainingConfig(validate_every=1, metric="rating error")
    with pytest.raises(InputError, match="is for models that predict ratings, such as content-ncf"):
        new_training(split, "intrp-ncf", SMALL, config, [0], "cpu")
    ratings = split.interactions.ratings
    assert ratings is not None
    some = ratings.copy()
    some[split.held["validation"].ends] = np.nan
    bare = replace(split, interactions=replace(split.interactions, ratings=some))
    with pytest.raises(InputError, match="No validation event has a rating"):
        new_training(bare, "intrp-ncf", {**SMALL, "predict_ratings": True}, config, [0], "cpu")


def test_the_audit_reports_the_rating_error() -> None:
    run = trained("intrp-ncf", "genre", 3, predict_ratings=True)
    finding = audit(run, stages=["accuracy"], show_progress=False).findings["accuracy"]
    figures = {(one.of, one.name): one for one in finding.figures}
    own = figures["intrp-ncf", "rating error"]
    assert own.measure.value == run.accuracy["test"]["rating error"]["value"]
    rule = figures["mean rating", "rating error"].measure.value
    assert own.reading.startswith(f"The predicted ratings are off by {own.measure.value:.2f} (")
    assert finding.summary.endswith(
        f"off by {own.measure.value:.2f} rating points on average, clearly less than the "
        f"{rule:.2f} of always predicting the mean."
    )
    assert finding.answer != "no"


def test_the_audit_of_ratings_speaks_of_ratings() -> None:
    """By hand: the differences between seeds, and what the score loses without the first reason."""
    run = trained("intrp-ncf", "genre", 3, predict_ratings=True)
    context = AuditContext(run, 0, ("shapley", CONTROL), 30)
    batch = run.first.read(context.cases, 1)
    came_next = torch.from_numpy(context.cases.targets)[:, None]
    with torch.no_grad():
        expected = [one.score(batch, came_next) for one in run.models.values()]
    apart = [float((one - other).abs().mean()) for one, other in combinations(expected, 2)]
    steady, faithful = (STAGES[name].find(context) for name in ("stability", "faithfulness"))
    figures = {(one.of, one.name): one for one in (*steady.figures, *faithful.figures)}
    difference = figures["intrp-ncf", "difference of predicted ratings"].measure.value
    assert difference == pytest.approx(np.mean(apart), abs=1e-6)
    assert f"differ by {difference:.2f} points in the rating they predict" in steady.summary
    said, lost = context.explanations["shapley"], []
    for case, target in enumerate(context.targets.tolist()):
        present = torch.ones(2, 3, dtype=torch.bool)
        present[1, int(said.scores[case].argmax())] = False
        with torch.no_grad():
            both = run.first.score(
                context.batch[[case, case]], torch.full((2, 1), target), present=present
            )
        lost.append(float(both[0] - both[1]))
    figure = figures["shapley", "predicted rating lost without its reason"]
    assert figure.measure.value == pytest.approx(np.mean(lost), abs=1e-5)
    assert f"loses {np.mean(lost):.2f} rating points (loss: " in figure.reading
    for finding in (steady, faithful):
        assert "probab" not in json.dumps(finding.as_dict(), ensure_ascii=False)
        assert Finding.from_dict(json.loads(json.dumps(finding.as_dict()))) == finding


def test_content_tells_disliked_from_liked() -> None:
    """Only genres decide what is liked; unseen items have none."""
    model, data = trained("intrp-ncf", "genre", n_classes=3, n_negatives=1).first, rated()
    held = last_two(data).held["test"]
    batch, targets = model.read(held, 1), torch.from_numpy(held.targets)[:, None]
    assert data.ratings is not None
    with torch.no_grad():
        assert isinstance(model, HasClasses)
        said = model.classes(batch, targets)[:, 0]
    liked = torch.from_numpy(data.ratings[held.ends] > 2)
    assert ((said[:, LIKED] > said[:, DISLIKED]) == liked).double().mean() > 0.9


@pytest.mark.parametrize("settings", KINDS)
def test_runs_explain_themselves_and_are_audited(settings: dict[str, Any]) -> None:
    run = trained("intrp-ncf", "genre", 3, steps=40, **settings)
    found = whence.recommend(run, user=3, k=2)
    assert all(pick.reason.sentence.startswith("rests on ") for pick in found.picks)
    assert {"experts", "shapley"} <= set(whence.compare(run, user=3))
    asked = audit(run, cases=20, show_progress=False)
    answered = {"accuracy", "calibration", "faithfulness", "agreement", "stability"}
    if settings.get("predict_ratings"):
        answered -= {"calibration"}
        assert "predicts ratings and no probabilities" in asked.obstacles["calibration"]
    assert set(asked.findings) == answered
    ordinary = audit(
        trained("content-ncf", "genre", 3, steps=40, **settings), cases=20, show_progress=False
    )
    assert set(ordinary.findings) == answered


def test_training_from_the_command_line(tmp_path: Path) -> None:
    lines = [
        f"{user},{item},{1 + (user + item) % 5}"
        for user in range(8)
        for item in range(user, user + 6)
    ]
    (tmp_path / "events.csv").write_text("\n".join(["user,item,rating", *lines]))
    for settings in ("n_classes=3", "predict_ratings=true"):
        out = tmp_path / settings
        asked = ("--model", "intrp-ncf", "--set", f"{settings},steps=3,dim=4,hidden_dims=6-4")
        done = CliRunner().invoke(
            app,
            ["train", str(tmp_path / "events.csv"), *asked, "--out", str(out)],
        )
        assert done.exit_code == 0, done.output
        of_ratings = settings == "predict_ratings=true"
        assert ("rating error" in done.output) == of_ratings
        assert ("mean rating" in done.output) == of_ratings
        shown = CliRunner().invoke(app, ["recommend", str(out), "--user", "3"]).output
        assert "rests on" in shown
        assert "without it" not in shown, "only items of a history are removed"
        again = whence.open_run(out).first
        assert isinstance(again, InterpretableRatedNCF) == of_ratings
        if isinstance(again, RatedNCF):
            assert again.get_buffer("rating_mean").item() == pytest.approx(3, abs=0.2)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"n_classes": 4}, r"^n_classes must be 1, 2 or 3, not 4\.$"),
        ({"n_classes": 3, "n_negatives": 0}, r"^n_negatives must be at least 1, not 0\.$"),
        (
            {"predict_ratings": True, "n_negatives": -1},
            r"^n_negatives must be at least 0, not -1\.$",
        ),
        (
            {"n_classes": 2, "predict_ratings": True},
            r"^A rating has no classes",
        ),
        (
            {"n_classes": 3, "dislike_threshold": 0.5},
            r"^Three classes need liked .*all ratings are above 0.5",
        ),
        (
            {"n_classes": 3, "dislike_threshold": 5.0},
            r"^Three classes need liked .*all ratings are at most 5",
        ),
    ],
)
def test_settings_that_cannot_be_trained_raise_one_sentence(
    settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        whence.train(rated(), model="intrp-ncf", model_settings=settings, show_progress=False)


@pytest.mark.parametrize("name", ["content-ncf", "intrp-ncf"])
def test_ratings_are_trained_on_rated_events_only(name: str) -> None:
    """Whatever n_negatives says."""
    for negatives in ({}, {"n_negatives": 0}):
        settings = {**SMALL, "predict_ratings": True, **negatives}
        assert build_model(name, settings, rated().counts, torch.Generator()).task == Ratings()


def test_held_out_ratings_are_not_used() -> None:
    """Ratings are standardized by those of the training events."""
    data = rated()
    split, ratings = last_two(data), data.ratings
    assert ratings is not None
    known = split.trained()
    other = replace(data, ratings=np.where(known, ratings, np.float32(np.nan)))
    for events in (data, other):
        model = build_model(
            "intrp-ncf", {**SMALL, "predict_ratings": True}, events.counts, torch.Generator()
        )
        model.fit_features(last_two(events))
        assert float(model.get_buffer("rating_mean")) == pytest.approx(ratings[known].mean())
        assert float(model.get_buffer("rating_spread")) == pytest.approx(ratings[known].std())


def test_useless_ratings_raise_one_sentence() -> None:
    """No ratings, missing ones, and all the same."""
    data = rated()
    assert data.ratings is not None
    bare = interactions_of([[1, 2, 3], [2, 3, 4]])
    model = build_model(
        "intrp-ncf", {**SMALL, "predict_ratings": True}, bare.counts, torch.Generator()
    )
    with pytest.raises(
        InputError, match=r"^predict_ratings needs ratings, and these data have none"
    ):
        model.fit_features(last_two(bare))
    for ratings, said in ((np.nan, "^Some ratings are missing"), (4.0, "^All ratings are 4, so")):
        same = replace(data, ratings=np.full_like(data.ratings, ratings))
        model = build_model(
            "intrp-ncf", {**SMALL, "predict_ratings": True}, same.counts, torch.Generator()
        )
        with pytest.raises(InputError, match=said):
            model.fit_features(last_two(same))
    with pytest.raises(InputError, match=r"^Three classes need ratings, to tell liked from"):
        whence.train(bare, model="intrp-ncf", model_settings={"n_classes": 3}, show_progress=False)
