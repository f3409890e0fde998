"""Recipes: named settings of models and of their training.

The default recipe follows the data by stated rules. The others are those of papers. Settings that
a user gives come before those of a recipe.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal, get_args

import numpy as np

from whence.data.splits import Split
from whence.errors import InputError
from whence.models.registry import EVENT_TRAINING, USER_TRAINING, ModelSpec
from whence.registry import Registry

Effort = Literal["quick", "normal", "best"]
EFFORTS: Final = get_args(Effort)
Settings = Mapping[str, Any]
DEFAULT: Final = "default"


@dataclass(frozen=True)
class DataShape:
    """What the rules of the default recipe look at."""

    items: int
    events: int
    """Training events."""
    mean_length: float
    """Of the training histories with at least two events."""
    long_length: float
    """Nineteen of twenty histories are shorter."""
    validation: int
    """Events to validate on."""

    @property
    def can_validate(self) -> bool:
        """Whether there are enough validation events to choose by."""
        return self.validation >= ENOUGH_TO_STOP

    @staticmethod
    def of(split: Split) -> DataShape:
        """Measure a split."""
        data = split.interactions
        lengths = split.train_ends - data.offsets[:-1]
        lengths = lengths[lengths >= 2]
        if not len(lengths):
            lengths = np.array([2])
        return DataShape(
            data.item_count,
            int(split.trained().sum()),
            float(lengths.mean()),
            float(np.quantile(lengths, 0.95)),
            len(split.held.get("validation", ())),
        )


@dataclass(frozen=True)
class Recipe:
    """Settings by model; each is a pair of model settings and training settings.

    The first model is trained if none is named.
    """

    summary: str
    models: Mapping[str, tuple[Settings, Settings]] = field(default_factory=dict)

    def settings(self, model: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the settings of a model and of its training."""
        if model not in self.models:
            known = ", ".join(self.models)
            raise InputError(
                f"This recipe has no settings for {model}, only for {known}. Leave out the "
                "recipe, or choose one of these models."
            )
        own, training = self.models[model]
        return dict(own), dict(training)


RECIPES: Final[Registry[Recipe]] = Registry("recipe")

RECIPES.add(
    DEFAULT,
    Recipe("What wins on validation events over the datasets of the studies; follows your data."),
)
RECIPES.add(
    "baumhauer-2021",
    Recipe(
        "One negative for SASRec, all items for BERT4Rec, 2,500 steps.",
        {"sasrec": ({"loss": "bce"}, {}), "bert4rec": ({"loss": "softmax"}, {})},
    ),
)
RECIPES.add(
    "kang-2018",
    Recipe(
        "The original SASRec: one negative, 200 epochs, as for MovieLens.",
        {
            "sasrec": (
                {"loss": "bce", "dim": 50, "max_len": 200, "dropout": 0.2},
                {"epochs": 200, "batch_size": 128},
            )
        },
    ),
)
RECIPES.add(
    "petrov-2023",
    Recipe(
        "The loss of gSASRec: generalized binary cross-entropy, here with 256 shared negatives.",
        {
            "sasrec": (
                {"loss": "gbce", "n_negatives": 256, "calibration": 0.75, "max_len": 200},
                {"steps": 20_000, "validate_every": 500, "patience": 10},
            )
        },
    ),
)
RECIPES.add(
    "he-2017",
    Recipe(
        "Neural collaborative filtering: 20 epochs of events with four negatives.",
        {name: ({}, EVENT_TRAINING) for name in ("neumf", "gmf", "mlp")},
    ),
)
RECIPES.add(
    "xue-2019",
    Recipe(
        "DeepICF: Adagrad, and every batch is one user.",
        {name: ({}, USER_TRAINING) for name in ("deepicf", "deepicf-a", "fism")},
    ),
)
RECIPES.add(
    "jain-2019",
    Recipe(
        "DeepICF with attention and two classes, whose vectors do not decay.",
        {
            "deepicf-a": (
                {"n_classes": 2, "embedding_decay": 0.0},
                {**USER_TRAINING, "epochs": 29},
            )
        },
    ),
)


@dataclass(frozen=True)
class Budget:
    """What an effort allows."""

    longest: int
    """The largest max_len. On a GPU, that of a normal effort is twice as large."""
    steps: int
    """The steps of a training."""
    steps_for_many: int
    """The same with many events."""
    seeds: int


