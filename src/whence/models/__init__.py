"""Recommenders behind the contract, one file each."""

from whence.models.base import Recommender
from whence.models.registry import (
    MODELS,
    ModelSpec,
    build_model,
    fitted_model,
    model_spec,
    model_with,
    simple_models,
)

__all__ = [
    "MODELS",
    "ModelSpec",
    "Recommender",
    "build_model",
    "fitted_model",
    "model_spec",
    "model_with",
    "simple_models",
]
