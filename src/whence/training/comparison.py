"""A recommender compared with the simple models on the same held-out events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from whence.data.splits import HeldOut, Split
from whence.measure import Measure, clearly_positive
from whence.models import Recommender, simple_models
from whence.training.evaluation import Evaluation, PerCase

MAIN: Final = "NDCG@10"
"""The measure that decides."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """What a recommender and the simple models reach, case by case."""

    own: PerCase
    simple: Mapping[str, PerCase]
    metric: str = MAIN

    @property
    def leads(self) -> dict[str, Measure]:
        """By simple model: how much better the recommender is, with an interval paired by case."""
        return {name: self.own.lead_over(one)[self.metric] for name, one in self.simple.items()}

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
        """How it compares, and what to try if it does not win."""
        _, level, worse = self.sides()
        best = max(self.simple, key=self._value)
        own, other = self.own.measures()[self.metric].value, self._value(best)
        figures = f"{self.metric} {own:.3f}, and {other:.3f} of {best}, the best of them"
        if not level and not worse:
            return f"Clearly better than every simple model: {figures}."
        if other <= own:
            return (
                f"Better than every simple model, but not clearly better than "
                f"{' and '.join(level)}: {figures}."
            )
        clearly = "Loses to" if best in worse else "Not better than"
        return (
            f"{clearly} {best}: {self.metric} {own:.3f} and {other:.3f}. Try --model {best}, or "
            "leave out --model, which chooses the best."
        )

    def _value(self, name: str) -> float:
        return self.simple[name].measures()[self.metric].value


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
    return Comparison(measured(model), {other: measured(one) for other, one in others.items()})
