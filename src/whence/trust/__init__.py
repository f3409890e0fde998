"""Trust measures: whether explanations deserve belief. One file a measure."""

from whence.trust.agreement import agreement, spearman
from whence.trust.likeness import Mark, OnLikeness, precision_on_likeness
from whence.trust.registry import MEASURES, SEED_MEASURES, MeasureSpec
from whence.trust.seeds import seed_stability
from whence.trust.signs import sign_agreement
from whence.trust.stability import (
    SeedPairs,
    attention_kl,
    jaccard_distance,
    jaccard_index,
    overlap,
)
from whence.trust.truth import precision_at_cause, sign_at_cause

__all__ = [
    "MEASURES",
    "SEED_MEASURES",
    "Mark",
    "MeasureSpec",
    "OnLikeness",
    "SeedPairs",
    "agreement",
    "attention_kl",
    "jaccard_distance",
    "jaccard_index",
    "overlap",
    "precision_at_cause",
    "precision_on_likeness",
    "seed_stability",
    "sign_agreement",
    "sign_at_cause",
    "spearman",
]
