"""A small case to compute every measure on: a trained model, a synthetic world, explanations."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import torch
from torch import Tensor

from whence.arrays import Bools, Floats, Ints
from whence.explainers import compare_batch, explain_batch
from whence.explanation import Explanation
from whence.models import Recommender
from whence.ranking import top_unseen
from whence.run import Run
from whence.training import train
from whence.trust.calibration.next_item import next_item_logits
from whence.trust.faithfulness.coalition_values import CoalitionValues, coalition_values
from whence.trust.predictions import Predictions, predictions_from_logits
from whence.worlds import World, WorldConfig, WorldQuestions, make_world

COUNT: Final = 100
FEW: Final = 20
"""Cases for measures that delete parts one by one."""


@dataclass(frozen=True, eq=False)
class SmallCase:
    """What a measure may be computed on; everything is computed on first use."""

    world: World
    run: Run
    """Trained on the world, with at least two seeds."""

    @property
    def model(self) -> Recommender:
        """The model of the first seed."""
        return self.run.first

    @cached_property
    def questions(self) -> WorldQuestions:
        """Events of the world whose cause is known."""
        return self.world.questions("caused", self.model.config.max_len, COUNT)

    @cached_property
    def batch(self) -> Tensor:
        """`[B, n]`: the histories."""
        return torch.from_numpy(self.questions.cases.histories(self.model.config.max_len))

    @cached_property
    def targets(self) -> Tensor:
        """`[B]`: the items that came next."""
        return torch.from_numpy(self.questions.cases.targets)

    @cached_property
    def explanations(self) -> tuple[Explanation, Explanation, Explanation]:
        """Explanations of the targets: one without signs, one with signs, and a third."""
        methods = ["rollout", "leave-one-out", "gradient-norm"]
        one, two, three = compare_batch(self.model, self.batch, self.targets, methods).values()
        return one, two, three

    @property
    def two(self) -> tuple[Explanation, Explanation]:
        """Two explanations of the same cases."""
        return self.explanations[:2]

    @property
    def signed(self) -> Explanation:
        """An explanation with signs."""
        return self.explanations[1]

    @cached_property
    def shapley(self) -> Explanation:
        """Sampled Shapley values, which add up and have standard errors."""
        method = "shapley:coalitions=64,exact_up_to=0"
        return explain_batch(self.model, self.batch, self.targets, method)

    @cached_property
    def few(self) -> tuple[Recommender, Tensor, Explanation]:
        """The model, a few of the cases and their explanation."""
        batch, targets = self.batch[:FEW], self.targets[:FEW]
        return self.model, batch, explain_batch(self.model, batch, targets, "leave-one-out")

    @cached_property
    def values(self) -> CoalitionValues:
        """The scores of coalitions of the parts."""
        return coalition_values(self.model, self.batch, self.targets, 32)

    @cached_property
    def items(self) -> tuple[Ints, Ints]:
        """`[B, n]` and `[items]`: the items in the slots, and how often each item occurs."""
        data = self.world.interactions
        return self.batch.numpy(), np.bincount(data.items, minlength=data.item_count)

    @cached_property
    def predictions(self) -> Predictions:
        """The confidence in the next item, and whether it was right."""
        logits = next_item_logits(self.model, self.questions.cases, self.model.config.max_len)
        return predictions_from_logits(logits)

    @cached_property
    def importances(self) -> tuple[Floats, Bools]:
        """`[3, B, n]` and `[B, n]`: three importances as if of three seeds, and the parts."""
        sizes = np.stack([one.magnitude() for one in self.explanations])
        return sizes, self.explanations[0].parts

    @cached_property
    def lists(self) -> tuple[Ints]:
        """`[3, B, 10]`: the recommendations of two seeds, and other users' as of a third."""
        max_len, cases = self.model.config.max_len, self.questions.cases
        lists = [top_unseen(model, cases, max_len, 10)[0] for model in self.run.models.values()]
        return (np.stack([*lists, np.roll(lists[0], 1, axis=0)]),)

    @cached_property
    def probabilities(self) -> tuple[Floats]:
        """`[3, B]`: probabilities of the same events as if of three seeds."""
        return (np.stack([self.predictions.confidence**power for power in (0.5, 1, 2)]),)


def small_case() -> SmallCase:
    """Train a small model on a synthetic world, which takes a few seconds."""
    world = make_world(WorldConfig(users=300, items=120, events=20, genres=4, seed=3))
    run = train(
        world.interactions,
        model_settings={"max_len": 12, "dim": 16},
        training={"steps": 300, "batch_size": 64},
        seeds=2,
        show_progress=False,
    )
    return SmallCase(world, run)
