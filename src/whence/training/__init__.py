"""From a split to a trained run."""

from whence.training.config import TrainingConfig
from whence.training.evaluation import Evaluation, PerCase, evaluate
from whence.training.loop import fit
from whence.training.runs import train

__all__ = ["Evaluation", "PerCase", "TrainingConfig", "evaluate", "fit", "train"]
