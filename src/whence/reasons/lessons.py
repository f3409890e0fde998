"""What a calibrator learns from: recommendations on a world, and the truth about their reasons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from whence.arrays import Ints
from whence.contract import HasItemVectors
from whence.data.histories import Cases
from whence.devices import device_of
from whence.files import new_file, save_weights
from whence.memory import row_slices
from whence.models import Recommender
from whence.models.ensemble import Ensemble, Member
from whence.ranking import top_unseen
from whence.reasons.calibrator import Examples
from whence.reasons.features import Features, features_of
from whence.reasons.figures import Figures, find_figures
from whence.reasons.groups import ItemGroups, neighbourhoods
from whence.reasons.shown import LONGER, USERS_AT_ONCE, Shown
from whence.reasons.singles import SingleItems
from whence.worlds.causal import CausalWorld
from whence.worlds.mechanism import Posterior
from whence.worlds.world_config import GENRES


class Truth(NamedTuple):
    """The true probabilities of all reasons, whether or not a calibrator can name them."""

    named: Tensor
    """`[U, k, c + p + 4]`: items, pairs, taste, popularity, other pairs and noise; sums to 1."""
    kinds: Ints
    """`[c + p + 4]`: the kind of each; noise comes after the four kinds."""


@dataclass(frozen=True, eq=False)
class Lesson:
    """What models recommend on a world, what they show of it, and the truth."""

    figures: Figures
    targets: Tensor
    """`[U, k]`"""
    truth: Posterior
    """Of `U · k` cases."""

    @cached_property
    def features(self) -> Features:
        """Return the evidence."""
        return features_of(self.figures, self.targets)

    def examples(self) -> Examples:
        """Return what a calibrator learns from."""
        found = self.truth_of_reasons().named
        none = found[..., -2:].sum(dim=-1, keepdim=True)
        return Examples(self.features, torch.cat((found[..., :-2], none), dim=-1))

    def truth_of_reasons(self) -> Truth:
        """Return the probability of every reason.

        A pair that is not among the candidates is an other one.
        """
        shape = self.features.known_items.shape

        def tensor(values: np.ndarray) -> Tensor:
            return torch.from_numpy(values).to(self.targets.device).float()

        def of_cases(values: np.ndarray) -> Tensor:
            return tensor(values).view(*shape[:2], 1)

        truth = self.truth
        items = tensor(truth.item).view(shape) * self.features.known_items
        slots = torch.from_numpy(truth.pair_slots).to(self.targets.device).view(*shape[:2], 1, 2)
        same = (self.figures.pairs == slots.sort(dim=-1).values).all(dim=-1)
        pair = of_cases(truth.pair)
        sets = pair * (same & self.features.known_sets)
        named = (items, sets, of_cases(truth.taste), of_cases(truth.popularity))
        other = pair - sets.sum(dim=-1, keepdim=True)
        known = torch.cat((*named, other.clamp(min=0)), dim=-1)
        noise = (1 - known.sum(dim=-1, keepdim=True)).clamp(min=0)
        found = torch.cat((known, noise), dim=-1)
        kinds = [0] * items.shape[2] + [1] * sets.shape[2] + [2, 3, 1, 4]
        return Truth(found, np.array(kinds))

    def of_models(self, chosen: Sequence[int]) -> Lesson:
        """Return the lesson as if only some of the models had been asked."""
        return replace(self, figures=self.figures.of_models(chosen))

    def save(self, path: Path) -> None:
        """Write it as safetensors, completely or not at all."""
        tensors = {
            f"figures.{one.name}": getattr(self.figures, one.name) for one in fields(Figures)
        }
        tensors |= {
            f"truth.{one.name}": torch.from_numpy(getattr(self.truth, one.name))
            for one in fields(Posterior)
        }
        with new_file(path) as partial:
            save_weights(partial, {**tensors, "targets": self.targets})

    @classmethod
    def load(cls, path: Path, device: str = "cpu") -> Lesson:
        """Return the lesson that `save` wrote, on a device."""
        tensors = load_file(path, device=device)
        return cls(
            Figures(**{one.name: tensors[f"figures.{one.name}"] for one in fields(Figures)}),
            tensors["targets"],
            Posterior(
                **{
                    one.name: tensors[f"truth.{one.name}"].cpu().numpy()
                    for one in fields(Posterior)
                }
            ),
        )


def lesson_on(
    world: CausalWorld,
    models: Sequence[Recommender],
    *,
    users: int = 300,
    k: int = 10,
    seed: int = 0,
    attributes: bool = True,
) -> Lesson:
    """Return what the models recommend together to some users, with the truth.

    Without attributes, tastes are for the neighbourhoods of the first model.
    """
    cases = world.last_cases(users, seed)
    slots = models[0].config.max_len
    whole = Ensemble([Member(one, 1 / len(models)) for one in models])
    items, _ = top_unseen(whole, cases, slots, k)
    groups = groups_of_world(world) if attributes else neighbourhoods_of(models[0], world)
    figures = figures_on(world, models, cases, items, groups)
    asked = cases[np.repeat(np.arange(len(cases)), k)]
    truth = world.truth(asked, items.reshape(-1), slots)
    return Lesson(figures, torch.from_numpy(items).to(figures.full.device), truth)


def figures_on(
    world: CausalWorld,
    models: Sequence[Recommender],
    cases: Cases,
    items: Ints,
    groups: ItemGroups,
) -> Figures:
    """Return the figures of items `[U, k]`."""
    device, slots = device_of(models[0]), models[0].config.max_len
    histories = torch.from_numpy(cases.histories(LONGER * slots)).to(device)
    longest = max(1, int((cases.ends - cases.starts).max(initial=1)))
    seen = torch.from_numpy(cases.histories(longest)).to(device)
    targets = torch.from_numpy(items).to(device)
    groups = groups.to(device)
    singles = [SingleItems.of(one, world.config.items) for one in models]
    shown = Shown(models, histories, targets, seen, slots)
    found = [
        find_figures(shown[rows], singles, groups)
        for rows in row_slices(len(cases), USERS_AT_ONCE[device.type])
    ]
    return Figures.joined(found)


def groups_of_world(world: CausalWorld) -> ItemGroups:
    """Return the genres, departments or styles of a world: what is known of its groups."""
    group = world.mechanism.group % len(GENRES)
    return ItemGroups.of(np.arange(group.max() + 1)[:, None] == group, _events(world))


def neighbourhoods_of(model: Recommender, world: CausalWorld) -> ItemGroups:
    """Return the groups that a model has for itself."""
    assert isinstance(model, HasItemVectors)
    return neighbourhoods(model.item_vectors(), _events(world))


def _events(world: CausalWorld) -> Ints:
    """Return the number of events of each item."""
    return np.bincount(world.interactions.items, minlength=world.config.items)
