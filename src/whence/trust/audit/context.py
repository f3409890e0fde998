"""What the stages of an audit share: a run, some held-out cases, and their explanations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from whence.arrays import Ints
from whence.contract import DROPPED, HasAttentions, HasPartNames, attends_by_target, offers
from whence.data.histories import Cases
from whence.data.splits import HeldOut, Split, split_by
from whence.devices import device_of
from whence.errors import InputError
from whence.explainers import EXPLAINERS, able, compare_batch, find_explainer
from whence.explanation import Explanation, Wording, wording_of
from whence.memory import cases_at_once, row_slices
from whence.models import Recommender
from whence.models.base import has_reasons
from whence.models.dropping import with_removal
from whence.randomness import Randomness
from whence.ranking import top_unseen
from whence.run import Run
from whence.trust.audit.words import listed
from whence.trust.perturbation import TOP_TEN

CASES: Final = 300
HELD: Final[HeldOut] = "test"
CONTROL: Final = "random"
"""The explainer that all others are compared with."""
SAME_FOR_ONE_TARGET: Final = ("attention-first", "rollout")
"""With attention from one target to the items, these equal the attention of the last block."""
SAME_FOR_GROUPS: Final = ("gradient-norm",)
"""A group's embedding is the number 1, so gradient × input is the gradient with its sign."""
COALITIONS: Final = 512
"""For Shapley values; long histories get more, because each needs twice its number of items."""


@dataclass(frozen=True, eq=False)
class AuditContext:
    """Everything a stage may use; expensive results are computed on first use."""

    run: Run
    model_seed: int | None
    """Which of the run's models is audited; `None` audits all of them as one."""
    methods: tuple[str, ...]
    n_cases: int
    """The number of held-out histories to use, at most."""
    memory: int | None = None
    removal: str | None = None
    """How parts are removed, in every stage; `None` is what each model does itself."""
    sentence_removal: str = DROPPED
    """How items are removed to test sentences, whose own checks leave them out."""
    show_progress: bool = False
    cut_to: int | None = None
    """Read only this many of a history's newest items, if the model could read more."""

    @cached_property
    def model(self) -> Recommender:
        """The audited model; the models of the seeds show how much of a result is random."""
        return with_removal(self.run.chosen(self.model_seed), self.removal)

    @cached_property
    def models(self) -> dict[int, Recommender]:
        """The models of the seeds, which remove parts as the audited one does."""
        return {seed: with_removal(one, self.removal) for seed, one in self.run.models.items()}

    @property
    def seed(self) -> int:
        """The seed of random draws."""
        return next(iter(self.run.models)) if self.model_seed is None else self.model_seed

    @property
    def max_len(self) -> int:
        """How many items of a history are read."""
        own = self.model.config.max_len
        return own if self.cut_to is None else min(own, self.cut_to)

    @cached_property
    def split(self) -> Split:
        """The data as they were split for training."""
        return split_by(self.run.training["split"], self.run.interactions)

    def require_events(self) -> None:
        """Raise if the data are no longer available or no events are held out."""
        if not len(self.split.held[HELD]):
            raise InputError(f"The split holds out no {HELD} events, so there is nothing to test.")

    def draw(self, held: HeldOut, most: int) -> Cases:
        """Return at most `most` held-out cases in random order; a larger draw extends it."""
        every = self.split.held[held]
        order = Randomness(self.seed).numpy("evaluation").permutation(len(every))
        return every[order[:most]]

    @cached_property
    def _recommended(self) -> tuple[Cases, Ints, Ints]:
        """Held-out cases in random order, their first recommendation and the number of choices.

        The number is counted up to one more than a list of recommendations has.
        """
        drawn = self.draw(HELD, self.n_cases)
        items, choices = (np.zeros(len(drawn), dtype=np.int64) for _ in range(2))
        for some in row_slices(len(drawn), cases_at_once(self.split.interactions.item_count)):
            best, score = top_unseen(self.model, drawn[some], self.max_len, TOP_TEN + 1)
            items[some], choices[some] = best[:, 0], np.isfinite(score).sum(axis=1)
        left = np.flatnonzero(choices)
        if not len(left):
            raise InputError("Every user has seen every item, so there is nothing to recommend.")
        return drawn[left], items[left], choices[left]

    @property
    def cases(self) -> Cases:
        """The held-out cases, without users who have seen every item."""
        return self._recommended[0]

    @property
    def list_is_catalog(self) -> bool:
        """Whether a list of ten holds everything that is left to recommend, for every user."""
        return bool((self._recommended[2] <= TOP_TEN).all())

    @cached_property
    def batch(self) -> Tensor:
        """`[B, n]`: what the model reads of the cases, on its device."""
        return self.model.read(self.cases, self.max_len).to(device_of(self.model))

    @cached_property
    def targets(self) -> Tensor:
        """`[B]`: the first recommendation of each case, which users would see reasons for."""
        return torch.from_numpy(self._recommended[1]).to(device_of(self.model))

    @cached_property
    def explanations(self) -> dict[str, Explanation]:
        """The explanations of the first recommendations, by method."""
        return compare_batch(
            self.model, self.batch, self.targets, self.methods, self.seed, memory=self.memory
        )

    @property
    def wording(self) -> Wording:
        """What a reader calls the parts of these cases."""
        return wording_of(self.model)

    @cached_property
    def groups(self) -> list[list[str]]:
        """The names of each case's parts if they are groups of features, else nothing."""
        model = self.model
        return model.part_names(self.batch) if isinstance(model, HasPartNames) else []

    def parts_named(self) -> list[str]:
        """Return a sentence with the names of the groups, if there are any."""
        names = dict.fromkeys(f"'{name}'" for row in self.groups for name in row if name)
        if not names:
            return []
        return [f"The {self.wording.parts} are groups of features: {listed([*names])}."]

    @property
    def explainers(self) -> list[str]:
        """The methods without the random control."""
        return [method for method in self.methods if method != CONTROL]

    @cached_property
    def ranking_explainers(self) -> list[str]:
        """The explainers that rank the parts of some case; gradients of a plain sum do not."""
        return [name for name in self.explainers if _has_order(self.explanations[name])]

    def for_one_seed(self) -> AuditContext:
        """Return the same for the model of the first seed, which has attention of its own."""
        one = self.seed
        return replace(self, model_seed=one, methods=default_methods(self.run.models[one]))

    def settings(self) -> dict[str, Any]:
        """Return what determines the figures, besides the run."""
        return {
            "model_seed": self.model_seed,
            "methods": list(self.methods),
            "cases": self.n_cases,
            "held": HELD,
            "removal": self.model.removal,
            "sentence_removal": self.sentence_removal,
        }


