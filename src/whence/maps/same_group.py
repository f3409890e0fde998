"""Same group: are neighbours alike in what the model was never told?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor

from whence.errors import InputError
from whence.maps.groups import Groups
from whence.maps.nearest import nearest
from whence.measure import Measure, mean_measure

NEIGHBOURS: Final = 10


@dataclass(frozen=True)
class SameGroup:
    """How often neighbours have a group in common, and how often anybody has."""

    share: Measure
    """Of the k nearest, those that have a group in common."""
    chance: float
    """What the share is in the mean over all ways to deal the groups out anew."""
    excess: Measure
    """The share less what chance gives everybody with the same groups; 0 is chance."""
    by_group: Mapping[str, tuple[float, float]]
    """By group: of the neighbours of its members, the share that is in it too, and by chance."""


def same_group(vectors: Tensor, groups: Groups, k: int = NEIGHBOURS, seed: int = 0) -> SameGroup:
    """Of the k nearest of each vector `[N, d]`, by distance, the share of the same group.

    Those of no group are left out, also as neighbours. Chance is exact: anybody else is as likely
    a neighbour as another. Intervals are of a bootstrap over the vectors.
    """
    if len(vectors) != len(groups):
        raise InputError(f"{len(vectors)} vectors are not the {len(groups)} whose groups are told.")
    known = groups.known()
    member = groups.member[known]
    near = nearest(vectors[torch.from_numpy(known).to(vectors.device)], k).numbers
    kinds, kind, counts = np.unique(member, axis=0, return_inverse=True, return_counts=True)
    alike = kinds.astype(np.int64) @ kinds.T > 0
    share = alike[kind[:, None], kind[near]].mean(axis=1)
    others = len(member) - 1
    chance = ((alike @ counts - 1) / others)[kind]
    protocol = f"of the {k} nearest by Euclidean distance, the share with {groups.what} in common"
    sizes = member.sum(axis=0)
    return SameGroup(
        share=mean_measure(share, protocol, "neither", seed=seed),
        chance=float(chance.mean()),
        excess=mean_measure(share - chance, f"{protocol}, less chance", "neither", (-1, 1), seed),
        by_group={
            name: (float(member[near[member[:, place]], place].mean()), (size - 1) / others)
            for place, (name, size) in enumerate(zip(groups.names, sizes.tolist(), strict=True))
            if size
        },
    )
