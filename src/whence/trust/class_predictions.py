"""Predictions of classes: is a model as often right about what is liked as it is sure of it?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import torch
from torch import Tensor

from whence.contract import Explainable, require
from whence.errors import InputError
from whence.trust.candidates import Candidates, classes_of
from whence.trust.predictions import Logits, Predictions, predictions_from_logits

LIKED: Final = 0
"""The class of what is liked, as the contract numbers them."""


def class_predictions(
    model: Explainable,
    batch: Tensor,
    targets: Tensor,
    true: Tensor,
    *,
    temperature: float = 1.0,
    memory: int | None = None,
) -> Predictions:
    """Of `t` targets `[B, t]` of every history, with their true classes `[B, t]`.

    Confidence is the softmax of the class predicted. The cases are in the order of the targets,
    history by history, and those of a history are of one user; `positives_and_negatives` tells them
    apart.
    """
    logits = class_logits(model, batch, targets, true, memory=memory)
    protocol = f"{type(model).__name__}, softmax of the predicted class"
    users = np.arange(len(targets)).repeat(targets.shape[1])
    return predictions_from_logits(logits, temperature, protocol).of_users(users)


def class_logits(
    model: Explainable,
    batch: Tensor,
    targets: Tensor,
    true: Tensor,
    *,
    memory: int | None = None,
) -> Logits:
    """The same as logits, as many at a time as there is memory for: for `temperature_scaling`."""
    require(model, ("classes",), who="the calibration of classes")
    candidates = Candidates(batch, targets)
    check_true(targets, true)

    def go_through() -> Iterator[tuple[Tensor, Tensor]]:
        for rows in candidates.slices(memory):
            with torch.no_grad():
                logits = classes_of(model, *candidates.pairs(rows))
            yield logits, true.flatten()[rows].to(logits.device)

    return go_through


def check_true(targets: Tensor, true: Tensor) -> None:
    """Refuse true classes that are not those of the targets."""
    if true.shape != targets.shape or true.is_floating_point():
        raise InputError(
            "Every target has one true class, a whole number: of shape "
            f"{list(targets.shape)}, not {true.dtype} of shape {list(true.shape)}."
        )


def positives_and_negatives(predictions: Predictions) -> dict[str, Predictions]:
    """What is liked, and all else, apart, as Jain (2019) draws them: a model may be sure of one.

    Of three classes, negatives are both what nothing came of and what is disliked.
    """
    liked = predictions.true == LIKED
    return {
        name: replace(predictions[rows], protocol=f"{predictions.protocol}; {name} alone")
        for name, rows in (("positives", liked), ("negatives", ~liked))
    }
