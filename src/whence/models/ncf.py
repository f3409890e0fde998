"""Neural collaborative filtering (He et al. 2017): a vector per user and per item.

    GMF      logit = hᵀ (p_u ⊙ q_i)
    MLP      logit = hᵀ layers([p_u, q_i])
    NeuMF    logit = hᵀ [p_u ⊙ q_i, layers([p′_u, q′_i])]

These models read no history: the part that a prediction is made from is the user. A batch is
`[B, n]` user numbers with `PAD`. Several users of a row are a group, whose vectors are added up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from whence.capabilities import missing
from whence.contract import PAD, ZEROED, All
from whence.data.histories import Cases
from whence.data.interactions import Counts
from whence.errors import InputError
from whence.experts.linear import dense, undrawn
from whence.memory import SCORES_AT_ONCE, SCORES_AT_ONCE_ON_GPU, row_slices
from whence.models.base import ChoiceConfig, Recommender, require_users
from whence.models.lookup import look_up
from whence.models.losses import class_logits, liked_logit, outcome_loss
from whence.models.registry import EVENT_TRAINING, MODELS, ModelSpec
from whence.models.tasks import AnyBatch, ChoiceBatch, Choices
from whence.randomness import DropoutFunction


@dataclass(frozen=True)
class NCFConfig(ChoiceConfig):
    """What all three have in common."""

    dim: int = 8
    """The number of predictive factors, which the last layer reads."""


@dataclass(frozen=True)
class MLPConfig(NCFConfig):
    """The settings of the models with layers."""

    hidden_dims: tuple[int, ...] = (64, 32, 16)
    """The sizes of the layers; the first is that of the user and the item vector together."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.hidden_dims or min(self.hidden_dims) < 1 or self.hidden_dims[0] % 2:
            raise InputError(
                "hidden_dims must have sizes of at least 1, and the first must be even."
            )


