"""Questions to a model that judges items one by one: what came next, and what was never met."""

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
"""Items never met for every one that came, of a model that does not say how many it learned by."""


@dataclass(frozen=True, eq=False)
class Questions:
    """Of `B` histories, the item that came next and `r` others each."""

    cases: Cases
    batch: Tensor
    """`[B, n]`: what the model reads."""
    targets: Tensor
    """`[B, 1 + r]`: the item that came, then those never met."""
    true: Tensor
    """`[B, 1 + r]`: their classes."""


def questions(audited: AuditContext, held: HeldOut, most: int) -> Questions:
    """About at most so many of the held-out events.

    The others are drawn evenly from the items that the user meets nowhere in the data, as many as
    the model learned by: of another mixture it could not know how often an item is liked.
    """
    model, split = audited.model, audited.split
    task = model.task if isinstance(model.task, Choices) else Choices(NEGATIVES, disliked=None)
    cases = audited.draw(held, most)
    everything = replace(split, train_ends=split.interactions.offsets[1:])
    unmet = Unseen(everything)
    users = torch.from_numpy(cases.users)
    some = (unmet.seen_counts[users] < unmet.item_count).nonzero()[:, 0].numpy()
    if not len(some):
        raise InputError("Every user has met every item; there is none to ask about besides.")
    cases, users = cases[some], users[some]
    generator = Randomness(audited.seed).torch("negatives")
    others = unmet.draw(users, max(1, task.negatives), generator)
    came = outcomes(split, task)[cases.ends]
    targets = torch.column_stack((torch.from_numpy(cases.targets), others))
    true = torch.full_like(targets, NOTHING)
    true[:, 0] = torch.from_numpy(came.astype(np.int64))
    device = device_of(model)
    batch = model.read(cases, audited.length)
    return Questions(cases, batch.to(device), targets.to(device), true.to(device))
