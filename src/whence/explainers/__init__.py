"""Explainers, one file a method; each a stranger to every particular model."""

from whence.explainers.base import Attribution, Explainer, Inquiry
from whence.explainers.explain import compare_batch, explain_batch
from whence.explainers.registry import EXPLAINERS, OWN, READY, able, find_explainer

__all__ = [
    "EXPLAINERS",
    "OWN",
    "READY",
    "Attribution",
    "Explainer",
    "Inquiry",
    "able",
    "compare_batch",
    "explain_batch",
    "find_explainer",
]
