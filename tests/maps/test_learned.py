from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import torch

from conftest import lively_sasrec
from whence.contract import HasItemVectors
from whence.data import Interactions
from whence.data.catalog import Catalog
from whence.errors import CapabilityError, InputError
from whence.maps import map_items, map_users, pca
from whence.run import Run


class Users:
    """Knows four users and nothing else."""

    def user_vectors(self) -> torch.Tensor:
        return torch.tensor([[1.0, 0.0], [0.0, 2.0], [-1.0, 0.0], [0.0, 5.0]])


def test_items_with_their_titles_and_genres(run: Run, interactions: Interactions) -> None:
    found = map_items(run.first, run.catalog)
    assert found.names == tuple(interactions.catalog.labels(range(interactions.item_count)))
    assert isinstance(run.first, HasItemVectors)
    expected = pca(run.first.item_vectors())
    assert (found.points == expected.points).all()
    assert (found.method, found.kept) == ("PCA", expected.kept)
    assert found.groups.texts() == interactions.catalog.table["genres"].to_pylist()


@pytest.mark.needs("sklearn")
def test_the_same_by_neighbours(run: Run) -> None:
    found = map_items(run.first, run.catalog, by="t-sne")
    assert found.method == "t-SNE"
    assert found.points.shape == (len(run.catalog), 2)


def test_users_with_their_ages() -> None:
    table = pa.table({"user": ["ann", "bob", "eve", "joe"], "age": [17, 56, None, 30]})
    found = map_users(Users(), table)
    assert found.names == ("user ann", "user bob", "user eve", "user joe")
    assert found.groups.texts() == ["under 18", "56 and over", "", "25–34"]
    assert (map_users(Users(), table.select(["user"])).points == found.points).all()


def test_without_groups_there_is_still_a_map() -> None:
    found = map_items(lively_sasrec(items=3), Catalog(pa.table({"item": [7, 8, 9]})))
    assert found.names == ("item 7", "item 8", "item 9")
    assert found.groups.texts() == ["", "", ""]
    assert np.isfinite(found.points).all()


def test_what_cannot_be_drawn_is_said() -> None:
    with pytest.raises(CapabilityError, match="Users has no 'item_vectors', which a map of items"):
        map_items(Users(), Catalog(pa.table({"item": [1]})))
    with pytest.raises(CapabilityError, match="SASRec has no 'user_vectors', which a map of users"):
        map_users(lively_sasrec(), pa.table({"user": [1]}))
    with pytest.raises(InputError, match="The model has 4 vectors, and the data 2 names"):
        map_users(Users(), pa.table({"user": [1, 2]}))
    with pytest.raises(InputError, match="by cannot be 'umap'"):
        map_users(Users(), pa.table({"user": [1, 2, 3, 4]}), by="umap")  # type: ignore[arg-type]
