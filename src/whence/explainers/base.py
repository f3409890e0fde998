"""Explainers: their base class, requests and results, and the registry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import MISSING, Field, dataclass, fields, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from whence.config import build, parse_settings
from whence.contract import (
    MEMORY,
    Explainable,
    HasAttentions,
    HasContributions,
    HasEmbeddings,
    HasItemVectors,
    HasSelections,
    Selections,
    offers,
    score_coalitions,
)
from whence.errors import InputError
from whence.registry import Registry


@dataclass(frozen=True, eq=False)
class Request:
    """A request to an explainer: how much does each part of these cases matter to the target?"""

    model: Explainable
    batch: Tensor
    """`[B, n]`."""
    targets: Tensor
    """`[B]`: one target per case."""
    parts: Tensor
    """`[B, n]`: which slots are parts."""
    full_score: Tensor
    """`[B]`: f(N), the target's score with every part present."""
    empty_score: Tensor
    """`[B]`: f(∅), the target's score with no part present."""
    seed: int = 0
    memory: int = MEMORY
    """The approximate number of bytes that one call of the model may use."""

    def attentions(self) -> list[Tensor]:
        """Return the model's `attentions` for these cases and targets."""
        assert isinstance(self.model, HasAttentions)
        return self.model.attentions(self.batch, self.targets)

    def embeddings(self) -> Tensor:
        """Return `[B, n, d]`, the model's embeddings of the parts."""
        assert isinstance(self.model, HasEmbeddings)
        return self.model.embed(self.batch)

    def selections(self) -> Selections:
        """Return the weights of the model's experts for these cases and targets."""
        assert isinstance(self.model, HasSelections)
        return self.model.selections(self.batch, self.targets)

    def contributions(self) -> Tensor:
        """Return `[B, n]`, the terms of the model's score for these cases and targets."""
        assert isinstance(self.model, HasContributions)
        return self.model.contributions(self.batch, self.targets)

    def item_vectors(self) -> Tensor:
        """Return `[items, d]`, the model's vector of each item."""
        assert isinstance(self.model, HasItemVectors)
        return self.model.item_vectors()

    def __len__(self) -> int:
        """Return the number of cases."""
        return len(self.targets)

    def __getitem__(self, cases: slice | Tensor) -> Request:
        """Return the request for some of the cases."""
        return replace(
            self,
            batch=self.batch[cases],
            targets=self.targets[cases],
            parts=self.parts[cases],
            full_score=self.full_score[cases],
            empty_score=self.empty_score[cases],
        )


def make_request(
    model: Explainable, batch: Tensor, targets: Tensor, seed: int = 0, memory: int = MEMORY
) -> Request:
    """Return a request with the full and the empty score, which every explanation states."""
    parts = model.parts(batch)
    all_and_none = torch.tensor([[True], [False]], device=batch.device).expand(-1, parts.shape[1])
    full, empty = score_coalitions(model, batch, targets, all_and_none, memory=memory).unbind(1)
    return Request(model, batch, targets, parts, full, empty, seed, memory)


@dataclass(frozen=True, eq=False)
class Attribution:
    """What an explainer returns. Scores of slots that are not parts are ignored."""

    scores: Tensor
    """`[B, n]`; slots that the model adds itself may follow."""
    evaluations: int | Tensor
    """Inputs the model scored, besides the full and the empty one: one number, or `[B]`."""
    error: Tensor | None = None
    """`[B, n]` standard errors, if the method samples."""


class Explainer(ABC):
    """Base of every explainer: a frozen dataclass whose fields are the method's parameters.

    The attributes below declare the rest. Help texts, tables and tests follow from them.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]
    method: ClassVar[str]
    """The name of the method, before any parameters."""
    signed: ClassVar[bool]
    """Whether a negative score means that the part argues against the target."""
    control: ClassVar[bool] = False
    """Whether it says nothing, and serves as the baseline that others must beat."""
    samples: ClassVar[bool] = False
    """Whether it samples, and therefore reports standard errors."""
    adds_up: ClassVar[bool] = False
    """Whether the scores of a case sum to f(N) − f(∅) exactly."""

    @property
    def needs(self) -> tuple[str, ...]:
        """The capabilities it needs of a model, besides `parts` and `score`."""
        return ()

    @property
    def target_specific(self) -> bool:
        """Whether it explains the target's own score, and not all of the model's answer."""
        return self.signed

    @property
    @abstractmethod
    def cost(self) -> str:
        """Inputs the model scores per case: "1", "n" for n parts, "b" for b blocks, "at most 9"."""

    @property
    @abstractmethod
    def summary(self) -> str:
        """What a score says, in one sentence that a newcomer understands.

        `{part}`, `{a_part}`, `{parts}`, `{whole}` and `{wholes}` stand for what a part is called;
        `Wording.fill` replaces them.
        """

    @abstractmethod
    def __call__(self, request: Request) -> Attribution:
        """Return the importance of each slot of each case for its target."""


def _accept(name: str, found: object) -> Explainer:
    """Return the explainer that an entry point names, which may be its class."""
    explainer = found() if isinstance(found, type) else found
    if not isinstance(explainer, Explainer):
        raise InputError(f"{name} is {type(explainer).__name__}, not an Explainer")
    return explainer


EXPLAINERS: Registry[Explainer] = Registry(
    "explainer", package="whence.explainers", group="whence.explainers", accept=_accept
)
"""Every explainer, with its usual parameters.

Tags: "usual" for the defaults of `whence explain`, "audit" for those of an audit.
"""


def find_explainer(name: str) -> tuple[str, Explainer]:
    """Return an explainer and its full name; a name may set parameters: `attention:head=2`."""
    method, colon, settings = name.partition(":")
    known = EXPLAINERS.name_of(method)
    explainer = EXPLAINERS[known]
    if not colon:
        return known, explainer
    parameters = {field.name: getattr(explainer, field.name) for field in fields(explainer)}
    found = build(type(explainer), {**parameters, **parse_settings(settings)}, method)
    return f"{method.strip().lower()}:{settings}", found


def able(model: Explainable, names: Iterable[str]) -> list[str]:
    """Return the names of those explainers whose needs the model meets."""
    return [
        name for name in names if all(offers(model, need) for need in find_explainer(name)[1].needs)
    ]


def name_of(explainer: Explainer) -> str:
    """Return its registered name, or its method with the parameters that are not the defaults."""
    for name, known in EXPLAINERS.items():
        if explainer == known:
            return name
    settings = [
        f"{field.name}={_as_text(value)}"
        for field in fields(explainer)
        if (value := getattr(explainer, field.name)) != _default(field)
    ]
    return ":".join((explainer.method, ",".join(settings))) if settings else explainer.method


def _default(field: Field[Any]) -> object:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _as_text(value: object) -> str:
    """Return the value as `find_explainer` reads it."""
    return "none" if value is None else str(value)