BUDGETS: Final[Mapping[Effort, Budget]] = {
    "quick": Budget(longest=50, steps=1_500, steps_for_many=1_500, seeds=1),
    "normal": Budget(longest=100, steps=5_000, steps_for_many=8_000, seeds=5),
    "best": Budget(longest=200, steps=10_000, steps_for_many=16_000, seeds=5),
}
SHORTEST: Final = 50
"""The smallest max_len: longer windows of short histories cost little."""
MANY_EVENTS: Final = 500_000
"""From this many training events on, embeddings are larger, and trainings longer."""
OF_A_HEAD: Final = 64
"""Values of an embedding for each attention head."""
DROPOUTS: Final = ((100.0, 0.2), (40.0, 0.3), (0.0, 0.5))
"""From this many training events per item on, the dropout. Items with few events overfit."""
EVENTS_OF_A_STEP, EVENTS_OF_A_STEP_ON_GPU = 2_000, 20_000
"""Events in the histories of a batch: on a processor few, on a GPU enough to keep it busy."""
STEPS_OF_A_PASS: Final = 20
"""The fewest steps of a pass over all events, so that small data are not read at once."""
LOGITS_OF_A_STEP, LOGITS_OF_A_STEP_ON_GPU = 2**25, 2**31
"""The largest number of items times events of a step for a loss over all items."""
SAMPLED: Final = "sampled-softmax"
LEAST_BATCH, LARGEST_BATCH = 16, 256
WARMUP: Final = 100
"""Steps over which the learning rate rises, or a tenth of few steps."""
VALIDATIONS, PATIENCE = 20, 10
"""The validations of a training, and those without an improvement after which it stops."""
ENOUGH_TO_STOP: Final = 100
"""With fewer validation events, the end of a training would be random."""
SHORT_HISTORIES: Final = 20.0
FEW_EVENTS: Final = 200_000
"""With short histories or few events, several seeds are trained on a processor, too."""


def default_settings(
    shape: DataShape, effort: Effort, device: str, given: Settings = MappingProxyType({})
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the default settings of a network of histories and of its training.

    They follow the sizes and the steps that the user has given.
    """
    budget, on_gpu = BUDGETS[effort], device != "cpu"
    longest = budget.longest * (2 if on_gpu and effort == "normal" else 1)
    fitting = int(np.clip(-(-shape.long_length // 10) * 10, SHORTEST, longest))
    max_len = given.get("max_len") or fitting
    many = shape.events >= MANY_EVENTS
    large = many and effort != "quick"
    dim = given.get("dim") or (128 if large else 64)
    length = min(shape.mean_length, max_len)
    batch = given.get("batch_size") or _batch_size(shape, length, on_gpu)
    per_item = shape.events / max(1, shape.items)
    model = {
        "max_len": max_len,
        "dim": dim,
        "n_heads": 1 if dim % OF_A_HEAD else dim // OF_A_HEAD,
        "dropout": next(rate for least, rate in DROPOUTS if per_item >= least),
        "loss": "softmax" if shape.items <= softmax_items(batch, length, device) else SAMPLED,
        "n_negatives": 512,
    }
    steps = given.get("steps") or (budget.steps_for_many if many else budget.steps)
    training = {
        "steps": steps,
        "batch_size": batch,
        "learning_rate": 0.002 if large else 0.003,
        "warmup": min(WARMUP, steps // 10),
        "lr_decay": "cosine",
        "validate_every": max(1, steps // VALIDATIONS),
        "patience": PATIENCE,
        "precision": "bfloat16" if on_gpu else "float32",
    }
    if not shape.can_validate:
        training |= {"steps": BUDGETS["quick"].steps, "validate_every": 0, "patience": 0}
    return model, training


def softmax_items(batch_size: int, length: float, device: str) -> int:
    """Return how many items the largest catalog has whose items all enter the loss."""
    most = LOGITS_OF_A_STEP if device == "cpu" else LOGITS_OF_A_STEP_ON_GPU
    return int(most / (batch_size * length))


def _batch_size(shape: DataShape, length: float, on_gpu: bool) -> int:
    """Return the power of two whose histories of this length have about the events of a step."""
    most = EVENTS_OF_A_STEP_ON_GPU if on_gpu else EVENTS_OF_A_STEP
    events = min(most, shape.events / STEPS_OF_A_PASS)
    wanted = 2 ** round(math.log2(max(1.0, events / length)))
    return int(np.clip(wanted, LEAST_BATCH, LARGEST_BATCH))


def default_seeds(shape: DataShape, effort: Effort, device: str) -> int:
    """Return how many seeds to train: several where that costs little."""
    return BUDGETS[effort].seeds if more_seeds_cost_little(shape, device) else 1


def more_seeds_cost_little(shape: DataShape, device: str) -> bool:
    """Return whether five seeds take a bearable time: on a GPU, or where one seed takes little."""
    return device != "cpu" or shape.mean_length <= SHORT_HISTORIES or shape.events <= FEW_EVENTS


def recipe_settings(
    recipe: str,
    model: str,
    spec: ModelSpec,
    shape: DataShape,
    effort: Effort,
    device: str,
    given: Settings = MappingProxyType({}),
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings of a recipe for a model: its own, and those of its training."""
    if RECIPES.name_of(recipe) != DEFAULT:
        return RECIPES[recipe].settings(model)
    if spec.closed_form:
        return {}, {"steps": 0}
    if not spec.follows_data:
        return {}, dict(spec.training)
    return default_settings(shape, effort, device, given)
