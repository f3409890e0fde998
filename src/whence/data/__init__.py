"""Interactions: reading, filtering, splitting, and histories."""

from whence.data.catalog import Catalog
from whence.data.datasets import DATASETS, get
from whence.data.histories import Cases, histories
from whence.data.interactions import Interactions, Times
from whence.data.preparation import Preparation, prepare
from whence.data.readers.tabular import ReadOptions
from whence.data.sources import load
from whence.data.splits import (
    SPLITS,
    Split,
    last_one,
    last_two,
    split_by,
    temporal,
    user_holdout,
)
from whence.data.summary import statistics

__all__ = [
    "DATASETS",
    "SPLITS",
    "Cases",
    "Catalog",
    "Interactions",
    "Preparation",
    "ReadOptions",
    "Split",
    "Times",
    "get",
    "histories",
    "last_one",
    "last_two",
    "load",
    "prepare",
    "split_by",
    "statistics",
    "temporal",
    "user_holdout",
]
