"""The models that can be trained, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from whence.config import build
from whence.data.interactions import Counts, Interactions
from whence.errors import InputError, did_you_mean
from whence.models.base import Recommender
from whence.models.bert4rec import BERT4Rec, BERT4RecConfig
from whence.models.content_features import content_sizes
from whence.models.content_ncf import ContentNCFConfig, InterpretableNCFConfig
from whence.models.deepicf import (
    AttentiveDeepICF,
    AttentiveDeepICFConfig,
    DeepICF,
    DeepICFConfig,
)
from whence.models.fism import FISM, FISMConfig
from whence.models.ncf import GMF, MLP, MLPConfig, NCFConfig, NeuMF
from whence.models.rated_ncf import content_ncf, interpretable_ncf
from whence.models.sasrec import SASRec, SASRecConfig


@dataclass(frozen=True)
class ModelSpec:
    """How to configure and build a model."""

    config: type[Any]
    build: Callable[[Any, Counts, torch.Generator], Recommender]
    """From a configuration, how much there is to know, and the generator of initial weights."""
    summary: str = ""
    """One line for `whence models`."""
    stacks: bool = True
    """Whether several seeds can be trained as one: `torch.vmap` can map its `loss`."""
    training: Mapping[str, Any] = field(default_factory=dict)
    """Settings of training that its authors have, where nobody says others."""
    init_from: tuple[str, ...] = ()
    """Models that it can take its first weights from, all of these at once."""
    knows_users: bool = False
    """Whether it knows users by their numbers, and nobody else."""
    room: Callable[[Interactions], Mapping[str, int]] | None = None
    """By setting, how much of something the data have, of a model made for at least as much."""


BY_EVENTS = {"batch_size": 256, "epochs": 20, "beta2": 0.999}
"""As He et al. (2017) trained."""
BY_USERS = {"batch_size": 1, "epochs": 20, "optimizer": "adagrad", "learning_rate": 0.01}
"""As Xue et al. (2019) trained, but for fewer epochs: every batch is one user."""


def of_items(
    build: Callable[[Any, int, torch.Generator], Recommender],
) -> Callable[[Any, Counts, torch.Generator], Recommender]:
    """For a model that knows items, and no user."""
    return lambda config, counts, generator: build(config, counts.items, generator)


MODELS: dict[str, ModelSpec] = {
    "sasrec": ModelSpec(
        SASRecConfig,
        of_items(SASRec),
        summary="Transformer that reads a history from left to right.",
    ),
    "bert4rec": ModelSpec(
        BERT4RecConfig,
        of_items(BERT4Rec),
        summary="Transformer that reads a history in both directions.",
    ),
    "gmf": ModelSpec(
        NCFConfig,
        GMF,
        summary="Generalized matrix factorization (NCF).",
        training=BY_EVENTS,
        knows_users=True,
    ),
    "mlp": ModelSpec(
        MLPConfig,
        MLP,
        summary="Multilayer perceptron on user and item vectors (NCF).",
        training=BY_EVENTS,
        knows_users=True,
    ),
    "neumf": ModelSpec(
        MLPConfig,
        NeuMF,
        summary="GMF and MLP combined (NCF).",
        training=BY_EVENTS,
        init_from=("gmf", "mlp"),
        knows_users=True,
    ),
    "content-ncf": ModelSpec(
        ContentNCFConfig,
        content_ncf,
        summary="NCF that also reads the user's age and the like, and the item's genres and year.",
        training=BY_EVENTS,
        knows_users=True,
        room=content_sizes,
    ),
    "intrp-ncf": ModelSpec(
        InterpretableNCFConfig,
        interpretable_ncf,
        summary="The same inputs, read by experts that say which of them counted.",
        training=BY_EVENTS,
        knows_users=True,
        room=content_sizes,
    ),
    "fism": ModelSpec(
        FISMConfig,
        of_items(FISM),
        summary="Factored item similarity; reads a history as a set.",
        training=BY_USERS,
    ),
    "deepicf": ModelSpec(
        DeepICFConfig,
        of_items(DeepICF),
        summary="FISM with layers above the pooled item pairs.",
        training=BY_USERS,
        init_from=("fism",),
    ),
    "deepicf-a": ModelSpec(
        AttentiveDeepICFConfig,
        of_items(AttentiveDeepICF),
        summary="DeepICF whose pooling is attention.",
        training=BY_USERS,
        init_from=("fism",),
    ),
}


def model_spec(name: str) -> ModelSpec:
    """The entry of that name."""
    if name not in MODELS:
        raise InputError(f"There is no model '{name}': {did_you_mean(name, MODELS)}")
    return MODELS[name]


def build_model(
    name: str, settings: Mapping[str, Any], counts: Counts, generator: torch.Generator
) -> Recommender:
    """A model with fresh weights."""
    spec = model_spec(name)
    return spec.build(build(spec.config, settings), counts, generator)


def model_with(
    weights: Mapping[str, Tensor],
    name: str,
    settings: Mapping[str, Any],
    counts: Counts,
    device: str,
) -> Recommender:
    """A model with these weights, ready to be asked."""
    model = build_model(name, settings, counts, torch.Generator()).to(device)
    model.load_state_dict(weights)
    return model.eval()
