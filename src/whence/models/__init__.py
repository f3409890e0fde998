"""Recommenders behind the contract, one file each."""

from whence.models.base import Recommender
from whence.models.registry import MODELS, ModelSpec, build_model, model_spec, model_with

__all__ = ["MODELS", "ModelSpec", "Recommender", "build_model", "model_spec", "model_with"]
