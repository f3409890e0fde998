"""What is audited: a run, some of its held-out cases, and what explainers say of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from whence.arrays import Ints
from whence.contract import HasAttentions, HasPartNames, attends_by_target, offers
from whence.data.histories import Cases
from whence.data.splits import HeldOut, Split, split_by
from whence.devices import device_of
from whence.errors import InputError
from whence.explainers import EXPLAINERS, able, compare_batch
from whence.explanation import Explanation
from whence.memory import cases_at_once, row_slices
from whence.models import Recommender
from whence.models.base import has_reasons
from whence.randomness import Randomness
from whence.ranking import top_unseen
from whence.run import Run
from whence.spoken import Spoken, spoken_of
from whence.trust.audit.words import listed

CASES: Final = 300
HELD: Final[HeldOut] = "test"
CONTROL: Final = "random"
SAME_OF_ONE_TARGET: Final = ("attention-first", "rollout")
SAME_OF_GROUPS: Final = ("gradient-norm",)
"""A group's embedding is the number 1, so that gradient × input is the gradient, with its sign."""
LISTED: Final = 10
"""Recommendations that a user is shown, whose overlap and recall are asked for."""
COALITIONS: Final = 512
"""For Shapley values; of long histories more, since each needs twice as many as it has items."""


@dataclass(frozen=True, eq=False)
class AuditContext:
    """All that a stage may ask for; what takes time is worked out when it is first asked for."""

    run: Run
    seed: int
    """Which of the run's models answers, and where explainers that draw begin."""
    methods: tuple[str, ...]
    cases: int
    """How many of the held-out histories are asked about, at most."""
    memory: int | None = None
    show_progress: bool = False
    """Of what takes minutes."""
    longest: int | None = None
    """How many of a history's newest items are read, where they are not all that the model can."""

    @property
    def model(self) -> Recommender:
        """The one that is audited; the others say how much of it is chance."""
        return self.run.models[self.seed]

    @property
    def length(self) -> int:
        """How many items of a history are read."""
        own = self.model.config.max_len
        return own if self.longest is None else min(own, self.longest)

    @cached_property
    def split(self) -> Split:
        """The data as they were divided for training."""
        return split_by(self.run.training["split"], self.run.interactions)

    def require_events(self) -> None:
        """Raise where the data are gone, or nothing of them is held out."""
        if not len(self.split.held[HELD]):
            raise InputError(f"No {HELD} events are held out to ask about.")

    def draw(self, held: HeldOut, most: int) -> Cases:
        """At most so many held-out cases in random order, the first the same however many."""
        every = self.split.held[held]
        order = Randomness(self.seed).numpy("evaluation").permutation(len(every))
        return every[order[:most]]

    @cached_property
    def _recommended(self) -> tuple[Cases, Ints, Ints]:
        """Held-out cases in random order, what the model recommends first, and of how many.

        More than a list has are not counted.
        """
        drawn = self.draw(HELD, self.cases)
        items, choices = (np.zeros(len(drawn), dtype=np.int64) for _ in range(2))
        for some in row_slices(len(drawn), cases_at_once(self.split.interactions.item_count)):
            best, score = top_unseen(self.model, drawn[some], self.length, LISTED + 1)
            items[some], choices[some] = best[:, 0], np.isfinite(score).sum(axis=1)
        left = np.flatnonzero(choices)
        if not len(left):
            raise InputError("Every user has met every item; there is nothing to give reasons for.")
        return drawn[left], items[left], choices[left]

    @property
    def asked(self) -> Cases:
        """The cases, without users who have met every item."""
        return self._recommended[0]

    @property
    def list_is_catalog(self) -> bool:
        """Whether a list of ten has all that is left to recommend, whoever is asked about."""
        return bool((self._recommended[2] <= LISTED).all())

    @cached_property
    def batch(self) -> Tensor:
        """`[B, n]`: what the model reads of them, where it is."""
        return self.model.read(self.asked, self.length).to(device_of(self.model))

    @cached_property
    def targets(self) -> Tensor:
        """`[B]`: what the model recommends first, which is what users would see reasons for."""
        return torch.from_numpy(self._recommended[1]).to(device_of(self.model))

    @cached_property
    def explanations(self) -> dict[str, Explanation]:
        """By method, of the first recommendation to each of these users."""
        return compare_batch(
            self.model, self.batch, self.targets, self.methods, self.seed, memory=self.memory
        )

    @property
    def spoken(self) -> Spoken:
        """What a reader calls the parts of these cases."""
        return spoken_of(self.model)

    @cached_property
    def groups(self) -> list[list[str]]:
        """By case, what its parts are called; nothing where they are items, which are many."""
        model = self.model
        return model.part_names(self.batch) if isinstance(model, HasPartNames) else []

    def parts_named(self) -> list[str]:
        """A sentence with the names of groups, where there are any."""
        names = dict.fromkeys(f"'{name}'" for row in self.groups for name in row if name)
        if not names:
            return []
        return [f"The {self.spoken.parts} are groups of features: {listed([*names])}."]

    @property
    def explainers(self) -> list[str]:
        """The methods without the control."""
        return [method for method in self.methods if method != CONTROL]

    @cached_property
    def telling(self) -> list[str]:
        """The explainers by which parts of a case differ, as by gradients of a sum they do not."""
        return [name for name in self.explainers if _has_order(self.explanations[name])]

    def settings(self) -> dict[str, Any]:
        """What decides the figures, beside the run."""
        return {"seed": self.seed, "methods": list(self.methods), "cases": self.cases, "held": HELD}


def _has_order(explanation: Explanation) -> bool:
    """Whether any case has parts of different importance."""
    sizes, parts = explanation.magnitude(), explanation.parts
    largest = np.where(parts, sizes, -np.inf).max(axis=1)
    return bool((np.where(parts, sizes, np.inf).min(axis=1) < largest).any())


def default_methods(model: Recommender) -> tuple[str, ...]:
    """What the model says itself, the cheap explainers it has what it takes for, and Shapley's.

    Chance is the last. Where no part can be a reason there are none, and of those that say the same
    of this model one is enough.
    """
    if not has_reasons(model):
        return ()
    same = _says_nothing_new(model)
    names = [name for name in EXPLAINERS.tagged("audit") if name not in same]
    shapley = _usual_shapley(model)
    return tuple(able(model, [shapley if name == "shapley" else name for name in names]))


def _says_nothing_new(model: Recommender) -> tuple[str, ...]:
    """Beside the other cheap explainers.

    Where all attention is that of one target to the items, the last block's is the first's and
    rollout's too.
    """
    by_target = isinstance(model, HasAttentions) and attends_by_target(model)
    of_target = SAME_OF_ONE_TARGET if by_target else ()
    of_groups = SAME_OF_GROUPS if offers(model, "part_names") else ()
    return (*of_target, *of_groups)


def _usual_shapley(model: Recommender) -> str:
    """Of a few groups they are exact, with nothing to draw."""
    if offers(model, "part_names"):
        return "shapley"
    return f"shapley:coalitions={max(COALITIONS, 4 * model.config.max_len)}"


def with_control(methods: Sequence[str]) -> tuple[str, ...]:
    """Each once, and chance at the end, which every figure is held against."""
    return (*dict.fromkeys(method for method in methods if method != CONTROL), CONTROL)
