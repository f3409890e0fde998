"""The measures by name, each with what a person must know to read it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from torch import Tensor

from whence.contract import Explainable
from whence.explanation import Explanation
from whence.measure import Direction, Measure
from whence.trust.agreement.rank_agreement import (
    agreement,
    kendall_agreement,
    mu_lin_agreement,
    mu_log_agreement,
    sign_agreement,
    top_agreement,
)
from whence.trust.calibration.calibration_error import (
    adaptive_calibration_error,
    brier_score,
    expected_calibration_error,
    jain_calibration_error,
    maximum_calibration_error,
    negative_log_likelihood,
)
from whence.trust.faithfulness.coalition_values import value_correlation, value_fit
from whence.trust.faithfulness.curves import Curves, Kind, normalised_area
from whence.trust.faithfulness.deletion import deletion_curves, flips
from whence.trust.permutation.attention_permutation import (
    AttentionPermutation,
    attention_permutation,
)
from whence.trust.permutation.entropy import importance_entropy
from whence.trust.perturbation import LISTED
from whence.trust.popularity import popularity_bias, popularity_correlation
from whence.trust.stability.seed_pairs import (
    MOST_NATS,
    SeedPairs,
    attention_kl,
    jaccard_distance,
    jaccard_index,
    overlap,
    prediction_deviation,
    prediction_difference,
)
from whence.trust.truth.true_reasons import precision_at_cause, sign_at_cause


@dataclass(frozen=True)
class MeasureSpec:
    """A measure and its declaration."""

    compute: Callable[..., Measure]
    direction: Direction
    range: tuple[float, float]
    question: str
    symmetric: bool = False
    """Whether its two arguments may change places."""
    needs: tuple[str, ...] = ()
    """What it asks of a model; such a measure takes the model and the batch first."""


SEED_MEASURES: dict[str, Callable[..., SeedPairs]] = {
    "attention-kl": attention_kl,
    "jaccard-index": jaccard_index,
    "jaccard-distance": jaccard_distance,
    "overlap": overlap,
    "prediction-difference": prediction_difference,
}
"""Those that compare seeds, and so have an interval over seeds beside the one over cases."""


def _over_cases(name: str) -> Callable[..., Measure]:
    compute = SEED_MEASURES[name]
    return lambda *given: compute(*given).measure()


def _of_curves(
    measure: Callable[[Curves], Measure], kind: Kind = "deletion"
) -> Callable[..., Measure]:
    def compute(model: Explainable, batch: Tensor, explanation: Explanation) -> Measure:
        (curves,) = deletion_curves(model, batch, [explanation], kind=kind).values()
        return measure(curves)

    return compute


def _between_chance_and_oracle(
    model: Explainable, batch: Tensor, explanation: Explanation
) -> Measure:
    found = deletion_curves(model, batch, [explanation, "random order", "greedy oracle"])
    return normalised_area(*found.values())


def _of_shuffles(measure: Callable[[AttentionPermutation], Measure]) -> Callable[..., Measure]:
    return lambda model, batch: measure(attention_permutation(model, batch))


SCORES = ("parts", "score")
ATTENTION = (*SCORES, "attentions")

MEASURES: dict[str, MeasureSpec] = {
    "agreement": MeasureSpec(
        agreement, "neither", (-1.0, 1.0), "Do two explainers rank the parts alike?", symmetric=True
    ),
    "agreement-signed": MeasureSpec(
        partial(agreement, signed=True),
        "neither",
        (-1.0, 1.0),
        "Do two explainers rank the parts alike, from most in favour to most against?",
        symmetric=True,
    ),
    "agreement-kendall": MeasureSpec(
        kendall_agreement,
        "neither",
        (-1.0, 1.0),
        "How many more pairs of parts do two explainers put in the same order than not?",
        symmetric=True,
    ),
    "agreement-mu-log": MeasureSpec(
        mu_log_agreement,
        "neither",
        (-1.0, 1.0),
        "Do two explainers rank the parts alike, above all the most important?",
        symmetric=True,
    ),
    "agreement-mu-lin": MeasureSpec(
        mu_lin_agreement,
        "neither",
        (-1.0, 1.0),
        "Do they, where the first ranks count still more?",
        symmetric=True,
    ),
    "agreement-top": MeasureSpec(
        top_agreement,
        "neither",
        (0.0, 1.0),
        "Do two explainers name the same three parts as the most important?",
        symmetric=True,
    ),
    "entropy": MeasureSpec(
        importance_entropy,
        "neither",
        (0.0, math.inf),
        "Over how many parts is the importance spread, in bits?",
    ),
    "value-correlation": MeasureSpec(
        value_correlation,
        "higher is better",
        (-1.0, 1.0),
        "Do the importances of the parts present go with the score?",
    ),
    "value-fit": MeasureSpec(
        value_fit,
        "higher is better",
        (-math.inf, 1.0),
        "Do they foretell the score itself?",
    ),
    "sign-agreement": MeasureSpec(
        sign_agreement,
        "higher is better",
        (0.0, 1.0),
        "Do parts speak for and against as by a trusted explainer?",
    ),
    "sign-agreement-weighted": MeasureSpec(
        partial(sign_agreement, weighted=True),
        "higher is better",
        (0.0, 1.0),
        "Do they, where the trusted one finds much in them?",
    ),
    "precision-at-cause": MeasureSpec(
        precision_at_cause,
        "higher is better",
        (0.0, 1.0),
        "On a world, is the strongest part the true cause?",
    ),
    "sign-at-cause": MeasureSpec(
        sign_at_cause,
        "higher is better",
        (0.0, 1.0),
        "On a world, does the true cause speak on the right side?",
    ),
    "popularity-bias": MeasureSpec(
        popularity_bias,
        "neither",
        (-1.0, 1.0),
        "Are the parts named first more popular than the histories they are of?",
    ),
    "popularity-correlation": MeasureSpec(
        popularity_correlation,
        "neither",
        (-1.0, 1.0),
        "Does importance go with popularity within a history?",
    ),
    "attention-kl": MeasureSpec(
        _over_cases("attention-kl"),
        "lower is better",
        (0.0, MOST_NATS),
        "Do models of other seeds spread the importance over other parts?",
    ),
    "jaccard-index": MeasureSpec(
        _over_cases("jaccard-index"),
        "higher is better",
        (0.0, 1.0),
        "Do models of other seeds find the same parts most important?",
    ),
    "jaccard-distance": MeasureSpec(
        _over_cases("jaccard-distance"),
        "lower is better",
        (0.0, 100.0),
        "How many per cent of the most important parts change with the seed?",
    ),
    "overlap": MeasureSpec(
        _over_cases("overlap"),
        "higher is better",
        (0.0, 1.0),
        "Do models of other seeds recommend the same items?",
    ),
    "prediction-difference": MeasureSpec(
        _over_cases("prediction-difference"),
        "lower is better",
        (0.0, 1.0),
        "How far apart are the probabilities that models of two seeds say?",
    ),
    "prediction-deviation": MeasureSpec(
        prediction_deviation,
        "lower is better",
        (0.0, 0.5),
        "How far are they from their mean over seeds?",
    ),
    "deletion-area": MeasureSpec(
        _of_curves(Curves.area_measure),
        "higher is better",
        (0.0, math.inf),
        "Do recommendations change fast as the parts called important go?",
        needs=SCORES,
    ),
    "deletion-area-normalised": MeasureSpec(
        _between_chance_and_oracle,
        "higher is better",
        (-math.inf, math.inf),
        "How far from chance to a greedy oracle do they change?",
        needs=SCORES,
    ),
    "deletion-shape": MeasureSpec(
        _of_curves(Curves.shape_measure),
        "neither",
        (-math.inf, 0.5),
        "Do recommendations change last, when few parts are left, or with the first that go?",
        needs=SCORES,
    ),
    "insertion-area": MeasureSpec(
        _of_curves(Curves.area_measure, "insertion"),
        "lower is better",
        (0.0, math.inf),
        "Do the parts called important bring the recommendations back by themselves?",
        needs=SCORES,
    ),
    "deletions-to-flip": MeasureSpec(
        _of_curves(lambda curves: flips(curves).measure()),
        "lower is better",
        (1.0, math.inf),
        "How many parts must go until another item is first?",
        needs=SCORES,
    ),
    "deletions-to-flip-ten": MeasureSpec(
        _of_curves(lambda curves: flips(curves, LISTED).measure()),
        "lower is better",
        (1.0, math.inf),
        "How many parts must go until another item is among the first ten?",
        needs=SCORES,
    ),
    "attention-permutation": MeasureSpec(
        _of_shuffles(AttentionPermutation.top_measure),
        "higher is better",
        (0.0, 1.0),
        "Does the top item's probability change when attention is shuffled?",
        needs=ATTENTION,
    ),
    "attention-permutation-divergence": MeasureSpec(
        _of_shuffles(AttentionPermutation.divergence_measure),
        "higher is better",
        (0.0, math.inf),
        "Do all items' probabilities change when attention is shuffled?",
        needs=ATTENTION,
    ),
    "calibration-error": MeasureSpec(
        expected_calibration_error,
        "lower is better",
        (0.0, 1.0),
        "Is a model as often right as it is sure?",
    ),
    "calibration-error-maximum": MeasureSpec(
        maximum_calibration_error,
        "lower is better",
        (0.0, 1.0),
        "How far from it is it where it is furthest?",
    ),
    "calibration-error-adaptive": MeasureSpec(
        adaptive_calibration_error,
        "lower is better",
        (0.0, 1.0),
        "Is it as often right as it is sure, by bins of equally many cases?",
    ),
    "calibration-error-jain": MeasureSpec(
        jain_calibration_error,
        "lower is better",
        (0.0, 1.0),
        "Is it, by tenths that are held against their middles (Jain 2019)?",
    ),
    "brier-score": MeasureSpec(
        brier_score,
        "lower is better",
        (0.0, 2.0),
        "How far are the probabilities of all classes from what came?",
    ),
    "negative-log-likelihood": MeasureSpec(
        negative_log_likelihood,
        "lower is better",
        (0.0, math.inf),
        "How surprised is a model by what came, in nats?",
    ),
}
