"""Which explainer to use for this model, if any, from what the stages measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from whence.explainers.measured import FEW
from whence.explanation import ITEM_WORDING, Wording
from whence.trust.audit.finding import ENOUGH, Finding, Standing
from whence.trust.audit.words import listed, percent

BASES: Final = ("truth", "faithfulness")
"""The stages that can tell a better explainer from a worse one; known true reasons come first."""


@dataclass(frozen=True)
class Verdict:
    """The explainer to use, and why, in words."""

    explainer: str | None
    sentence: str
    basis: str | None
    """The stage that decided."""
    caution: str
    """Other reasons not to rely on it; empty if there are none."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain types only."""
        return asdict(self)


def reach_verdict(
    findings: Mapping[str, Finding], questions: Mapping[str, str], wording: Wording = ITEM_WORDING
) -> Verdict:
    """Return the cheapest explainer that is better than random and not worse than the best.

    Explainers that need up to `FEW` inputs per history count as equally cheap, and the best of them
    is taken. An explainer that the other basis finds no better than random is taken only if there
    is no other, and with a caution. `questions` gives the question of each stage.
    """
    caution = _caution([questions[name] for name, one in findings.items() if one.answer == "no"])
    bases = [name for name in BASES if name in findings and findings[name].ranking]
    if not bases:
        return Verdict(
            None,
            "No explainer can be recommended yet: no stage that compares explainers was run.",
            None,
            caution,
        )
    basis, *others = bases
    ranking = findings[basis].ranking
    best = max(ranking, key=lambda one: one.value)
    able = [one for one in ranking if one.better_than_random and one.as_good_as_best]
    if not able:
        return Verdict(
            None,
            f"No explainer can be recommended for this model: even {best.explainer}, which "
            f"{best.says}, {_no_better(best)}.",
            basis,
            caution,
        )
    doubted = {
        one.explainer: one
        for other in others
        for one in findings[other].ranking
        if not one.better_than_random
    }
    sound = [one for one in able if one.explainer not in doubted]
    chosen = min(sound or able, key=lambda one: (max(one.inputs, FEW), -one.value))
    said = _sentence(chosen, best, sound or able, wording)
    if sound:
        said += _passed_over([one.explainer for one in able if one not in sound])
    else:
        doubt = doubted[chosen.explainer]
        warning = f"On this model, {doubt.explainer} {doubt.says}, which {_no_better(doubt)}."
        caution = f"{warning} {caution}".strip()
    return Verdict(chosen.explainer, said, basis, caution)


def _no_better(one: Standing) -> str:
    """Return a phrase that follows the name of an explainer no better than random."""
    if one.cases < ENOUGH:
        return (
            f"cannot be distinguished from random with {one.cases} cases; "
            f"at least {ENOUGH} are needed"
        )
    return "is not clearly better than random"


def _passed_over(names: list[str]) -> str:
    """Name the explainers that only one of the two bases supports."""
    if not names:
        return ""
    return (
        " Not considered, because leaving out what they call important changes the "
        f"recommendations no more than a random choice: {listed(names)}."
    )


def _sentence(chosen: Standing, best: Standing, able: list[Standing], wording: Wording) -> str:
    inputs = "input" if round(chosen.inputs) == 1 else "inputs"
    found = (
        f"Use {chosen.explainer}: it {chosen.says}, and needs {chosen.inputs:,.0f} model {inputs} "
        f"per {wording.whole}"
    )
    if chosen == best:
        found += ". No other explainer does better"
    else:
        figures = f"({percent(best.value)}, {best.inputs:,.0f} inputs)"
        found += f". {best.explainer} {figures} is not clearly better"
    level = [one.explainer for one in able if one not in (chosen, best)]
    if level:
        found += f"; on these cases, {listed(level)} may be as good"
    return f"{found}."


def _caution(questions: list[str]) -> str:
    """Repeat the questions whose answer is no."""
    if not questions:
        return ""
    return f"The answer is no to: {' '.join(questions)}"
