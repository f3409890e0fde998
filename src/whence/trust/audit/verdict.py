"""Which explainer to use for this model, from what the stages measured, or none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from whence.explainers.measured import FEW
from whence.spoken import OF_HISTORIES, Spoken
from whence.trust.audit.finding import ENOUGH, Finding, Standing
from whence.trust.audit.words import listed, percent

BASES: Final = ("likeness", "faithfulness")
"""The stages that can tell a better explainer from a worse one; the truth comes first."""


@dataclass(frozen=True)
class Verdict:
    """The explainer to use, and why, in words."""

    explainer: str | None
    sentence: str
    basis: str | None
    """The stage it rests on."""
    caution: str
    """What else speaks against relying on it; empty where nothing does."""

    def as_dict(self) -> dict[str, Any]:
        """Plain types only."""
        return asdict(self)


def reach_verdict(
    findings: Mapping[str, Finding], questions: Mapping[str, str], spoken: Spoken = OF_HISTORIES
) -> Verdict:
    """The cheapest of the explainers that are better than chance and not worse than the best.

    Those of a few inputs a history are equally cheap, and the best of them is taken. One that the
    other basis finds no better than chance is taken only where there is no other, and with a
    caution. `questions` says what each stage asked.
    """
    caution = _caution([questions[name] for name, one in findings.items() if one.answer == "no"])
    bases = [name for name in BASES if name in findings and findings[name].ranking]
    if not bases:
        return Verdict(
            None,
            "No explainer can be recommended yet: nothing was measured that tells a good one from "
            "a bad one.",
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
    said = _sentence(chosen, best, sound or able, spoken)
    if sound:
        said += _left_aside([one.explainer for one in able if one not in sound])
    else:
        doubt = doubted[chosen.explainer]
        warned = f"On this very model {doubt.explainer} {doubt.says}, which {_no_better(doubt)}."
        caution = f"{warned} {caution}".strip()
    return Verdict(chosen.explainer, said, basis, caution)


def _no_better(one: Standing) -> str:
    """Than chance, to go on from who is not."""
    if one.cases < ENOUGH:
        return f"cannot be told from chance by {one.cases} cases; it takes {ENOUGH}"
    return "is not clearly better than chance"


def _left_aside(names: list[str]) -> str:
    """Those that only one of the two bases speaks for."""
    if not names:
        return ""
    return (
        " Left aside, since without what they call important the recommendations change not "
        f"clearly more than by chance: {listed(names)}."
    )


def _sentence(chosen: Standing, best: Standing, able: list[Standing], spoken: Spoken) -> str:
    asked = "input" if round(chosen.inputs) == 1 else "inputs"
    found = (
        f"Use {chosen.explainer}: it {chosen.says}, and has the model score "
        f"{chosen.inputs:,.0f} {asked} a {spoken.whole}"
    )
    if chosen == best:
        found += ". No other does better"
    else:
        figures = f"({percent(best.value)}, {best.inputs:,.0f} inputs)"
        found += f". {best.explainer} {figures} is not clearly better"
    level = [one.explainer for one in able if one not in (chosen, best)]
    if level:
        found += f"; as far as these cases tell, {listed(level)} may be as good"
    return f"{found}."


def _caution(questions: list[str]) -> str:
    """The questions that were answered with no."""
    if not questions:
        return ""
    return f"Mind what was answered with no: {' '.join(questions)}"
