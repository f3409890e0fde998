"""What explainers and trust measures require of a model.

A model predicts from *parts*: the items of a history, the words of a sentence, groups of features.
Every model says which slots of a batch are parts and scores targets with some parts removed. All
other capabilities are optional, and each is one method. A model may derive from `Explainable` or
merely have the methods.

Shapes: `B` cases, `n` slots (parts and padding), `d` dimensions, `t` targets, `c` coalitions.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:  # reading data needs PAD, and should not wait for PyTorch to load
    from torch import Tensor

PAD: Final = -1
"""The value of a slot that holds no item."""

DROPPED: Final = "dropped"
"""The removal that leaves no gap: as if the part had never been there, so older items move up."""
ATTENTION_COLUMN: Final = "attention-column"
"""The removal that hides a part from all others in every block. All parts keep their places."""
ZEROED: Final = "zeroed"
"""The removal that replaces a part's vector or term by 0. All parts keep their places."""
AVERAGES: Final = "averages"
"""The removal that replaces the features of a group by their averages over training data."""
COLUMN_MEANS: Final = "column means"
"""The removal that replaces the columns of a group by given means."""

MEMORY: Final = 2**29
"""Default bytes for the altered inputs that a model scores at once."""
BYTES_PER_SLOT: Final = 4096
"""Approximate memory a network of the usual size needs for one slot of one input."""


class All(Enum):
    """The type of `ALL`."""

    ALL = "all targets"


ALL: Final = All.ALL
"""Pass it as `targets` to get the score of every target."""


class Explainable(Protocol):
    """The core of the contract. Derive from it to inherit the default `score_coalitions`."""

    removal: str = "not defined"
    """How `score` removes a part: `DROPPED`, `ATTENTION_COLUMN`, `ZEROED` or words of your own."""
    reads_history: bool = False
    """Whether a batch is `[B, n]` items, the newest last, with padding on the left, and its parts
    are the items. Items of such a history can also be dropped, however `score` removes them."""

    def parts(self, batch: Tensor) -> Tensor:
        """Return bool `[B, n]`: which slots are parts, and not padding."""
        raise NotImplementedError

    def score(
        self,
        batch: Tensor,
        targets: Tensor | All,
        *,
        present: Tensor | None = None,
        embedded: Tensor | None = None,
        attention: Sequence[Tensor | None] | None = None,
    ) -> Tensor:
        """Return `[B, t]`: the scores of the targets `[B, t]`, or of every target for `ALL`.

        `present` `[B, n]` removes the parts where it is false. `embedded` replaces `embed(batch)`.
        `attention` replaces the weights that `attentions` returns, one entry per block; a block
        whose entry is `None` computes its own.
        """
        raise NotImplementedError

    def score_coalitions(
        self, batch: Tensor, targets: Tensor, coalitions: Tensor, *, memory: int = MEMORY
    ) -> Tensor:
        """Return `[B, c]`: the score of each case's one target `[B]` under each coalition.

        `coalitions` is bool and true for the parts present: `[B, c, n]`, or `[c, n]` to share them
        between cases. `memory` is the approximate number of bytes to use. Override this default if
        your model can share work between coalitions.
        """
        return _score_each_coalition(self, batch, targets, coalitions, memory)


@runtime_checkable
class HasEmbeddings(Protocol):
    """Needed by gradients."""

    def embed(self, batch: Tensor) -> Tensor:
        """Return `[B, n, d]`: the embeddings of the parts, which `score` accepts as `embedded`."""
        ...


@runtime_checkable
class HasAttentions(Protocol):
    """Needed by attention, rollout, flow and permutation."""

    def attentions(self, batch: Tensor, targets: Tensor) -> list[Tensor]:
        """Return `[B, heads, q, n]` per block, first block first; the last query row answers.

        `targets` `[B]` is one target per case. Give it a default if your weights do not depend on
        the target. Extra slots, such as [CLS], follow the `n` slots of the batch.
        """
        ...


@runtime_checkable
class HasClasses(Protocol):
    """Needed by calibration, accuracy and stability per class."""

    def classes(
        self,
        batch: Tensor,
        targets: Tensor,
        *,
        attention: Sequence[Tensor | None] | None = None,
    ) -> Tensor:
        """Return `[B, t, C]`: the logits of the outcomes of each target `[B, t]`.

        Class 0 is liked, and `score` is the logit of its probability. Class 1 is no interaction.
        Class 2, if there is one, is disliked.
        """
        ...


