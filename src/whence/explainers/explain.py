"""Apply explainers to a batch and make explanations of what they say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor

from whence.contract import Explainable, require
from whence.explainers.base import Explainer
from whence.explainers.registry import find_explainer
from whence.explanation import Explanation, Labels


def explain_batch(
    model: Explainable,
    batch: Tensor,
    targets: Tensor,
    method: str | Explainer = "rollout",
    seed: int = 0,
    labels: Labels | None = None,
) -> Explanation:
    """The importance of every part of each case for its target `[B]`, by one method."""
    (explanation,) = compare_batch(model, batch, targets, [method], seed, labels).values()
    return explanation


@torch.no_grad()
def compare_batch(
    model: Explainable,
    batch: Tensor,
    targets: Tensor,
    methods: Sequence[str | Explainer],
    seed: int = 0,
    labels: Labels | None = None,
) -> dict[str, Explanation]:
    """Several methods on the same cases; the full and the empty score are computed once."""
    named = [
        find_explainer(method) if isinstance(method, str) else (method.method, method)
        for method in methods
    ]
    for name, explainer in named:
        require(model, ("parts", "score", *explainer.needs), who=name)
    parts = model.parts(batch)
    slots = parts.shape[1]  # beyond them are the model's own
    full = model.score(batch, targets[:, None])[:, 0]
    empty = model.score(batch, targets[:, None], present=torch.zeros_like(parts))[:, 0]
    explanations = {}
    for name, explainer in named:
        found = explainer(model, batch, targets, seed)
        error = None if found.error is None else _array(found.error * parts)
        explanations[name] = Explanation(
            scores=_array(torch.where(parts, found.scores[:, :slots], 0)),
            parts=parts.cpu().numpy(),
            target=targets.cpu().numpy(),
            full_score=_array(full),
            empty_score=_array(empty),
            removal=model.removal,
            method=name,
            parameters=asdict(explainer),
            seed=seed,
            evaluations=found.evaluations,
            signed=explainer.signed,
            error=error,
            labels=labels,
        )
    return explanations


def _array(values: Tensor) -> np.ndarray[Any, np.dtype[np.float64]]:
    return values.detach().cpu().numpy().astype(np.float64)
