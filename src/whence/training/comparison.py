"""A recommender compared with the simple models on the same held-out events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from whence.data.splits import HeldOut, Split
from whence.measure import Measure, clearly_positive
from whence.models import MODELS, Recommender, simple_models
from whence.training.evaluation import Evaluation, PerCase

MAIN: Final = "NDCG@10"
"""The measure that decides."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """What a recommender and the simple models reach, case by case."""

    own: PerCase
    simple: Mapping[str, PerCase]
    metric: str = MAIN
    others: str = "every simple model"
    """What the simple models are for the sentence."""

    @cached_property
    def leads(self) -> dict[str, Measure]:
        """By simple model: how much better the recommender is, with an interval paired by case."""
        own = self.own.only(self.metric)
        return {name: own.lead_over(one)[self.metric] for name, one in self.simple.items()}

    def sides(self) -> tuple[list[str], list[str], list[str]]:
        """Return the simple models that it clearly beats, those it is level with, and the rest."""
        better: list[str] = []
        level: list[str] = []
        worse: list[str] = []
        for name, lead in self.leads.items():
            low, high = lead.interval
            ahead = clearly_positive((low, high), lead.n)
            behind = clearly_positive((-high, -low), lead.n)
            (better if ahead else worse if behind else level).append(name)
        return better, level, worse

    @property
    def sentence(self) -> str:
        """How it compares."""
        _, level, worse = self.sides()
        own, other = self._mean(self.own), self._mean(self.simple[self.best])
        figures = f"{self.metric} {own:.3f}, and {other:.3f} of {self.best}, the best of them"
        if not level and not worse:
            return f"Clearly better than {self.others}: {figures}."
        if own == other:
            return f"As good as {self.best}, a simple model: {self.metric} {own:.3f}."
        if self.wins:
            level_with = "any" if len(level) == len(self.simple) else " and ".join(level)
            return (
                f"Better than {self.others}, but not clearly better than {level_with}: {figures}."
            )
        clearly = "Loses to" if self.best in worse else "Not better than"
        return f"{clearly} {self.best}: {self.metric} {own:.3f} and {other:.3f}."

    @property
    def best(self) -> str:
        """The best of the simple models."""
        return max(self.simple, key=lambda name: self._mean(self.simple[name]))

    @property
    def wins(self) -> bool:
        """Whether it is better than each simple model, clearly or not."""
        return self._mean(self.own) > self._mean(self.simple[self.best])

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as plain types."""
        better, level, worse = self.sides()
        return {
            "metric": self.metric,
            "sentence": self.sentence,
            "clearly better than": better,
            "level with": level,
            "clearly worse than": worse,
            "leads": {name: lead.as_dict() for name, lead in self.leads.items()},
        }

    def _mean(self, one: PerCase) -> float:
        return float(one.values[self.metric].mean())


def compare_with_simple(
    model: Recommender, name: str, split: Split, held: HeldOut, *, everything: bool = False
) -> Comparison | None:
    """Evaluate a model and all simple models but itself; nothing if no events are held out.

    `everything` measures by all protocols, not only by the rank among all items.
    """
    if not len(split.held.get(held, ())):
        return None

    def measured(one: Recommender) -> PerCase:
        evaluation = Evaluation(split, held, one.config.max_len)
        return evaluation.of(one) if everything else evaluation.full(one)

    others = simple_models(split, other_than=name)
    return Comparison(
        measured(model),
        {other: measured(one) for other, one in others.items()},
        others="every other simple model" if name in MODELS.tagged("simple") else Comparison.others,
    )