class NCF(Recommender):
    """Vectors of users and items, and a last layer above the factors of a subclass."""

    removal = ZEROED
    reads_history = False
    drops = 0
    config: NCFConfig

    def __init__(
        self,
        config: NCFConfig,
        counts: Counts,
        vector_dim: int,
        factors: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.config = config
        self.task = Choices(config.n_negatives, disliked=None)
        self.user = nn.Parameter(torch.zeros(1 + counts.users, vector_dim))  # row 0 pads
        self.item = nn.Parameter(torch.zeros(1 + counts.items, vector_dim))
        for table in (self.user, self.item):
            nn.init.normal_(table.data[1:], std=config.init_std, generator=generator)
        self.last = undrawn(factors, 1)
        most = math.sqrt(3 / factors)  # LeCun et al. (1998)
        nn.init.uniform_(self.last.weight, -most, most, generator=generator)
        nn.init.zeros_(self.last.bias)

    def factors(self, user: Tensor, item: Tensor) -> Tensor:
        """Return `[…, f]`, the inputs of the last layer, from vectors `[…, d]`."""
        raise NotImplementedError

    def loss(self, batch: AnyBatch, drop: DropoutFunction) -> Tensor:
        """Return the mean log loss."""
        assert isinstance(batch, ChoiceBatch)
        user, item = look_up(self.user, batch.users), look_up(self.item, batch.items)
        return outcome_loss(self.last(self.factors(user, item)), batch.outcomes, balanced=False)

    def read(self, cases: Cases, max_len: int) -> Tensor:
        """Return the users of the cases."""
        require_users(self, cases)
        return torch.from_numpy(cases.users)[:, None]

    def parts(self, batch: Tensor) -> Tensor:
        """Return the slots with a user."""
        return batch != PAD

    def embed(self, batch: Tensor) -> Tensor:
        """Return `p_u`; 0 at padding."""
        return F.embedding(batch + 1, self.user, padding_idx=0)

    def item_vectors(self) -> Tensor:
        """Return `q_i`."""
        return self.item.detach()[1:]

    def user_vectors(self) -> Tensor:
        """Return `p_u`."""
        return self.user.detach()[1:]

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
        if attention is not None:
            raise missing(self, "attentions")
        return liked_logit(self._outputs(batch, targets, present, embedded))

    def classes(
        self,
        batch: Tensor,
        targets: Tensor,
        *,
        attention: Sequence[Tensor | None] | None = None,
    ) -> Tensor:
        """Return logits of liked and no interaction."""
        if attention is not None:
            raise missing(self, "attentions")
        return class_logits(self._outputs(batch, targets, None, None))

    def _outputs(
        self, batch: Tensor, targets: Tensor | All, present: Tensor | None, embedded: Tensor | None
    ) -> Tensor:
        """Return `[B, t, 1]`."""
        there = self.parts(batch) if present is None else self.parts(batch) & present
        vectors = self.embed(batch) if embedded is None else embedded
        user = (vectors * there[..., None]).sum(dim=1)
        if isinstance(targets, All):
            targets = torch.arange(len(self.item) - 1, device=batch.device).expand(len(batch), -1)
        most = SCORES_AT_ONCE_ON_GPU if batch.is_cuda else SCORES_AT_ONCE
        at_once = max(1, most // max(1, len(batch) * 2 * self.item.shape[1]))
        found = []
        for some in row_slices(targets.shape[1], at_once):
            item = F.embedding(targets[:, some] + 1, self.item)
            found.append(self.last(self.factors(user[:, None].expand_as(item), item)))
        return torch.cat(found, dim=1) if found else user.new_zeros(*targets.shape, 1)


class GMF(NCF):
    """Generalized matrix factorization."""

    def __init__(self, config: NCFConfig, counts: Counts, generator: torch.Generator) -> None:
        super().__init__(config, counts, config.dim, config.dim, generator)

    def factors(self, user: Tensor, item: Tensor) -> Tensor:
        """Return the product."""
        return user * item


class MLP(NCF):
    """Layers above both vectors."""

    config: MLPConfig

    def __init__(self, config: MLPConfig, counts: Counts, generator: torch.Generator) -> None:
        super().__init__(config, counts, config.hidden_dims[0] // 2, config.dim, generator)
        self.layers = _layers(config, generator)

    def factors(self, user: Tensor, item: Tensor) -> Tensor:
        """Return the output of the last layer."""
        return _through(self.layers, user, item)


class NeuMF(NCF):
    """GMF and MLP, each with its own vectors: a vector starts with that of GMF."""

    config: MLPConfig

    def __init__(self, config: MLPConfig, counts: Counts, generator: torch.Generator) -> None:
        vector_dim = config.dim + config.hidden_dims[0] // 2
        super().__init__(config, counts, vector_dim, 2 * config.dim, generator)
        self.layers = _layers(config, generator)

    def factors(self, user: Tensor, item: Tensor) -> Tensor:
        """Return the factors of GMF and those of MLP."""
        sizes = (self.config.dim, self.config.hidden_dims[0] // 2)
        (gmf_user, mlp_user), (gmf_item, mlp_item) = (
            one.split(sizes, dim=-1) for one in (user, item)
        )
        return torch.cat((gmf_user * gmf_item, _through(self.layers, mlp_user, mlp_item)), dim=-1)

    @torch.no_grad()
    def init_from(self, trained: Mapping[str, Recommender]) -> None:
        """Copy a GMF and an MLP; their last layers count half each."""
        gmf, mlp = trained["gmf"], trained["mlp"]
        assert isinstance(gmf, GMF)
        assert isinstance(mlp, MLP)
        own, layers = self.config.dim, (self.config.hidden_dims, self.config.dim)
        if gmf.config.dim != own or (mlp.config.hidden_dims, mlp.config.dim) != layers:
            raise InputError(
                "The GMF and MLP that NeuMF takes initial weights from have another dim or "
                "hidden_dims. "
                "Train all three with the same settings."
            )
        self.user.copy_(torch.cat((gmf.user, mlp.user), dim=1))
        self.item.copy_(torch.cat((gmf.item, mlp.item), dim=1))
        self.layers.load_state_dict(mlp.layers.state_dict())
        self.last.weight.copy_(torch.cat((gmf.last.weight, mlp.last.weight), dim=1) / 2)
        self.last.bias.copy_((gmf.last.bias + mlp.last.bias) / 2)


def _layers(config: MLPConfig, generator: torch.Generator) -> nn.ModuleList:
    """Return the layers from the first to the predictive factors."""
    sizes = pairwise((*config.hidden_dims, config.dim))
    return nn.ModuleList(dense(*pair, generator) for pair in sizes)


def _through(layers: nn.ModuleList, user: Tensor, item: Tensor) -> Tensor:
    rows = torch.cat((user, item), dim=-1)
    for layer in layers:
        rows = layer(rows).relu()
    return rows


MODELS.add(
    "gmf",
    ModelSpec(
        NCFConfig,
        GMF,
        summary="Generalized matrix factorization (NCF).",
        training=EVENT_TRAINING,
        known_users_only=True,
    ),
    place=30,
)
MODELS.add(
    "mlp",
    ModelSpec(
        MLPConfig,
        MLP,
        summary="Multilayer perceptron on user and item vectors (NCF).",
        training=EVENT_TRAINING,
        known_users_only=True,
    ),
    place=40,
)
MODELS.add(
    "neumf",
    ModelSpec(
        MLPConfig,
        NeuMF,
        summary="GMF and MLP combined (NCF).",
        training=EVENT_TRAINING,
        init_from=("gmf", "mlp"),
        known_users_only=True,
    ),
    place=50,
)
