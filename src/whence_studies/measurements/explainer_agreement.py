"""Tables 4.1 to 4.6 (Baumhauer 2021): do attention, gradients and Shapley values rank alike?

Columns use the paper's symbols: ∇ is the norm of the gradient, α first and α last the attention of
the first and the last block, α attention rollout. Shapley values come twice: φ by the published
Algorithm 1 (with its kernel corrected), and φ* by an estimator with a several times smaller error,
which separates noise from signal. A prime (′) marks a second draw.

Every model is explained with draws of its own seed, so intervals over seeds include the noise of
the estimators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from whence.arrays import Bools, Floats
from whence.contract import HasAttentions
from whence.data.histories import Cases
from whence.explainers import compare_batch
from whence.models import Recommender
from whence.progress import progress_bar
from whence.ranking import batch_and_targets
from whence.trust.agreement.rank_agreement import (
    centred_ranks,
    correlate,
    kendall,
    mu_lin,
    mu_log,
    signed_rank,
    top_jaccard,
)
from whence.trust.permutation.entropy import entropy
from whence_studies.measurements.measurement import LinePlot, MeasuredRun, Measurement, SeedColumn
from whence_studies.measurements.point_sample import PointSample, draw_points

PRINTED: Final = "shapley-printed"
HALF: Final = "shapley:coalitions=2048"
PRINTED_DRAWS: Final = "φ by Algorithm 1 from 1,024 coalitions drawn for each history and seed"
"""How φ is drawn, for protocols."""
DRAWS: Final = 2
"""Independent draws of each estimator for a seed of a model."""
ASKED: Final = {
    "∇": ("gradient-norm", 0),
    "α first": ("attention-first", 0),
    "α last": ("attention-last", 0),
    "α": ("rollout", 0),
    "α first 1": ("attention:block=1,head=1", 0),
    "α first 2": ("attention:block=1,head=2", 0),
    "LOO": ("leave-one-out", 0),
    "LOO p": ("leave-one-out:unit=probability", 0),
    "φ": (PRINTED, 0),
    "φ′": (PRINTED, 1),
    "φ*₁": (HALF, 0),
    "φ*₂": (HALF, 1),
}
"""By symbol: the explainer, and which of its draws."""
OF_HEADS: Final = ("α first 1", "α first 2")
QUICK: Final = tuple(symbol for symbol in ASKED if symbol not in ("φ", "φ′", *OF_HEADS))
"""What takes little time: without φ, whose coalitions no two histories share."""

BY_PAIRS: Final = (
    ("∇", "α first"),
    ("∇", "α last"),
    ("∇", "α"),
    ("φ", "α first"),
    ("φ", "α"),
    ("φ*", "α first"),
    ("φ*", "α"),
)
"""Kendall's τ, which counts pairs of items in the same order, stands next to Spearman's ρ."""
BY_SIZE: Final = (
    *BY_PAIRS,
    ("φ*", "∇"),
    ("φ", "φ′"),
    ("φ", "φ*"),
    ("φ*₁", "φ*₂"),
    ("∇", "α first 1"),
    ("∇", "α first 2"),
    ("α first 1", "α first 2"),
)
SIGNED: Final = (("LOO", "φ"), ("LOO", "φ*"), ("LOO p", "φ"), ("LOO p", "φ*"))
TOP: Final = 3
SHAPLEY: Final = ("φ", "φ*")
ENTROPIES: Final = ("α first", "α last")
BINS: Final = 20
HISTOGRAMS: Final = ("ρ(∇, α first)", "ρ(∇, α)", "ρ(|φ|, α first)", "ρ(|φ*|, α first)")


def rho(one: str, other: str) -> str:
    """Return the column of a correlation; Shapley values enter by their absolute value."""
    return f"ρ({_by_size(one)}, {_by_size(other)})"


def tau(one: str, other: str) -> str:
    """Return the column of the same by Kendall's coefficient."""
    return f"τ({_by_size(one)}, {_by_size(other)})"


def _by_size(symbol: str) -> str:
    return f"|{symbol}|" if symbol.startswith("φ") else symbol


def spread(column: str) -> str:
    """Return the column of a column's standard deviation over points."""
    return f"sd of {column}"


