"""Audits: every question is answered or says why not, and nothing is asked twice."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

import whence
from conftest import interactions_of
from whence.contract import ALL, PAD, All
from whence.data import Interactions
from whence.errors import CapabilityError, InputError
from whence.measure import Measure, bootstrap_interval
from whence.models import Recommender
from whence.run import Run
from whence.spoken import OF_HISTORIES
from whence.trust import (
    ReasonScore,
    TruthOnWorld,
    attention_permutation,
    coalition_values,
    importance_entropy,
    top_agreement,
    value_correlation,
)
from whence.trust.accuracy import accuracy_finding as accuracy_module
from whence.trust.agreement import agreement_finding as agreement_module
from whence.trust.audit import auditor
from whence.trust.audit.auditor import audit, open_audit_folder
from whence.trust.audit.context import CONTROL, AuditContext, default_methods
from whence.trust.audit.finding import ENOUGH, Finding, Standing
from whence.trust.audit.result import Audit
from whence.trust.audit.stage import STAGES, Stage
from whence.trust.audit.verdict import reach_verdict
from whence.trust.audit.words import listed, percent, points, points_between, signed, too_few
from whence.trust.faithfulness import explained_item as of_target_module
from whence.trust.permutation.permutation_finding import REPEATS
from whence.trust.stability import stability_finding as stability_module
from whence.trust.truth import truth_finding as likeness_module
from whence.trust.truth.true_reasons import WorldAccuracy
from whence.worlds import StatisticPair

METHODS = ("attention-last", "rollout", "gradient-norm", "leave-one-out")


@pytest.fixture(scope="module")
def three(interactions: Interactions, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Three seeds, hardly trained."""
    return whence.train(
        interactions,
        model_settings={"max_len": 8, "dim": 8},
        training={"steps": 30, "batch_size": 32},
        seeds=3,
        out=tmp_path_factory.mktemp("runs") / "three",
        show_progress=False,
    )


@pytest.fixture(scope="module")
def whole(three: Run, tmp_path_factory: pytest.TempPathFactory) -> tuple[Audit, Path]:
    folder = tmp_path_factory.mktemp("audits") / "audit"
    return quick(three, out=folder), folder


def quick(run: Run, **more: Any) -> Audit:  # noqa: ANN401
    return audit(run, **{"methods": METHODS, "cases": 30, "show_progress": False, **more})


def test_every_question_is_answered_in_sentences(whole: tuple[Audit, Path]) -> None:
    found, _ = whole
    assert list(found.findings) == list(STAGES)
    assert found.obstacles == {}
    for name, finding in found.findings.items():
        assert finding.complete, name
        sentences = [finding.summary, *finding.notes, *(one.reading for one in finding.figures)]
        sentences += [chart.reading for chart in finding.charts]
        for one in (*sentences, found.verdict.sentence):
            assert not one[0].islower() or one.split()[0] in found.settings["methods"]
            assert one.endswith(".")
            assert "nan" not in one.split()
        assert finding.figures
        assert all(chart.rows for chart in finding.charts)
        for figure in finding.figures:
            assert figure.measure.interval[0] <= figure.measure.interval[1]
            low, high = figure.measure.range
            assert low <= figure.measure.value <= high


def test_findings_survive_being_written(whole: tuple[Audit, Path]) -> None:
    for finding in whole[0].findings.values():
        assert Finding.from_dict(json.loads(json.dumps(finding.as_dict()))) == finding


