"""Confidence of next items: Chapter 3 of Jain (2019) for sequential models.

Is the confidence calibrated? Does shuffled attention change confident predictions? Do other seeds
agree on predictions and attention? Bins hold a tenth of the cases each, because no item among
thousands has a high probability. Small probabilities cannot change much, so their change is also
measured relative to the probability.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import torch

from whence.arrays import Bools, Floats, Ints
from whence.contract import HasAttentions
from whence.data.histories import Cases
from whence.devices import device_of
from whence.errors import InputError
from whence.memory import inputs_at_once, memory_for, row_slices
from whence.models import Recommender
from whence.progress import progress_bar
from whence.ranking import batch_and_targets
from whence.trust.bins import EqualMass
from whence.trust.calibration.next_item import next_item_logits
from whence.trust.calibration.reliability import reliability
from whence.trust.calibration.temperature import fit_temperature
from whence.trust.permutation.attention_permutation import (
    AttentionPermutation,
    attention_permutation,
)
from whence.trust.predictions import Predictions, predictions_from_logits
from whence.trust.stability.class_stability import DIFFERENCE
from whence.trust.stability.seed_pairs import attention_kl, jaccard_index, prediction_difference
from whence.trust.target_classes import attention_to_parts
from whence_studies.measurements.between_seeds import (
    DEVIATION,
    RANDOM_INDEX,
    SeedValues,
    by_bin,
    case_columns,
    random_jaccard_index,
)
from whence_studies.measurements.calibration_by_class import (
    ERRORS,
    OF_SCALING,
    errors,
    over_confidence,
    scaled_errors,
)
from whence_studies.measurements.candidates import ColumnValues, draw_cases, over_models
from whence_studies.measurements.measurement import LinePlot, MeasuredRun, Measurement, SeedColumn
from whence_studies.measurements.permutation_by_class import ShuffleOptions, rank_correlation

TENTHS: Final = 10
GAP: Final = "confidence minus accuracy"
CHANGE, SHARE = "|Δp| of the top item", "|Δp| / p of the top item"
SHUFFLED_KL: Final = "symmetrised KL after shuffling"
CHANGES: Final = (CHANGE, SHARE)
INDEX, KL = "Jaccard index", "KL"
COMPARED: Final = (DEVIATION, DIFFERENCE, INDEX, RANDOM_INDEX, KL)
CONFIDENCE, ACCURACY = "confidence", "accuracy"


def with_confidence(column: str) -> str:
    """Return the column of the rank correlation of a change with confidence."""
    return f"ρ({column}, confidence)"


def at(column: str, tenth: int) -> str:
    """Return the column of a decile of cases by confidence, from 1 (least) to 10 (most)."""
    return f"{column}, decile {tenth}"


def _curves(title: str, y: str, columns: tuple[str, ...]) -> LinePlot:
    lines = {
        column: {float(tenth): at(column, tenth) for tenth in range(1, TENTHS + 1)}
        for column in columns
    }
    return LinePlot(title, "decile of the cases by confidence", y, lines)


CURVES: Final = {
    "reliability": _curves("Confidence and accuracy", "mean over cases", (CONFIDENCE, ACCURACY)),
    "permutation": _curves("Change under shuffled attention", "mean over cases", CHANGES),
    "deviation": _curves("Deviation of predictions between seeds", "mean over cases", (DEVIATION,)),
    "Jaccard index": _curves(
        "Overlap of the top 10 % of attention between seeds", "mean over pairs", (INDEX,)
    ),
}


def confidence(subject: MeasuredRun, options: ShuffleOptions) -> dict[str, SeedColumn]:
    """Return the columns of every seed's model and between them, on the same events."""
    models = list(subject.run.models.values())
    every = subject.split.held[subject.held]
    cases = draw_cases(subject.split, subject.held, options.users)
    fitted, measured = _halves(subject)
    bar = progress_bar("confidence", len(models), subject.show_progress, transient=True)
    found = [
        {
            **_calibration(model, every),
            **_scaling(model, fitted, measured),
            **_permutation(model, cases, options.shuffles),
        }
        for model in bar.track(models)
    ]
    said = f"{subject.split.protocol}; softmax over all items"
    fitted_on = "validation events" if subject.held == "test" else "every other event"
    return {
        **over_models(
            found,
            f"{len(every):,} {subject.held} events, for {len(cases):,} of them {options.shuffles} "
            f"shuffles of the last position's attention in all blocks, {said}; one temperature is "
            f"fitted on {fitted_on} and evaluated on {len(measured):,} other events",
        ),
        **_between_seeds(
            models, cases, f"{len(cases):,} {subject.held} events, {said}; last block's attention"
        ),
    }


def _halves(subject: MeasuredRun) -> tuple[Cases, Cases]:
    """Return the cases that fit a temperature, and those that evaluate it."""
    every = subject.split.held[subject.held]
    if subject.held == "test" and "validation" in subject.split.held:
        return subject.split.held["validation"], every
    number = np.arange(len(every))
    return every[number[::2]], every[number[1::2]]


def _predictions(model: Recommender, cases: Cases, temperature: float = 1.0) -> Predictions:
    return predictions_from_logits(
        next_item_logits(model, cases, model.config.max_len), temperature
    )


