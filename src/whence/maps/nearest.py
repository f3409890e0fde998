"""Nearest neighbours by Euclidean distance."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from whence.arrays import Floats, Ints
from whence.errors import InputError
from whence.memory import cases_at_once, row_slices


@dataclass(frozen=True, eq=False)
class Nearest:
    """The neighbours of every vector, the nearest first; nobody is a neighbour of itself."""

    numbers: Ints
    """`[N, k]`."""
    distances: Floats
    """`[N, k]`."""


@torch.no_grad()
def nearest(vectors: Tensor, k: int) -> Nearest:
    """The k nearest of each vector of `[N, d]`, as many at a time as there is memory for."""
    places = _places(vectors, k)
    at_once = cases_at_once(len(places), on_gpu=places.is_cuda)
    found = [_of_some(places, rows, k) for rows in row_slices(len(places), at_once)]
    numbers, distances = (torch.cat(pieces).cpu().numpy() for pieces in zip(*found, strict=True))
    return Nearest(numbers, distances)


@torch.no_grad()
def nearest_to(vectors: Tensor, number: int, k: int) -> Ints:
    """`[k]`: those of one vector of `[N, d]` alone."""
    numbers, _ = _of_some(_places(vectors, k), slice(number, number + 1), k)
    found: Ints = numbers[0].cpu().numpy()
    return found


def _places(vectors: Tensor, k: int) -> Tensor:
    """Around their mean, so that distances are not lost in the size of the vectors."""
    if vectors.ndim != 2 or not 1 <= k < len(vectors):
        raise InputError(
            f"Vectors of {list(vectors.shape)} have no {k} neighbours each; ask for 1 or more, and "
            "fewer than there are vectors."
        )
    if not bool(vectors.isfinite().all()):
        raise InputError("Neighbours need vectors of finite numbers, which not all of these are.")
    return vectors.double() - vectors.double().mean(dim=0)


def _of_some(places: Tensor, rows: slice, k: int) -> tuple[Tensor, Tensor]:
    """Found by ‖y‖² − 2x·y, and then measured."""
    some = places[rows]
    order = torch.addmm(places.square().sum(dim=1), some, places.T, alpha=-2)
    order.diagonal(rows.start).fill_(torch.inf)
    # Those found that are equally near are in the order of their numbers.
    numbers = order.topk(k, largest=False).indices.sort(dim=1).values
    distances = (some[:, None] - places[numbers]).norm(dim=-1)
    distances, by_distance = distances.sort(dim=1, stable=True)
    return numbers.gather(1, by_distance), distances
