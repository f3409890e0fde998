"""Figure 4.8 (Baumhauer 2021): does attention reflect genres that the model never sees?

Random films of four genres attend to random films of the same four. The sequences of the figure
have 200 films, and the model has 50 positions. So films enter the first block without positions,
and every query sees every key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from whence.arrays import Floats, Ints
from whence.data.catalog import Catalog
from whence.devices import device_of
from whence.errors import InputError
from whence.memory import cases_at_once, row_slices
from whence.models import Recommender
from whence.models.blocks import Block
from whence.models.transformer import Transformer
from whence.progress import progress_bar
from whence.randomness import Randomness
from whence_studies.measurements.measurement import HeatMap, MeasuredRun, Measurement, SeedColumn

GENRES = ("Sci-Fi", "Romance", "Animation", "Horror")
BLOCKS = {(query, key): f"{query} to {key}" for query in GENRES for key in GENRES}
OWN, BY_KEY, BY_QUERY = (
    "own genre minus others",
    "sd over key genres",
    "sd over query genres",
)
OWN_SHUFFLED, BY_KEY_SHUFFLED = f"{OWN}, shuffled", f"{BY_KEY}, shuffled"


@dataclass(frozen=True)
class GenreOptions:
    """How many pairs of sequences, and how many films of each genre in a sequence."""

    pairs: int = 10_000
    films: int = 50

    def __post_init__(self) -> None:
        if min(self.pairs, self.films) < 1:
            raise InputError("pairs and films must be at least 1.")


def genres(subject: MeasuredRun, options: GenreOptions) -> dict[str, SeedColumn]:
    """Return the attention between genres and its pattern, also with shuffled genres."""
    by_genre = films_by_genre(subject.run.catalog, options.films)
    films = np.concatenate(by_genre)
    rng = Randomness(0).numpy("evaluation")
    sizes = [len(some) for some in by_genre]
    queries, keys = draw_sequences(rng, sizes, options), draw_sequences(rng, sizes, options)
    bar = progress_bar("genres", len(subject.run.models), subject.show_progress, transient=True)
    found: dict[str, list[float]] = {}
    for seed, model in bar.track(subject.run.models.items()):
        logits = film_logits(model, films)
        # Shuffling the films gives each the genre of another.
        other = torch.from_numpy(Randomness(seed).numpy("explain").permutation(len(films)))
        other = other.to(logits.device)
        blocks = attention_between(logits, queries, keys)
        shuffled = attention_between(logits[:, other[:, None], other], queries, keys)
        for column, value in _columns(blocks, shuffled).items():
            found.setdefault(column, []).append(value)
    words = _protocol(options)
    more = (
        "; sd over key genres: standard deviation of the means over query genres; sd over query "
        "genres: what remains around those means; shuffled: every film takes the genre of another, "
        "drawn for every seed"
    )
    return {
        column: SeedColumn(
            tuple(values),
            options.pairs,
            words if column in BLOCKS.values() else words + more,
            "neither",
        )
        for column, values in found.items()
    }


def films_by_genre(catalog: Catalog, fewest: int) -> list[Ints]:
    """Return the films of each genre; films with several of the four genres are omitted."""
    if "genres" not in catalog.table.column_names:
        raise InputError("These data have no genres. Add a column 'genres' to the items.")
    of_films = [(text or "").split("|") for text in catalog.table["genres"].to_pylist()]
    has = np.array([[genre in own for genre in GENRES] for own in of_films], dtype=bool)
    alone = has & (has.sum(axis=1, keepdims=True) == 1)
    found = [np.flatnonzero(column) for column in alone.T]
    for genre, films in zip(GENRES, found, strict=True):
        if len(films) < fewest:
            raise InputError(
                f"{len(films)} films have {genre} and no other genre of {', '.join(GENRES)}. A "
                f"sequence needs {fewest}: lower 'films'."
            )
    return found


def draw_sequences(rng: np.random.Generator, sizes: Sequence[int], options: GenreOptions) -> Ints:
    """Return `[pairs, 4 · films]`: films numbered by genre, each at most once in a sequence."""
    first = np.cumsum(sizes) - sizes
    blocks = [_some(rng, size, options) + start for size, start in zip(sizes, first, strict=True)]
    return np.concatenate(blocks, axis=1)


def _some(rng: np.random.Generator, size: int, options: GenreOptions) -> Ints:
    """Return `[pairs, films]`: distinct random numbers below `size`."""
    pieces = []
    for some in row_slices(options.pairs, cases_at_once(size)):
        keys = rng.random((len(range(options.pairs)[some]), size))
        pieces.append(np.argpartition(keys, options.films - 1, axis=1)[:, : options.films])
    return np.concatenate(pieces)


@torch.no_grad()
def film_logits(model: Recommender, films: Ints) -> Tensor:
    """Return `[h, f, f]`: the logits of the first block's attention between films."""
    if not isinstance(model, Transformer):
        raise InputError(
            "Attention between films needs the first block of a transformer, which "
            f"{type(model).__name__} does not have."
        )
    block = model.blocks[0]
    assert isinstance(block, Block)
    return block.logits(model.embed(torch.from_numpy(films).to(device_of(model))[None]))[0]


