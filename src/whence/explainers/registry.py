"""The explainers by name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import MISSING, Field, fields
from typing import Any

from whence.config import build, parse_settings
from whence.contract import Explainable, offers
from whence.errors import InputError, did_you_mean
from whence.explainers.attention import Attention
from whence.explainers.attention_flow import AttentionFlow
from whence.explainers.base import Explainer
from whence.explainers.expert_selection import Experts
from whence.explainers.fading import Fading
from whence.explainers.gradients import GradientInput, GradientNorm, IntegratedGradients
from whence.explainers.leave_one_out import LeaveOneOut
from whence.explainers.lime import Lime
from whence.explainers.neighbours import Neighbours
from whence.explainers.random import Random
from whence.explainers.rollout import GradientRollout, Rollout
from whence.explainers.shapley import Shapley
from whence.explainers.signed_rollout import SignedRollout

EXPLAINERS: dict[str, Explainer] = {
    "attention-first": Attention(block=1),
    "attention-last": Attention(block=-1),
    "attention-head": Attention(block=-1, head=1),
    "rollout": Rollout(),
    "attention-flow": AttentionFlow(),
    "signed-rollout": SignedRollout(),
    "gradient-rollout": GradientRollout(),
    "fading": Fading(),
    "gradient-norm": GradientNorm(),
    "gradient-input": GradientInput(),
    "integrated-gradients": IntegratedGradients(),
    "leave-one-out": LeaveOneOut(),
    "leave-one-out-probability": LeaveOneOut(unit="probability"),
    "shapley": Shapley(),
    "shapley-printed": Shapley(sampler="uniform", exact_up_to=0),
    "shapley-permutation": Shapley(sampler="permutation"),
    "lime": Lime(),
    "neighbours": Neighbours(),
    "random": Random(),
}
"""Ready to use with models that are explained from outside."""

OWN: dict[str, Explainer] = {"experts": Experts()}
"""Of models that say themselves what they used."""

READY: dict[str, Explainer] = {**OWN, **EXPLAINERS}
"""What "all" means, as far as a model has what they need."""

METHODS: dict[str, type[Explainer]] = {
    type(explainer).method: type(explainer) for explainer in READY.values()
}
"""The classes behind them, for other parameters."""


def find_explainer(name: str) -> tuple[str, Explainer]:
    """The explainer called `name`, which may carry parameters: `attention:block=1,head=2`."""
    method, colon, settings = name.partition(":")
    if not colon and name in READY:
        return name, READY[name]
    if method in METHODS:
        return name, build(METHODS[method], parse_settings(settings))
    known = {*READY, *METHODS}
    raise InputError(f"There is no explainer '{method}': {did_you_mean(method, known)}")


def able(model: Explainable, names: Iterable[str]) -> list[str]:
    """Those that the model has what it takes for."""
    return [
        name for name in names if all(offers(model, need) for need in find_explainer(name)[1].needs)
    ]


def name_of(explainer: Explainer) -> str:
    """What it is called here, or its method with the settings that are not the usual ones."""
    for name, known in READY.items():
        if explainer == known:
            return name
    settings = [
        f"{field.name}={_written(value)}"
        for field in fields(explainer)
        if (value := getattr(explainer, field.name)) != _usual(field)
    ]
    return ":".join((explainer.method, ",".join(settings))) if settings else explainer.method


def _usual(field: Field[Any]) -> object:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _written(value: object) -> str:
    """As `find_explainer` reads it."""
    return "none" if value is None else str(value)
