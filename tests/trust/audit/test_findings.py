"""What the stages of an audit measure is what a plain computation gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from whence.contract import ALL
from whence.explanation import ITEM_WORDING
from whence.measure import Measure, bootstrap_interval
from whence.run import Run
from whence.training import PerCase
from whence.training.comparison import Comparison
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
from whence.trust.audit.context import CONTROL, AuditContext
from whence.trust.audit.stage import STAGES
from whence.trust.audit.words import listed, percent, signed, too_few
from whence.trust.faithfulness import explained_item
from whence.trust.permutation.permutation_finding import REPEATS
from whence.trust.truth import truth_finding as truth_module
from whence.trust.truth.true_reasons import WorldAccuracy
from whence.worlds import StatisticPair

MADE_UP = dict.fromkeys(("NDCG@10", "recall@10"), "made up")
METHODS = ("attention-last", "rollout", "gradient-norm", "leave-one-out")


@pytest.fixture(scope="module")
def three(followed: Callable[..., Run]) -> Run:
    """Three seeds, hardly trained."""
    return followed()


def test_agreement_equals_scipy(three: Run) -> None:
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


def test_faithfulness_equals_deletion_by_hand(three: Run) -> None:
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
        assert found.measure.value == pytest.approx(lost / whole, rel=1e-4, abs=1e-6)
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
    assert _answer_for(19) == ("partly", f"{too_few(19, 20)}.")
    assert _answer_for(20)[0] == "yes"


def _answer_for(cases: int) -> tuple[str, str]:
    """Return the answer, and what follows the accuracy, for a model that beats popularity."""
    own, other = (
        PerCase({"NDCG@10": np.full(cases, value), "recall@10": np.full(cases, value)}, MADE_UP)
        for value in (1.0, 0.0)
    )
    compared = Comparison(own, {"popularity": other})
    answer, said = accuracy_module._verdict(own.measures(), compared, "watched")
    return answer, said.partition("; ")[2]


def test_accuracy_over_seeds_stays_a_share(three: Run) -> None:
    """Two seeds of 0.5 and 1 have a t-interval far beyond both ends."""
    measure = Measure(0.5, (0.4, 0.6), 9, "made up", "higher is better", (0.0, 1.0))
    metrics = {
        seed: {"test": {"NDCG@10": replace(measure, value=value).as_dict()}}
        for seed, value in ((0, 0.5), (1, 1.0))
    }
    (figure,) = accuracy_module._over_seeds(replace(three, metrics=metrics), measure)
    assert (figure.measure.value, figure.measure.interval) == (0.75, (0.0, 1.0))


def test_a_single_pair_has_no_extremes(three: Run) -> None:
    finding = STAGES["agreement"].find(AuditContext(three, 0, ("rollout", "fading", CONTROL), 20))
    assert "closest pair" not in finding.summary


def test_the_extreme_pairs_are_those_of_the_chart(three: Run) -> None:
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
def test_the_summary_names_the_next_band(rho: float, band: str) -> None:
    assert agreement_module._band(rho) == band


def test_differences_are_in_percentage_points() -> None:
    lead = Measure(-0.03, (-0.054, -0.003), 50, "made up", "higher is better", (-1.0, 1.0))
    assert accuracy_module._lead("last-item", lead).reading == (
        "NDCG@10 is 3.0 percentage points lower than with 'last-item' (−5.4 to −0.3)."
    )


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("coverage@10", 0.14, "All lists of ten together show 14 % (13 % to 15 %) of the catalog."),
        ("novelty@10", 6.3, "A recommended item carries 6.30 (6.29 to 6.31) bits of"),
        ("diversity@10", 0.9, "Two items of a list have a distance of 0.90 (0.89 to 0.91) on"),
        (
            "popularity bias@10",
            -0.2,
            "The recommended items are 20 percentage points (−21 to −19) less popular than those "
            "that users bought next.",
        ),
    ],
)
def test_what_the_lists_are_like_in_words(name: str, value: float, sentence: str) -> None:
    measure = Measure(value, (value - 0.01, value + 0.01), 50, "made up", "neither", (-1.0, 9.0))
    assert accuracy_module._reading(name, measure, "bought").startswith(sentence)


def test_random_importances_are_explained_only_above_zero() -> None:
    found = Measure(0.48, (0.44, 0.52), 50, "made up", "higher is better", (-1.0, 1.0))
    said = (
        "The sum of {} importances over random items of the history has a correlation of 0.48 "
        "(0.44 to 0.52) with the model's score for these alone"
    )
    tell = partial(explained_item._coalition_sentence, wording=ITEM_WORDING)
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


def test_explainers_are_compared_with_random_case_by_case(
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

    monkeypatch.setattr(truth_module, "precision_on_world", made_up)
    finding = truth_module.find_true_reasons(AuditContext(three, 0, tuple(right), 30))
    assert (asked["steps"], asked["cases"]) == (40, 30), "no more than the run and the audit have"
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
    few = truth_module.find_true_reasons(AuditContext(three, 0, tuple(right), 30))
    assert (len(few.figures), len(few.notes)) == (6, 1), "nothing is said of what is not known"
    assert (few.answer, any(one.better_than_random for one in few.ranking)) == ("partly", False)
    assert few.summary.endswith(
        "19 cases are too few to call a difference clear; at least 20 are needed."
    )
