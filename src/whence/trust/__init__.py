"""Trust measures: whether explanations deserve belief. One file a measure.

Do two explainers agree? `agreement` (Spearman's rho), `kendall_agreement` (tau-b),
`mu_log_agreement` and `mu_lin_agreement` (the top counts most), `top_agreement` (the top alone),
`sign_agreement` (for and against). `spearman`, `kendall`, `mu_log`, `mu_lin` and `top_jaccard` say
it of every case, and `signed_rank` tests whether one of two such numbers is the smaller.

Does an explainer foretell what the model does with some parts only? `coalition_values` asks the
model, `value_correlation` and `value_fit` hold an explanation against it.

On how many parts does the reason rest? `importance_entropy`, and `entropy` of every case.

Do recommendations change without the parts that it calls important? `deletion_curves`, by deletion
or insertion, against chance and a greedy oracle, with `deletion_at`, `normalised_area` and `flips`;
`symmetrised_kl` and `jensen_shannon` say how far a distribution has moved.

Does anything change when attention is shuffled? `attention_permutation`, and `class_permutation` of
what a model says of targets; both also by how sure the model was, as `binned` has any number.

Does it name the true cause, on the right side? `precision_at_cause` and `sign_at_cause`, on a
world; `precision_on_world` on one in the likeness of the data.

Does it name what everybody chooses? `popularity_bias` and `popularity_correlation`.

Do models of other seeds say the same? `seed_stability`, and what it is made of: `attention_kl`,
`jaccard_index`, `jaccard_distance`, `overlap`, `prediction_difference`, `prediction_deviation`.
`class_stability` asks it of what models say of targets.

Is a model as often right as it is sure? `predictions_of` and `predictions_from_logits` say how sure
it was and whether it was right, `next_item_calibration` of a recommender and `class_predictions` of
one that says what is liked; `reliability` draws it up in bins (`EqualWidth`, `EqualMass`,
`JainBins`), `expected_calibration_error` and its kin are one number, and `temperature_scaling`
mends it. `class_accuracy` says how often it is right about each class alone. Where cases are known
to be of users (`Predictions.of_users`), intervals are over users.
"""

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
from whence.trust.measures import MEASURES, SEED_MEASURES, MeasureSpec
from whence.trust.permutation.attention_permutation import (
    AttentionPermutation,
    attention_permutation,
)
from whence.trust.permutation.class_permutation import ClassPermutation, class_permutation
from whence.trust.permutation.entropy import entropy, importance_entropy
from whence.trust.popularity import (
    popularity_bias,
    popularity_correlation,
    popularity_percentiles,
)
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
    Mark,
    TruthOnWorld,
    precision_at_cause,
    precision_on_world,
    sign_at_cause,
)

__all__ = [
    "DIVERGENCES",
    "MEASURES",
    "SEED_MEASURES",
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
    "Mark",
    "MeasureSpec",
    "NextItemCalibration",
    "Predictions",
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