@torch.no_grad()
def attention_between(logits: Tensor, queries: Ints, keys: Ints) -> Floats:
    """Return `[4, 4]`: the mean attention from one genre to another; 1 if uniform.

    It is the mean over heads, pairs and films of the softmax over all keys of the pair.
    """
    slots, heads, count = queries.shape[1], len(logits), len(GENRES)
    total = torch.zeros(count, count, dtype=torch.float64, device=logits.device)
    at_once = cases_at_once(heads * slots**2, on_gpu=logits.is_cuda)
    for some in row_slices(len(queries), at_once):
        query, key = (torch.from_numpy(one[some]).to(logits.device) for one in (queries, keys))
        weights = logits[:, query[:, :, None], key[:, None, :]].softmax(dim=-1)
        blocks = weights.view(heads, len(query), count, slots // count, count, slots // count)
        total += blocks.sum(dim=(0, 1, 3, 5), dtype=torch.float64)
    a_block = heads * len(queries) * (slots // count) ** 2
    mean: Floats = (total * slots / a_block).cpu().numpy()
    return mean


def _columns(blocks: Floats, shuffled: Floats) -> dict[str, float]:
    pattern, control = _pattern(blocks), _pattern(shuffled)
    of_blocks = dict(zip(BLOCKS.values(), blocks.ravel().tolist(), strict=True))
    return {
        **of_blocks,
        **pattern,
        OWN_SHUFFLED: control[OWN],
        BY_KEY_SHUFFLED: control[BY_KEY],
    }


def _pattern(blocks: Floats) -> dict[str, float]:
    """Return the strength of a block diagonal, of stripes, and of the rest.

    The attention of a query sums to 1 whatever its genre. So blocks vary by the average of each
    key genre, and by how query genres deviate from it; the squares of both add up.
    """
    own = np.eye(len(blocks), dtype=bool)
    of_keys = blocks.mean(axis=0)
    return {
        OWN: float(blocks[own].mean() - blocks[~own].mean()),
        BY_KEY: float(of_keys.std()),
        BY_QUERY: float(np.sqrt(np.square(blocks - of_keys).mean())),
    }


def _protocol(options: GenreOptions) -> str:
    slots = options.films * len(GENRES)
    return (
        f"{options.pairs:,} pairs of random sequences of {slots} films, {options.films} each of "
        f"{', '.join(GENRES)}, without films that have several of these genres; the first block's "
        "attention from one sequence to the other, without positions or mask, as a multiple of "
        f"1/{slots}"
    )


MEASUREMENT = Measurement(
    (OWN, OWN_SHUFFLED, BY_KEY, BY_KEY_SHUFFLED, BY_QUERY),
    genres,
    options=GenreOptions,
    maps={
        "genres": HeatMap(
            title="Attention between genres",
            down="genre of the query",
            across="genre of the key",
            value="attention, 1 if uniform",
            cells=BLOCKS,
            middle=1.0,
        )
    },
)
