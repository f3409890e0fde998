"""Networks that predict which tracks of a session are skipped, and name what they used.

`fit_skips` trains an ordinary or an interpretable network of Afchar & Hennequin (2020). `evaluate`
measures its accuracy and the experts it selects. If the true cause of every skip is known,
`cause_accuracy` measures whether those are the right experts, and `oracle_experts` gives the best
result that experts could reach. `explainable_skips` wraps a network in the contract of all models,
so that every explainer can be compared with its experts.
"""

from whence_studies.skips.networks import (
    EVIDENCE,
    EXPERT_OF,
    EXPERTS,
    NetworkConfig,
    load_network,
    make_network,
    save_network,
)
from whence_studies.skips.oracle import OracleScores, oracle_experts
from whence_studies.skips.skip_adapter import (
    SKIP,
    ExpertSkipModel,
    SkipModel,
    explainable_skips,
)
from whence_studies.skips.skip_attribution import (
    SkipAttribution,
    cause_accuracy,
    cause_seen,
    concat_attributions,
    mean_attributions,
    most_selected_shares,
    selected_by_cause,
)
from whence_studies.skips.skip_config import SkipConfig
from whence_studies.skips.skip_evaluation import (
    SkipEvaluation,
    attribute_skips,
    cross_attention,
    evaluate,
    known_tracks,
    predict_skips,
)
from whence_studies.skips.skip_training import TrainedSkips, fit_skips

__all__ = [
    "EVIDENCE",
    "EXPERTS",
    "EXPERT_OF",
    "SKIP",
    "ExpertSkipModel",
    "NetworkConfig",
    "OracleScores",
    "SkipAttribution",
    "SkipConfig",
    "SkipEvaluation",
    "SkipModel",
    "TrainedSkips",
    "attribute_skips",
    "cause_accuracy",
    "cause_seen",
    "concat_attributions",
    "cross_attention",
    "evaluate",
    "explainable_skips",
    "fit_skips",
    "known_tracks",
    "load_network",
    "make_network",
    "mean_attributions",
    "most_selected_shares",
    "oracle_experts",
    "predict_skips",
    "save_network",
    "selected_by_cause",
]
