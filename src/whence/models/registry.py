"""The models that can be trained, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from whence.config import build
from whence.data.interactions import Counts
from whence.errors import InputError, did_you_mean
from whence.models.base import Recommender
from whence.models.bert4rec import BERT4Rec, BERT4RecConfig
from whence.models.sasrec import SASRec, SASRecConfig


@dataclass(frozen=True)
class ModelSpec:
    """How to configure and build a model."""

    config: type[Any]
    build: Callable[[Any, Counts, torch.Generator], Recommender]
    """From a configuration, how much there is to know, and the generator of initial weights."""
    stacks: bool = True
    """Whether several seeds can be trained as one: `torch.vmap` can map its `loss`."""


def of_items(
    build: Callable[[Any, int, torch.Generator], Recommender],
) -> Callable[[Any, Counts, torch.Generator], Recommender]:
    """For a model that knows items, and no user."""
    return lambda config, counts, generator: build(config, counts.items, generator)


MODELS: dict[str, ModelSpec] = {
    "sasrec": ModelSpec(SASRecConfig, of_items(SASRec)),
    "bert4rec": ModelSpec(BERT4RecConfig, of_items(BERT4Rec)),
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
