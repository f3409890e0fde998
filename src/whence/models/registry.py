"""The models that can be trained, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from whence.config import build
from whence.errors import InputError, did_you_mean
from whence.models.base import Recommender
from whence.models.bert4rec import BERT4Rec, BERT4RecConfig
from whence.models.sasrec import SASRec, SASRecConfig


@dataclass(frozen=True)
class ModelSpec:
    """How to configure and build a model."""

    config: type[Any]
    build: Callable[[Any, int, torch.Generator], Recommender]
    """From a configuration, the number of items and the generator of the initial weights."""
    stacks: bool = True
    """Whether several seeds can be trained as one: `torch.vmap` can map its `loss`."""


MODELS: dict[str, ModelSpec] = {
    "sasrec": ModelSpec(SASRecConfig, SASRec),
    "bert4rec": ModelSpec(BERT4RecConfig, BERT4Rec),
}


def model_spec(name: str) -> ModelSpec:
    """The entry of that name."""
    if name not in MODELS:
        raise InputError(f"There is no model '{name}': {did_you_mean(name, MODELS)}")
    return MODELS[name]


def build_model(
    name: str, settings: Mapping[str, Any], item_count: int, generator: torch.Generator
) -> Recommender:
    """A model with fresh weights."""
    spec = model_spec(name)
    return spec.build(build(spec.config, settings), item_count, generator)


def model_with(
    weights: Mapping[str, Tensor],
    name: str,
    settings: Mapping[str, Any],
    item_count: int,
    device: str,
) -> Recommender:
    """A model with these weights, ready to be asked."""
    model = build_model(name, settings, item_count, torch.Generator()).to(device)
    model.load_state_dict(weights)
    return model.eval()
