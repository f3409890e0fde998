"""Projections of vectors to the plane: principal components and t-SNE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from torch import Tensor

from whence.arrays import Floats
from whence.errors import InputError

PLANE: Final = 2
PERPLEXITY: Final = 30.0
START: Final = 1e-4
"""The initial standard deviation of t-SNE, as its authors use it."""


@dataclass(frozen=True, eq=False)
class Projection:
    """Vectors as points of the plane."""

    points: Floats
    """`[N, 2]`."""
    method: str
    kept: float | None = None
    """The share of the variance that the map shows, if the method is linear."""


def pca(vectors: Tensor) -> Projection:
    """Return the plane in which the vectors `[N, d]` vary most (Pearson 1901).

    Each axis points in the direction in which its largest coordinate is positive.
    """
    centred = _checked(vectors)
    centred -= centred.mean(axis=0)
    _, sizes, axes = np.linalg.svd(centred, full_matrices=False)
    axes = axes[:PLANE]
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1)
    variance = sizes**2
    kept = float(variance[:PLANE].sum() / variance.sum()) if variance.any() else 1.0
    return Projection(centred @ (axes * np.sign(largest)).T, "PCA", kept)


def tsne(vectors: Tensor, perplexity: float = PERPLEXITY) -> Projection:
    """Return points that keep the neighbours of the vectors (van der Maaten & Hinton 2008).

    It starts from the principal components and uses no randomness. `perplexity` is roughly the
    number of neighbours that count. Distances between far groups mean little.
    """
    try:
        from sklearn.manifold import TSNE
    except ImportError:
        raise InputError(
            "t-SNE comes with the package scikit-learn, which is not installed. Run "
            "pip install 'whence[maps]', or use PCA."
        ) from None
    values = _checked(vectors)
    if not 1 <= perplexity < len(values):
        raise InputError(
            f"The perplexity must be from 1 to below the {len(values)} vectors, not {perplexity:g}."
        )
    start = pca(vectors).points
    start *= START / max(start[:, 0].std(), np.finfo(np.float64).tiny)
    found: Floats = TSNE(perplexity=perplexity, init=start).fit_transform(values)
    return Projection(found.astype(np.float64), "t-SNE")


def _checked(vectors: Tensor) -> Floats:
    """Return a copy in double precision, or raise if it has no plane."""
    values: Floats = vectors.detach().double().cpu().numpy().copy()
    if values.ndim != PLANE or min(values.shape) < PLANE:
        raise InputError(
            f"A map needs two vectors of two dimensions or more, not {list(values.shape)}."
        )
    if not np.isfinite(values).all():
        raise InputError("A map needs finite vectors; some numbers are infinite or NaN.")
    return values
