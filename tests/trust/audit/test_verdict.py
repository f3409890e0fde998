"""The verdict of an audit, and how numbers are written."""

from __future__ import annotations

from dataclasses import replace

from whence.measure import Measure
from whence.trust.audit.finding import ENOUGH, Finding, Standing
from whence.trust.audit.stage import STAGES
from whence.trust.audit.verdict import reach_verdict
from whence.trust.audit.words import listed, percent, points, points_between, signed


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


def test_a_caution_if_no_explainer_does_well_by_both() -> None:
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
        "which cannot be distinguished from random with 7 cases; at least 20 are needed."
    )


def test_no_explainer_is_recommended_unless_better_than_random() -> None:
    found = reach_verdict({"truth": ranked(standing("rollout", 0.1, 1, over=-0.1))}, QUESTIONS)
    assert found.explainer is None
    assert "not clearly better than random" in found.sentence
    assert found.caution == ""
    few = reach_verdict({"truth": ranked(standing("rollout", 0.9, 1, cases=7))}, QUESTIONS)
    assert few.explainer is None
    assert few.sentence.endswith(
        "cannot be distinguished from random with 7 cases; at least 20 are needed."
    )


def test_answers_of_no_are_repeated() -> None:
    poor = Finding("no", "No.", ())
    found = reach_verdict({"accuracy": poor, "agreement": poor}, QUESTIONS)
    assert found.caution == (
        "The answer is no to: Is the model accurate? Do the explainers agree with each other?"
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