def test_the_document_keeps_its_form(whole: tuple[Audit, Path]) -> None:
    found, folder = whole
    document = json.loads((folder / "audit.json").read_text())
    assert document == json.loads(json.dumps(found.as_dict()))
    assert document["format"] == 2
    assert list(document) == ["format", "whence", "run", "settings", "command", "verdict", "stages"]
    assert list(document["run"]) == ["folder", "model", "model_settings", "seeds", "data", "part"]
    assert list(document["settings"]) == ["model_seed", "methods", "cases", "held"]
    assert list(document["verdict"]) == ["explainer", "sentence", "basis", "caution"]
    assert [stage["stage"] for stage in document["stages"]] == list(STAGES)
    for stage in document["stages"]:
        assert list(stage) == ["stage", "title", "question", "not_measured", "finding"]
        assert list(stage["finding"]) == [
            "answer", "summary", "figures", "charts", "tables", "notes", "ranking", "complete",
        ]  # fmt: skip
        for figure in stage["finding"]["figures"]:
            assert list(figure) == ["name", "of", "measure", "reading"]
            assert list(figure["measure"]) == [
                "value", "interval", "n", "protocol", "direction", "range",
            ]  # fmt: skip


def test_accuracy_is_what_training_measured(whole: tuple[Audit, Path], three: Run) -> None:
    figures = {one.name: one.measure for one in whole[0].findings["accuracy"].figures}
    for name, fields in three.metrics[0]["test"].items():
        assert figures[name].value == fields["value"]
    values = [metrics["test"]["recall@10"]["value"] for metrics in three.metrics.values()]
    assert figures["recall@10 over seeds"].value == pytest.approx(np.mean(values))
    rules = {row["name"]: row["value"] for row in whole[0].findings["accuracy"].charts[0].rows}
    for rule in ("popularity", "last item", "item to item"):
        lead = figures[f"lead over {rule}"].value
        assert lead == pytest.approx(rules["sasrec"] - rules[rule])


def test_agreement_is_scipys(three: Run) -> None:
    context = AuditContext(three, 0, (*METHODS, CONTROL), 30)
    finding = STAGES["agreement"].find(context)
    rho, same = [], []
    for case in range(len(context.cases)):
        parts = context.explanations[CONTROL].parts[case]
        sizes = [np.abs(context.explanations[name].scores[case, parts]) for name in METHODS]
        pairs = list(combinations(sizes, 2))
        rho.append([stats.spearmanr(one, other).statistic for one, other in pairs])
        same.append([one.argmax() == other.argmax() for one, other in pairs])
    overall, first, three_first, *_ = finding.figures
    assert overall.measure.value == pytest.approx(np.mean(rho))
    assert first.measure.value == pytest.approx(np.mean(same))
    said = [context.explanations[name] for name in METHODS]
    shared = [top_agreement(one, other).value for one, other in combinations(said, 2)]
    assert three_first.measure.value == pytest.approx(np.mean(shared))
    tiles = {(row["one"], row["other"]): row["value"] for row in finding.charts[0].rows}
    assert len(tiles) == 25
    assert tiles["rollout", "rollout"] == pytest.approx(1.0)


def test_faithfulness_is_what_leaving_out_does(three: Run) -> None:
    context = AuditContext(three, 0, (*METHODS, CONTROL), 30)
    finding = STAGES["faithfulness"].find(context)
    figures = {(one.of, one.name): one.measure for one in finding.figures}
    for name in METHODS:
        changed = []
        for case in range(len(context.cases)):
            history = context.batch[case : case + 1]
            present = torch.ones_like(history, dtype=torch.bool)
            present[0, context.explanations[name].strongest(case, 1)] = False
            with torch.no_grad():
                whole = context.model.score(history, ALL)
                less = context.model.score(history, ALL, present=present)
            changed.append(int(whole.argmax()) != int(less.argmax()))
        one = figures[name, "first recommendation changed by one item"]
        assert one.value == pytest.approx(np.mean(changed))
    assert {one.explainer: one.value for one in finding.ranking} == {
        name: figures[name, "deletion area"].value for name in METHODS
    }
    best = max(finding.ranking, key=lambda one: one.value)
    assert best.behind_best == (0.0, 0.0)
    assert finding.summary.startswith(
        f"Deleting items in the order of {best.explainer} changes the recommendations by "
        f"{percent(best.value)} of the distance between a random order and the best found, over "
        "30 histories; "
    )
    assert finding.notes[0].startswith("Tested on 30 of the 30 histories")
    names = {row["name"] for row in finding.charts[0].rows}
    assert names == {*METHODS, "random", "best found"}


