"""Collaborative filtering with content (Afchar & Hennequin 2020): three kinds of evidence.

    content    what is known of the user and of the item: c = [c_u, c_i]
    user       who the user is, as learned from what they chose: p_u
    item       which item it is, as learned from who chose it: q_i

A part is one kind of evidence about a user and has the number 3u + kind, so a case is `[3]`: all
kinds of one user. The item comes as the target. An absent kind is replaced by its average over all
users or items. A part's embedding is one number, which leads from the average (0) to its own value
(1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from whence.contract import AVERAGES, PAD, All, Selections
from whence.data.histories import Cases
from whence.data.interactions import Counts
from whence.data.splits import Split
from whence.errors import InputError
from whence.experts.family import Family
from whence.experts.linear import InputLinear, LinkedLinear, TrainedBy, dense, perceptron
from whence.experts.selection import MOVIELENS, expected_loss
from whence.experts.targets import Binary, Classes, Target
from whence.memory import SCORES_AT_ONCE, SCORES_AT_ONCE_ON_GPU, row_slices
from whence.models.base import ChoiceConfig, Recommender, require_users
from whence.models.content_features import (
    CONTENT_DIM,
    ITEM_DIM,
    USER_COLUMNS,
    ContentSizes,
    describe_content,
    item_features,
    require_sizes,
    user_features,
)
from whence.models.lookup import look_up, look_up_few
from whence.models.losses import OUTPUTS, class_logits, liked_logit, mean_where
from whence.models.tasks import LIKED, NO_QUESTION, AnyBatch, ChoiceBatch, Choices
from whence.randomness import DropoutFunction

KINDS: Final = ("content", "user", "item")
CONTENT, USER, ITEM = range(len(KINDS))
SUBSETS: Final = {
    "S1": ("content",),
    "S2": ("content", "user"),
    "S3": ("content", "item"),
    "S4": ("content", "user", "item"),
}
PROBABILITY: Final = Binary("sigmoid", 0.3, "shifted")
"""As published: an expert answers with a probability, and 0.3 means that it knows nothing."""
TARGETS: Final[Mapping[int, Target]] = {1: Binary("sigmoid", 0.5), 2: Classes(2), 3: Classes(3)}
"""How to read the outputs of the ordinary network, by the number of classes."""
EXPERT_TARGETS: Final[Mapping[int, Target]] = {
    1: PROBABILITY,
    2: Classes(2, (0.3, 0.7)),
    3: Classes(3, (0.15, 0.7, 0.15)),
}
"""How to read the outputs of experts; one that knows nothing says 0.3 liked, 0.15 with dislikes."""


@dataclass(frozen=True)
class ContentNCFConfig(ChoiceConfig, ContentSizes):
    """The settings of the ordinary network, with the defaults of Afchar & Hennequin (2020)."""

    dim: int = 64
    """The size of the vector of a user or an item."""
    hidden_dims: tuple[int, ...] = (512, 256, 128, 64)
    """The sizes of the layers, first to last."""
    init_std: float = 0.05
    """The standard deviation of new vectors."""
    use_ids: bool = True
    """Whether the model has a vector per user and per item; otherwise it reads content alone."""
    n_classes: int = 1
    """1 for a probability, 2 for liked or no interaction, 3 for disliked too, which needs ratings.
    """
    dislike_threshold: float = 2.0
    """The highest rating that means disliked, with three classes."""
    predict_ratings: bool = False
    """Whether to predict ratings instead of probabilities; training then uses no negatives."""

    def __post_init__(self) -> None:
        ChoiceConfig.__post_init__(self)
        ContentSizes.__post_init__(self)
        if min((*self.hidden_dims, len(self.hidden_dims))) < 1:
            raise InputError("hidden_dims must have one or more sizes of at least 1.")
        if self.n_classes not in OUTPUTS:
            raise InputError(f"n_classes must be 1, 2 or 3, not {self.n_classes}.")
        if self.predict_ratings and self.n_classes != 1:
            raise InputError("A rating has no classes. Set predict_ratings or n_classes, not both.")

    @property
    def fewest_negatives(self) -> int:
        """The least value of `n_negatives`; ratings need none."""
        return 0 if self.predict_ratings else super().fewest_negatives


@dataclass(frozen=True)
class InterpretableNCFConfig(ContentNCFConfig):
    """The settings of the experts; the sizes of the layers are those of one expert."""

    hidden_dims: tuple[int, ...] = (128, 64, 32, 16)
    """The sizes of the layers of one expert, first to last."""
    linked: bool = True
    """Whether an expert reads the features of the experts it contains."""
    embeddings_trained_by: TrainedBy = "all"
    """The experts that train the vectors: all that read them, as published, or the smallest."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.use_ids:
            raise InputError(
                "Experts differ by whether they read users and items. Leave use_ids at true."
            )


