"""FISM (Kabbur et al. 2013), and what DeepICF shares with it.

A user is the sum of the items they chose. Every item has two vectors, `p` as part of a history and
`q` as a target:

    logit = n^−α Σ_j p_j · q + b

FISM is trained here as Xue et al. (2019) trained it to initialize DeepICF.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from whence.capabilities import missing
from whence.contract import DROPPED, PAD, All
from whence.memory import SCORES_AT_ONCE, SCORES_AT_ONCE_ON_GPU, row_slices
from whence.models.base import ChoiceConfig, Recommender, padding_columns
from whence.models.lookup import look_up
from whence.models.losses import class_logits, liked_logit, outcome_loss
from whence.models.pooling import Tiled, taken
from whence.models.registry import MODELS, USER_TRAINING, ModelSpec, items_only
from whence.models.tasks import NO_QUESTION, AnyBatch, UserBatch, WholeUsers
from whence.randomness import DropoutFunction


@dataclass(frozen=True)
class ItemBasedConfig(ChoiceConfig):
    """What FISM and DeepICF have in common."""

    max_len: int = 299
    """The longest history the model reads, as in the code of Xue et al. (2019)."""
    dim: int = 16
    """The size of the vectors p and q of an item."""


@dataclass(frozen=True)
class FISMConfig(ItemBasedConfig):
    """The settings of FISM, with the defaults of Xue et al. (2019)."""

    alpha: float = 0.0
    """How much a longer history counts for less: 0 takes the sum of its items, 1 the mean."""
    embedding_decay: float = 1e-7
    """The weight of the squared vectors in the loss."""


class ItemBased(Recommender):
    """Two vectors and a bias per item. A batch is `[B, n]` item numbers with `PAD`."""

    removal = DROPPED
    drops = 0
    balanced = False
    """Whether rare classes get a larger weight in the loss."""
    config: ItemBasedConfig

    def __init__(
        self,
        config: ItemBasedConfig,
        item_count: int,
        generator: torch.Generator,
        outputs: int = 1,
        disliked: float | None = None,
    ) -> None:
        super().__init__()
        self.config = config
        self.task = WholeUsers(config.n_negatives, disliked, config.max_len)
        self.history = nn.Parameter(torch.zeros(1 + item_count, config.dim))  # row 0 pads
        self.target = nn.Parameter(torch.zeros(1 + item_count, config.dim))
        self.bias = nn.Parameter(torch.zeros(1 + item_count, outputs))
        for table in (self.history, self.target):
            truncated_normal(table.data[1:], config.init_std, generator)

    def pool(self, p: Tensor, q: Tensor, tiled: Tiled) -> Tensor:
        """Return `[Q, v, d]`: the vectors of the users, for each of their targets."""
        raise NotImplementedError

    def outputs(self, user: Tensor, q: Tensor, real: Tensor | None = None) -> Tensor:
        """Return `[…, C]` from users and targets `[…, d]`, before the bias of the items.

        In training, `real` says which of them are not padding.
        """
        raise NotImplementedError

    def pool_with(self, attention: Tensor, p: Tensor) -> Tensor:
        """Return `[B, t, d]`, pooled with the given weights `[B, t or 1, n]`."""
        raise missing(self, "attentions")

    def penalty(self) -> Tensor:
        """Return what large weights add to the loss."""
        raise NotImplementedError

    def loss(self, batch: AnyBatch, drop: DropoutFunction) -> Tensor:
        """Return the loss of each item's outcome, predicted from the user's other items."""
        assert isinstance(batch, UserBatch)
        p, q = look_up(self.history, batch.history), look_up(self.target, batch.items)
        tiled = Tiled(batch.history, batch.items, batch.history_tile, batch.question_tile)
        user, bias = self.pool(p, q, tiled), look_up(self.bias, batch.items)
        outputs = self.outputs(user, q, batch.outcomes != NO_QUESTION) + bias
        return outcome_loss(outputs, batch.outcomes, self.balanced) + self.penalty()

    def parts(self, batch: Tensor) -> Tensor:
        """Return the slots with an item."""
        return batch != PAD

    def embed(self, batch: Tensor) -> Tensor:
        """Return `p`; 0 at padding."""
        return F.embedding(batch + 1, self.history, padding_idx=0)

    def item_vectors(self) -> Tensor:
        """Return `p`."""
        return self.history.detach()[1:]

    def score(
        self,
        batch: Tensor,
        targets: Tensor | All,
        *,
        present: Tensor | None = None,
        embedded: Tensor | None = None,
        attention: Sequence[Tensor | None] | None = None,
    ) -> Tensor:
        """Return the logit of the probability that the target is liked."""
        if embedded is None and attention is None:
            batch, present = _without_padding(batch, present)
        p, seen = self._read(batch, present, embedded)
        if isinstance(targets, All):
            targets = torch.arange(len(self.target) - 1, device=batch.device).repeat(len(batch), 1)
        given = None if attention is None else attention[0]
        return self._in_slices(
            targets, seen, lambda asked: liked_logit(self._outputs(p, seen, asked, given))
        )

    def classes(
        self,
        batch: Tensor,
        targets: Tensor,
        *,
        attention: Sequence[Tensor | None] | None = None,
    ) -> Tensor:
        """Return logits of liked, no interaction and, with three outputs, disliked."""
        if attention is None:
            batch, _ = _without_padding(batch, None)
        p, seen = self._read(batch, None, None)
        given = None if attention is None else attention[0]
        return self._in_slices(
            targets, seen, lambda asked: class_logits(self._outputs(p, seen, asked, given))
        )

    def _read(
        self, batch: Tensor, present: Tensor | None, embedded: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return `p` `[B, n, d]`, and which of it is present."""
        self.require_length(batch)
        seen = self.parts(batch) if present is None else self.parts(batch) & present
        return self.embed(batch) if embedded is None else embedded, seen

    def _outputs(
        self, p: Tensor, seen: Tensor, targets: Tensor, attention: Tensor | None
    ) -> Tensor:
        """Return `[B, t, C]`."""
        q = F.embedding(targets + 1, self.target)
        if attention is None:
            row = torch.arange(len(p), device=p.device)
            no_item = torch.full_like(targets, PAD)
            user = self.pool(p, q, Tiled(torch.where(seen, 0, PAD), no_item, row, row))
        else:
            user = self.pool_with(attention[:, :, -1], p * seen[..., None])
        return self.outputs(user, q) + F.embedding(targets + 1, self.bias)

    def _in_slices(self, targets: Tensor, seen: Tensor, of: Callable[[Tensor], Tensor]) -> Tensor:
        """Apply a function to some targets at a time, so that all values fit into memory."""
        numbers = seen.numel() * self.config.dim
        most = SCORES_AT_ONCE_ON_GPU if seen.is_cuda else SCORES_AT_ONCE
        slices = row_slices(targets.shape[1], max(1, most // max(1, numbers)))
        found = [of(targets[:, some]) for some in slices]
        return torch.cat(found, dim=1) if found else of(targets)


class FISM(ItemBased):
    """The model."""

    config: FISMConfig

    def __init__(self, config: FISMConfig, item_count: int, generator: torch.Generator) -> None:
        super().__init__(config, item_count, generator)

    def pool(self, p: Tensor, q: Tensor, tiled: Tiled) -> Tensor:
        """Return n^−α Σ p_j."""
        return summed(p, tiled, self.config.alpha)

    def outputs(self, user: Tensor, q: Tensor, real: Tensor | None = None) -> Tensor:
        """Return the product with the target."""
        return (user * q).sum(dim=-1, keepdim=True)

    def penalty(self) -> Tensor:
        """Return λ (Σ p² + Σ q²)."""
        return self.config.embedding_decay * sum_of_squares(self.history, self.target)


def _without_padding(batch: Tensor, present: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Leave out the first columns that hold no item of any history."""
    unused = padding_columns(batch)
    return batch[:, unused:], None if present is None else present[:, unused:]


def truncated_normal(values: Tensor, std: float, generator: torch.Generator) -> None:
    """Fill with normal values, cut off at two standard deviations."""
    nn.init.trunc_normal_(values, 0.0, std, -2 * std, 2 * std, generator=generator)


def summed(p: Tensor, tiled: Tiled, power: float) -> Tensor:
    """Return `[Q, v, d]`: `n^−α Σ p_j` over the items that are there and not the target."""
    seen = tiled.seen(slice(None)).to(p.dtype)  # [P, w, v]
    with_one = taken(F.pad(p, (0, 1), value=1), tiled.history_tile)
    total = seen.transpose(1, 2) @ with_one
    if not len(total) == len(tiled.targets) == 1:
        nothing = total.new_zeros(*tiled.targets.shape, total.shape[2])
        total = nothing.index_add(0, tiled.target_tile, total)
    return total[..., :-1] * total[..., -1:].clamp(min=1) ** -power


def sum_of_squares(*weights: Tensor) -> Tensor:
    """Return the sum over all weights, in their own precision."""
    with torch.autocast(weights[0].device.type, enabled=False):
        flat = torch.cat([one.flatten() for one in weights])
        return flat @ flat


MODELS.add(
    "fism",
    ModelSpec(
        FISMConfig,
        items_only(FISM),
        summary="Factored item similarity; reads a history as a set.",
        training=USER_TRAINING,
    ),
    place=80,
)
