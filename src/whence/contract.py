"""What a model offers to those who explain it and those who doubt the explanation.

A prediction is made from *parts*: the items of a history, the words of a sentence. Every explainer
and every trust measure needs no more of a model than the methods below. A model implements those it
can; whoever needs one it lacks gets a sentence that says so. No explainer knows a model, and no
model knows an explainer.

Shapes: `B` cases, `n` slots, of which some are parts and the rest padding, `d` dimensions,
`t` targets, `c` coalitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Final, NamedTuple

import torch
from torch import Tensor

from whence.data.histories import Cases
from whence.errors import CapabilityError
from whence.memory import MEMORY, inputs_at_once, row_slices
from whence.padding import PAD as PAD


class All(Enum):
    """The type of `ALL`, the request for every target's score."""

    ALL = "all targets"


ALL: Final = All.ALL

DROPPED: Final = "dropped"
"""How a part is taken away where that leaves no gap: as if it had never been there."""

CAPABILITIES: Final = (
    "parts",
    "embed",
    "score",
    "attentions",
    "score_coalitions",
    "classes",
    "selections",
    "item_vectors",
    "user_vectors",
)


class Selections(NamedTuple):
    """How far each of `H` experts was selected, and what each of them may see."""

    weights: Tensor
    """`[B, H]`: α, from 0 to 1."""
    sees: Tensor
    """Bool `[B, H, n]`: which parts an expert sees."""


class Explainable:
    """Base of every model: each method is a capability, offered by overriding it."""

    removal: str = "not defined"
    """How a part is taken away: "attention-column", DROPPED, "zeroed", …"""
    reads_histories: bool = True
    """Whether its parts are the items of a history.

    Otherwise they are groups of features, which `part_names` names, or users, by their numbers.
    """
    foretells_chances: bool = True
    """Whether a score is a logit, so that the model can be sure; otherwise it is a rating."""
    attends_by_target: bool = False
    """Whether `attentions` asks for the target, as every target has weights of its own."""

    def read(self, cases: Cases, length: int) -> Tensor:
        """`[B, n]`, the batch that asks about these cases: their newest items, the newest last.

        A model that knows users by their numbers, not by what they chose, reads those.
        """
        return torch.from_numpy(cases.histories(length))

    def parts(self, batch: Tensor) -> Tensor:
        """Bool `[B, n]`: which slots are parts. Nobody else assumes where the padding lies."""
        raise missing(self, "parts")

    def embed(self, batch: Tensor) -> Tensor:
        """`[B, n, d]`: the parts' embeddings, as `score` takes them back in `embedded`."""
        raise missing(self, "embed")

    def score(
        self,
        batch: Tensor,
        targets: Tensor | All,
        *,
        present: Tensor | None = None,
        embedded: Tensor | None = None,
        attention: Sequence[Tensor | None] | None = None,
    ) -> Tensor:
        """`[B, t]`: the targets' scores, for targets `[B, t]`, or every target's for `ALL`.

        `present` `[B, n]` removes the parts where it is false; `embedded` stands in for
        `embed(batch)`; `attention` stands in for the weights `attentions(batch)` returns, where it
        is `None` for a block that is to work them out from what the blocks below it hand on.
        """
        raise missing(self, "score")

    def attentions(self, batch: Tensor, targets: Tensor | None = None) -> list[Tensor]:
        """One `[B, heads, q, n]` a block, first block first; the last query row answers.

        `targets` `[B]` is for models that look at a history with the target in mind, as DeepICF
        does: then `score` takes a replacement for one target a case, or for all targets the same.
        A model with slots of its own, such as BERT4Rec's [CLS], has them after the `n` of the
        batch, in rows and columns alike; they are never parts.
        """
        raise missing(self, "attentions")

    def classes(
        self,
        batch: Tensor,
        targets: Tensor,
        *,
        attention: Sequence[Tensor | None] | None = None,
    ) -> Tensor:
        """`[B, t, C]`: logits of what may become of each target `[B, t]`, of a model that says so.

        Class 0 is that it is liked, and `score` is the logit of that class's probability; class 1
        is that nothing comes of it, and class 2, where there is one, that it is disliked.
        """
        raise missing(self, "classes")

    def selections(self, batch: Tensor, targets: Tensor) -> Selections:
        """Which of its experts a model relied on for each case's one target `[B]`."""
        raise missing(self, "selections")

    def chances(self, scores: Tensor) -> Tensor:
        """From 0 to 1, how likely what is scored so is: the sigmoid, where a score is a logit."""
        return scores.sigmoid()

    def part_names(self, batch: Tensor) -> list[list[str]] | None:
        """What to call the slots of each case; nothing where they hold items, which have names."""
        return None

    def item_vectors(self) -> Tensor:
        """`[items, d]`: where the model puts each item, by its number.

        It is what `embed` gives of the item in a history, where the model reads histories.
        """
        raise missing(self, "item_vectors")

    def user_vectors(self) -> Tensor:
        """`[users, d]`: where it puts each user it knows by number."""
        raise missing(self, "user_vectors")

    def score_coalitions(
        self, batch: Tensor, targets: Tensor, coalitions: Tensor, *, memory: int = MEMORY
    ) -> Tensor:
        """`[B, c]`: the score of each case's one target `[B]` under each of its coalitions.

        `coalitions` is bool, true for the parts present: `[B, c, n]`, or `[c, n]` for those that
        all cases share. About `memory` bytes are used at a time. This default repeats the case once
        a coalition; a model that can share work between coalitions overrides it.
        """
        count, slots = coalitions.shape[-2:]
        cases = len(batch)
        case = torch.arange(cases * count, device=batch.device) // count
        present = coalitions.expand(cases, count, slots).reshape(cases * count, slots)
        scores = [
            self.score(batch[case[rows]], targets[case[rows], None], present=present[rows])
            for rows in row_slices(cases * count, inputs_at_once(slots, memory))
        ]
        return torch.cat(scores).reshape(cases, count) if scores else torch.zeros(cases, count)


