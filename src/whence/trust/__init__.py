"""Trust measures: do explanations deserve belief? One folder per question, with its audit stage.

| question | folder or module | measures |
|---|---|---|
| Can the sentences be believed? | `sentences` | `necessity`, `compare_halves` |
| Is the model accurate? | `accuracy` | `class_accuracy` |
| Is it right as often as its confidence says? | `calibration` | `expected_calibration_error`, … |
| Do explainers find the true reason? | `truth` | `precision_at_cause`, `precision_on_world` |
| Do predictions change without important parts? | `faithfulness` | `deletion_curves`, `flips`, … |
| Do explainers agree? | `agreement` | `agreement`, `top_agreement`, `sign_agreement`, … |
| Do reasons name popular items? | `popularity` | `popularity_bias`, … |
| Do other seeds give the same reasons? | `stability` | `seed_stability`, `class_stability`, … |
| Does shuffled attention matter? | `permutation` | `attention_permutation`, `entropy`, … |

`MEASURES` lists all measures with their direction, range and source. `Predictions` and `bins` serve
several questions. `audit` holds the stages together.
"""

from whence.training.lists import popularity_percentiles
from whence.trust.accuracy.class_accuracy import class_accuracy, published_class_accuracy
from whence.trust.agreement.rank_agreement import (
    SignedRank,
    agreement,
    kendall,
    kendall_agreement,
    mu_lin,
    mu_lin_agreement,
    mu_log,
    mu_log_agreement,
    sign_agreement,
    signed_rank,
    spearman,
    top_agreement,
    top_jaccard,
)
from whence.trust.bins import Binned, Bins, EqualMass, EqualWidth, JainBins, binned
from whence.trust.calibration.calibration_error import (
    adaptive_calibration_error,
    brier_score,
    calibration_measures,
    expected_calibration_error,
    jain_calibration_error,
    maximum_calibration_error,
    negative_log_likelihood,
)
from whence.trust.calibration.next_item import (
    NextItemCalibration,
    next_item_calibration,
    next_item_logits,
)
from whence.trust.calibration.reliability import Reliability, reliability
from whence.trust.calibration.temperature import (
    TemperatureScaling,
    fit_temperature,
    temperature_scaling,
)
from whence.trust.faithfulness.coalition_values import (
    CoalitionValues,
    coalition_values,
    value_correlation,
    value_fit,
)
from whence.trust.faithfulness.curves import (
    DIVERGENCES,
    Curves,
    deletion_at,
    jensen_shannon,
    normalised_area,
    symmetrised_kl,
)
from whence.trust.faithfulness.deletion import Flips, deletion_curves, flips
from whence.trust.measures import MEASURES, MeasureSpec
from whence.trust.permutation.attention_permutation import (
    AttentionPermutation,
    attention_permutation,
)
from whence.trust.permutation.class_permutation import ClassPermutation, class_permutation
from whence.trust.permutation.entropy import entropy, importance_entropy
from whence.trust.popularity import popularity_bias, popularity_correlation
from whence.trust.predictions import (
    Predictions,
    logits_of,
    predictions_from_logits,
    predictions_of,
)
from whence.trust.stability.class_stability import ClassStability, class_stability
from whence.trust.stability.seed_pairs import (
    SeedPairs,
    attention_kl,
    deviation,
    jaccard_distance,
    jaccard_index,
    overlap,
    prediction_deviation,
    prediction_difference,
)
from whence.trust.stability.seed_stability import seed_stability
from whence.trust.target_classes import (
    class_logits,
    class_predictions,
    positives_and_negatives,
)
from whence.trust.truth.true_reasons import (
    ReasonScore,
    TruthOnWorld,
    precision_at_cause,
    precision_on_world,
    sign_at_cause,
)

__all__ = [
    "DIVERGENCES",
    "MEASURES",
    "AttentionPermutation",
    "Binned",
    "Bins",
    "ClassPermutation",
    "ClassStability",
    "CoalitionValues",
    "Curves",
    "EqualMass",
    "EqualWidth",
    "Flips",
    "JainBins",
    "MeasureSpec",
    "NextItemCalibration",
    "Predictions",
    "ReasonScore",
    "Reliability",
    "SeedPairs",
    "SignedRank",
    "TemperatureScaling",
    "TruthOnWorld",
    "adaptive_calibration_error",
    "agreement",
    "attention_kl",
    "attention_permutation",
    "binned",
    "brier_score",
    "calibration_measures",
    "class_accuracy",
    "class_logits",
    "class_permutation",
    "class_predictions",
    "class_stability",
    "coalition_values",
    "deletion_at",
    "deletion_curves",
    "deviation",
    "entropy",
    "expected_calibration_error",
    "fit_temperature",
    "flips",
    "importance_entropy",
    "jaccard_distance",
    "jaccard_index",
    "jain_calibration_error",
    "jensen_shannon",
    "kendall",
    "kendall_agreement",
    "logits_of",
    "maximum_calibration_error",
    "mu_lin",
    "mu_lin_agreement",
    "mu_log",
    "mu_log_agreement",
    "negative_log_likelihood",
    "next_item_calibration",
    "next_item_logits",
    "normalised_area",
    "overlap",
    "popularity_bias",
    "popularity_correlation",
    "popularity_percentiles",
    "positives_and_negatives",
    "precision_at_cause",
    "precision_on_world",
    "prediction_deviation",
    "prediction_difference",
    "predictions_from_logits",
    "predictions_of",
    "published_class_accuracy",
    "reliability",
    "seed_stability",
    "sign_agreement",
    "sign_at_cause",
    "signed_rank",
    "spearman",
    "symmetrised_kl",
    "temperature_scaling",
    "top_agreement",
    "top_jaccard",
    "value_correlation",
    "value_fit",
]