class Selections(NamedTuple):
    """The weight of each of `H` experts, and the parts each of them sees."""

    weights: Tensor
    """`[B, H]`: α, from 0 to 1."""
    sees: Tensor
    """Bool `[B, H, n]`."""


@runtime_checkable
class HasSelections(Protocol):
    """Needed by the explainer `experts`."""

    def selections(self, batch: Tensor, targets: Tensor) -> Selections:
        """Return the weights of the experts for each case's one target `[B]`."""
        ...


@runtime_checkable
class HasContributions(Protocol):
    """Needed by the explainer `contributions`. Offered by models whose score is a sum."""

    def contributions(self, batch: Tensor, targets: Tensor) -> Tensor:
        """Return `[B, n]`: what each part adds to the score of each case's one target `[B]`.

        The score with every part present is the score with none plus the sum of these terms.
        """
        ...


@runtime_checkable
class HasItemVectors(Protocol):
    """Needed by neighbours and maps of items."""

    def item_vectors(self) -> Tensor:
        """Return `[items, d]`. A model of histories returns what `embed` gives for each item."""
        ...


@runtime_checkable
class HasUserVectors(Protocol):
    """Needed by maps of users."""

    def user_vectors(self) -> Tensor:
        """Return `[users, d]`."""
        ...


@runtime_checkable
class HasPartNames(Protocol):
    """Offered by models whose parts have names, such as groups of features."""

    def part_names(self, batch: Tensor) -> list[list[str]]:
        """Return the name of each slot of each case; the name of padding is empty."""
        ...


CAPABILITIES: Final = (
    "parts",
    "score",
    "score_coalitions",
    "embed",
    "attentions",
    "classes",
    "selections",
    "contributions",
    "item_vectors",
    "user_vectors",
    "part_names",
)


def offers(model: object, capability: str) -> bool:
    """Return whether the model implements the method of that name."""
    if capability == "score_coalitions":  # there is a default for every model with scores
        return offers(model, "score")
    method = getattr(model, capability, None)
    placeholder = getattr(Explainable, capability, None)
    return callable(method) and getattr(method, "__func__", method) is not placeholder


def removals(model: object) -> tuple[str, ...]:
    """Return the names of the ways in which the model's parts can be removed, its own first.

    Every model of histories can read a history from which items are dropped.
    """
    own = getattr(model, "removal", Explainable.removal)
    return (own, DROPPED) if own != DROPPED and getattr(model, "reads_history", False) else (own,)


def attends_by_target(model: HasAttentions) -> bool:
    """Return whether the attention weights depend on the target.

    They do if the parameter `targets` of `attentions` has no default.
    """
    targets = inspect.signature(model.attentions).parameters.get("targets")
    return targets is not None and targets.default is inspect.Parameter.empty


def score_coalitions(
    model: Explainable,
    batch: Tensor,
    targets: Tensor,
    coalitions: Tensor,
    *,
    memory: int = MEMORY,
) -> Tensor:
    """Return what `model.score_coalitions` does, also for a model without that method."""
    own = getattr(model, "score_coalitions", None)
    if own is None:
        return _score_each_coalition(model, batch, targets, coalitions, memory)
    scores: Tensor = own(batch, targets, coalitions, memory=memory)
    return scores


def inputs_at_once(slots: int, memory: int = MEMORY) -> int:
    """Return how many inputs with that many slots fit into `memory` bytes, at least 1."""
    return max(1, memory // (BYTES_PER_SLOT * max(1, slots)))


def _score_each_coalition(
    model: Explainable, batch: Tensor, targets: Tensor, coalitions: Tensor, memory: int
) -> Tensor:
    """Repeat each case once per coalition and score the copies in slices."""
    import torch

    count, slots = coalitions.shape[-2:]
    cases = len(batch)
    case = torch.arange(cases * count, device=batch.device) // count
    present = coalitions.expand(cases, count, slots).reshape(cases * count, slots)
    size = inputs_at_once(slots, memory)
    scores = [
        model.score(batch[rows], targets[rows, None], present=some)
        for rows, some in zip(case.split(size), present.split(size), strict=True)
        if len(rows)
    ]
    return torch.cat(scores).reshape(cases, count) if scores else torch.zeros(cases, count)