RHOS: Final = (*(rho(*pair) for pair in BY_SIZE), *(f"ρ({one}, {two})" for one, two in SIGNED))
TAUS: Final = tuple(tau(*pair) for pair in BY_PAIRS)
TOP_HEAVY: Final = (
    *(f"{name}(|{phi}|, α first)" for phi in SHAPLEY for name in ("μ log", "μ lin", f"J{TOP}")),
    *(f"J{TOP}({phi}, α first)" for phi in SHAPLEY),
)
"""The last ones take the items with the largest signed values, not with the largest sizes."""
P_VALUES: Final = tuple(f"log₁₀ p of μ log < μ lin (|{phi}|, α first)" for phi in SHAPLEY)
SPREAD_OUT: Final = (*RHOS, *TAUS, *TOP_HEAVY, *(f"entropy of {symbol}" for symbol in ENTROPIES))
COLUMNS: Final = (*SPREAD_OUT, *map(spread, SPREAD_OUT), *P_VALUES)
LARGEST: Final = "largest entropy"
"""The column of the entropy that uniform attention would have on the same points."""
QUICK_SPREAD_OUT: Final = (
    *(rho(*pair) for pair in BY_SIZE if {*pair} <= {*QUICK, "φ*"}),
    *(tau(*pair) for pair in BY_PAIRS if {*pair} <= {*QUICK, "φ*"}),
    *(f"ρ({one}, {two})" for one, two in SIGNED if two == "φ*"),
    *(f"entropy of {symbol}" for symbol in ENTROPIES),
)
QUICK_COLUMNS: Final = (*QUICK_SPREAD_OUT, LARGEST, *map(spread, QUICK_SPREAD_OUT))


def _bin(column: str, number: int) -> str:
    low = -1 + 2 * number / BINS
    return f"{column} from {low:.1f}"


CURVES: Final = {
    "histograms": LinePlot(
        title="Distribution of correlations over points",
        x="Spearman's ρ of a point",
        y="share of the points",
        lines={
            column: {round(-1 + (2 * bin + 1) / BINS, 2): _bin(column, bin) for bin in range(BINS)}
            for column in HISTOGRAMS
        },
    )
}


Measured = dict[str, tuple[float, int]]
"""By column, the value of one model and its number of points."""


def agreement(subject: MeasuredRun, options: PointSample) -> dict[str, SeedColumn]:
    """Return every column of every seed's model, on the same points."""
    return _of_every_seed(subject, options, measure_model, f"{PRINTED_DRAWS}, φ* from 4,096")


def quick_agreement(subject: MeasuredRun, options: PointSample) -> dict[str, SeedColumn]:
    """Return the same without φ, with the largest entropy that there can be."""
    return _of_every_seed(subject, options, measure_quickly, "φ* from 4,096 coalitions")


def _of_every_seed(
    subject: MeasuredRun,
    options: PointSample,
    measure: Callable[[Recommender, Cases, int], Measured],
    draws: str,
) -> dict[str, SeedColumn]:
    cases = draw_points(subject.split, subject.held, options)
    seeds = progress_bar(
        "comparing", len(subject.run.models), subject.show_progress, transient=True
    )
    found = [measure(model, cases, seed) for seed, model in seeds.track(subject.run.models.items())]
    protocol = (
        f"{options.points:,} {subject.held} events, {subject.split.protocol}, {options.words}; "
        f"the target is the next item; {draws}"
    )
    return {
        column: SeedColumn(
            per_seed=tuple(one[column][0] for one in found),
            n=found[0][column][1],
            protocol=protocol,
            direction="neither",
        )
        for column in found[0]
        if all(column in one for one in found)
    }


def measure_model(model: Recommender, cases: Cases, seed: int) -> Measured:
    """Return each column of the model of this seed, with its number of points."""
    points = per_point(explain_points(model, cases, ASKED, seed))
    columns = _over_points(points)
    for phi, column in zip(SHAPLEY, P_VALUES, strict=True):
        logarithmic, linear = (points[f"{mu}(|{phi}|, α first)"] for mu in ("μ log", "μ lin"))
        both = ~np.isnan(logarithmic) & ~np.isnan(linear)
        test = signed_rank(logarithmic[both], linear[both])
        columns[column] = test.log10_p, test.n
    for column in HISTOGRAMS:
        defined = points[column][~np.isnan(points[column])]
        counts, _ = np.histogram(defined, bins=BINS, range=(-1, 1))
        for number, count in enumerate(counts):
            columns[_bin(column, number)] = float(count / len(defined)), len(defined)
    return columns


