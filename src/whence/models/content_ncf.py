"""Collaborative filtering with content (Afchar & Hennequin 2020): three kinds of evidence.

    content    what is known of the user and of the item: c = [c_u, c_i]
    user       who the user is, as learned from what they chose: p_u
    item       which item it is, as learned from who chose it: q_i

A part is one kind of evidence about a user: number 3u + kind. So a case is `[3]`, all kinds of one
user; what item is asked about comes as the target. A kind that is absent is at its average over all
users or items, and a part's embedding is the one number that leads from there (0) to its own (1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from whence.contract import PAD, All, Selections
from whence.data.histories import Cases
from whence.data.interactions import Counts
from whence.data.splits import Split
from whence.dense import dense
from whence.errors import InputError
from whence.experts.family import Family
from whence.experts.linear import InputLinear, LinkedLinear, TrainedBy, perceptron
from whence.experts.selection import MOVIELENS, expected_loss
from whence.experts.targets import Binary, Classes, Target
from whence.memory import SCORES_AT_ONCE, SCORES_AT_ONCE_ON_GPU, row_slices
from whence.models.base import Recommender
from whence.models.choice_config import ChoiceConfig
from whence.models.content import (
    CONTENT_WIDTH,
    ITEM_WIDTH,
    USER_COLUMNS,
    ContentSizes,
    content_in_words,
    item_content,
    require_room,
    user_content,
)
from whence.models.lookup import look_up, look_up_few
from whence.models.losses import mean_where
from whence.models.outcomes import OUTPUTS, class_logits, liked_logit
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
CHANCE: Final = Binary("sigmoid", 0.3, "shifted")
"""As published: an expert answers with a probability, and 0.3 is to know nothing."""
BY_CLASSES: Final[Mapping[int, Target]] = {1: Binary("sigmoid", 0.5), 2: Classes(2), 3: Classes(3)}
"""How the ordinary network's answers are read, by how many there are."""
BY_CLASSES_OF_EXPERTS: Final[Mapping[int, Target]] = {
    1: CHANCE,
    2: Classes(2, (0.3, 0.7)),
    3: Classes(3, (0.15, 0.7, 0.15)),
}
"""The same of experts: to know nothing is that 0.3 are liked, or half of those disliked."""


@dataclass(frozen=True)
class ContentNCFConfig(ChoiceConfig, ContentSizes):
    """The ordinary network's, with the defaults of Afchar & Hennequin (2020)."""

    dim: int = 64
    """Numbers that stand for who a user is, and for which item it is."""
    hidden_dims: tuple[int, ...] = (512, 256, 128, 64)
    """Sizes of the layers."""
    init_std: float = 0.05
    use_ids: bool = True
    """Whether it knows who and which, beside content."""
    n_classes: int = 1
    """1 probability, as published; 2 for liked or nothing; 3 also for disliked, by ratings."""
    dislike_threshold: float = 2.0
    """The highest rating that says so, with three classes."""
    predict_ratings: bool = False
    """Whether it learns the ratings themselves, of what was rated alone, and has no classes."""

    def __post_init__(self) -> None:
        ChoiceConfig.__post_init__(self)
        ContentSizes.__post_init__(self)
        if min((*self.hidden_dims, len(self.hidden_dims))) < 1:
            raise InputError("layers are the widths of one or more layers, from 1 on.")
        if self.n_classes not in OUTPUTS:
            raise InputError(f"classes is 1, 2 or 3, not {self.n_classes}.")
        if self.predict_ratings and self.n_classes != 1:
            raise InputError("A rating is a number and has no classes; leave one of both out.")

    @property
    def fewest_negatives(self) -> int:
        """Ratings are learned of what was rated alone."""
        return 0 if self.predict_ratings else super().fewest_negatives