class ContentNCF(Recommender):
    """The ordinary network: layers above all kinds of evidence."""

    removal = AVERAGES
    reads_history = False
    drops = 0
    config: ContentNCFConfig
    targets: ClassVar[Mapping[int, Target]] = TARGETS
    """How to read the outputs, by the number of classes."""

    def __init__(
        self, config: ContentNCFConfig, counts: Counts, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.config = config
        disliked = config.dislike_threshold if config.n_classes == max(OUTPUTS) else None
        self.task = Choices(config.n_negatives, disliked)
        self.target = self.targets[config.n_classes]
        known = counts if config.use_ids else Counts(0, 0)
        self.user = nn.Parameter(torch.zeros(1 + known.users, config.dim))  # row 0 pads
        self.item = nn.Parameter(torch.zeros(1 + known.items, config.dim))
        sizes = zip(config.user_sizes, USER_COLUMNS.values(), strict=True)
        self.columns = nn.ParameterList(torch.empty(size) for size in sizes)
        for table in (self.user.data[1:], self.item.data[1:], *self.columns):
            nn.init.normal_(table, std=config.init_std, generator=generator)
        self.features = dense(1 + config.n_genres, ITEM_DIM, generator)
        self.register_buffer(
            "user_content", torch.zeros(counts.users, len(USER_COLUMNS), dtype=torch.int64)
        )
        self.register_buffer("item_content", torch.zeros(counts.items, 1 + config.n_genres))
        self.build(generator)

    def build(self, generator: torch.Generator) -> None:
        """Create the layers."""
        sizes = (self.inputs, *self.config.hidden_dims, self.target.n_outputs)
        self.layers = nn.ModuleList(dense(*pair, generator) for pair in pairwise(sizes))

    @property
    def inputs(self) -> int:
        """The size of the input: a user and an item together."""
        return CONTENT_DIM + (2 * self.config.dim if self.config.use_ids else 0)

    @property
    def parameter_count(self) -> int:
        """The number of trained weights, without rows of padding."""
        return sum(one.numel() for one in self.parameters()) - 2 * self.config.dim

    def fit_features(self, split: Split) -> None:
        """Store the features of users and items with the weights."""
        data = split.interactions
        require_sizes(data, self.config)
        self.get_buffer("user_content").copy_(user_features(data))
        self.get_buffer("item_content").copy_(item_features(data, self.config.n_genres))

    def answers(self, rows: Tensor, detach: bool = True) -> Tensor:
        """Return `[H, outputs, R]`: the outputs of the experts for rows `[R, inputs]`; here one."""
        for number, layer in enumerate(self.layers):
            rows = layer(rows.relu() if number else rows)
        return rows.T[None]

    def outputs(self, rows: Tensor) -> Tensor:
        """Return `[R, C]`: one output for the probability of liked, or one per class."""
        return self.answers(rows)[0].T

    def _selected(self, answers: Tensor) -> Tensor:
        """Return `[H, R]`: the weight of each expert; the only one has 1."""
        return answers.new_ones(len(answers), answers.shape[2])

    def loss(self, batch: AnyBatch, drop: DropoutFunction) -> Tensor:
        """Return the mean log loss."""
        assert isinstance(batch, ChoiceBatch)
        losses = self.target.loss(self.answers(self._described(batch)), self._truth(batch))
        return mean_where(batch.outcomes != NO_QUESTION, losses[0])

    def _truth(self, batch: ChoiceBatch) -> Tensor:
        """Return `[M]`: 1 for liked, or the class; any value if there is no question."""
        if self.config.n_classes == 1:
            return (batch.outcomes == LIKED).to(self.user.dtype)
        return batch.outcomes.clamp(min=0)

    def _described(self, batch: ChoiceBatch) -> Tensor:
        """Return `[M, inputs]`: all kinds of evidence for the users and items of a batch."""
        users = self._users_content(self.get_buffer("user_content")[batch.users])
        items = self._items_content(self.get_buffer("item_content")[batch.items])
        content = (users, items)
        if not self.config.use_ids:
            return torch.cat(content, dim=-1)
        ids = (look_up(self.user, batch.users), look_up(self.item, batch.items))
        return torch.cat((*content, *ids), dim=-1)

    def _users_content(self, numbers: Tensor) -> Tensor:
        """Return c_u of features `[R, 3]`."""
        columns = zip(self.columns, numbers.unbind(dim=-1), strict=True)
        return torch.cat([look_up_few(table, one) for table, one in columns], dim=-1)

    def _items_content(self, features: Tensor) -> Tensor:
        """Return c_i of features `[R, 1 + genres]`."""
        content: Tensor = self.features(features).tanh()
        return content

    def read(self, cases: Cases, max_len: int) -> Tensor:
        """Return all kinds of evidence about the users of the cases."""
        require_users(self, cases)
        return len(KINDS) * torch.from_numpy(cases.users)[:, None] + torch.arange(len(KINDS))

    def parts(self, batch: Tensor) -> Tensor:
        """Return the slots with evidence."""
        return batch != PAD

    def embed(self, batch: Tensor) -> Tensor:
        """Return 1 for every part, which is its own value and not the average; 0 at padding."""
        return self.parts(batch)[..., None].to(self.user.dtype)

    def part_names(self, batch: Tensor) -> list[list[str]]:
        """Return the kind of evidence of each slot, in words."""
        content = describe_content(self.get_buffer("user_content"), self.get_buffer("item_content"))
        words = (content, "your personal history", "who else chose it")
        return [
            ["" if one == PAD else words[one % len(KINDS)] for one in row] for row in batch.tolist()
        ]

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
        return liked_logit(self._each(batch, targets, present, embedded))

    def classes(
        self,
        batch: Tensor,
        targets: Tensor,
        *,
        attention: Sequence[Tensor | None] | None = None,
    ) -> Tensor:
        """Return logits of liked, no interaction and, with three classes, disliked."""
        return class_logits(self._each(batch, targets, None, None))

    def _each(
        self, batch: Tensor, targets: Tensor | All, present: Tensor | None, embedded: Tensor | None
    ) -> Tensor:
        """Return the outputs `[B, t, C]`, computed for some targets at a time."""
        if isinstance(targets, All):
            count = len(self.get_buffer("item_content"))
            targets = torch.arange(count, device=batch.device).expand(len(batch), -1)
        evidence = _Evidence(self, batch, present, embedded)
        per_row = self.inputs + self._features_per_row
        most = SCORES_AT_ONCE_ON_GPU if batch.is_cuda else SCORES_AT_ONCE
        at_once = max(1, most // max(1, len(batch) * per_row))
        pieces = []
        for some in row_slices(targets.shape[1], at_once):
            rows = evidence.rows(targets[:, some])
            pieces.append(self.outputs(rows.flatten(0, 1)).unflatten(0, rows.shape[:2]))
        return torch.cat(pieces, dim=1)

    @property
    def _features_per_row(self) -> int:
        """The number of values per row in all layers."""
        return sum(self.config.hidden_dims)


class InterpretableNCF(ContentNCF):
    """Four experts, which read content alone, or with it the user, the item, or both."""

    config: InterpretableNCFConfig
    targets: ClassVar[Mapping[int, Target]] = EXPERT_TARGETS

    def build(self, generator: torch.Generator) -> None:
        """Create the layers of the experts."""
        config = self.config
        self.family = family_of(config.dim)
        self.first = InputLinear(
            self.family, config.hidden_dims[0], generator, trained_by=config.embeddings_trained_by
        )
        self.layers = nn.ModuleList(
            LinkedLinear(self.family, *pair, generator, linked=config.linked)
            for pair in pairwise((*config.hidden_dims, self.target.n_outputs))
        )
        self.register_buffer("sees", torch.tensor(self.family.sees), persistent=False)

    def answers(self, rows: Tensor, detach: bool = True) -> Tensor:
        """Return the outputs of all experts."""
        return perceptron(self.first, self.layers, rows, detach)

    def outputs(self, rows: Tensor) -> Tensor:
        """Return the outputs of the experts, mixed by their weights (equation 1)."""
        answers = self.answers(rows, detach=False)
        mixed = self.target.mix(answers, self._selected(answers))
        # One probability has the logits of 0 and 1; classes have one each.
        return mixed[:, 1:] if self.config.n_classes == 1 else F.logsigmoid(mixed)

    def loss(self, batch: AnyBatch, drop: DropoutFunction) -> Tensor:
        """Return the loss of one step of generalized EM."""
        assert isinstance(batch, ChoiceBatch)
        answers, asked = self.answers(self._described(batch)), batch.outcomes != NO_QUESTION
        truth = self._truth(batch)
        return expected_loss(MOVIELENS, self.family, self.target, answers, truth, asked)

    def selections(self, batch: Tensor, targets: Tensor) -> Selections:
        """Return α of the four experts for each case's target."""
        rows = _Evidence(self, batch, None, None).rows(targets[:, None])[:, 0]
        weights = self._selected(self.answers(rows, detach=False)).T
        kinds = batch.clamp(min=0) % len(KINDS)
        sees = self.get_buffer("sees").T[kinds].mT  # [B, H, n]
        return Selections(weights, sees & self.parts(batch)[:, None])

    def _selected(self, answers: Tensor) -> Tensor:
        return MOVIELENS.inference(
            self.family, self.target.distance(answers), self.target.max_distance
        )

    @property
    def _features_per_row(self) -> int:
        return len(SUBSETS) * sum(self.config.hidden_dims)


def family_of(dim: int) -> Family:
    """Return the four experts for vectors of users and items of that size."""
    ends = (0, CONTENT_DIM, CONTENT_DIM + dim, CONTENT_DIM + 2 * dim)
    columns = {kind: range(*pair) for kind, pair in zip(KINDS, pairwise(ends), strict=True)}
    return Family.of(columns, SUBSETS)


class _Evidence:
    """The evidence about the users of some cases, with parts absent or at other embeddings."""

    def __init__(
        self,
        model: ContentNCF,
        batch: Tensor,
        present: Tensor | None,
        embedded: Tensor | None,
    ) -> None:
        there = model.parts(batch) if present is None else model.parts(batch) & present
        gates = (model.embed(batch) if embedded is None else embedded)[..., 0] * there
        kinds, users = batch.clamp(min=0) % len(KINDS), batch.clamp(min=0) // len(KINDS)
        every = model._users_content(model.get_buffer("user_content"))
        self.model = model
        self.content_gate, self.item_gate = (
            (gates * (kinds == kind)).sum(dim=1)[:, None, None] for kind in (CONTENT, ITEM)
        )
        self.of_user = [_towards(every, users, gates * (kinds == CONTENT))]
        self.items = [model._items_content(model.get_buffer("item_content"))]
        if model.config.use_ids:
            self.of_user.append(_towards(model.user[1:], users, gates * (kinds == USER)))
            self.items.append(model.item[1:])
        self.averages = [table.mean(dim=0) for table in self.items]

    def rows(self, targets: Tensor) -> Tensor:
        """Return `[B, t, inputs]`: all kinds of evidence for each case's targets `[B, t]`."""
        gates = (self.content_gate, self.item_gate)[: len(self.items)]
        of_item = [
            average.lerp(F.embedding(targets, table), gate)
            for table, average, gate in zip(self.items, self.averages, gates, strict=True)
        ]
        of_user = [one[:, None].expand(*targets.shape, -1) for one in self.of_user]
        # The content of both first, then the user, then the item.
        return torch.cat((of_user[0], of_item[0], *of_user[1:], *of_item[1:]), dim=-1)


def _towards(table: Tensor, users: Tensor, gates: Tensor) -> Tensor:
    """Return `[B, d]`: from the average over all users towards those of the slots, by `gates`."""
    mean = table.mean(dim=0)
    return mean + (gates[..., None] * (F.embedding(users, table) - mean)).sum(dim=1)
