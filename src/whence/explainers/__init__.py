"""Explainers, one file per method. None of them depends on a particular model."""

from whence.explainers.base import (
    EXPLAINERS,
    Attribution,
    Explainer,
    Request,
    able,
    find_explainer,
)
from whence.explainers.explain import compare_batch, explain_batch

__all__ = [
    "EXPLAINERS",
    "Attribution",
    "Explainer",
    "Request",
    "able",
    "compare_batch",
    "explain_batch",
    "find_explainer",
]
