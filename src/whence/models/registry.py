"""The models that you can train, by name. Every model declares itself in its own file.

Other packages add models by entry points in the group `whence.models`, each a `ModelSpec`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor

from whence.config import build
from whence.data.interactions import Counts, Interactions
from whence.data.splits import Split
from whence.errors import InputError, TooLargeError
from whence.models.base import Recommender
from whence.progress import progress_bar
from whence.registry import Registry


@dataclass(frozen=True)
class ModelSpec:
    """How to configure and build a model, and what the command line says about it."""

    config: type[Any]
    """A frozen dataclass; its fields and their docstrings are the settings and their help."""
    build: Callable[[Any, Counts, torch.Generator], Recommender]
    """Takes a configuration, the numbers of users and items, and the generator of weights."""
    summary: str = ""
    """One line for `whence models`."""
    training: Mapping[str, Any] = field(default_factory=dict)
    """Defaults of training that differ from `TrainingConfig`, as the authors of the model chose."""
    init_from: tuple[str, ...] = ()
    """The models whose weights can initialize this one, all of them together."""
    known_users_only: bool = False
    """Whether the model can only recommend to users it was trained on."""
    stacks: bool = True
    """Whether several seeds can train together: `torch.vmap` can map its `loss`."""
    follows_data: bool = False
    """Whether the default recipe chooses its settings by the data, as for transformers."""
    closed_form: bool = False
    """Whether `fit_closed` computes the weights, so that there are no steps."""
    sizes_in_data: Callable[[Interactions], Mapping[str, int]] | None = None
    """Returns the least values of some settings that the data need, if there are such settings."""


EVENT_TRAINING: Final = {"batch_size": 256, "epochs": 20, "beta2": 0.999}
"""The training of He et al. (2017)."""
USER_TRAINING: Final = {
    "batch_size": 1,
    "epochs": 20,
    "optimizer": "adagrad",
    "learning_rate": 0.01,
}
"""The training of Xue et al. (2019) with fewer epochs; every batch is one user."""


def items_only(
    build: Callable[[Any, int, torch.Generator], Recommender],
) -> Callable[[Any, Counts, torch.Generator], Recommender]:
    """Adapt the constructor of a model that needs only the number of items."""
    return lambda config, counts, generator: build(config, counts.items, generator)


def _accept(name: str, entry: object) -> ModelSpec:
    if not isinstance(entry, ModelSpec):
        raise InputError(f"'{name}' is a {type(entry).__name__}, and must be a ModelSpec")
    return entry


MODELS: Final[Registry[ModelSpec]] = Registry(
    "model", package="whence.models", group="whence.models", accept=_accept
)
"""Every model. Those with the tag "simple" are the baselines that others are compared with."""


def model_spec(name: str) -> ModelSpec:
    """Return the model of that name; an unknown name raises an error with similar ones."""
    return MODELS[name]


def build_model(
    name: str, settings: Mapping[str, Any], counts: Counts, generator: torch.Generator
) -> Recommender:
    """Return a model with new weights."""
    spec = model_spec(name)
    return spec.build(build(spec.config, settings), counts, generator)


def fitted_model(
    name: str, settings: Mapping[str, Any], split: Split, device: str = "cpu"
) -> Recommender:
    """Return a model whose weights `fit_closed` computes, ready for predictions."""
    counts = split.interactions.counts
    model = build_model(name, settings, counts, torch.Generator()).to(device)
    model.fit_closed(split)
    return model.eval()


def simple_models(
    split: Split, *, other_than: str = "", show_progress: bool = False
) -> dict[str, Recommender]:
    """Return the baselines by name, fitted to the training events, but for one of them.

    One that does not fit into memory is left out with a warning.
    """
    names = [name for name in MODELS.tagged("simple") if name != other_than]
    found = {}
    for name in progress_bar("simple models", len(names), show_progress, transient=True).track(
        names
    ):
        try:
            found[name] = fitted_model(name, {}, split)
        except TooLargeError as problem:
            warnings.warn(f"{name} is left out: {problem}", stacklevel=2)
    return found


def model_with(
    weights: Mapping[str, Tensor],
    name: str,
    settings: Mapping[str, Any],
    counts: Counts,
    device: str,
) -> Recommender:
    """Return a model with these weights, ready for predictions."""
    model = build_model(name, settings, counts, torch.Generator()).to(device)
    model.load_state_dict(weights)
    return model.eval()