def test_what_the_recommendation_loses_without_its_reason(three: Run) -> None:
    """The same by hand, one history at a time; and the scores predicted from some items."""
    context = AuditContext(three, 0, (*METHODS, CONTROL), 30)
    figures = {(one.of, one.name): one for one in STAGES["faithfulness"].find(context).figures}
    values = coalition_values(context.model, context.batch, context.targets, 128)
    for name in (*METHODS, CONTROL):
        said = context.explanations[name]
        lost = whole = 0.0
        for case, target in enumerate(context.targets.tolist()):
            history = context.batch[case : case + 1]
            slots = np.flatnonzero(said.parts[case])
            present = torch.ones_like(history, dtype=torch.bool)
            present[0, slots[said.scores[case, slots].argmax()]] = False
            with torch.no_grad():
                before = context.model.score(history, ALL).softmax(dim=1)[0, target]
                after = context.model.score(history, ALL, present=present).softmax(dim=1)[0, target]
            lost, whole = lost + float(before - after), whole + float(before)
        found = figures[name, "probability lost without its reason"]
        assert found.measure.value == pytest.approx(lost / whole, rel=1e-4)
        assert found.measure.interval[0] <= found.measure.value <= found.measure.interval[1]
        predicted = figures[name, "score predicted from some items"].measure
        assert predicted.value == pytest.approx(value_correlation(said, values).value)


def test_a_few_cases_make_nothing_clear(three: Run) -> None:
    few = AuditContext(three, 0, (*METHODS, CONTROL), 7)
    finding = STAGES["faithfulness"].find(few)
    assert finding.answer == "partly"
    assert finding.summary.endswith(
        "7 cases are too few to call a difference clear; at least 20 are needed."
    )
    assert not any(one.better_than_random for one in finding.ranking)
    assert all(one.as_good_as_best for one in finding.ranking)
    leads = {"popularity": Measure(1.0, (1.0, 1.0), 19, "made up", "higher is better", (-1.0, 1.0))}
    answer, said = accuracy_module._verdict(leads["popularity"], leads, "watched")
    assert (answer, said.split("; ", 1)[1]) == ("partly", f"{too_few(19, 20)}.")
    enough = {"popularity": replace(leads["popularity"], n=20)}
    assert accuracy_module._verdict(enough["popularity"], enough, "watched")[0] == "yes"


def test_recall_over_seeds_stays_a_share(three: Run) -> None:
    """Two seeds of 0.5 and 1 have a t-interval far beyond both ends."""
    measure = Measure(0.5, (0.4, 0.6), 9, "made up", "higher is better", (0.0, 1.0))
    metrics = {
        seed: {"test": {"recall@10": replace(measure, value=value).as_dict()}}
        for seed, value in ((0, 0.5), (1, 1.0))
    }
    (figure,) = accuracy_module._over_seeds(replace(three, metrics=metrics), measure)
    assert (figure.measure.value, figure.measure.interval) == (0.75, (0.0, 1.0))


def test_where_ten_are_all_that_is_left_lists_are_not_measured() -> None:
    rng = np.random.default_rng(0)
    small = interactions_of([rng.permutation(12)[:6].tolist() for _ in range(40)])
    settings: dict[str, Any] = {"max_len": 4, "dim": 4}
    run = whence.train(
        small,
        model_settings=settings,
        training={"steps": 2, "batch_size": 8},
        seeds=3,
        show_progress=False,
    )
    found = quick(run, stages=["accuracy", "stability"], cases=20)
    assert found.obstacles == {
        "accuracy": "A list of 10 holds everything that is left to recommend, so being in it says "
        "nothing."
    }
    stability = found.findings["stability"]
    assert "overlap of the first 10" not in {one.name for one in stability.figures}
    assert "recommendations, and" not in stability.summary
    assert "the lists are not compared" in stability.notes[-1]


