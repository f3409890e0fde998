"""The training engine: one loop for recommenders, networks of experts and session networks."""

from whence.engine.averaging import AVERAGING_RULES, AveragingRule, average_weights
from whence.engine.loop import DivergedError, TrainedModel, Training
from whence.engine.trainable import BatchSource, BatchStream, OutOfBatches, Plan, Trainable

__all__ = [
    "AVERAGING_RULES",
    "AveragingRule",
    "BatchSource",
    "BatchStream",
    "DivergedError",
    "OutOfBatches",
    "Plan",
    "Trainable",
    "TrainedModel",
    "Training",
    "average_weights",
]
