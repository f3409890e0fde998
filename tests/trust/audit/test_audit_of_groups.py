"""Audits of models whose parts are groups of features, not items of a history."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats
from typer.testing import CliRunner

import whence
from conftest import interactions_of
from whence.cli import app
from whence.contract import ALL
from whence.data import Interactions
from whence.errors import CapabilityError
from whence.explainers import EXPLAINERS, explain_batch
from whence.explanation import GROUP_WORDING, ITEM_WORDING
from whence.report.audit_page import write_audit
from whence.run import Run
from whence.trust.audit.auditor import audit
from whence.trust.audit.context import CONTROL, AuditContext, default_methods
from whence.trust.audit.result import Audit
from whence.trust.audit.stage import STAGES

NAMES = ["its genres", "your personal history", "who else chose it"]
THROUGH_ITS_SCORES = ("gradient-input", "integrated-gradients", "leave-one-out", "shapley")
DATASETS = "The parts are groups of features: 'its genres', 'your personal history' and 'who else"


@pytest.fixture(scope="module")
def three(interactions: Interactions, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Three seeds with experts, briefly trained on a world whose items have genres."""
    return whence.train(
        interactions,
        model="intrp-ncf",
        model_settings={"dim": 4, "hidden_dims": (6, 4)},
        training={"steps": 120, "batch_size": 64, "learning_rate": 0.01},
        seeds=3,
        out=tmp_path_factory.mktemp("runs") / "groups",
        show_progress=False,
    )


@pytest.fixture(scope="module")
def whole(three: Run) -> Audit:
    return audit(three, cases=40, show_progress=False)


@pytest.fixture(scope="module")
def context(three: Run) -> AuditContext:
    return AuditContext(three, 0, default_methods(three.first), 40)


def test_only_what_needs_items_or_attention_is_left_out(whole: Audit) -> None:
    assert set(whole.findings) == {
        "accuracy", "calibration", "faithfulness", "agreement", "stability"
    }  # fmt: skip
    for name, title in (("truth", "True reasons"), ("popularity", "Popularity")):
        assert whole.obstacles[name] == (
            "InterpretableNCF predicts from groups of features and reads no history, so the stage "
            f"'{title}' has no items to name."
        )
    assert "no 'attentions'" in whole.obstacles["permutation"]
    assert whole.verdict.basis == "faithfulness"
    assert whole.verdict.explainer in THROUGH_ITS_SCORES
    assert re.search(r"needs \d+ model inputs? per case", whole.verdict.sentence)


def test_experts_stand_beside_the_usual_explainers(three: Run, interactions: Interactions) -> None:
    assert default_methods(three.first) == ("experts", *THROUGH_ITS_SCORES, CONTROL)
    ordinary = whence.train(
        interactions, model="content-ncf", training={"steps": 1}, show_progress=False
    )
    assert default_methods(ordinary.first) == (*THROUGH_ITS_SCORES, CONTROL)
    with pytest.raises(CapabilityError, match="no 'selections', which experts needs"):
        audit(ordinary, methods=["experts"])
    with pytest.raises(CapabilityError, match="no 'attentions', which rollout needs"):
        audit(three, methods=["rollout"])


def test_one_of_two_gradients_is_enough(context: AuditContext) -> None:
    norm = explain_batch(context.model, context.batch, context.targets, "gradient-norm")
    np.testing.assert_allclose(norm.scores, context.explanations["gradient-input"].magnitude())


def test_faithfulness_hides_the_parts(context: AuditContext) -> None:
    finding = STAGES["faithfulness"].find(context)
    figures = {(one.of, one.name): one.measure.value for one in finding.figures}
    for name in context.explainers:
        changed, said = [], context.explanations[name]
        for case, row in enumerate(context.batch):
            present = torch.ones(1, 3, dtype=torch.bool)
            present[0, said.strongest(case, 1)] = False
            with torch.no_grad():
                before, after = (
                    context.model.score(row[None], ALL, present=some).argmax()
                    for some in (None, present)
                )
            changed.append(bool(before != after))
        found = figures[name, "first recommendation changed by one part"]
        assert found == pytest.approx(np.mean(changed)), name
    assert finding.notes[0].startswith(DATASETS)
    assert "cut to" not in finding.notes[1], "groups have no newest"
    assert finding.notes[-1].endswith("Deleted parts are removed by 'averages'.")


def test_agreement_is_between_orders_of_groups(context: AuditContext) -> None:
    finding = STAGES["agreement"].find(context)
    figures = {(one.of, one.name): one.measure.value for one in finding.figures}
    sizes = [context.explanations[name].magnitude() for name in context.explainers]
    rho = [
        [stats.spearmanr(*pair).statistic for pair in zip(one, other, strict=True)]
        for one, other in combinations(sizes, 2)
    ]
    assert figures["every pair", "rank agreement"] == pytest.approx(np.mean(rho))
    assert ("every pair", "shared first three") not in figures, "there are but three"
    assert {of for of, _ in figures} == {"every pair", *context.explainers}
    assert finding.notes[0].startswith(DATASETS)