def test_memory_and_progress_reach_every_stage(three: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    handed: dict[str, Any] = {}

    def recording(name: str) -> Callable[..., None]:
        def stand_in(*given: object, **settings: Any) -> None:  # noqa: ANN401
            handed[name] = settings
            raise InputError("Enough is known.")

        return stand_in

    monkeypatch.setattr(likeness_module, "precision_on_world", recording("truth"))
    monkeypatch.setattr(stability_module, "seed_stability", recording("stability"))
    found = quick(three, stages=["truth", "stability"], memory=2**20, show_progress=True)
    assert set(found.obstacles.values()) == {"Enough is known."}
    assert handed["truth"]["memory"] == handed["stability"]["memory"] == 2**20
    assert handed["truth"]["show_progress"] is True


def test_of_a_single_pair_nobody_is_most_alike(three: Run) -> None:
    finding = STAGES["agreement"].find(AuditContext(three, 0, ("rollout", "fading", CONTROL), 20))
    assert "closest pair" not in finding.summary


def test_the_ends_of_agreement_are_those_of_the_chart(three: Run) -> None:
    """Explainers that differ in signs alone are named as such, and not left out in silence."""
    methods = ("rollout", "signed-rollout", "fading", "leave-one-out", CONTROL)
    finding = STAGES["agreement"].find(AuditContext(three, 0, methods, 20))
    rho = {
        (row["one"], row["other"]): row["value"]
        for row in finding.charts[0].rows
        if methods.index(row["one"]) < methods.index(row["other"]) and row["other"] != CONTROL
    }
    assert rho.pop(("rollout", "signed-rollout")) == pytest.approx(1.0)
    (closest, high), *_, (furthest, low) = sorted(rho.items(), key=lambda pair: -pair[1])
    least = {pair for pair, value in rho.items() if value == pytest.approx(low)}
    said = finding.summary
    assert " rollout and signed-rollout always give the same order. The closest pair is " in said
    assert f"The closest pair is {listed(closest)} ({signed(high)}), the most distant " in said
    ends = [f"the most distant {listed(pair)} ({signed(low)})." for pair in least | {furthest}]
    assert said.endswith(tuple(ends))
    overall, same, *_ = (one.measure.value for one in finding.figures)
    assert said.startswith(
        f"The rank correlation of two explainers is {signed(overall)} on average (1 is the same "
    )
    assert f"put the same item first in {percent(same)} of the histories (random: " in said


@pytest.mark.parametrize(
    ("rho", "band"),
    [
        (0.27, "from 0.3 on the answer is partly"),
        (0.3, "from 0.7 on it is yes"),
        (0.69, "from 0.7 on it is yes"),
        (0.9, "from 0.7 on it is yes"),
    ],
)
def test_the_band_that_decides_is_told(rho: float, band: str) -> None:
    assert agreement_module._band(rho) == band


def test_differences_are_told_in_points() -> None:
    lead = Measure(-0.03, (-0.054, -0.003), 50, "made up", "higher is better", (-1.0, 1.0))
    assert accuracy_module._lead("last item", lead).reading == (
        "That is 3.0 percentage points fewer than with the rule 'last item' (−5.4 to −0.3)."
    )


def test_chance_is_explained_only_where_it_is_above_nothing() -> None:
    found = Measure(0.48, (0.44, 0.52), 50, "made up", "higher is better", (-1.0, 1.0))
    said = (
        "The sum of {} importances over random items of the history has a correlation of 0.48 "
        "(0.44 to 0.52) with the model's score for these alone"
    )
    tell = partial(of_target_module._coalition_sentence, spoken=OF_HISTORIES)
    assert tell(CONTROL, found, found) == f"{said.format('random')}."
    fading = said.format("fading's")
    assert tell("fading", found, found) == (
        f"{fading}; random importances have 0.48, because more items score higher."
    )
    none = replace(found, value=-0.01, interval=(-0.05, 0.03))
    assert tell("fading", found, none).endswith("; random importances have −0.01.")


def test_permutation_is_relative_to_the_probability(three: Run) -> None:
    context = AuditContext(three, 0, METHODS, 30)
    share, often, plain, spread = STAGES["permutation"].find(context).figures
    found = attention_permutation(context.model, context.batch, repeats=REPEATS)
    relative = found.top / found.confidence
    assert share.measure.value == pytest.approx(np.nanmean(relative))
    assert often.measure.value == pytest.approx(np.mean(relative[~np.isnan(relative)] >= 0.1))
    assert plain.measure.value == pytest.approx(np.nanmean(found.top))
    said = context.explanations["attention-last"]
    alone = [2 ** importance_entropy(said[case]).value for case in range(len(said))]
    assert spread.measure.value == pytest.approx(np.mean(alone))
    assert 1 < spread.measure.value < said.parts.sum(axis=1).mean()


def test_likeness_holds_explainers_against_chance_case_by_case(
    three: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Marks that were made up: which reason counts, and how differences are taken."""
    measure = Measure(0.5, (0.4, 0.6), 4, "made up", "higher is better", (0.0, 1.0))
    right = {
        "rollout": (1.0, 1.0, 1.0, 0.0) * 5,
        "leave-one-out": (1.0,) * 20,
        CONTROL: (0.0,) * 20,
    }
    marks = {
        name: {
            "caused": ReasonScore(replace(measure, value=float(np.mean(hits))), None, hits),
            "taste": ReasonScore(replace(measure, value=0.25), None, hits),
        }
        for name, hits in right.items()
    }
    alike = [StatisticPair("users", 300, 4280)]
    learned: WorldAccuracy | None = WorldAccuracy(
        replace(measure, value=0.12), replace(measure, value=0.05)
    )
    asked: dict[str, Any] = {}

    def made_up(*given: object, **settings: Any) -> TruthOnWorld:  # noqa: ANN401
        asked.update(settings)
        return TruthOnWorld(alike, marks, learned)

    monkeypatch.setattr(likeness_module, "precision_on_world", made_up)
    finding = likeness_module.find_true_reasons(AuditContext(three, 0, tuple(right), 30))
    assert (asked["steps"], asked["cases"]) == (30, 30), "no more than the run and the audit have"
    assert finding.answer == "yes"
    rollout, left_out = finding.ranking
    assert (rollout.value, left_out.value) == (0.75, 1.0)
    assert left_out.over_random == (1.0, 1.0)
    assert left_out.behind_best == (0.0, 0.0)
    assert rollout.behind_best == bootstrap_interval(np.array([0.0, 0.0, 0.0, 1.0] * 5))
    assert rollout.inputs == 1
    assert [(one.of, one.measure.value) for one in finding.figures] == [
        ("sasrec", 0.12),
        *((name, np.mean(hits)) for name, hits in right.items()),
        *((name, 0.25) for name in right),
    ]
    (table,) = finding.tables
    assert table.columns == ("the data", "the world")
    assert table.rows == (("users", "300", "4,280"),)
    assert finding.figures[0].reading.endswith(
        "trained there in 12 % of the cases (40 % to 60 %), by popularity alone in 5.0 %."
    )
    assert finding.notes[0].endswith("first ten in 12 % of the cases, popularity in 5.0 %.")
    assert finding.notes[1].startswith("The world has 4,280 users")
    for name, hits in right.items():
        marks[name]["caused"] = replace(marks[name]["caused"], hits=hits[:19])
    learned = None
    few = likeness_module.find_true_reasons(AuditContext(three, 0, tuple(right), 30))
    assert (len(few.figures), len(few.notes)) == (6, 1), "nothing is said of what is not known"
    assert (few.answer, any(one.better_than_random for one in few.ranking)) == ("partly", False)
    assert few.summary.endswith(
        "19 cases are too few to call a difference clear; at least 20 are needed."
    )


def test_what_is_explained_is_what_would_be_recommended(three: Run) -> None:
    context = AuditContext(three, 1, METHODS, 5)
    users = three.interactions.users["user"].to_pylist()
    for user, target, end in zip(
        context.cases.users, context.targets.tolist(), context.cases.ends, strict=True
    ):
        known = three.interactions.items[three.interactions.offsets[user] : end]
        ids = three.catalog.raw_ids(known)
        (pick,) = whence.recommend(three, history=ids, k=1, model_seed=1).picks
        assert pick.item == three.catalog.raw_ids([target])[0], users[user]


def test_a_question_that_cannot_be_asked_says_why_and_the_others_go_on(run: Run) -> None:
    found = quick(run, stages=["accuracy", "stability"])
    assert list(found.findings) == ["accuracy"]
    assert found.obstacles == {
        "stability": "This stage needs at least 3 seeds, and the run has 2; train with --seeds 3 "
        "or more."
    }
    assert found.verdict.explainer is None
    assert "no stage that compares explainers was run" in found.verdict.sentence


def test_without_the_data_only_accuracy_is_known(
    interactions: Interactions, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    interactions.save(data)
    folder = tmp_path / "run"
    whence.train(
        str(data),
        model_settings={"max_len": 6, "dim": 8},
        training={"steps": 2},
        out=folder,
        show_progress=False,
    )
    data.rename(tmp_path / "away")
    found = quick(whence.open_run(folder), out=tmp_path / "audit")
    assert list(found.findings) == ["accuracy"]
    assert "no longer there" in found.obstacles["agreement"]
    assert "no longer there" in found.findings["accuracy"].notes[0]
    (tmp_path / "away").rename(data)
    again = quick(whence.open_run(folder), out=tmp_path / "audit")
    assert "agreement" in again.findings
    assert again.findings["accuracy"].complete, "what lacked something is asked again"


class Bag(Recommender):
    """Counts what it was shown; it has neither attention nor embeddings."""

    removal = "dropped"

    @dataclass(frozen=True)
    class Config:
        max_len: int = 8
        dropout: float = 0.0

    def __init__(self, items: int) -> None:
        super().__init__()
        self.config = self.Config()
        self.likes = torch.randn(items, items, generator=torch.Generator().manual_seed(0))

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
        there = self.parts(batch) if present is None else self.parts(batch) & present
        scores = (self.likes[batch.clamp(min=0)] * there[..., None]).sum(dim=1)
        return scores if isinstance(targets, All) else scores.gather(1, targets)


def test_a_model_without_attention_is_asked_what_it_can_answer(three: Run) -> None:
    bag = replace(three, models={0: Bag(len(three.catalog))}, folder=None)
    assert default_methods(bag.first) == ("leave-one-out", "shapley:coalitions=512", CONTROL)
    found = audit(bag, cases=10, show_progress=False)
    assert "agreement" in found.findings
    with pytest.raises(CapabilityError, match="no 'attentions', which rollout needs"):
        audit(bag, methods=["rollout"])


def test_the_usual_explainers_are_the_cheap_ones_and_shapley(three: Run) -> None:
    assert default_methods(three.first) == (
        "attention-first",
        "attention-last",
        "rollout",
        "signed-rollout",
        "gradient-rollout",
        "fading",
        "gradient-norm",
        "gradient-input",
        "integrated-gradients",
        "leave-one-out",
        "shapley:coalitions=512",
        CONTROL,
    )


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The stages that really ran, in their order."""
    ran: list[str] = []

    def counting(name: str, stage: Stage) -> Stage:
        def find(context: AuditContext) -> Finding:
            ran.append(name)
            return stage.find(context)

        return replace(stage, find=find)

    wrapped = {name: counting(name, stage) for name, stage in STAGES.items()}
    monkeypatch.setattr(
        auditor, "chosen_stages", lambda names: {name: wrapped[name] for name in names}
    )
    return ran


def test_the_same_call_goes_on_with_what_is_missing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = counted(monkeypatch)
    asked: dict[str, Any] = {"out": tmp_path / "audit", "stages": ["accuracy", "agreement"]}
    first = quick(run, **asked)
    assert ran == ["accuracy", "agreement"]
    again = quick(run, **asked)
    assert ran == ["accuracy", "agreement"], "all is kept"
    assert again.as_dict() == first.as_dict()
    (tmp_path / "audit" / "stages" / "agreement.json").unlink()
    (tmp_path / "audit" / "audit.json").unlink()
    assert quick(run, **asked).as_dict() == first.as_dict()
    assert ran[2:] == ["agreement"], "only what was lost"
    (tmp_path / "audit" / "stages" / "accuracy.json").write_text('{"key": 3')
    quick(run, **asked)
    assert ran[3:] == ["accuracy"], "what cannot be read is asked again"
    quick(run, **asked, cases=29)
    assert ran[4:] == ["accuracy", "agreement"], "other settings"
    quick(run, **asked, cases=29, fresh=True)
    assert ran[6:] == ["accuracy", "agreement"], "begun anew"


def test_what_is_found_of_one_run_is_not_told_of_another(
    run: Run, three: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = counted(monkeypatch)
    for one in (run, three, three):
        quick(one, out=tmp_path / "audit", stages=["accuracy"])
    assert ran == ["accuracy", "accuracy"]


def test_a_stage_that_is_stopped_leaves_those_before_it(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(context: AuditContext) -> Finding:
        raise KeyboardInterrupt

    stages = {**STAGES, "agreement": replace(STAGES["agreement"], find=stop)}
    monkeypatch.setattr(
        auditor, "chosen_stages", lambda names: {name: stages[name] for name in names}
    )
    with pytest.raises(KeyboardInterrupt):
        quick(run, out=tmp_path / "audit", stages=["accuracy", "agreement"])
    assert [path.name for path in (tmp_path / "audit").rglob("*.json")] == ["accuracy.json"]


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"stages": ["acuracy"]}, "no audit stage 'acuracy': did you mean 'accuracy'"),
        ({"cases": 0}, "at least one history, not 0"),
        ({"model_seed": 7}, "has no seed 7; it has 0, 1, 2"),
        ({"methods": ["rolout"]}, "no explainer 'rolout'"),
        ({"methods": ["random"]}, "'random' is what explainers are compared with"),
    ],
)
def test_mistakes_are_told_before_anything_is_written(
    three: Run, tmp_path: Path, asked: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        quick(three, out=tmp_path / "audit", **asked)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_something_else_is_left_alone(run: Run, tmp_path: Path) -> None:
    (tmp_path / "thesis.doc").write_text("all my work")
    with pytest.raises(
        InputError, match="contains thesis.doc, so it is not the folder of an audit"
    ):
        open_audit_folder(tmp_path, run, {})
    (tmp_path / "audit").mkdir()
    for name in (".audit.json.partial-7", ".DS_Store"):
        (tmp_path / "audit" / name).write_text("left over")
    assert open_audit_folder(tmp_path / "audit", run, {}).folder == tmp_path / "audit"
    shutil.rmtree(tmp_path / "audit")
    with pytest.raises(InputError, match="is a file"):
        open_audit_folder(tmp_path / "thesis.doc", run, {})
    with pytest.raises(InputError, match="in memory only"):
        open_audit_folder(tmp_path / "new", replace(run, folder=None), {})
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.doc"]


def standing(
    name: str,
    value: float,
    inputs: float,
    over: float = 0.1,
    behind: float = 0.0,
    cases: int = ENOUGH,
) -> Standing:
    says = f"is right in {percent(value)} of the cases"
    return Standing(name, value, says, (over, 1.0), (behind, 1.0), inputs, cases)


def ranked(*ranking: Standing) -> Finding:
    return Finding("yes", "Yes.", (), ranking=ranking)


QUESTIONS = {name: stage.question for name, stage in STAGES.items()}


def test_the_cheapest_of_the_best_is_recommended() -> None:
    dear, cheap = standing("shapley", 0.62, 256), standing("fading", 0.61, 2)
    worse, cheaper = standing("rollout", 0.3, 1, behind=0.2), standing("gradient-norm", 0.6, 1)
    found = reach_verdict({"faithfulness": ranked(dear, cheap, worse, cheaper)}, QUESTIONS)
    assert (found.explainer, found.basis) == ("fading", "faithfulness")
    assert found.sentence == (
        "Use fading: it is right in 61 % of the cases, and needs 2 model inputs per history. "
        "shapley (62 %, 256 inputs) is not clearly better; on these cases, gradient-norm may be as "
        "good."
    )
    alone = reach_verdict({"faithfulness": ranked(replace(cheap, value=0.7), dear)}, QUESTIONS)
    assert alone.sentence.endswith(
        "needs 2 model inputs per history. No other explainer does better; on these cases, shapley "
        "may be as good."
    )


def test_the_truth_weighs_more_than_faithfulness() -> None:
    found = reach_verdict(
        {
            "faithfulness": ranked(standing("rollout", 0.9, 1)),
            "truth": ranked(standing("fading", 0.6, 2)),
        },
        QUESTIONS,
    )
    assert (found.explainer, found.basis) == ("fading", "truth")


def test_one_that_does_well_by_both_is_preferred() -> None:
    likeness = ranked(standing("rollout", 0.7, 1), standing("fading", 0.6, 2))
    faithful = ranked(standing("rollout", 0.01, 1, over=-0.1), standing("fading", 0.4, 2))
    found = reach_verdict({"truth": likeness, "faithfulness": faithful}, QUESTIONS)
    assert (found.explainer, found.basis, found.caution) == ("fading", "truth", "")
    assert found.sentence.endswith(
        "rollout (70 %, 1 inputs) is not clearly better. Not considered, because leaving out what "
        "they call important changes the recommendations no more than a random choice: rollout."
    )


def test_where_none_does_well_by_both_it_is_said() -> None:
    likeness = ranked(standing("rollout", 0.7, 1), standing("fading", 0.3, 2, behind=0.2))
    faithful = ranked(standing("rollout", 0.01, 1, over=-0.1), standing("fading", 0.4, 2))
    found = reach_verdict({"truth": likeness, "faithfulness": faithful}, QUESTIONS)
    assert found.explainer == "rollout"
    assert found.caution == (
        "On this model, rollout is right in 1.0 % of the cases, which is not clearly better than "
        "random."
    )
    few = ranked(standing("rollout", 0.5, 1, cases=7))
    found = reach_verdict({"truth": likeness, "faithfulness": few}, QUESTIONS)
    assert found.caution.endswith(
        "which cannot be told from random with 7 cases; at least 20 are needed."
    )


def test_nothing_is_recommended_that_chance_can_do() -> None:
    found = reach_verdict({"truth": ranked(standing("rollout", 0.1, 1, over=-0.1))}, QUESTIONS)
    assert found.explainer is None
    assert "not clearly better than random" in found.sentence
    assert found.caution == ""
    few = reach_verdict({"truth": ranked(standing("rollout", 0.9, 1, cases=7))}, QUESTIONS)
    assert few.explainer is None
    assert few.sentence.endswith("cannot be told from random with 7 cases; at least 20 are needed.")


def test_what_was_answered_with_no_is_told_with_the_verdict() -> None:
    poor = Finding("no", "No.", ())
    found = reach_verdict({"accuracy": poor, "agreement": poor}, QUESTIONS)
    assert found.caution == (
        "Answered with no: Is the model accurate? Do the explainers agree with each other?"
    )


def test_numbers_in_words() -> None:
    assert [percent(x) for x in (0, 0.0834, 0.0996, 0.5, -0.012, -0.0001)] == [
        "0 %", "8.3 %", "10 %", "50 %", "−1.2 %", "0.0 %",
    ]  # fmt: skip
    assert [points(x) for x in (0.03, 0.2)] == ["3.0 percentage points", "20 percentage points"]
    interval = Measure(0.0, (-0.2, 0.005), 9, "made up", "higher is better", (-1.0, 1.0))
    assert points_between(interval) == "−20 to 0.5"
    assert [signed(x) for x in (-0.112, -0.001, 0.5)] == ["−0.11", "0.00", "0.50"]
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
