"""From a split to a trained run."""

from whence.training.evaluation import evaluate
from whence.training.loop import TrainingConfig, fit
from whence.training.runs import train

__all__ = ["TrainingConfig", "evaluate", "fit", "train"]
