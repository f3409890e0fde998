"""A model, an explainer and a measure that live outside of Whence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whence.explainers import Attribution, Explainer, Request
from whence.explanation import Explanation
from whence.measure import Measure, mean_over_cases
from whence.models.registry import ModelSpec, items_only
from whence.models.sasrec import SASRec, SASRecConfig
from whence.trust.measures import MeasureSpec


@dataclass(frozen=True)
class Recency(Explainer):
    """The place of a part in its history, counted from the oldest."""

    method = "recency"
    needs = ("parts",)
    signed = False
    cost = "0"
    summary = "How new each {part} is among the {parts} of its {whole}."

    def __call__(self, request: Request) -> Attribution:
        return Attribution(request.parts.cumsum(dim=1).double(), evaluations=0)


@dataclass(frozen=True)
class ShortSASRecConfig(SASRecConfig):
    max_len: int = 6
    """The longest history to read."""


SHORT_SASREC = ModelSpec(
    ShortSASRecConfig, items_only(SASRec), summary="SASRec that reads six items."
)


def parts_named(explanation: Explanation) -> Measure:
    """Return the mean share of parts with a score other than 0."""
    named = ((explanation.scores != 0) & explanation.parts).sum(axis=1)
    share = named / np.maximum(explanation.parts.sum(axis=1), 1)
    return mean_over_cases(share, "mean over histories", "neither", (0.0, 1.0))


PARTS_NAMED = MeasureSpec(
    parts_named,
    "How many of the parts have a score?",
    "neither",
    (0.0, 1.0),
    lambda small: small.two[:1],
)
