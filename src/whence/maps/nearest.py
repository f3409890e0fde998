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
    """The neighbours of every vector, nearest first; a vector is not its own neighbour."""

    numbers: Ints
    """`[N, k]`."""
    distances: Floats
    """`[N, k]`."""


@torch.no_grad()
def nearest(vectors: Tensor, k: int) -> Nearest:
    """Return the k nearest neighbours of each vector `[N, d]`, in slices that fit into memory."""
    places = _places(vectors, k)
    at_once = cases_at_once(len(places), on_gpu=places.is_cuda)
    found = [_find_nearest(places, rows, k) for rows in row_slices(len(places), at_once)]
    numbers, distances = (torch.cat(pieces).cpu().numpy() for pieces in zip(*found, strict=True))
    return Nearest(numbers, distances)


@torch.no_grad()
def nearest_to(vectors: Tensor, number: int, k: int) -> Ints:
    """Return `[k]`: the neighbours of one vector of `[N, d]`."""
    numbers, _ = _find_nearest(_places(vectors, k), slice(number, number + 1), k)
    found: Ints = numbers[0].cpu().numpy()
    return found


@torch.no_grad()
def nearest_to_some(vectors: Tensor, numbers: slice, k: int) -> Ints:
    """Return `[n, k]`: the neighbours of adjacent vectors of `[N, d]`, in slices that fit."""
    places = _places(vectors, k)
    at_once = cases_at_once(len(places), on_gpu=places.is_cuda)
    found = [
        _find_nearest(places, slice(start, min(start + at_once, numbers.stop)), k)[0]
        for start in range(numbers.start, numbers.stop, at_once)
    ]
    several: Ints = torch.cat(found).cpu().numpy()
    return several


def _places(vectors: Tensor, k: int) -> Tensor:
    """Return the vectors minus their mean, so that large vectors do not lose precision."""
    if vectors.ndim != 2 or not 1 <= k < len(vectors):
        raise InputError(
            f"Vectors of shape {list(vectors.shape)} have no {k} neighbours each. Choose at least 1"
            " and fewer than there are vectors."
        )
    if not bool(vectors.isfinite().all()):
        raise InputError("Neighbours need finite vectors; some numbers are infinite or NaN.")
    return vectors.double() - vectors.double().mean(dim=0)


def _find_nearest(places: Tensor, rows: slice, k: int) -> tuple[Tensor, Tensor]:
    """Find neighbours by ‖y‖² − 2x·y, then compute their distances."""
    some = places[rows]
    order = torch.addmm(places.square().sum(dim=1), some, places.T, alpha=-2)
    order.diagonal(rows.start).fill_(torch.inf)
    # Equally near neighbours keep the order of their numbers.
    numbers = order.topk(k, largest=False).indices.sort(dim=1).values
    distances = (some[:, None] - places[numbers]).norm(dim=-1)
    distances, by_distance = distances.sort(dim=1, stable=True)
    return numbers.gather(1, by_distance), distances
