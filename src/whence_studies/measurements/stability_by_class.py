"""Figures 3.10 and 3.11 (Jain 2019): do seeds agree on predictions and attention?

As in the thesis, for the target, by its mean probability over seeds of being liked.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import torch

from whence.arrays import Floats, Ints
from whence.errors import InputError
from whence.models import Recommender
from whence.progress import print_line
from whence.trust.bins import EqualWidth
from whence.trust.stability.class_stability import DIFFERENCE, class_stability
from whence.trust.target_classes import LIKED, class_logits
from whence_studies.measurements.between_seeds import (
    DEVIATION,
    RANDOM_INDEX,
    SeedValues,
    by_bin,
    case_columns,
    random_jaccard_index,
)
from whence_studies.measurements.candidates import CandidateQuestions, UserSample, draw_questions
from whence_studies.measurements.measurement import LinePlot, MeasuredRun, Measurement, SeedColumn

INDEX: Final = "Jaccard index"
COMPARED: Final = (DEVIATION, DIFFERENCE, INDEX, RANDOM_INDEX, "Jaccard distance %", "KL")
DRAWN: Final = (DEVIATION, INDEX, "KL")
TENTHS: Final = 10


def at(column: str, tenth: int) -> str:
    """Return the column of the items in one tenth of the mean probability."""
    return f"{column}, p {tenth / 10:.1f}–{(tenth + 1) / 10:.1f}"


def _curve(title: str, y: str, column: str) -> LinePlot:
    line = {round(tenth / 10 + 0.05, 2): at(column, tenth) for tenth in range(TENTHS)}
    return LinePlot(title, "mean probability that the item is liked", y, {column: line})


CURVES: Final = {
    "deviation": _curve(
        "Deviation of predictions between seeds", "mean |p − mean over seeds|", DEVIATION
    ),
    "Jaccard index": _curve(
        "Overlap of the top 10 % of attention between seeds", "Jaccard index", INDEX
    ),
    "KL": _curve("Divergence of attention between seeds", "KL in nats", "KL"),
}


def class_stabilities(subject: MeasuredRun, options: UserSample) -> dict[str, SeedColumn]:
    """Return the columns over all users, and by tenth."""
    questions = draw_questions(subject.split, subject.held, options)
    models = list(subject.run.models.values())
    print_line(f"comparing {len(models)} seeds", subject.show_progress)
    liked = np.stack([_liked(model, questions) for model in models])
    batch, items, _ = questions.of(models[0])
    lengths = models[0].parts(batch).sum(dim=1).cpu().numpy()
    usable = np.flatnonzero(lengths >= 2)
    if not len(usable):
        raise InputError("No history has two items whose attention could be compared.")

    def of(rows: Ints) -> SeedValues:
        some = torch.from_numpy(rows).to(batch.device)
        pairs = class_stability(models, batch[some], items[some, :1]).pairs
        return case_columns(liked[:, rows], pairs)

    columns = dict(of(usable))
    columns[RANDOM_INDEX] = (random_jaccard_index(lengths[usable]),) * len(models), len(usable)
    for number, found in by_bin(liked.mean(axis=0), EqualWidth(TENTHS), usable, of):
        columns |= {at(name, number - 1): found[name] for name in DRAWN}
    protocol = (
        f"the target of {len(usable):,} users with at least 2 items, {subject.held} events, "
        f"{subject.split.protocol}; all pairs of {len(models)} seeds, attention normalised to sum "
        "to 1; Jaccard index of the top 10 %, distance of the top 20 % of a history"
    )
    return {
        column: SeedColumn(per_seed, n, protocol, "neither")
        for column, (per_seed, n) in columns.items()
    }


@torch.no_grad()
def _liked(model: Recommender, questions: CandidateQuestions) -> Floats:
    """Return `[B]`: the probability that the target is liked."""
    batch, items, true = questions.of(model)
    pieces = class_logits(model, batch, items[:, :1], true[:, :1])()
    found = [logits.double().softmax(dim=1)[:, LIKED].cpu() for logits, _ in pieces]
    return np.asarray(torch.cat(found).numpy(), dtype=np.float64)


MEASUREMENT: Final = Measurement(COMPARED, class_stabilities, UserSample, CURVES)