@dataclass(frozen=True)
class InterpretableNCFConfig(ContentNCFConfig):
    """Those of experts: the layers' widths are one expert's."""

    hidden_dims: tuple[int, ...] = (128, 64, 32, 16)
    linked: bool = True
    """Whether experts read the features of those that they contain."""
    embeddings_trained_by: TrainedBy = "all"
    """By which experts vectors are learned: all that read them, as published, or the smallest."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.use_ids:
            raise InputError("Experts are told apart by who knows users and items; leave ids true.")


class ContentNCF(Recommender):
    """The ordinary network: layers over all kinds of evidence side by side."""

    removal = "averages"
    reads_history = False
    drops = 0
    config: ContentNCFConfig
    targets: ClassVar[Mapping[int, Target]] = BY_CLASSES
    """How answers are read, by the number of classes."""

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
        sizes = zip(config.of_users, USER_COLUMNS.values(), strict=True)
        self.columns = nn.ParameterList(torch.empty(size) for size in sizes)
        for table in (self.user.data[1:], self.item.data[1:], *self.columns):
            nn.init.normal_(table, std=config.init_std, generator=generator)
        self.features = dense(1 + config.n_genres, ITEM_WIDTH, generator)
        self.register_buffer(
            "user_content", torch.zeros(counts.users, len(USER_COLUMNS), dtype=torch.int64)
        )
        self.register_buffer("item_content", torch.zeros(counts.items, 1 + config.n_genres))
        self.build(generator)

    def build(self, generator: torch.Generator) -> None:
        """The layers."""
        sizes = (self.inputs, *self.config.hidden_dims, self.target.n_outputs)
        self.layers = nn.ModuleList(dense(*pair, generator) for pair in pairwise(sizes))

    @property
    def inputs(self) -> int:
        """How many numbers describe a user and an item together."""
        return CONTENT_WIDTH + (2 * self.config.dim if self.config.use_ids else 0)

    @property
    def parameter_count(self) -> int:
        """Numbers that are learned; rows of padding are not."""
        return sum(one.numel() for one in self.parameters()) - 2 * self.config.dim

    def fit_features(self, split: Split) -> None:
        """Note what is known of users and items, beside the weights."""
        data = split.interactions
        require_room(data, self.config)
        self.get_buffer("user_content").copy_(user_content(data))
        self.get_buffer("item_content").copy_(item_content(data, self.config.n_genres))

    def answers(self, rows: Tensor, stop: bool = True) -> Tensor:
        """`[H, outputs, R]`: what experts say of rows `[R, inputs]`; here there is one."""
        for number, layer in enumerate(self.layers):
            rows = layer(rows.relu() if number else rows)
        return rows.T[None]

    def outputs(self, rows: Tensor) -> Tensor:
        """`[R, C]`: one, for the probability that the item is liked, or one a class."""
        return self.answers(rows)[0].T

    def _selected(self, answers: Tensor) -> Tensor:
        """`[H, R]`: how far each expert is; the only one is always."""
        return answers.new_ones(len(answers), answers.shape[2])

    def loss(self, batch: AnyBatch, drop: DropoutFunction) -> Tensor:
        """The mean log loss."""
        assert isinstance(batch, ChoiceBatch)
        losses = self.target.loss(self.answers(self._described(batch)), self._truth(batch))
        return mean_where(batch.outcomes != NO_QUESTION, losses[0])

    def _truth(self, batch: ChoiceBatch) -> Tensor:
        """`[M]`: 1 for what is liked, or the class; anything where there is no question."""
        if self.config.n_classes == 1:
            return (batch.outcomes == LIKED).to(self.user.dtype)
        return batch.outcomes.clamp(min=0)

    def _described(self, batch: ChoiceBatch) -> Tensor:
        """`[M, inputs]`: all kinds of evidence, of the users and items of a batch."""
        users = self._users_content(self.get_buffer("user_content")[batch.users])
        items = self._items_content(self.get_buffer("item_content")[batch.items])
        content = (users, items)
        if not self.config.use_ids:
            return torch.cat(content, dim=-1)
        ids = (look_up(self.user, batch.users), look_up(self.item, batch.items))
        return torch.cat((*content, *ids), dim=-1)

    def _users_content(self, numbers: Tensor) -> Tensor:
        """c_u of `[R, 3]`."""
        columns = zip(self.columns, numbers.unbind(dim=-1), strict=True)
        return torch.cat([look_up_few(table, one) for table, one in columns], dim=-1)

    def _items_content(self, features: Tensor) -> Tensor:
        """c_i of `[R, 1 + genres]`."""
        content: Tensor = self.features(features).tanh()
        return content

    def read(self, cases: Cases, length: int) -> Tensor:
        """All kinds of evidence about the cases' users."""
        if len(cases) and cases.users.min() == PAD:
            raise InputError(
                f"{type(self).__name__} knows users by their numbers, and no history tells it of "
                "another one; ask for a user of the data, or train a model that reads histories."
            )
        return len(KINDS) * torch.from_numpy(cases.users)[:, None] + torch.arange(len(KINDS))

    def parts(self, batch: Tensor) -> Tensor:
        """Every slot with evidence."""
        return batch != PAD

    def embed(self, batch: Tensor) -> Tensor:
        """How far from the average to its own a part is: 1; 0 at padding."""
        return self.parts(batch)[..., None].to(self.user.dtype)

    def part_names(self, batch: Tensor) -> list[list[str]]:
        """What kind of evidence each slot holds."""
        content = content_in_words(self.get_buffer("user_content"), self.get_buffer("item_content"))
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
        """The logit of the probability that the target is liked."""
        return liked_logit(self._each(batch, targets, present, embedded))

    def classes(
        self,
        batch: Tensor,
        targets: Tensor,
        *,
        attention: Sequence[Tensor | None] | None = None,
    ) -> Tensor:
        """Liked and nothing, and disliked where that is a class."""
        return class_logits(self._each(batch, targets, None, None))

    def _each(
        self, batch: Tensor, targets: Tensor | All, present: Tensor | None, embedded: Tensor | None
    ) -> Tensor:
        """`[B, t, C]`: the outputs, of some targets at a time."""
        if isinstance(targets, All):
            count = len(self.get_buffer("item_content"))
            targets = torch.arange(count, device=batch.device).expand(len(batch), -1)
        asked = _Asked(self, batch, present, embedded)
        held = self.inputs + self._features_of_a_row
        most = SCORES_AT_ONCE_ON_GPU if batch.is_cuda else SCORES_AT_ONCE
        at_once = max(1, most // max(1, len(batch) * held))
        pieces = []
        for some in row_slices(targets.shape[1], at_once):
            rows = asked.rows(targets[:, some])
            pieces.append(self.outputs(rows.flatten(0, 1)).unflatten(0, rows.shape[:2]))
        return torch.cat(pieces, dim=1)

    @property
    def _features_of_a_row(self) -> int:
        """In all layers."""
        return sum(self.config.hidden_dims)


class InterpretableNCF(ContentNCF):
    """Four experts, by what they know: content, and with it who, which, or both."""

    config: InterpretableNCFConfig
    targets: ClassVar[Mapping[int, Target]] = BY_CLASSES_OF_EXPERTS

    def build(self, generator: torch.Generator) -> None:
        """Layers of experts that read those they contain."""
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

    def answers(self, rows: Tensor, stop: bool = True) -> Tensor:
        """Of all experts."""
        return perceptron(self.first, self.layers, rows, stop)

    def outputs(self, rows: Tensor) -> Tensor:
        """Of the experts' answers, mixed by who is selected (equation 1)."""
        answers = self.answers(rows, stop=False)
        mixed = self.target.mix(answers, self._selected(answers))
        # Of the one probability there are the logits of 0 and of 1, and of every class its own.
        return mixed[:, 1:] if self.config.n_classes == 1 else F.logsigmoid(mixed)

    def loss(self, batch: AnyBatch, drop: DropoutFunction) -> Tensor:
        """Of one step of generalised EM."""
        assert isinstance(batch, ChoiceBatch)
        answers, asked = self.answers(self._described(batch)), batch.outcomes != NO_QUESTION
        truth = self._truth(batch)
        return expected_loss(MOVIELENS, self.family, self.target, answers, truth, asked)

    def selections(self, batch: Tensor, targets: Tensor) -> Selections:
        """α of the four, for each case's target."""
        rows = _Asked(self, batch, None, None).rows(targets[:, None])[:, 0]
        weights = self._selected(self.answers(rows, stop=False)).T
        kinds = batch.clamp(min=0) % len(KINDS)
        sees = self.get_buffer("sees").T[kinds].mT  # [B, H, n]
        return Selections(weights, sees & self.parts(batch)[:, None])

    def _selected(self, answers: Tensor) -> Tensor:
        return MOVIELENS.inference(
            self.family, self.target.distance(answers), self.target.max_distance
        )

    @property
    def _features_of_a_row(self) -> int:
        return len(SUBSETS) * sum(self.config.hidden_dims)


def family_of(width: int) -> Family:
    """The four experts, where users and items have vectors of this width."""
    ends = (0, CONTENT_WIDTH, CONTENT_WIDTH + width, CONTENT_WIDTH + 2 * width)
    columns = {kind: range(*pair) for kind, pair in zip(KINDS, pairwise(ends), strict=True)}
    return Family.of(columns, SUBSETS)


class _Asked:
    """What is known of the users of some cases, with parts absent or half there."""

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
        """`[B, t, inputs]`: all kinds of evidence about each case's targets `[B, t]`."""
        gates = (self.content_gate, self.item_gate)[: len(self.items)]
        of_item = [
            average.lerp(F.embedding(targets, table), gate)
            for table, average, gate in zip(self.items, self.averages, gates, strict=True)
        ]
        of_user = [one[:, None].expand(*targets.shape, -1) for one in self.of_user]
        # Content of both first, then who, then which.
        return torch.cat((of_user[0], of_item[0], *of_user[1:], *of_item[1:]), dim=-1)


def _towards(table: Tensor, users: Tensor, gates: Tensor) -> Tensor:
    """`[B, d]`: from the average over all users towards those of the slots, by gates `[B, n]`."""
    mean = table.mean(dim=0)
    return mean + (gates[..., None] * (F.embedding(users, table) - mean)).sum(dim=1)
