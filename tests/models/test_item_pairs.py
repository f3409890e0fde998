"""Sparse matrices as buffers, compared with dense ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from scipy import sparse

from whence.contract import PAD
from whence.errors import InputError
from whence.models import item_pairs
from whence.models.item_pairs import ItemPairs

COUNT = 7


def pairs_of(dense: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> ItemPairs:
    found = ItemPairs(len(dense), 0)
    found.fill(sparse.csr_array(dense))
    return found


def some_matrix(seed: int) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    rng = np.random.default_rng(seed)
    dense = rng.normal(size=(COUNT, COUNT)).astype(np.float32)
    dense[rng.random((COUNT, COUNT)) < rng.random()] = 0
    return dense


@given(
    seed=st.integers(0, 50),
    items=st.lists(st.lists(st.integers(PAD, COUNT - 1), min_size=3, max_size=3), max_size=4),
    at_once=st.sampled_from([1, 5, 1000]),
)
def test_look_ups_and_sums_are_those_of_the_dense_matrix(
    seed: int, items: list[list[int]], at_once: int
) -> None:
    """However many pairs are added at a time."""
    dense = some_matrix(seed)
    found, batch = pairs_of(dense), torch.tensor(items, dtype=torch.int64).view(-1, 3)
    weights = torch.tensor([0.5, 0.0, 2.0]).expand(batch.shape)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(item_pairs, "SCORES_AT_ONCE", at_once)
        sums = found.sum_rows(batch, weights)
    each = found.at(batch[:, :, None], torch.arange(COUNT))
    assert sums.shape == (len(items), COUNT)
    for case, row in enumerate(items):
        expected = np.zeros(COUNT)
        for slot, item in enumerate(row):
            own = dense[item] if item != PAD else np.zeros(COUNT)
            np.testing.assert_array_equal(each[case, slot].numpy(), own)
            expected += float(weights[case, slot]) * own
        np.testing.assert_allclose(sums[case].numpy(), expected, rtol=1e-5, atol=1e-6)


def test_nothing_stored_is_zero_everywhere() -> None:
    empty = ItemPairs(COUNT, 0)
    batch = torch.tensor([[PAD, 3]])
    assert (empty.sum_rows(batch, torch.ones(1, 2)) == 0).all()
    assert (empty.at(batch, torch.tensor([[2]])) == 0).all()


def test_it_saves_and_loads(tmp_path: Path) -> None:
    stored = pairs_of(some_matrix(1))
    save_file(stored.state_dict(), tmp_path / "pairs")
    again = ItemPairs(COUNT, len(stored))
    again.load_state_dict(load_file(tmp_path / "pairs"))
    for name, value in stored.state_dict().items():
        assert torch.equal(again.state_dict()[name], value)


@pytest.mark.parametrize(
    ("indptr", "indices"),
    [
        ([1, 2, 3], [0, 1, 0]),  # begins late
        ([0, 2, 4], [0, 1, 0]),  # ends late
        ([0, 4, 3], [0, 1, 0]),  # goes back
        ([0, 2, 3], [0, 2, 0]),  # no such item
        ([0, 2, 3], [0, -1, 0]),
        ([0, 2, 3], [1, 0, 0]),  # not in order
        ([0, 2, 3], [1, 1, 0]),  # twice
    ],
)
def test_buffers_that_are_no_matrix_are_refused(indptr: list[int], indices: list[int]) -> None:
    foreign = {
        "indptr": torch.tensor(indptr),
        "indices": torch.tensor(indices, dtype=torch.int32),
        "values": torch.ones(3),
    }
    with pytest.raises(InputError, match="do not describe pairs of items"):
        ItemPairs(2, 3).load_state_dict(foreign)
