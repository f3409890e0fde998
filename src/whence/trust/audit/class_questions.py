"""Questions to a model that judges items one by one: the next item, and items never seen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch
from torch import Tensor

from whence.data.histories import Cases
from whence.data.splits import HeldOut
from whence.devices import device_of
from whence.errors import InputError
from whence.models.tasks import NOTHING, Choices
from whence.randomness import Randomness
from whence.training.choice_batches import outcomes
from whence.training.negatives import Unseen
from whence.trust.audit.context import AuditContext

NEGATIVES: Final = 4
"""Unseen items per positive, if the model does not say how many it was trained with."""


@dataclass(frozen=True, eq=False)
class ClassQuestions:
    """For each of `B` histories, the item that came next and `r` unseen items."""

    cases: Cases
    batch: Tensor
    """`[B, n]`: what the model reads."""
    targets: Tensor
    """`[B, 1 + r]`: the item that came next, then the unseen items."""
    true: Tensor
    """`[B, 1 + r]`: their true classes."""


def class_questions(context: AuditContext, held: HeldOut, most: int) -> ClassQuestions:
    """Return questions about at most `most` held-out events.

    The unseen items are drawn uniformly from the items that the user has nowhere in the data. There
    are as many as in training, because the model has learned how frequent likes are there.
    """
    model, split = context.model, context.split
    task = model.task if isinstance(model.task, Choices) else Choices(NEGATIVES, disliked=None)
    cases = context.draw(held, most)
    everything = replace(split, train_ends=split.interactions.offsets[1:])
    unseen = Unseen(everything)
    users = torch.from_numpy(cases.users)
    some = (unseen.seen_counts[users] < unseen.item_count).nonzero()[:, 0].numpy()
    if not len(some):
        raise InputError("Every user has seen every item, so no unseen items can be drawn.")
    cases, users = cases[some], users[some]
    generator = Randomness(context.seed).torch("negatives")
    others = unseen.draw(users, max(1, task.negatives), generator)
    came = outcomes(split, task)[cases.ends]
    targets = torch.column_stack((torch.from_numpy(cases.targets), others))
    true = torch.full_like(targets, NOTHING)
    true[:, 0] = torch.from_numpy(came.astype(np.int64))
    device = device_of(model)
    batch = model.read(cases, context.max_len)
    return ClassQuestions(cases, batch.to(device), targets.to(device), true.to(device))
