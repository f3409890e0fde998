"""Interactions: read, prepared, split and cut into histories."""

from whence.data.catalog import Catalog
from whence.data.histories import Cases, histories
from whence.data.interactions import Interactions, Times
from whence.data.named import NAMED, get
from whence.data.preparation import Preparation, prepare
from whence.data.readers.reading import Reading
from whence.data.sources import load
from whence.data.splits import (
    SPLITS,
    Split,
    leave_last_out,
    leave_one_out,
    split_by,
    temporal,
    user_holdout,
)
from whence.data.summary import statistics

__all__ = [
    "NAMED",
    "SPLITS",
    "Cases",
    "Catalog",
    "Interactions",
    "Preparation",
    "Reading",
    "Split",
    "Times",
    "get",
    "histories",
    "leave_last_out",
    "leave_one_out",
    "load",
    "prepare",
    "split_by",
    "statistics",
    "temporal",
    "user_holdout",
]
