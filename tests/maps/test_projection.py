from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from whence.errors import InputError
from whence.maps import nearest, pca, tsne


def cloud(count: int = 60, width: int = 5, seed: int = 0) -> torch.Tensor:
    """Longer in some directions than in others, and not around 0."""
    generator = torch.Generator().manual_seed(seed)
    stretched = torch.randn(count, width, generator=generator, dtype=torch.float64)
    turn = torch.linalg.qr(torch.randn(width, width, generator=generator).double()).Q
    found: torch.Tensor = stretched * torch.arange(width, 0, -1) @ turn + 3
    return found


def blobs() -> torch.Tensor:
    """Three groups of 20, far apart."""
    generator = torch.Generator().manual_seed(0)
    middles = 20 * torch.eye(6)[torch.arange(60) // 20]
    return middles + torch.randn(60, 6, generator=generator)


def test_pca_is_what_the_covariance_says() -> None:
    """Along the two largest eigenvectors, by a plain loop over the points."""
    vectors = cloud().numpy()
    values, axes = np.linalg.eigh(np.cov(vectors.T))
    found = pca(torch.from_numpy(vectors))
    for place in range(2):
        axis = axes[:, -1 - place]
        axis = axis * np.sign(axis[np.abs(axis).argmax()])
        expected = [float((one - vectors.mean(axis=0)) @ axis) for one in vectors]
        np.testing.assert_allclose(found.points[:, place], expected, atol=1e-9)
    assert found.kept == pytest.approx(values[-2:].sum() / values.sum())
    assert found.method == "PCA"


@pytest.mark.needs("sklearn")
def test_pca_is_that_of_scikit_learn_but_for_the_side() -> None:
    from sklearn.decomposition import PCA

    other = PCA(2, svd_solver="full").fit(cloud().numpy())
    theirs = other.transform(cloud().numpy())
    found = pca(cloud())
    np.testing.assert_allclose(np.abs(found.points), np.abs(theirs), atol=1e-9)
    assert found.kept == pytest.approx(other.explained_variance_ratio_.sum())


@given(order=st.permutations(range(12)), shift=st.floats(-5, 5), scale=st.floats(0.1, 9))
def test_pca_follows_its_vectors(order: list[int], shift: float, scale: float) -> None:
    vectors = cloud(12)
    before = pca(vectors).points
    np.testing.assert_allclose(pca(vectors[order]).points, before[order], atol=1e-7)
    np.testing.assert_allclose(pca(vectors * scale + shift).points, scale * before, atol=1e-6)


def test_flat_vectors_lose_nothing_and_equal_ones_lie_in_one_point() -> None:
    flat = torch.zeros(30, 4)
    flat[:, [1, 3]] = cloud(30, 2).float()
    found = pca(flat)
    assert found.kept == pytest.approx(1)
    distances = torch.cdist(flat.double(), flat.double())
    points = torch.from_numpy(found.points)
    torch.testing.assert_close(torch.cdist(points, points), distances, atol=1e-5, rtol=1e-5)
    same = pca(torch.ones(3, 4))
    assert (same.points == 0).all()
    assert same.kept == 1


@pytest.mark.needs("sklearn")
def test_tsne_keeps_neighbours_together_and_is_the_same_again() -> None:
    found = tsne(blobs(), perplexity=10)
    assert found.points.shape == (60, 2)
    assert found.kept is None
    near = nearest(torch.from_numpy(found.points), 5).numbers
    assert (near // 20 == np.arange(60)[:, None] // 20).all()
    assert tsne(blobs(), perplexity=10).points.tobytes() == found.points.tobytes()
    with pytest.raises(InputError, match="from 1 to below the 60 vectors, not 60"):
        tsne(blobs(), perplexity=60)


def test_without_scikit_learn_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.manifold", None)
    with pytest.raises(InputError, match=r"t-SNE comes with .* pip install 'whence\[maps\]'"):
        tsne(blobs())


@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (4,), (2, 2, 2)])
def test_what_has_no_plane_is_said(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="two vectors of two dimensions or more, not"):
        pca(torch.zeros(shape))


def test_what_is_no_number_is_said() -> None:
    with pytest.raises(InputError, match="finite"):
        pca(torch.tensor([[1.0, 2.0], [torch.nan, 0.0]]))
