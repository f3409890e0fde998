"""Interactions: read, prepared, split and cut into histories."""

from whence.data.catalog import Catalog
from whence.data.histories import Cases, histories
from whence.data.interactions import Interactions
from whence.data.negatives import Unseen
from whence.data.sources import Columns, load
from whence.data.splits import Split, leave_one_out
from whence.data.summary import statistics

__all__ = [
    "Cases",
    "Catalog",
    "Columns",
    "Interactions",
    "Split",
    "Unseen",
    "histories",
    "leave_one_out",
    "load",
    "statistics",
]