def test_experts_who_all_see_one_group_put_it_first(context: AuditContext) -> None:
    notes = STAGES["agreement"].find(context).notes
    first = {
        name: context.explanations[name].magnitude().argmax(axis=1) for name in context.methods
    }
    assert (first["experts"] == 0).all(), "every expert sees content"
    assert "experts puts 'its genres' first in every case." in notes
    for name in context.explainers:
        always = len({*first[name]}) == 1
        assert any(note.startswith(f"{name} puts") for note in notes) == always


def test_stability_is_how_alike_importance_is_shared_out(three: Run, context: AuditContext) -> None:
    finding = STAGES["stability"].find(context)
    figures = {(one.of, one.name): one for one in finding.figures}
    assert {of for of, name in figures if name == "difference of shares"} == {*context.methods}
    cases = context.draw("test", 40)
    batch, targets = context.model.read(cases, 1), torch.from_numpy(cases.targets)
    for name in ("experts", "shapley"):
        apart = []
        for one, other in combinations(three.models.values(), 2):
            p, q = (
                explain_batch(model, batch, targets, name).magnitude() for model in (one, other)
            )
            apart.append(stats.entropy(p + 1e-10, q + 1e-10, axis=1).mean())
        found = figures[name, "difference of shares"].measure.value
        assert found == pytest.approx(np.mean(apart), rel=1e-4), name
    chance = figures[CONTROL, "difference of shares"].measure.value
    rows = {row["name"]: row["value"] for row in finding.charts[0].rows}
    assert rows[CONTROL] == 1
    assert rows["experts"] == pytest.approx(
        figures["experts", "difference of shares"].measure.value / chance
    )
    steadiest = min(context.explainers, key=rows.__getitem__)
    assert (
        f"distribute importance over the parts by {steadiest}, the most stable explainer"
        in finding.summary
    )
    same = 1 - rows[steadiest]
    assert finding.answer == ("yes" if same >= 0.7 else "partly" if same >= 0.3 else "no")


def test_the_page_speaks_of_parts(whole: Audit, tmp_path: Path) -> None:
    """Items are what is recommended; of those left out and ordered there is no word."""
    page = write_audit(whole, tmp_path / "audit.html").read_text()
    assert "up to 40 test cases." in page
    assert "the importance of a part</th>" in page
    assert "What the score loses when a part is removed" in page
    for name in ("faithfulness", "agreement", "stability"):
        finding = whole.findings[name]
        said = [finding.summary, *finding.notes]
        said += [text for one in finding.figures for text in (one.name, one.reading)]
        said += [text for one in finding.charts for text in (one.title, one.reading, one.across)]
        for text in said:
            for kept in ("all items", "the item that came next", "the next item", *NAMES):
                text = text.replace(kept, "")
            assert not re.search(r"\bitems?\b|histor(y|ies)", text), text


def test_wording_depends_on_the_model() -> None:
    words = "{a_part}'s place, each {part}, {parts} of a {whole}, of {wholes}"
    assert (
        ITEM_WORDING.fill(words) == "an item's place, each item, items of a history, of histories"
    )
    assert GROUP_WORDING.fill(words) == "a part's place, each part, parts of a case, of cases"
    for explainer in EXPLAINERS.values():
        assert not re.search(r"\bitems?\b|\bhistor", explainer.summary), "said by who speaks"
        assert not re.search(r"\bparts?\b|\bcases?\b|[{}]", ITEM_WORDING.fill(explainer.summary))
        assert not re.search(r"\bitems?\b|\bhistor|[{}]", GROUP_WORDING.fill(explainer.summary))


def test_experts_can_be_asked_for_by_name(three: Run, tmp_path: Path) -> None:
    asked = ("--method", "experts", "--stages", "faithfulness,stability", "--cases", "20")
    done = CliRunner().invoke(app, ["audit", str(three.folder), *asked, "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "Deleting parts in the order of experts" in " ".join(done.output.split())
    assert "over the parts by experts" in (tmp_path / "audit.html").read_text()


def test_a_model_that_uses_nothing_has_no_reasons_to_compare() -> None:
    """A network of zeros says the same of everything."""
    rng = np.random.default_rng(1)
    run = whence.train(
        interactions_of([rng.permutation(30)[:9].tolist() for _ in range(40)]),
        model="content-ncf",
        model_settings={"dim": 4, "hidden_dims": (4,)},
        training={"steps": 1},
        seeds=3,
        show_progress=False,
    )
    for model in run.models.values():
        for weights in model.parameters():
            weights.data.zero_()
    found = audit(run, stages=["agreement", "stability"], cases=20, show_progress=False)
    assert found.obstacles["agreement"] == (
        "Agreement needs two explainers that rank the parts of a case, and there is none."
    )
    stability = found.findings["stability"]
    assert "most stable" not in stability.summary
    assert stability.answer == "yes", "by the lists, which are the same"