def _has_order(explanation: Explanation) -> bool:
    """Return whether any case has parts of different importance."""
    sizes, parts = explanation.magnitude(), explanation.parts
    largest = np.where(parts, sizes, -np.inf).max(axis=1)
    return bool((np.where(parts, sizes, np.inf).min(axis=1) < largest).any())


def default_methods(model: Recommender) -> tuple[str, ...]:
    """Return the model's own explainer, the cheap ones it supports, Shapley values and random.

    Explainers that give the same result on this model appear once. A model whose parts cannot be
    reasons has none.
    """
    if not has_reasons(model):
        return ()
    names = [name for name in EXPLAINERS.tagged("audit") if name not in _duplicates(model)]
    shapley = _default_shapley(model)
    return tuple(able(model, [shapley if name == "shapley" else name for name in names]))


def _duplicates(model: Recommender) -> tuple[str, ...]:
    """Return the cheap explainers that equal another one on this model."""
    one_target = isinstance(model, HasAttentions) and attends_by_target(model)
    by_groups = offers(model, "part_names")
    return (
        *(SAME_FOR_ONE_TARGET if one_target else ()),
        *(SAME_FOR_GROUPS if by_groups else ()),
    )


def _default_shapley(model: Recommender) -> str:
    """Return exact Shapley values for a few groups, and sampled ones for histories."""
    if offers(model, "part_names"):
        return "shapley"
    return f"shapley:coalitions={max(COALITIONS, 4 * model.config.max_len)}"


def with_control(methods: Sequence[str]) -> tuple[str, ...]:
    """Return each method once, by its registered name, and the random control at the end."""
    names = [find_explainer(method)[0] for method in methods]
    return (*dict.fromkeys(name for name in names if name != CONTROL), CONTROL)
