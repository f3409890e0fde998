"""Audits: every question is answered or says why not, and nothing is asked twice."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import whence
from conftest import interactions_of
from whence.contract import PAD, All
from whence.data import Interactions
from whence.errors import CapabilityError, InputError
from whence.models import MODELS, Recommender
from whence.run import Run
from whence.trust.audit import auditor
from whence.trust.audit.auditor import audit, open_audit_folder
from whence.trust.audit.context import CONTROL, AuditContext, default_methods
from whence.trust.audit.finding import Finding
from whence.trust.audit.result import Audit
from whence.trust.audit.stage import STAGES, Stage
from whence.trust.stability import stability_finding as stability_module
from whence.trust.truth import truth_finding as truth_module

METHODS = ("attention-last", "rollout", "gradient-norm", "leave-one-out")


@pytest.fixture(scope="module")
def three(followed: Callable[..., Run]) -> Run:
    """Three seeds, hardly trained."""
    return followed()


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
    assert list(document["run"]) == [
        "folder", "model", "model_settings", "seeds", "data", "part", "recommends",
    ]  # fmt: skip
    assert list(document["settings"]) == [
        "model_seed", "methods", "cases", "held", "removal", "sentence_removal",
    ]  # fmt: skip
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
    values = [metrics["test"]["NDCG@10"]["value"] for metrics in three.metrics.values()]
    assert figures["NDCG@10 over seeds"].value == pytest.approx(np.mean(values))
    rules = {row["name"]: row["value"] for row in whole[0].findings["accuracy"].charts[0].rows}
    for rule in MODELS.tagged("simple"):
        lead = figures[f"lead over {rule}"].value
        assert lead == pytest.approx(rules["sasrec"] - rules[rule])


def test_lists_are_not_compared_if_they_hold_the_catalog() -> None:
    rng = np.random.default_rng(0)
    small = interactions_of([rng.permutation(12)[:6].tolist() for _ in range(40)])
    settings: dict[str, Any] = {"max_len": 4, "dim": 4}
    run = whence.train(
        small,
        model="sasrec",
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

    monkeypatch.setattr(truth_module, "precision_on_world", recording("truth"))
    monkeypatch.setattr(stability_module, "seed_stability", recording("stability"))
    found = quick(three, stages=["truth", "stability"], memory=2**20, show_progress=True)
    assert set(found.obstacles.values()) == {"Enough is known."}
    assert handed["truth"]["memory"] == handed["stability"]["memory"] == 2**20
    assert handed["truth"]["show_progress"] is True


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


def test_a_stage_that_cannot_run_says_why_and_others_continue(run: Run) -> None:
    found = quick(run, stages=["accuracy", "stability"])
    assert list(found.findings) == ["accuracy"]
    assert found.obstacles == {
        "stability": "This stage needs at least 3 seeds, and the run has 2; train with --seeds 3 "
        "or more."
    }
    assert found.verdict.explainer is None
    assert "no stage that compares explainers was run" in found.verdict.sentence


def test_without_the_data_only_accuracy_is_known(
    interactions: Interactions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHENCE_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "run"
    whence.train(
        interactions,
        model="sasrec",
        model_settings={"max_len": 6, "dim": 8},
        training={"steps": 2},
        out=folder,
        show_progress=False,
    )
    (tmp_path / "cache").rename(tmp_path / "away")
    found = quick(whence.open_run(folder), out=tmp_path / "audit")
    assert list(found.findings) == ["accuracy"]
    assert "not here. Name them" in found.obstacles["agreement"]
    assert "not here. Name them" in found.findings["accuracy"].notes[0]
    again = quick(whence.open_run(folder), out=tmp_path / "audit", data=interactions)
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


def test_a_model_without_attention_has_fewer_stages(three: Run) -> None:
    bag = replace(three, models={0: Bag(len(three.catalog))}, folder=None)
    assert default_methods(bag.first) == ("leave-one-out", "shapley:coalitions=512", CONTROL)
    found = audit(bag, cases=10, show_progress=False)
    assert "agreement" in found.findings
    with pytest.raises(CapabilityError, match="no 'attentions', which rollout needs"):
        audit(bag, methods=["rollout"])


def test_the_whole_audit_removes_parts_as_asked(three: Run, tmp_path: Path) -> None:
    """Explanations, deletion curves, coalitions, stability and the world alike."""
    asked: dict[str, Any] = {"methods": ["leave-one-out"], "cases": 25, "memory": 2**24}
    own, dropped = (
        quick(three, out=tmp_path / "audit", removal=removal, **asked)
        for removal in ("attention-column", "dropped")
    )
    assert own.settings["removal"] == "attention-column"
    assert own.command.endswith("--removal attention-column"), "which sentences do not use unasked"
    assert dropped.settings["removal"] == "dropped"
    assert dropped.command.endswith("--removal dropped")
    page = (tmp_path / "audit" / "audit.html").read_text()
    assert "Items are removed by <code>dropped</code>" in page
    protocols = [
        figure.measure.protocol
        for finding in dropped.findings.values()
        for figure in finding.figures
    ]
    assert any("removal dropped" in one for one in protocols)
    assert not any("attention-column" in one for one in protocols)
    for found in (own, dropped):
        removal = found.settings["removal"]
        assert found.settings["sentence_removal"] == removal
        sentences = found.findings["sentences"]
        assert sentences.notes[0].startswith(f"Items are removed by '{removal}', ")
        assert all(f"removal {removal};" in one.measure.protocol for one in sentences.figures)
    assert "are removed by 'dropped'" in " ".join(dropped.findings["faithfulness"].notes)
    for stage in ("truth", "faithfulness", "stability", "popularity"):
        assert own.findings[stage].figures != dropped.findings[stage].figures, stage
    for stage in ("accuracy", "calibration", "learned", "permutation"):
        assert own.findings[stage].figures == dropped.findings[stage].figures, stage


def test_an_audit_explains_as_the_shorter_histories_say(three: Run) -> None:
    context = AuditContext(three, None, ("leave-one-out",), 5, removal="dropped")
    (found,) = context.explanations.values()
    assert found.removal == "dropped"
    for case, (row, target) in enumerate(
        zip(context.batch.tolist(), context.targets.tolist(), strict=True)
    ):
        for slot, item in enumerate(row):
            if item != PAD:
                shorter = torch.tensor([[PAD, *row[:slot], *row[slot + 1 :]]])
                asked = torch.tensor([[target]])
                lost = found.full_score[case] - three.whole.score(shorter, asked).item()
                assert found.scores[case, slot] == pytest.approx(lost, abs=1e-5)


def test_the_default_explainers(three: Run) -> None:
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


def test_the_same_call_resumes(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_findings_of_another_run_are_not_reused(
    run: Run, three: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = counted(monkeypatch)
    for one in (run, three, three):
        quick(one, out=tmp_path / "audit", stages=["accuracy"])
    assert ran == ["accuracy", "accuracy"]


def test_an_interrupted_audit_keeps_finished_stages(
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
        ({"model_seed": 7}, "no model of seed 7. Choose from: 0, 1, 2"),
        ({"methods": ["rolout"]}, "no explainer 'rolout'"),
        ({"methods": ["random"]}, "'random' is what explainers are compared with"),
    ],
)
def test_mistakes_raise_before_anything_is_written(
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
