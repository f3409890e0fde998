"""Trust measures: whether explanations deserve belief. One file a measure."""

from whence.trust.agreement import agreement, spearman
from whence.trust.curves import Curves, deletion_at, normalised_area
from whence.trust.deletion import deletion_curves
from whence.trust.divergences import DIVERGENCES, jensen_shannon, symmetrised_kl
from whence.trust.flips import Flips, flips
from whence.trust.permutation import Permuted, attention_permutation
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
from whence.trust.truth import precision_at_cause

__all__ = [
    "DIVERGENCES",
    "MEASURES",
    "SEED_MEASURES",
    "Curves",
    "Flips",
    "MeasureSpec",
    "Permuted",
    "SeedPairs",
    "agreement",
    "attention_kl",
    "attention_permutation",
    "deletion_at",
    "deletion_curves",
    "flips",
    "jaccard_distance",
    "jaccard_index",
    "jensen_shannon",
    "normalised_area",
    "overlap",
    "precision_at_cause",
    "seed_stability",
    "sign_agreement",
    "spearman",
    "symmetrised_kl",
]
