"""Trust measures: whether explanations deserve belief. One file a measure."""

from whence.trust.agreement import agreement, spearman
from whence.trust.registry import MEASURES, MeasureSpec
from whence.trust.truth import precision_at_cause

__all__ = ["MEASURES", "MeasureSpec", "agreement", "precision_at_cause", "spearman"]
