"""What a calibrator learns from: recommendations on a world, and the truth about their reasons."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from whence.arrays import Ints
from whence.data.histories import Cases
from whence.devices import device_of
from whence.memory import row_slices
from whence.models import Recommender
from whence.models.ensemble import Ensemble, Member
from whence.ranking import top_unseen
from whence.reasons.calibrator import Examples
from whence.reasons.features import Features, features_of
from whence.reasons.figures import Figures, find_figures
from whence.reasons.groups import ItemGroups
from whence.reasons.shown import LONGER, USERS_AT_ONCE, Shown
from whence.reasons.singles import SingleItems
from whence.worlds.causal import CausalWorld
from whence.worlds.mechanism import Posterior


def examples_of(
    world: CausalWorld,
    models: Sequence[Recommender],
    *,
    users: int = 300,
    k: int = 10,
    seed: int = 0,
) -> tuple[Examples, Ints]:
    """Return examples from what the models recommend together, and these items `[U, k]`."""
    cases = world.last_cases(users, seed)
    slots = models[0].config.max_len
    whole = Ensemble([Member(one, 1 / len(models)) for one in models])
    items, _ = top_unseen(whole, cases, slots, k)
    figures = figures_on(world, models, cases, items)
    targets = torch.from_numpy(items).to(figures.full.device)
    features = features_of(figures, targets)
    asked = cases[np.repeat(np.arange(len(cases)), k)]
    truth = world.truth(asked, items.reshape(-1), slots)
    return Examples(features, true_beliefs(truth, figures, features)), items


def figures_on(
    world: CausalWorld, models: Sequence[Recommender], cases: Cases, items: Ints
) -> Figures:
    """Return the figures of items `[U, k]`; the groups are those of the world."""
    device, slots = device_of(models[0]), models[0].config.max_len
    histories = torch.from_numpy(cases.histories(LONGER * slots)).to(device)
    longest = max(1, int((cases.ends - cases.starts).max(initial=1)))
    seen = torch.from_numpy(cases.histories(longest)).to(device)
    targets = torch.from_numpy(items).to(device)
    groups = groups_of_world(world).to(device)
    singles = [SingleItems.of(one, world.config.items) for one in models]
    shown = Shown(models, histories, targets, seen, slots)
    found = [
        find_figures(shown[rows], singles, groups)
        for rows in row_slices(len(cases), USERS_AT_ONCE[device.type])
    ]
    return Figures.joined(found)


def groups_of_world(world: CausalWorld) -> ItemGroups:
    """Return the genres, departments or styles of a world."""
    group = world.mechanism.group
    events = np.bincount(world.interactions.items, minlength=len(group))
    return ItemGroups.of(np.arange(group.max() + 1)[:, None] == group, events)


def true_beliefs(truth: Posterior, figures: Figures, features: Features) -> Tensor:
    """Return `[U, k, c + p + 3]`: the probability of every reason that a calibrator can name.

    A cause that it cannot name, such as a pair it does not look at, counts as none of them.
    """
    shape = features.known_items.shape
    device = features.known_items.device

    def tensor(values: np.ndarray) -> Tensor:
        return torch.from_numpy(values).to(device).float()

    items = tensor(truth.item).reshape(shape) * features.known_items
    slots = torch.from_numpy(truth.pair_slots).to(device).reshape(*shape[:2], 1, 2)
    ordered = slots.sort(dim=-1).values
    same = (figures.pairs == ordered).all(dim=-1) & features.known_sets
    sets = tensor(truth.pair).reshape(*shape[:2], 1) * same
    taste, popularity = (
        tensor(one).reshape(*shape[:2], 1) for one in (truth.taste, truth.popularity)
    )
    named = torch.cat((items, sets, taste, popularity), dim=-1)
    none = (1 - named.sum(dim=-1, keepdim=True)).clamp(min=0)
    return torch.cat((named, none), dim=-1)
