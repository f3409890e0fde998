"""An audit of every model there is: each question has its answer, or one sentence why not."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

import whence
from conftest import interactions_of
from whence.contract import HasClasses, offers
from whence.errors import CapabilityError, InputError
from whence.explainers import explain_batch
from whence.measure import Measure
from whence.models.base import HasOwnReasons
from whence.models.registry import MODELS
from whence.report.audit_page import write_audit
from whence.run import Run
from whence.trust import (
    ClassPermutation,
    class_permutation,
    class_predictions,
    class_stability,
    expected_calibration_error,
    popularity_bias,
)
from whence.trust.audit.auditor import audit
from whence.trust.audit.class_questions import class_questions
from whence.trust.audit.context import CONTROL, HELD, AuditContext, default_methods
from whence.trust.audit.stage import STAGES
from whence.trust.calibration import calibration_finding as calibration_module

ABOUT_HISTORIES = {"sentences", "truth", "popularity"}
ABOUT_REASONS = {"faithfulness", "agreement"}
OF_GROUPS = {"content-ncf", "intrp-ncf"}


@cache
def trained(name: str, seeds: int = 3, **settings: Any) -> Run:  # noqa: ANN401
    rng = np.random.default_rng(1)
    users = [rng.permutation(30)[: rng.integers(6, 14)].tolist() for _ in range(60)]
    closed, rate = MODELS[name].closed_form, 0.01 if name in OF_GROUPS else 0.05
    training = {"steps": 12, "batch_size": 8}
    return whence.train(
        interactions_of(users),
        model=name,
        model_settings={"max_len": 8, **({} if closed else {"dim": 4}), **settings},
        training=None if closed else {**training, "learning_rate": rate},
        seeds=1 if closed else seeds,
        show_progress=False,
    )


def audited_of(name: str, cases: int = 30, **settings: Any) -> AuditContext:  # noqa: ANN401
    run = trained(name, **settings)
    return AuditContext(run, 0, default_methods(run.first), cases)


@pytest.mark.parametrize("name", MODELS)
def test_every_model_can_be_audited(name: str, tmp_path: Any) -> None:  # noqa: ANN401
    run = trained(name)
    found = audit(run, cases=25, show_progress=False)
    reads, attends = run.first.reads_history, offers(run.first, "attentions")
    left_out = (set() if reads else ABOUT_HISTORIES) | (set() if attends else {"permutation"})
    explained = reads or name in OF_GROUPS
    left_out |= set() if explained and name != "popularity" else ABOUT_REASONS
    left_out |= {"stability"} if len(run.models) == 1 else set()
    left_out |= {"sentences"} if isinstance(run.first, HasOwnReasons) else set()
    left_out |= {"learned"}  # of these data neither genres nor ages are known
    assert set(found.obstacles) == left_out
    assert set(found.findings) == set(STAGES) - left_out
    for one in found.obstacles.values():
        assert one.count(". ") == 0
        assert one.endswith(".")
    for finding in found.findings.values():
        sentences = [finding.summary, *finding.notes, *(one.reading for one in finding.figures)]
        for said in (*sentences, *(chart.reading for chart in finding.charts)):
            assert said.endswith(".")
            assert "nan" not in said.replace("(", " ").split()
        for figure in finding.figures:
            low, high = figure.measure.interval
            assert low <= figure.measure.value <= high or figure.measure.n < 3, figure
    page = write_audit(found, tmp_path / "audit.html").read_text()
    assert page.count("<svg") == sum(len(one.charts) for one in found.findings.values())
    assert set(found.settings["methods"]) == set(default_methods(run.whole))
    if not explained:
        assert found.settings["methods"] == []
        assert found.verdict.sentence.startswith(f"{type(run.first).__name__} knows users")
        with pytest.raises(CapabilityError, match="reads no history, so 'rollout' has no"):
            audit(run, methods=["rollout"])


def test_questions_are_the_item_that_came_and_items_never_met() -> None:
    context = audited_of("deepicf")
    put = class_questions(context, HELD, 30)
    data = context.split.interactions
    cases = context.draw(HELD, 30)
    assert put.targets.shape == (30, 5), "as many as it learned by"
    assert put.targets[:, 0].tolist() == cases.targets.tolist()
    assert (put.true[:, 0] == 0).all()
    assert (put.true[:, 1:] == 1).all()
    for row, user in enumerate(cases.users):
        assert not set(put.targets[row, 1:].tolist()) & set(data.history(user).tolist())
    again = class_questions(audited_of("deepicf"), HELD, 30)
    assert torch.equal(put.targets, again.targets)


def three_classes() -> Run:
    """Of data whose users rate item 4 with 1, and all others with 5."""
    events = interactions_of([[1, 2, 3, 4, 5], [2, 3, 4, 5, 6], [6, 5, 3, 2, 7]] * 8)
    ratings = np.where(events.items == 4, 1.0, 5.0).astype(np.float32)
    object.__setattr__(events, "ratings", ratings)
    return whence.train(
        events,
        model="deepicf",
        model_settings={"max_len": 4, "dim": 4, "n_classes": 3},
        training={"steps": 2},
        show_progress=False,
    )


def test_of_three_classes_what_came_may_be_disliked() -> None:
    put = class_questions(AuditContext(three_classes(), 0, (CONTROL,), 50), HELD, 50)
    came = put.targets[:, 0]
    assert torch.equal(put.true[:, 0], torch.where(came == 4, 2, 0))
    assert 0 < (came == 4).sum() < len(came)


def test_whoever_has_met_everything_is_not_asked() -> None:
    run = whence.train(
        interactions_of([[1, 2, 3, 4], [2, 1, 3], [4, 3, 2, 1]]),
        model="gmf",
        training={"steps": 1},
        show_progress=False,
    )
    put = class_questions(AuditContext(run, 0, (), 5), HELD, 5)
    assert len(put.batch) == 1
    everything = whence.train(
        interactions_of([[1, 2, 3], [2, 1, 3]]), model="gmf", training={"steps": 1},
        show_progress=False,
    )  # fmt: skip
    with pytest.raises(InputError, match="no unseen items can be drawn"):
        class_questions(AuditContext(everything, 0, (), 5), HELD, 5)


def test_calibration_of_classes_is_that_of_their_questions() -> None:
    context = audited_of("deepicf-a")
    finding = STAGES["calibration"].find(context)
    put = class_questions(context, HELD, 300)
    found = class_predictions(context.model, put.batch, put.targets, put.true)
    figures = {(one.of, one.name): one.measure for one in finding.figures}
    assert figures["deepicf-a", "mean confidence"].value == pytest.approx(found.confidence.mean())
    error = figures["deepicf-a", "expected calibration error"]
    assert error.value == pytest.approx(expected_calibration_error(found).value)
    of_users = found.with_users(put.cases.users.repeat(put.targets.shape[1]))
    assert error.interval == pytest.approx(expected_calibration_error(of_users).interval)
    for name in ("mean confidence", "overconfidence", "Brier score", "expected calibration error"):
        assert "interval over 60 users" in figures["deepicf-a", name].protocol
    assert "interval over" not in figures["next items", "expected calibration error"].protocol
    assert "The intervals are over users." in finding.notes
    assert {row["panel"] for row in finding.charts[0].rows} == {
        "all cases", "next items", "unseen items",
    }  # fmt: skip
    cases = dict.fromkeys(("all cases", "next items", "unseen items"), 0)
    for row in finding.charts[0].rows:
        cases[row["panel"]] += row["cases"]
    assert cases == {"all cases": 300, "next items": 60, "unseen items": 240}
    assert ("deepicf-a", "adaptive calibration error after temperature scaling") in figures


def test_every_class_is_looked_at_alone() -> None:
    context = audited_of("deepicf-a")
    figures = {one.name: one.measure for one in STAGES["calibration"].find(context).figures}
    put = class_questions(context, HELD, 300)
    with torch.no_grad():
        assert isinstance(context.model, HasClasses)
        liked = context.model.classes(put.batch, put.targets).argmax(dim=2) == 0
    assert figures["correct predictions, 'liked'"].value == pytest.approx(
        float(liked[:, 0].float().mean())
    )
    nothing = (~liked[:, 1:]).float().mean()
    assert figures["correct predictions, 'nothing'"].value == pytest.approx(float(nothing))
    assert figures["correct predictions, 'nothing'"].n == len(put.batch)
    assert "correct predictions, 'disliked'" not in figures, "of two classes"
    of_items = STAGES["calibration"].find(audited_of("sasrec")).figures
    assert not any("'" in one.name for one in of_items)


def test_what_is_disliked_is_known_by_its_rating() -> None:
    context = AuditContext(three_classes(), 0, (CONTROL,), 50)
    figures = {one.name: one.measure for one in STAGES["calibration"].find(context).figures}
    put = class_questions(context, HELD, 500)
    with torch.no_grad():
        assert isinstance(context.model, HasClasses)
        told = context.model.classes(put.batch, put.targets)[:, 0].argmax(dim=1)
    came = put.true[:, 0]
    assert figures["correct predictions, 'disliked'"].n == int((came == 2).sum()) > 0
    right = float((told[came == 2] == 2).float().mean())
    assert figures["correct predictions, 'disliked'"].value == pytest.approx(right)


def test_calibration_of_next_items() -> None:
    context = audited_of("sasrec")
    finding = STAGES["calibration"].find(context)
    sure, right, surprise = [], [], []
    for case in range(60):
        one = context.draw(HELD, 300)[case : case + 1]
        with torch.no_grad():
            scores = context.model.score(torch.from_numpy(one.histories(8)), whence.ALL)[0]
        scores[context.split.interactions.items[one.starts[0] : one.ends[0]]] = -torch.inf
        p = scores.softmax(dim=0)
        sure.append(float(p.max()))
        right.append(int(p.argmax()) == one.targets[0])
        surprise.append(-float(p[one.targets[0]].log()))
    figures = {one.name: one.measure for one in finding.figures}
    assert figures["mean confidence"].value == pytest.approx(np.mean(sure))
    assert figures["correct predictions"].value == pytest.approx(np.mean(right))
    assert figures["negative log-likelihood"].value == pytest.approx(np.mean(surprise))
    assert {row["panel"] for row in finding.charts[0].rows} == {"all cases"}
    assert "The intervals are over cases." in finding.notes, "one a user"


@pytest.mark.parametrize(
    ("error", "gap", "answer", "said"),
    [
        ((0.08, 0.0), (0.01, -0.01), "yes", "no more than random variation"),
        ((0.05, 0.03), (0.04, 0.02), "yes", "it is overconfident"),
        ((0.20, 0.15), (-0.18, -0.20), "partly", "it is underconfident"),
        (
            (0.40, 0.35),
            (0.01, -0.01),
            "no",
            "overconfident in some cases and underconfident in others",
        ),
        ((0.45, 0.0), (0.40, 0.30), "no", "it is overconfident"),
    ],
)
def test_the_answer_goes_by_what_is_clear(
    error: tuple[float, float], gap: tuple[float, float], answer: str, said: str
) -> None:
    def measure(value: float, low: float) -> Measure:
        high = 2 * value - low
        return Measure(value, (min(low, high), max(low, high)), 3_000, "", "neither", (-1, 1))

    found = calibration_module._answer(measure(*error), measure(*gap), 0.8, users=30)
    assert found[0] == answer
    assert said in found[1]
    few = calibration_module._answer(measure(*error), measure(*gap), 0.8, users=19)
    assert few == ("partly", found[1])


def test_without_validation_no_temperature_is_fitted() -> None:
    run = whence.train(
        interactions_of([[1, 2, 3, 4], [2, 5, 3], [4, 3, 6, 1]] * 8),
        training={"steps": 2},
        model_settings={"max_len": 4, "dim": 4},
        split="last-one",
        show_progress=False,
    )
    finding = STAGES["calibration"].find(AuditContext(run, 0, (CONTROL,), 30))
    assert finding.notes[-1] == "The split has no validation events, so no temperature was fitted."
    assert "temperature" not in finding.summary


def shuffled(context: AuditContext) -> ClassPermutation:
    """By the measure itself, of the questions that the audit puts."""
    put = class_questions(context, HELD, 30)
    return class_permutation(
        context.model, put.batch, put.targets, put.true, repeats=20, seed=context.seed
    )


def test_permutation_of_answers_is_that_of_the_questions() -> None:
    context = audited_of("deepicf-a")
    finding, found = STAGES["permutation"].find(context), shuffled(context)
    relative = found.change / found.confidence
    figures = {one.name: one.measure for one in finding.figures}
    assert figures["relative change"].value == pytest.approx(np.nanmean(relative))
    assert figures["change of probability"].value == pytest.approx(np.nanmean(found.change))
    assert "all" in {row["line"] for row in finding.charts[0].rows}
    known = ~np.isnan(relative).any(axis=1)
    own = relative[known].mean(axis=1)  # the questions of a user go together
    half = 1.96 * own.std() / np.sqrt(len(own))
    low, high = figures["relative change"].interval
    assert (high - low) / 2 == pytest.approx(half, rel=0.15)


def test_permutation_by_attention_and_what_it_names() -> None:
    context = audited_of("deepicf-a")
    finding, found = STAGES["permutation"].find(context), shuffled(context)
    (chart,) = [one for one in finding.charts if one.across == "largest share of the attention"]
    said = found.predicted == 0
    for kind, rows in (("predicted liked", said), ("predicted otherwise", ~said)):
        drawn = [row for row in chart.rows if row["line"] == kind]
        some = found.median[rows & ~np.isnan(found.median)]
        assert sum(row["cases"] for row in drawn) == len(some)
        total = sum(row["cases"] * row["value"] for row in drawn)
        assert total == pytest.approx(some.sum())
    (table,) = finding.tables
    attention = explain_batch(context.model, context.batch, context.targets, "attention-last")
    labels = context.run.catalog.labels
    assert len(table.rows) == 5
    for case, row in enumerate(table.rows):
        weights = np.where(attention.parts[case], attention.scores[case], 0)
        item = int(context.batch[case, weights.argmax()])
        share = round(100 * weights.max() / weights.sum())
        assert row == (*labels([int(context.targets[case]), item]), f"{share} %")


def test_stability_of_classes_has_predictions_beside_attention() -> None:
    context = audited_of("deepicf-a")
    finding = STAGES["stability"].find(context)
    models = list(context.run.models.values())
    targets = torch.from_numpy(context.cases.targets)[:, None]
    found = class_stability(models, context.batch, targets)
    figures = {one.name: one.measure for one in finding.figures}
    apart = found.pairs["difference of predictions"].measure().value
    assert figures["difference of predictions"].value == pytest.approx(apart)
    shared = found.pairs["Jaccard index"].measure().value
    assert figures["shared most attended items"].value == pytest.approx(shared)
    distance = found.pairs["KL"].measure().value
    assert figures["difference of attention"].value == pytest.approx(distance)
    assert len({row["panel"] for row in finding.charts[1].rows}) == 3


def test_stability_of_next_items_by_hand() -> None:
    context = audited_of("sasrec")
    finding = STAGES["stability"].find(context)
    targets = torch.from_numpy(context.cases.targets)[:, None]
    with torch.no_grad():
        p = torch.stack(
            [
                model.score(context.batch, whence.ALL).softmax(dim=1).gather(1, targets)[:, 0]
                for model in context.run.models.values()
            ]
        )
    apart = [(p[i] - p[j]).abs().mean() for i, j in ((0, 1), (0, 2), (1, 2))]
    figures = {one.name: one.measure for one in finding.figures}
    assert figures["difference of predictions"].value == pytest.approx(float(sum(apart) / 3))


def test_popularity_is_held_against_naming_nothing_else() -> None:
    context = audited_of("fism")
    finding = STAGES["popularity"].find(context)
    items, counts = context.batch.numpy(), context.split.item_counts()
    figures = {(one.of, one.name): one.measure for one in finding.figures}
    for name, one in context.explanations.items():
        found = figures[name, "popularity bias"]
        assert found == popularity_bias(one, items, counts)
        assert found.value <= figures["popularity alone", "popularity bias"].value + 1e-9
    assert figures["popularity alone", "popularity bias"].value > 0
    assert abs(figures["random", "popularity correlation"].value) < 0.3
