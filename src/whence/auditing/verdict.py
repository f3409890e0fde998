"""Which explainer to use for this model, from what the stages measured, or none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from whence.auditing.finding import Finding, Standing
from whence.auditing.words import listed, percent
from whence.explainers.measured import FEW

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


def reach_verdict(findings: Mapping[str, Finding], questions: Mapping[str, str]) -> Verdict:
    """The cheapest of the explainers that are better than chance and not worse than the best.

    Those of a few inputs a history are equally cheap, and the best of them is taken. `questions`
    says what each stage asked.
    """
    caution = _caution([questions[name] for name, one in findings.items() if one.answer == "no"])
    basis = next((name for name in BASES if name in findings and findings[name].ranking), None)
    if basis is None:
        return Verdict(
            None,
            "No explainer can be recommended yet: nothing was measured that tells a good one from "
            "a bad one.",
            None,
            caution,
        )
    ranking = findings[basis].ranking
    best = max(ranking, key=lambda one: one.value)
    able = [one for one in ranking if one.better_than_random and one.as_good_as_best]
    if not able:
        return Verdict(
            None,
            f"No explainer can be recommended for this model: even {best.explainer}, which "
            f"{best.says}, is not clearly better than chance.",
            basis,
            caution,
        )
    chosen = min(able, key=lambda one: (max(one.inputs, FEW), -one.value))
    return Verdict(chosen.explainer, _sentence(chosen, best, able), basis, caution)


def _sentence(chosen: Standing, best: Standing, able: list[Standing]) -> str:
    asked = "input" if round(chosen.inputs) == 1 else "inputs"
    found = (
        f"Use {chosen.explainer}: it {chosen.says}, and has the model score "
        f"{chosen.inputs:,.0f} {asked} a history"
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
