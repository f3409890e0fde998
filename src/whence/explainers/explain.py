"""Apply explainers to a batch and make explanations of what they say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor

from whence.capabilities import require
from whence.contract import ALL, PAD, Explainable, HasPartNames
from whence.errors import InputError
from whence.explainers.base import Attribution, Explainer, Inquiry, inquire
from whence.explainers.registry import find_explainer, name_of
from whence.explanation import Explanation, Labels
from whence.memory import gradients_at_once, memory_for, reuse_freed_memory, row_slices


def explain_batch(
    model: Explainable,
    batch: Tensor,
    targets: Tensor,
    method: str | Explainer = "rollout",
    seed: int = 0,
    labels: Labels | None = None,
    memory: int | None = None,
) -> Explanation:
    """The importance of every part of each case for its target `[B]`, by one method."""
    found = compare_batch(model, batch, targets, [method], seed, labels, memory)
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
) -> dict[str, Explanation]:
    """Several methods on the same cases; the full and the empty score are computed once.

    An explainer that is handed over is called what it is called here, or by its method and the
    settings that are not the usual ones: `shapley:coalitions=512`. A model is shown as much at a
    time as takes about `memory` bytes. Without labels, parts are called as the model calls them.
    """
    memory = memory or memory_for(batch.device)
    batch, targets = _usual(batch), _usual(targets)
    reuse_freed_memory()
    named = [
        find_explainer(method) if isinstance(method, str) else (name_of(method), method)
        for method in methods
    ]
    for name, explainer in named:
        require(model, ("parts", "score", *explainer.needs), who=name)
    inquiries = inquire_in_turn(model, batch, targets, seed, memory)
    labels = _told_by(model, batch) if labels is None else labels
    return {name: _explanation(name, explainer, inquiries, labels) for name, explainer in named}


def inquire_in_turn(
    model: Explainable, batch: Tensor, targets: Tensor, seed: int, memory: int
) -> list[Inquiry]:
    """About all cases, as many in each as gradients have room for; one sentence for wrong ones."""
    with _known_items(model, batch):
        _check(model, batch, targets)
        return [
            inquire(model, batch[cases], targets[cases], seed, memory)
            for cases in row_slices(max(1, len(batch)), gradients_at_once(batch.shape[1], memory))
        ]


def _usual(values: Tensor) -> Tensor:
    """A tensor that gradients can go through, made by whoever asks in inference mode."""
    return values.clone() if values.is_inference() else values


def _told_by(model: Explainable, batch: Tensor) -> Labels | None:
    """The names that the model has for its parts; none where they are items."""
    if not isinstance(model, HasPartNames):
        return None
    return Labels(tuple(map(tuple, model.part_names(batch))))


def _explanation(
    name: str, explainer: Explainer, inquiries: list[Inquiry], labels: Labels | None
) -> Explanation:
    """One method's answers to all inquiries, as one."""
    found = [_of_parts(explainer(inquiry), inquiry) for inquiry in inquiries]
    # Where no case has a part, nothing is drawn.
    errors = [torch.zeros_like(one.scores) if one.error is None else one.error for one in found]
    drawn = any(one.error is not None for one in found)
    return Explanation(
        scores=_joined([one.scores for one in found]),
        parts=_joined([inquiry.parts for inquiry in inquiries], np.bool_),
        target=_joined([inquiry.targets for inquiry in inquiries], np.int64),
        full_score=_joined([inquiry.full for inquiry in inquiries]),
        empty_score=_joined([inquiry.empty for inquiry in inquiries]),
        removal=getattr(inquiries[0].model, "removal", Explainable.removal),
        method=name,
        parameters=asdict(explainer),
        seed=inquiries[0].seed,
        evaluations=_joined([torch.as_tensor(one.evaluations) for one in found], np.int64),
        signed=explainer.signed,
        error=_joined(errors) if drawn else None,
        labels=labels,
    )


def _of_parts(found: Attribution, inquiry: Inquiry) -> Attribution:
    """What it says of parts, without the model's own slots; one number of evaluations a case."""
    parts, slots = inquiry.parts, inquiry.parts.shape[1]
    return Attribution(
        torch.where(parts, found.scores[:, :slots], 0),
        torch.as_tensor(found.evaluations).expand(len(inquiry)),
        None if found.error is None else torch.where(parts, found.error, 0),
    )


def _joined(pieces: list[Tensor], kind: type = np.float64) -> np.ndarray[Any, Any]:
    return torch.cat(pieces).detach().cpu().numpy().astype(kind)


@contextmanager
def _known_items(model: Explainable, batch: Tensor) -> Iterator[None]:
    """One sentence for a look-up beyond the end of a table, where a processor tells of it."""
    try:
        yield
    except IndexError as problem:
        raise InputError(
            f"The batch holds an item that {type(model).__name__} does not know; the largest of "
            f"its items is {int(batch.max())}."
        ) from problem


def _check(model: Explainable, batch: Tensor, targets: Tensor) -> None:
    """One sentence for what a look-up in a table would stumble over."""
    if batch.ndim != 2 or not batch.shape[1]:
        raise InputError(
            f"A batch is histories by slots, at least one slot, not of shape {list(batch.shape)}."
        )
    if targets.shape != batch.shape[:1]:
        raise InputError(
            f"Every case has one target: {len(batch)} of them, not {list(targets.shape)}."
        )
    if len(batch) and not batch.is_floating_point() and int(batch.min()) < PAD:
        raise InputError(
            f"There is no item {int(batch.min())}; they are numbered from 0, and {PAD} is padding."
        )
    count = model.score(batch[:1], ALL).shape[1]
    outside = targets[(targets < 0) | (targets >= count)]
    if len(outside):
        raise InputError(
            f"There is no target {int(outside[0])}; they are numbered 0 to {count - 1}."
        )
