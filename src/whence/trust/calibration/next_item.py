"""Calibration of a recommender: is it right about the next item as often as it is confident?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from whence.capabilities import require
from whence.data.histories import Cases
from whence.devices import device_of
from whence.errors import InputError
from whence.measure import Measure
from whence.memory import cases_at_once, inputs_at_once, memory_for, row_slices
from whence.models.base import CaseReader
from whence.ranking import score_all
from whence.trust.bins import FIFTEEN, EqualMass
from whence.trust.calibration.calibration_error import calibration_measures
from whence.trust.calibration.reliability import Reliability, reliability
from whence.trust.predictions import Logits, Predictions, predictions_from_logits


@dataclass(frozen=True, eq=False)
class NextItemCalibration:
    """How confident a model is of the next item, and how often it is right."""

    predictions: Predictions
    """In the order of the cases; the classes are the items."""
    reliability: Reliability
    """In bins of equally many cases: a model is rarely confident of one item among thousands."""
    measures: dict[str, Measure]
    """By name."""


def next_item_calibration(
    model: CaseReader,
    cases: Cases,
    max_len: int,
    *,
    temperature: float = 1.0,
    bins: int = FIFTEEN,
    seed: int = 0,
) -> NextItemCalibration:
    """Compare the softmax of the top item with how often that item came next.

    `max_len` is how many items of a history the model reads. The softmax of a model trained with
    sampled negatives, such as SASRec, need not be a probability.
    """
    order = np.argsort(cases.ends - cases.starts, kind="stable")
    protocol = f"{type(model).__name__}, softmax over all items of the top one"
    logits = next_item_logits(model, cases[order], max_len)
    found = predictions_from_logits(logits, temperature, protocol)[np.argsort(order)]
    return NextItemCalibration(
        found,
        reliability(found, EqualMass(bins)),
        calibration_measures(found, bins, seed),
    )


def next_item_logits(model: CaseReader, cases: Cases, max_len: int) -> Logits:
    """Return every item's score and the next item, in slices that fit into memory.

    Use it for `temperature_scaling` and `predictions_from_logits`. Cases sorted by the length of
    their histories take the least time.
    """
    require(model, ("score",), who="the calibration of next items")
    if not len(cases) or max_len < 1:
        raise InputError(
            f"Calibration needs at least one case and max_len ≥ 1, not {len(cases)} cases and "
            f"max_len {max_len}."
        )
    device = device_of(model)
    items = score_all(model, cases[:1], max_len).shape[1]
    at_once = min(
        inputs_at_once(max_len, memory_for(device)), cases_at_once(items, device.type == "cuda")
    )

    def iterate() -> Iterator[tuple[Tensor, Tensor]]:
        for rows in row_slices(len(cases), at_once):
            some = cases[rows]
            yield score_all(model, some, max_len), torch.from_numpy(some.targets).to(device)

    return iterate
