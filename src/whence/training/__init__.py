"""From a split to a trained run."""

from whence.training.evaluation import PerCase, evaluate, evaluate_cases
from whence.training.loop import TrainingConfig, fit
from whence.training.runs import train

__all__ = ["PerCase", "TrainingConfig", "evaluate", "evaluate_cases", "fit", "train"]