def measure_quickly(model: Recommender, cases: Cases, seed: int) -> Measured:
    """Return each quick column of the model of this seed, with its number of points."""
    explained = explain_points(model, cases, QUICK, seed)
    largest = np.log2(explained.parts.sum(axis=1))
    columns = _over_points(per_point(explained) | {LARGEST: largest})
    return {column: columns[column] for column in QUICK_COLUMNS if column in columns}


def _over_points(points: Mapping[str, Floats]) -> Measured:
    """Return the mean of each column over the points, and its standard deviation."""
    columns: Measured = {}
    for column, values in points.items():
        defined = values[~np.isnan(values)]
        if len(defined) < 2:
            continue
        columns[column] = float(defined.mean()), len(defined)
        columns[spread(column)] = float(defined.std(ddof=1)), len(defined)
    return columns


@dataclass(frozen=True)
class PointExplanations:
    """Importances of the same points by several methods."""

    scores: Mapping[str, Floats]
    """By symbol: `[B, n]`."""
    parts: Bools


def explain_points(
    model: Recommender, cases: Cases, symbols: Iterable[str], seed: int
) -> PointExplanations:
    """Return the importances of these symbols, and φ* if both of its halves are among them.

    Estimators draw by the seed of the model. Columns of single heads are omitted if there is only
    one head.
    """
    batch, targets = batch_and_targets(model, cases, model.config.max_len)
    subject: dict[int, dict[str, str]] = {}
    assert isinstance(model, HasAttentions)
    heads = model.attentions(batch[:1], targets[:1])[0].shape[1]
    for symbol in symbols:
        if symbol in OF_HEADS and heads == 1:
            continue
        method, draw = ASKED[symbol]
        subject.setdefault(draw, {})[symbol] = method
    scores: dict[str, Floats] = {}
    for draw, methods in subject.items():
        drawn = DRAWS * seed + draw
        found = compare_batch(model, batch, targets, list(methods.values()), drawn)
        scores |= {symbol: found[method].scores for symbol, method in methods.items()}
    if {"φ*₁", "φ*₂"} <= scores.keys():
        scores["φ*"] = (scores["φ*₁"] + scores["φ*₂"]) / 2
    return PointExplanations(scores, model.parts(batch).cpu().numpy())


def per_point(explained: PointExplanations) -> dict[str, Floats]:
    """Return every column that these importances define, `[B]`; NaN where undefined."""
    scores, parts = explained.scores, explained.parts
    sizes = {symbol: np.abs(values) for symbol, values in scores.items()}
    ranks = {symbol: centred_ranks(size, parts) for symbol, size in sizes.items()}
    found = {
        rho(one, other): correlate(ranks[one], ranks[other])
        for one, other in BY_SIZE
        if {one, other} <= ranks.keys()
    }
    found |= {
        tau(one, other): kendall(sizes[one], sizes[other], parts)
        for one, other in BY_PAIRS
        if {one, other} <= sizes.keys()
    }
    signed = {
        symbol: centred_ranks(scores[symbol], parts)
        for symbol in dict.fromkeys(symbol for pair in SIGNED for symbol in pair)
        if symbol in scores
    }
    found |= {
        f"ρ({one}, {other})": correlate(signed[one], signed[other])
        for one, other in SIGNED
        if {one, other} <= signed.keys()
    }
    for phi in SHAPLEY:
        if {phi, "α first"} <= sizes.keys():
            both = sizes[phi], sizes["α first"], parts
            found[f"μ log(|{phi}|, α first)"] = mu_log(*both)
            found[f"μ lin(|{phi}|, α first)"] = mu_lin(*both)
            found[f"J{TOP}(|{phi}|, α first)"] = top_jaccard(*both, TOP)
            found[f"J{TOP}({phi}, α first)"] = top_jaccard(scores[phi], *both[1:], TOP)
    for symbol in ENTROPIES:
        if symbol in sizes:
            found[f"entropy of {symbol}"] = entropy(sizes[symbol], parts)
    return found


MEASUREMENT: Final = Measurement(COLUMNS, agreement, PointSample, CURVES, edition=3)
QUICK_MEASUREMENT: Final = Measurement(QUICK_COLUMNS, quick_agreement, PointSample)
