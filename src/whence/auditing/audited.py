"""What is audited: a run, some of its held-out cases, and what explainers say of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from whence.data.histories import Cases
from whence.data.splits import Held, Split, split_by
from whence.errors import InputError
from whence.explainers import able, compare_batch
from whence.explanation import Explanation
from whence.memory import cases_at_once, row_slices
from whence.models import Recommender
from whence.randomness import Randomness
from whence.ranking import best_unmet, device_of
from whence.run import Run

Ints = npt.NDArray[np.int64]

CASES: Final = 300
HELD: Final[Held] = "test"
CONTROL: Final = "random"
CHEAP: Final = (
    "attention-first",
    "attention-last",
    "rollout",
    "signed-rollout",
    "gradient-rollout",
    "fading",
    "gradient-norm",
    "gradient-input",
    "integrated-gradients",
    "leave-one-out",
)
SAME_OF_ONE_TARGET: Final = ("attention-first", "rollout")
LISTED: Final = 10
"""Recommendations that a user is shown, whose overlap and recall are asked for."""
COALITIONS: Final = 512
"""For Shapley values; of long histories more, since each needs twice as many as it has items."""


@dataclass(frozen=True, eq=False)
class Audited:
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
        own = self.model.config.length
        return own if self.longest is None else min(own, self.longest)

    @cached_property
    def split(self) -> Split:
        """The data as they were divided for training."""
        return split_by(self.run.training["split"], self.run.interactions)

    def require_events(self) -> None:
        """Raise where the data are gone, or nothing of them is held out."""
        if not len(self.split.held[HELD]):
            raise InputError(f"No {HELD} events are held out to ask about.")

    def draw(self, held: Held, most: int) -> Cases:
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
            best, score = best_unmet(self.model, drawn[some], self.length, LISTED + 1)
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
    def explainers(self) -> list[str]:
        """The methods without the control."""
        return [method for method in self.methods if method != CONTROL]

    def settings(self) -> dict[str, Any]:
        """What decides the figures, beside the run."""
        return {"seed": self.seed, "methods": list(self.methods), "cases": self.cases, "held": HELD}


def usual_methods(model: Recommender) -> tuple[str, ...]:
    """The cheap explainers that this model has what it takes for, Shapley values, and chance.

    Where no history is read there are none; and where all attention is that of one target to the
    items, the last block's is the first's and rollout's too, so that one of them is enough.
    """
    if not model.reads_histories:
        return ()
    cheap = [one for one in CHEAP if not (model.attends_by_target and one in SAME_OF_ONE_TARGET)]
    coalitions = max(COALITIONS, 4 * model.config.length)
    return tuple(able(model, (*cheap, f"shapley:coalitions={coalitions}", CONTROL)))


def with_control(methods: Sequence[str]) -> tuple[str, ...]:
    """Each once, and chance at the end, which every figure is held against."""
    return (*dict.fromkeys(method for method in methods if method != CONTROL), CONTROL)
