"""Apply explainers to a batch and return explanations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor

from whence.capabilities import kind_of, require
from whence.contract import ALL, PAD, Explainable, HasPartNames
from whence.errors import InputError
from whence.explainers.base import (
    Attribution,
    Explainer,
    Request,
    find_explainer,
    make_request,
    name_of,
)
from whence.explanation import Explanation, Labels
from whence.memory import gradients_at_once, memory_for, reuse_freed_memory, row_slices
from whence.models.dropping import with_removal


def explain_batch(
    model: Explainable,
    batch: Tensor,
    targets: Tensor,
    method: str | Explainer = "shapley",
    seed: int = 0,
    labels: Labels | None = None,
    memory: int | None = None,
    removal: str | None = None,
) -> Explanation:
    """Return the importance of every part of each case for its target `[B]`, by one method."""
    found = compare_batch(model, batch, targets, [method], seed, labels, memory, removal)
    (explanation,) = found.values()
    return explanation


@torch.inference_mode(False)
@torch.no_grad()
def compare_batch(
    model: Explainable,
    batch: Tensor,
    targets: Tensor,
    methods: Sequence[str | Explainer],
    seed: int = 0,
    labels: Labels | None = None,
    memory: int | None = None,
    removal: str | None = None,
) -> dict[str, Explanation]:
    """Return the explanations of several methods for the same cases, by name.

    A method is a name or an explainer. An explainer that is not registered goes by its method and
    its parameters, such as `shapley:coalitions=512`. `seed` is that of methods that sample. About
    `memory` bytes are used at a time. Without labels, the model's own names of parts are used.
    `removal` is how methods remove parts, by default as the model does (`contract.removals`).
    """
    model = with_removal(model, removal)
    memory = memory or memory_for(batch.device)
    batch, targets = _outside_inference(batch), _outside_inference(targets)
    reuse_freed_memory()
    named = [named_explainer(method) for method in methods]
    for name, explainer in named:
        require(model, ("parts", "score", *explainer.needs), who=name)
    requests = make_requests(model, batch, targets, seed, memory)
    labels = _own_labels(model, batch) if labels is None else labels
    return {name: _explanation(name, explainer, requests, labels) for name, explainer in named}


def named_explainer(method: str | Explainer) -> tuple[str, Explainer]:
    """Return an explainer with its name."""
    if isinstance(method, str):
        return find_explainer(method)
    if not isinstance(method, Explainer):
        raise InputError(
            f"A method is a name or an explainer, such as Shapley(), not {method!r}. "
            "'whence explainers' lists the names."
        )
    return name_of(method), method


def make_requests(
    model: Explainable, batch: Tensor, targets: Tensor, seed: int, memory: int
) -> list[Request]:
    """Return requests for all cases, as many in each as gradients fit into memory for."""
    with _unknown_items_named(model, batch):
        _check(model, batch, targets)
        return [
            make_request(model, batch[cases], targets[cases], seed, memory)
            for cases in row_slices(max(1, len(batch)), gradients_at_once(batch.shape[1], memory))
        ]


def _outside_inference(values: Tensor) -> Tensor:
    """Return a tensor that autograd can use, even if it was made in inference mode."""
    return values.clone() if values.is_inference() else values


def _own_labels(model: Explainable, batch: Tensor) -> Labels | None:
    """Return the model's names of its parts, if it has any."""
    if not isinstance(model, HasPartNames):
        return None
    return Labels(tuple(map(tuple, model.part_names(batch))))


def _explanation(
    name: str, explainer: Explainer, requests: list[Request], labels: Labels | None
) -> Explanation:
    """Return one method's attributions for all requests, as one explanation."""
    found = [_parts_only(explainer(request), request) for request in requests]
    # A request without any part has no errors, although the method samples.
    errors = [torch.zeros_like(one.scores) if one.error is None else one.error for one in found]
    sampled = any(one.error is not None for one in found)
    return Explanation(
        scores=_joined([one.scores for one in found]),
        parts=_joined([request.parts for request in requests], np.bool_),
        target=_joined([request.targets for request in requests], np.int64),
        full_score=_joined([request.full_score for request in requests]),
        empty_score=_joined([request.empty_score for request in requests]),
        removal=getattr(requests[0].model, "removal", Explainable.removal),
        method=name,
        parameters=asdict(explainer),
        seed=requests[0].seed,
        evaluations=_joined([torch.as_tensor(one.evaluations) for one in found], np.int64),
        signed=explainer.signed,
        error=_joined(errors) if sampled else None,
        labels=labels,
    )


def _parts_only(found: Attribution, request: Request) -> Attribution:
    """Drop extra slots, set slots without a part to 0, and count evaluations per case."""
    parts, slots = request.parts, request.parts.shape[1]
    return Attribution(
        torch.where(parts, found.scores[:, :slots], 0),
        torch.as_tensor(found.evaluations).expand(len(request)),
        None if found.error is None else torch.where(parts, found.error, 0),
    )


def _joined(pieces: list[Tensor], kind: type = np.float64) -> np.ndarray[Any, Any]:
    return torch.cat(pieces).detach().cpu().numpy().astype(kind)


@contextmanager
def _unknown_items_named(model: Explainable, batch: Tensor) -> Iterator[None]:
    """Turn a look-up beyond the end of an embedding table into one sentence."""
    try:
        yield
    except IndexError as problem:
        raise InputError(
            f"The batch holds an item that {kind_of(model)} does not know. Its largest item "
            f"is {int(batch.max())}."
        ) from problem


def _check(model: Explainable, batch: Tensor, targets: Tensor) -> None:
    """Raise one sentence for shapes and numbers that the model could not look up."""
    if batch.ndim != 2 or not batch.shape[1]:
        raise InputError(
            f"A batch has the shape [histories, slots] with at least one slot, not "
            f"{list(batch.shape)}."
        )
    if targets.shape != batch.shape[:1]:
        raise InputError(
            f"Every case has one target: {len(batch)} of them, not {list(targets.shape)}."
        )
    if len(batch) and not batch.is_floating_point() and int(batch.min()) < PAD:
        raise InputError(
            f"There is no item {int(batch.min())}; items are numbered from 0, and {PAD} is padding."
        )
    count = model.score(batch[:1], ALL).shape[1]
    outside = targets[(targets < 0) | (targets >= count)]
    if len(outside):
        raise InputError(
            f"There is no target {int(outside[0])}; targets are numbered 0 to {count - 1}."
        )