def _calibration(model: Recommender, cases: Cases) -> ColumnValues:
    predictions = _predictions(model, cases)
    columns = {GAP: over_confidence(predictions), **errors(predictions)}
    diagram = reliability(predictions, EqualMass(TENTHS))
    if len(diagram.count) == TENTHS:
        for tenth in range(TENTHS):
            columns[at(CONFIDENCE, tenth + 1)] = float(diagram.confidence[tenth])
            columns[at(ACCURACY, tenth + 1)] = float(diagram.accuracy[tenth])
    return {column: (value, len(cases)) for column, value in columns.items()}


def _scaling(model: Recommender, fitted: Cases, measured: Cases) -> ColumnValues:
    """Return the scaled errors, or nothing if no temperature is best."""
    try:
        temperature = fit_temperature(next_item_logits(model, fitted, model.config.max_len))
    except InputError:
        return {}
    before, after = (_predictions(model, measured, one) for one in (1.0, temperature))
    return scaled_errors(temperature, before, after)


def _permutation(model: Recommender, cases: Cases, shuffles: int) -> ColumnValues:
    batch, _ = batch_and_targets(model, cases, model.config.max_len)
    permuted = attention_permutation(model, batch, repeats=shuffles)
    known = ~np.isnan(permuted.top)
    sure = permuted.confidence[known]
    changes = {CHANGE: permuted.top[known], SHARE: permuted.top[known] / sure}
    columns = {SHUFFLED_KL: float(permuted.moved[known].mean())}
    for name, values in changes.items():
        columns[name] = float(values.mean())
        columns[with_confidence(name)] = rank_correlation(values, sure)
    found = {column: (value, len(sure)) for column, value in columns.items()}
    return {**found, **_changes_by_tenth(permuted, changes, sure)}


def _changes_by_tenth(
    permuted: AttentionPermutation, changes: Mapping[str, Floats], sure: Floats
) -> dict[str, tuple[float, int]]:
    bins = EqualMass(TENTHS)
    binned = permuted.by_confidence(bins)
    if len(binned.count) < TENTHS:
        return {}
    bin_of = np.searchsorted(binned.edges[1:-1], sure, side="right")
    return {
        at(name, tenth + 1): (float(values[bin_of == tenth].mean()), int(binned.count[tenth]))
        for name, values in changes.items()
        for tenth in range(TENTHS)
        if binned.count[tenth]
    }


def _between_seeds(models: list[Recommender], cases: Cases, protocol: str) -> dict[str, SeedColumn]:
    """Return the columns over all cases, and by decile of the seeds' mean confidence."""
    found = [_predictions(model, cases) for model in models]
    came = np.exp(np.stack([one.log_likelihood for one in found])).clip(0.0, 1.0)
    sure = np.mean([one.confidence for one in found], axis=0)
    read = [_attention(model, cases) for model in models]
    weights, parts = np.stack([one for one, _ in read]), read[0][1]
    lengths = parts.sum(axis=1)
    usable = np.flatnonzero(lengths >= 2)
    if not len(usable):
        raise InputError("No history has two items whose attention could be compared.")

    def of(rows: Ints) -> SeedValues:
        pairs = {
            DIFFERENCE: prediction_difference(came[:, rows]),
            INDEX: jaccard_index(weights[:, rows], parts[rows]),
            KL: attention_kl(weights[:, rows], parts[rows]),
        }
        return case_columns(came[:, rows], pairs)

    columns = dict(of(usable))
    columns[RANDOM_INDEX] = (random_jaccard_index(lengths[usable]),) * len(models), len(usable)
    bins = EqualMass(TENTHS)
    if len(bins.edges(np.sort(sure))) == TENTHS + 1:
        for number, some in by_bin(sure, bins, usable, of):
            columns |= {at(name, number): some[name] for name in (DEVIATION, INDEX)}
    said = f"{protocol}; all pairs of {len(models)} seeds; p is that of the target"
    return {
        column: SeedColumn(per_seed, n, said, "neither")
        for column, (per_seed, n) in columns.items()
    }


@torch.no_grad()
def _attention(model: Recommender, cases: Cases) -> tuple[Floats, Bools]:
    """Return `[B, n]` twice: the last block's attention to each part, and which slots are parts."""
    assert isinstance(model, HasAttentions)
    length = model.config.max_len
    pieces = []
    for some in row_slices(len(cases), inputs_at_once(length, memory_for(device_of(model)))):
        batch, targets = batch_and_targets(model, cases[some], length)
        parts = model.parts(batch)
        pieces.append(
            (
                attention_to_parts(model.attentions(batch, targets), parts).double().cpu(),
                parts.cpu(),
            )
        )
    weights, parts = (torch.cat(one) for one in zip(*pieces, strict=True))
    return weights.numpy(), parts.numpy()


MEASUREMENT: Final = Measurement(
    (
        GAP,
        *ERRORS,
        *OF_SCALING,
        SHUFFLED_KL,
        *(name for column in CHANGES for name in (column, with_confidence(column))),
        *COMPARED,
    ),
    confidence,
    ShuffleOptions,
    CURVES,
)
