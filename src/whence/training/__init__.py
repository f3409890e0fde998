"""Train recommenders on a split, and evaluate them."""

from whence.training.config import TrainingConfig
from whence.training.evaluation import Evaluation, PerCase, evaluate
from whence.training.recommenders import fit
from whence.training.runs import train

__all__ = ["Evaluation", "PerCase", "TrainingConfig", "evaluate", "fit", "train"]
