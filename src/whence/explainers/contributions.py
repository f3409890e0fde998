"""Contributions: the terms of a score that is a sum over the parts."""

from __future__ import annotations

from dataclasses import dataclass

from whence.explainers.base import EXPLAINERS, Attribution, Explainer, Request


@dataclass(frozen=True)
class Contributions(Explainer):
    """c_j in f(N) = f(∅) + Σ_j c_j, which the model computes its score from.

    If no item is there twice, c_j is also the Shapley value, and what leaving out j loses.
    """

    method = "contributions"
    needs = ("contributions",)
    signed = True
    adds_up = True
    cost = "1"
    summary = "What each {part} adds to the score, which is the sum of these terms."

    def __call__(self, request: Request) -> Attribution:
        """Read the terms off the model."""
        return Attribution(request.contributions().double(), evaluations=1)


EXPLAINERS.add("contributions", Contributions(), tags=("usual", "audit"), place=1)