def offers(model: Explainable, capability: str) -> bool:
    """Whether the model implements this capability. Coalitions come with `score`."""
    own = getattr(type(model), capability) is not getattr(Explainable, capability)
    return own or (capability == "score_coalitions" and offers(model, "score"))


def require(model: Explainable, capabilities: Iterable[str], who: str) -> None:
    """Raise, naming what is missing and who wants it, unless the model offers all of these."""
    for capability in capabilities:
        if not offers(model, capability):
            raise missing(model, capability, who)


def answers_by_groups(model: Explainable) -> bool:
    """Whether its parts are groups of features, which it names, and not items of a history."""
    return not model.reads_histories and offers(model, "part_names")


def has_reasons(model: Explainable) -> bool:
    """Whether its parts can be reasons: a user's own number cannot."""
    return model.reads_histories or answers_by_groups(model)


def require_reasons(model: Explainable, who: str) -> None:
    """Raise, with what to do, where no part can be a reason."""
    if not has_reasons(model):
        raise CapabilityError(no_history(model, who))


def require_history(model: Explainable, who: str) -> None:
    """Raise, with what to do, where no item of a history can be a reason."""
    if not model.reads_histories:
        raise CapabilityError(no_history(model, who))


def no_history(model: Explainable, who: str) -> str:
    """Why not, in a sentence."""
    groups = answers_by_groups(model)
    knows = "answers by groups of features" if groups else "knows users by their numbers"
    reasons = "items as reasons" if groups else "reasons"
    return (
        f"{type(model).__name__} {knows} and reads no history, so that {who} has no items to speak "
        f"of; for {reasons}, train a model that reads histories."
    )


def missing(model: Explainable, capability: str, who: str = "this") -> CapabilityError:
    """The error for a capability the model does not have."""
    offered = ", ".join(name for name in CAPABILITIES if offers(model, name)) or "nothing"
    return CapabilityError(
        f"{type(model).__name__} has no '{capability}', which {who} needs; it offers {offered}."
    )
