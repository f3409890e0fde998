"""One number for some pairs of items: a sparse matrix as buffers, which a run folder can hold."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from torch import Tensor, nn

from whence.contract import PAD
from whence.errors import InputError
from whence.memory import SCORES_AT_ONCE, SCORES_AT_ONCE_ON_GPU


class ItemPairs(nn.Module):
    """The rows of an item × item matrix one after another, each in the order of its columns (CSR).

    The row is an item of the history, the column is a target.
    """

    indptr: Tensor
    """`[items + 1]`: where each row begins, and where the last one ends."""
    indices: Tensor
    """`[pairs]`: the column of each number."""
    values: Tensor

    def __init__(self, item_count: int, pairs: int) -> None:
        super().__init__()
        self.item_count = item_count
        self.register_buffer("indptr", torch.zeros(item_count + 1, dtype=torch.int64))
        self.register_buffer("indices", torch.zeros(pairs, dtype=torch.int32))
        self.register_buffer("values", torch.zeros(pairs))
        self.register_load_state_dict_post_hook(lambda module, _: module.check())  # type: ignore[no-untyped-call]

    def __len__(self) -> int:
        """Return the number of stored pairs."""
        return len(self.values)

    def fill(self, matrix: sparse.csr_array) -> None:
        """Store a matrix instead of the present one, without its zeros."""
        matrix.sum_duplicates()  # which also sorts the columns of each row
        matrix.eliminate_zeros()
        device = self.indptr.device
        self.indptr = torch.from_numpy(matrix.indptr.astype(np.int64)).to(device)
        self.indices = torch.from_numpy(matrix.indices.astype(np.int32)).to(device)
        self.values = torch.from_numpy(matrix.data.astype(np.float32)).to(device)

    def check(self) -> None:
        """Raise `InputError` unless the buffers are a matrix: a stranger may have written them."""
        if self.indptr.is_meta:
            return
        sizes, columns = self.indptr.diff(), self.indices.long()
        whole = int(self.indptr[0]) == 0 and int(self.indptr[-1]) == len(self)
        if whole and bool((sizes >= 0).all()):
            row = torch.arange(self.item_count, device=sizes.device).repeat_interleave(sizes)
            inside = bool(((columns >= 0) & (columns < self.item_count)).all())
            if inside and bool(((row * self.item_count + columns).diff() > 0).all()):
                return
        raise InputError("the weights 'indptr' and 'indices' do not describe pairs of items")

    def at(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Return the numbers of these pairs, whose shapes broadcast; 0 for pairs not stored.

        A row may be `PAD`, which has no pairs.
        """
        rows, columns = torch.broadcast_tensors(rows, columns)
        known = rows != PAD
        row = rows.where(known, 0)
        start, end = self.indptr[row], self.indptr[row + 1]
        if not len(self):
            return self.values.new_zeros(rows.shape)
        low, high = start, end
        for _ in range(self.item_count.bit_length()):  # halves the longest possible row to nothing
            middle = (low + high) // 2
            before = (self.indices[middle.clamp(max=len(self) - 1)] < columns) & (middle < high)
            low, high = middle.add(1).where(before, low), high.where(before, middle)
        place = low.clamp(max=len(self) - 1)
        found = known & (low < end) & (self.indices[place] == columns)
        return self.values[place] * found

    def sum_rows(self, items: Tensor, weights: Tensor) -> Tensor:
        """Return `[B, items]`: the weighted sums of the rows of the items `[B, n]`.

        An item may be `PAD`, which has no pairs. Memory is that of the result and one slice.
        """
        known = (items != PAD) & (weights != 0)
        row = items.where(known, 0)
        sizes = (self.indptr[row + 1] - self.indptr[row]) * known
        total = self.values.new_zeros(len(items), self.item_count)
        for cases in self._slices(sizes.sum(dim=1)):
            self._add_rows(total[cases], row[cases], sizes[cases], weights[cases])
        return total

    def _slices(self, pairs: Tensor) -> Iterator[slice]:
        """Yield slices of cases that have a bounded number of pairs, or are one case."""
        most = SCORES_AT_ONCE_ON_GPU if pairs.is_cuda else SCORES_AT_ONCE
        ends = pairs.cumsum(0).cpu()
        start = 0
        while start < len(ends):
            done = int(ends[start - 1]) if start else 0
            end = max(start + 1, int(torch.searchsorted(ends, done + most, right=True)))
            yield slice(start, end)
            start = end

    def _add_rows(self, total: Tensor, row: Tensor, sizes: Tensor, weights: Tensor) -> None:
        """Add the rows `[b, n]` of some cases to their sums `[b, items]`."""
        flat = sizes.flatten()
        part = torch.arange(len(flat), device=flat.device).repeat_interleave(flat)
        # The k-th pair of a part is the k-th of its row.
        shift = self.indptr[row.flatten()] - (flat.cumsum(0) - flat)
        place = torch.arange(len(part), device=part.device) + shift[part]
        case = part // max(1, sizes.shape[1])
        value = self.values[place] * weights.flatten()[part]
        cell = case * self.item_count + self.indices[place]
        # Not `index_add_`: this one gives the same bits each time, also on a GPU.
        total.view(-1).index_put_((cell,), value, accumulate=True)


def chosen_once(
    users: npt.NDArray[np.integer[Any]],
    items: npt.NDArray[np.integer[Any]],
    shape: tuple[int, int],
) -> sparse.csr_array:
    """Return a matrix `[users, items]` with 1 at every pair, however often it occurs."""
    found = sparse.csr_array((np.ones(len(users), np.float32), (users, items)), shape=shape)
    found.data[:] = 1
    return found


def row_products(columns: sparse.csr_array) -> Iterator[tuple[int, sparse.csr_array]]:
    """Yield the rows of `columnsᵀ · columns` in slices, each with the number of its first row.

    A slice has as many rows as are sure to fit into memory.
    """
    turned = sparse.csr_array(columns.T)
    most = np.cumsum((turned != 0) @ np.diff(columns.indptr).astype(np.int64))
    limits = np.arange(SCORES_AT_ONCE, most[-1] if len(most) else 0, SCORES_AT_ONCE)
    cuts = np.unique([0, *np.searchsorted(most, limits), turned.shape[0]])
    for first, end in pairwise(cuts):
        yield int(first), sparse.csr_array(turned[first:end] @ columns)
