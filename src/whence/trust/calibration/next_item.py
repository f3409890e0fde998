"""Next items: is a recommender as often right about the item that comes as it is sure of it?"""

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
    """How sure a model is of the item that comes next, and how often it is right."""

    predictions: Predictions
    """Of every case, in their order; the classes are the items."""
    reliability: Reliability
    """By bins of equally many cases, for hardly ever is a model sure of one item of thousands."""
    measures: dict[str, Measure]
    """By name."""


def next_item_calibration(
    model: CaseReader,
    cases: Cases,
    length: int,
    *,
    temperature: float = 1.0,
    bins: int = FIFTEEN,
    seed: int = 0,
) -> NextItemCalibration:
    """Confidence is the softmax of the top item among all items; it is right if that item came.

    `length` is how many items of a history the model reads. A model that learned from sampled
    negatives, as SASRec does, was never taught that its softmax be a probability.
    """
    order = np.argsort(cases.ends - cases.starts, kind="stable")
    protocol = f"{type(model).__name__}, softmax over all items of the top one"
    logits = next_item_logits(model, cases[order], length)
    found = predictions_from_logits(logits, temperature, protocol)[np.argsort(order)]
    return NextItemCalibration(
        found,
        reliability(found, EqualMass(bins)),
        calibration_measures(found, bins, seed),
    )


def next_item_logits(model: CaseReader, cases: Cases, length: int) -> Logits:
    """Every item's score and the item that came, as many cases at a time as there is memory for.

    For `temperature_scaling`, and `predictions_from_logits`. Cases whose histories are about as
    long, one after another, take a model the least time.
    """
    require(model, ("score",), who="the calibration of next items")
    if not len(cases) or length < 1:
        raise InputError(
            f"Calibration needs at least one case and one item of its history, not {len(cases)} "
            f"cases and {length} items."
        )
    device = device_of(model)
    items = score_all(model, cases[:1], length).shape[1]
    at_once = min(
        inputs_at_once(length, memory_for(device)), cases_at_once(items, device.type == "cuda")
    )

    def go_through() -> Iterator[tuple[Tensor, Tensor]]:
        for rows in row_slices(len(cases), at_once):
            some = cases[rows]
            yield score_all(model, some, length), torch.from_numpy(some.targets).to(device)

    return go_through
