"""Several trained models as one recommender: the weighted mean of their log-probabilities.

A log-probability is a score minus a number that is the same for all items of a history. So a
weighted sum of scores ranks items as the weighted mean of log-probabilities does, and has the same
softmax. The sum needs no pass over all items to score a few of them. Models of a sigmoid average
their logits in this way, and models of ratings their ratings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple, Self, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from whence.contract import DROPPED, MEMORY, ZEROED, All, offers
from whence.data.histories import Cases
from whence.errors import InputError
from whence.models.base import Recommender, padding_columns
from whence.models.transformer import Transformer

if TYPE_CHECKING:
    from whence.contract import (
        HasClasses,
        HasContributions,
        HasEmbeddings,
        HasItemVectors,
        HasPartNames,
        HasUserVectors,
    )

SHARED: Final = (
    "embed",
    "contributions",
    "classes",
    "item_vectors",
    "user_vectors",
    "part_names",
)
"""The capabilities that an ensemble offers if all its members do. Attention belongs to a seed."""


@dataclass(frozen=True)
class Weight:
    """How the scores of a model enter a sum of log-probabilities."""

    weight: float = 1.0
    temperature: float = 1.0
    """Its scores divided by it are logits."""

    @property
    def factor(self) -> float:
        """What its scores are multiplied with."""
        return self.weight / self.temperature


class Member(NamedTuple):
    """A model and the factor of its scores."""

    model: Recommender
    factor: float


@dataclass(frozen=True)
class EnsembleConfig:
    """What every configuration has."""

    max_len: int
    dropout: float = 0.0


class Ensemble(Recommender):
    """A weighted sum of the members' scores."""

    def __init__(self, members: Sequence[Member]) -> None:
        super().__init__()
        models = [member.model for member in members]
        self.models = nn.ModuleList(models)
        self.members = list(members)
        first = models[0]
        self.config = EnsembleConfig(max(model.config.max_len for model in models))
        self.reads_history = first.reads_history
        self.predicts_probabilities = first.predicts_probabilities
        self.removal = self._own_removal()
        for capability in SHARED:
            if all(offers(model, capability) for model in models):
                setattr(self, capability, getattr(self, f"_{capability}"))

    def _own_removal(self) -> str:
        """Return how the members remove a part, each in its own way."""
        ways = list(dict.fromkeys(model.removal for model, _ in self.members))
        lengths = {model.config.max_len for model, _ in self.members}
        # Nothing moves up into the slots of a member that reads only the newest ones.
        return ZEROED if ways == [DROPPED] and len(lengths) > 1 else " + ".join(ways)

    @property
    def kind(self) -> str:
        """What messages call it: the kinds of its members."""
        return " + ".join(dict.fromkeys(model.kind for model, _ in self.members))

    def read(self, cases: Cases, max_len: int) -> Tensor:
        """Return what the members read of these cases."""
        return self.members[0].model.read(cases, max_len)

    def probabilities(self, scores: Tensor) -> Tensor:
        """Turn scores into values from 0 to 1."""
        return self.members[0].model.probabilities(scores)

    def parts(self, batch: Tensor) -> Tensor:
        """Return the slots that are parts for some member."""
        each = (model.parts(_newest(model, batch)) for model, _ in self.members)
        return torch.stack([_padded(own, batch) for own in each]).any(dim=0)

    def score(
        self,
        batch: Tensor,
        targets: Tensor | All,
        *,
        present: Tensor | None = None,
        embedded: Tensor | None = None,
        attention: Sequence[Tensor | None] | None = None,
    ) -> Tensor:
        """Return the weighted sum of the members' scores."""
        _refuse_attention(attention)
        if self.reads_history:
            self.require_length(batch)
        if isinstance(targets, All) and embedded is None:
            return self._score_all(batch, present)
        given: Sequence[Tensor | None] = [None] * len(self.members)
        if embedded is not None:
            given = embedded.split(self._embedding_sizes(batch), dim=-1)
        return _weighted_sum(
            (self._score_of(member.model, batch, targets, present, rows), member.factor)
            for member, rows in zip(self.members, given, strict=True)
        )

    def _score_all(self, batch: Tensor, present: Tensor | None) -> Tensor:
        """Score all items; those of all stacked networks are one product."""
        stack = self._stack
        found = None if stack is None else stack.score_all(batch, present)
        others = self.members if stack is None else self._outside_stack
        each = (
            (self._score_of(model, batch, All.ALL, present, None), factor)
            for model, factor in others
        )
        return _weighted_sum(each, found)

    @staticmethod
    def _score_of(
        model: Recommender,
        batch: Tensor,
        targets: Tensor | All,
        present: Tensor | None,
        embedded: Tensor | None,
    ) -> Tensor:
        return model.score(
            _newest(model, batch),
            targets,
            present=None if present is None else _newest(model, present),
            embedded=None if embedded is None else _newest(model, embedded),
        )

    def score_coalitions(
        self, batch: Tensor, targets: Tensor, coalitions: Tensor, *, memory: int = MEMORY
    ) -> Tensor:
        """Return the weighted sum; every member shares work between coalitions in its own way."""
        return _weighted_sum(
            (
                model.score_coalitions(
                    _newest(model, batch),
                    targets,
                    coalitions[..., -_newest(model, batch).shape[1] :],
                    memory=memory,
                ),
                factor,
            )
            for model, factor in self.members
        )

    def _apply(self, change: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Change the weights, as PyTorch does to move them; stacked copies are made again."""
        self.__dict__.pop("_stack", None)
        super()._apply(change, recurse)  # type: ignore[no-untyped-call]
        return self

    @cached_property
    def _stack(self) -> _TransformerStack | None:
        """The transformers of the first member's kind and sizes, if there are several."""
        alike = [member for member in self.members if _stacks_with(self.members[0], member)]
        return _TransformerStack(alike) if len(alike) > 1 else None

    @cached_property
    def _outside_stack(self) -> list[Member]:
        return [one for one in self.members if not _stacks_with(self.members[0], one)]

    # What follows is offered under the name without the underscore, if all members offer it.

    def _embed(self, batch: Tensor) -> Tensor:
        """Return the members' embeddings side by side."""
        return torch.cat([_padded(own, batch) for own in self._embedded(batch)], dim=-1)

    def _embedding_sizes(self, batch: Tensor) -> list[int]:
        return [own.shape[-1] for own in self._embedded(batch[:0])]

    def _embedded(self, batch: Tensor) -> Iterator[Tensor]:
        for model, _ in self.members:
            yield cast("HasEmbeddings", model).embed(_newest(model, batch))

    def _contributions(self, batch: Tensor, targets: Tensor) -> Tensor:
        """Return the weighted sum of the members' exact terms."""
        each = (
            (cast("HasContributions", model).contributions(_newest(model, batch), targets), factor)
            for model, factor in self.members
        )
        return _weighted_sum((_padded(terms, batch), factor) for terms, factor in each)

    def _classes(
        self,
        batch: Tensor,
        targets: Tensor,
        *,
        attention: Sequence[Tensor | None] | None = None,
    ) -> Tensor:
        """Return the mean of the members' log-probabilities of the classes."""
        _refuse_attention(attention)
        return _weighted_sum(
            (cast("HasClasses", model).classes(batch, targets).log_softmax(dim=-1), factor)
            for model, factor in self.members
        )

    def _item_vectors(self) -> Tensor:
        """Return the members' vectors side by side."""
        return torch.cat(
            [cast("HasItemVectors", model).item_vectors() for model, _ in self.members], dim=1
        )

    def _user_vectors(self) -> Tensor:
        """Return the members' vectors side by side."""
        return torch.cat(
            [cast("HasUserVectors", model).user_vectors() for model, _ in self.members], dim=1
        )

    def _part_names(self, batch: Tensor) -> list[list[str]]:
        """Return the names of the parts, which all members share."""
        names: list[list[str]] = cast("HasPartNames", self.members[0].model).part_names(batch)
        return names


class _TransformerStack:
    """Networks of equal sizes, whose products with the items are one product."""

    def __init__(self, members: Sequence[Member]) -> None:
        self.models = [_transformer(member.model) for member in members]
        vectors = [cast("HasItemVectors", model).item_vectors().detach() for model in self.models]
        self.items = torch.cat(
            [each * member.factor for each, member in zip(vectors, members, strict=True)], dim=1
        )
        """`[items, S · d]`"""

    def score_all(self, batch: Tensor, present: Tensor | None) -> Tensor:
        """Return the weighted sum of the scores of all items."""
        batch = _newest(self.models[0], batch)
        used = slice(padding_columns(batch), None)
        present = None if present is None else _newest(self.models[0], present)[:, used]
        answers = [model.answers_alone(batch[:, used], present) for model in self.models]
        # The larger matrix first: for few cases, that takes half of the time.
        return (self.items @ torch.cat(answers, dim=1).T).T.contiguous()


def _refuse_attention(attention: Sequence[Tensor | None] | None) -> None:
    if attention is not None:
        raise InputError(
            "Attention weights belong to the model of one seed. Choose one with model_seed."
        )


def _transformer(model: Recommender) -> Transformer:
    assert isinstance(model, Transformer)
    return model


def _stacks_with(first: Member, other: Member) -> bool:
    """Return whether both are networks of the same kind and sizes."""
    one, two = first.model, other.model
    return isinstance(one, Transformer) and type(one) is type(two) and one.config == two.config


def _newest(model: Recommender, values: Tensor) -> Tensor:
    """Return the newest slots that a model of histories reads of `[B, n, …]`."""
    return values[:, -model.config.max_len :] if model.reads_history else values


def _padded(values: Tensor, batch: Tensor) -> Tensor:
    """Return `[B, m, …]` with zeros for the older slots of the batch `[B, n]`."""
    missing = batch.shape[1] - values.shape[1]
    return F.pad(values, (*[0, 0] * (values.dim() - 2), missing, 0)) if missing else values


def _weighted_sum(each: Iterable[tuple[Tensor, float]], total: Tensor | None = None) -> Tensor:
    """Return the sum of tensors times their factors, added to `total` if given."""
    for values, factor in each:
        total = values * factor if total is None else total.add_(values, alpha=factor)
    assert total is not None
    return total
