"""Skips: networks that predict which tracks of a session are skipped, and name what they used.

`fit_skips` trains an ordinary or an interpretable network of Afchar & Hennequin (2020) on sessions,
`evaluate` says how right it is and which experts it selects, and where the true cause of every skip
is known `cause_accuracy` says whether they are the right ones, and `ideal_experts` how far experts
could come. `explainable_skips` puts a network
behind the contract of all models, so that any explainer can be held against its experts.
"""

from whence_studies.skips.explained import (
    SKIP,
    InterpretableSkips,
    OrdinarySkips,
    explainable_skips,
)
from whence_studies.skips.ideal import Possible, ideal_experts
from whence_studies.skips.networks import (
    EVIDENCE,
    EXPERT_OF,
    EXPERTS,
    NetworkConfig,
    load_network,
    make_network,
    save_network,
)
from whence_studies.skips.skip_attribution import (
    Attribution,
    cause_accuracy,
    cause_seen,
    join_attributions,
    mean_attributions,
    named_by_cause,
    shares_of_maximum,
)
from whence_studies.skips.skip_config import SkipConfig
from whence_studies.skips.skip_evaluation import (
    Evaluated,
    attribute_skips,
    evaluate,
    looks_of_skips,
    predict_skips,
    tracks_looked_at,
)
from whence_studies.skips.skip_training import TrainedSkips, fit_skips

__all__ = [
    "EVIDENCE",
    "EXPERTS",
    "EXPERT_OF",
    "SKIP",
    "Attribution",
    "Evaluated",
    "InterpretableSkips",
    "NetworkConfig",
    "OrdinarySkips",
    "Possible",
    "SkipConfig",
    "TrainedSkips",
    "attribute_skips",
    "cause_accuracy",
    "cause_seen",
    "evaluate",
    "explainable_skips",
    "fit_skips",
    "ideal_experts",
    "join_attributions",
    "load_network",
    "looks_of_skips",
    "make_network",
    "mean_attributions",
    "named_by_cause",
    "predict_skips",
    "save_network",
    "shares_of_maximum",
    "tracks_looked_at",
]
