"""Attention between genres, against plain loops and examples worked by hand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch import Tensor

from conftest import LIVELY, lively_sasrec
from whence.arrays import Floats
from whence.data import Split
from whence.data.catalog import Catalog
from whence.errors import InputError
from whence.models import Recommender
from whence.models.blocks import Block
from whence.models.sasrec import SASRec
from whence.run import Run
from whence_studies.measurements.genre_attention import (
    BLOCKS,
    BY_KEY,
    BY_KEY_SHUFFLED,
    BY_QUERY,
    GENRES,
    MEASUREMENT,
    OWN,
    OWN_SHUFFLED,
    GenreOptions,
    attention_between,
    draw_sequences,
    film_logits,
    films_by_genre,
    genres,
)
from whence_studies.measurements.measurement import MeasuredRun

ITEMS = 40
OF_ITEM = np.arange(ITEMS) % 5
"""The genre of every film by its place in `GENRES`; 4 is none of them."""


def catalog(genre_of: list[str | None]) -> Catalog:
    ids = list(range(len(genre_of)))
    return Catalog(pa.table({"item": ids, "genres": pa.array(genre_of, pa.string())}))


FILMS = catalog([(*GENRES, "Drama")[genre] for genre in OF_ITEM])


def made(query: Tensor, key: Tensor, items: Tensor) -> SASRec:
    """One block and head whose Q, K and item embeddings are these."""
    model = lively_sasrec(blocks=1, heads=1, items=ITEMS)
    block = model.blocks[0]
    assert isinstance(block, Block)
    with torch.no_grad():
        block.query.weight.copy_(query)
        block.key.weight.copy_(key)
        model.item[1:] = items
    return model


def measured(split: Split, *models: Recommender, how: GenreOptions) -> dict[str, tuple[float, ...]]:
    run = Run("sasrec", {}, {}, {}, FILMS, dict(enumerate(models)), metrics={})
    asked = MeasuredRun(run, split, "validation", False)
    return {column: found.per_seed for column, found in genres(asked, how).items()}


def slow_attention(model: SASRec, queries: list[list[int]], keys: list[list[int]]) -> Floats:
    """From item to item, pair after pair."""
    block = model.blocks[0]
    assert isinstance(block, Block)
    item, q, k = (
        one.detach().numpy() for one in (model.item, block.query.weight, block.key.weight)
    )
    width = item.shape[1] // block.heads
    total, each = np.zeros((4, 4)), len(queries[0]) // 4
    for query_films, key_films in zip(queries, keys, strict=True):
        for head in range(block.heads):
            own = slice(head * width, (head + 1) * width)
            for place, film in enumerate(query_films):
                asks = (q @ item[film + 1])[own]
                logits = [asks @ (k @ item[other + 1])[own] / width**0.5 for other in key_films]
                weights = np.exp(logits) / np.exp(logits).sum()
                for other_place, weight in enumerate(weights):
                    total[place // each, other_place // each] += weight
    mean = total / (len(queries) * block.heads * each**2)
    return np.asarray(mean * len(queries[0]))


@pytest.mark.parametrize("heads", [1, 2])
def test_attention_equals_loops_over_pairs_and_films(
    heads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = lively_sasrec(blocks=2, heads=heads, items=ITEMS)
    by_genre = films_by_genre(FILMS, 3)
    films = np.concatenate(by_genre)
    rng = np.random.default_rng(0)
    queries, keys = (draw_sequences(rng, [8] * 4, GenreOptions(5, films=3)) for _ in range(2))
    found = attention_between(film_logits(model, films), queries, keys)
    expected = slow_attention(model, films[queries].tolist(), films[keys].tolist())
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    assert np.ptp(expected) > 0.1
    monkeypatch.setattr("whence.memory.SCORES_AT_ONCE", 1)
    one_by_one = attention_between(film_logits(model, films), queries, keys)
    np.testing.assert_allclose(one_by_one, expected, rtol=1e-10)


def test_a_diagonal_by_hand(split: Split) -> None:
    """Films of one genre attend to each other by eᵃ, and to others by 1."""
    one_hot = torch.eye(8)[torch.from_numpy(OF_ITEM)]
    model = made(2 * torch.eye(8), torch.eye(8), one_hot)
    found = measured(split, model, model, how=GenreOptions(20, films=4))
    size = np.exp(2 / 8**0.5)
    own, other = 4 * size / (size + 3), 4 / (size + 3)
    for (query, key), column in BLOCKS.items():
        assert found[column] == pytest.approx([own if query == key else other] * 2)
    assert found[OWN] == pytest.approx([own - other] * 2)
    assert found[BY_KEY] == pytest.approx([0, 0], abs=1e-12)
    assert found[BY_QUERY] == pytest.approx([(own - other) * 3**0.5 / 4] * 2)
    shuffled = found[OWN_SHUFFLED]
    assert max(map(abs, shuffled)) < 0.5 * (own - other)
    assert shuffled[0] != shuffled[1], "every seed has a shuffle of its own"


def test_stripes_by_hand(split: Split) -> None:
    """What a film gets is decided by its genre alone: 4cᵏ/Σc."""
    strength = torch.tensor([0.0, 1.0, 2.0, 3.0, 9.0])
    items = torch.zeros(ITEMS, 8)
    items[:, 0], items[:, 1] = 8**0.5, strength[torch.from_numpy(OF_ITEM)]
    picks_second = torch.zeros(8, 8)
    picks_second[0, 1] = 1
    found = measured(split, made(torch.eye(8), picks_second, items), how=GenreOptions(20, films=4))
    gets = 4 * np.exp(range(4)) / np.exp(range(4)).sum()
    for (_, key), column in BLOCKS.items():
        assert found[column] == pytest.approx([gets[GENRES.index(key)]])
    assert found[BY_KEY] == pytest.approx([gets.std()])
    assert found[BY_QUERY] == pytest.approx([0], abs=1e-12)
    assert found[OWN] == pytest.approx([0], abs=1e-12)
    assert 0 < found[BY_KEY_SHUFFLED][0] < 0.5 * found[BY_KEY][0]


def test_the_columns_are_those_declared_and_the_spreads_add_up(split: Split) -> None:
    models = [lively_sasrec(blocks=1, items=ITEMS, seed=seed) for seed in range(3)]
    how = GenreOptions(30, films=5)
    found = measured(split, *models, how=how)
    assert sorted(found) == sorted(MEASUREMENT.all_columns)
    blocks = np.array([found[column] for column in BLOCKS.values()]).T.reshape(3, 4, 4)
    np.testing.assert_allclose(blocks.mean(axis=2), 1)
    squares = np.square(found[BY_KEY]) + np.square(found[BY_QUERY])
    np.testing.assert_allclose(squares, blocks.var(axis=(1, 2)))
    assert measured(split, *models, how=how) == found


def test_sequences_have_each_film_once_and_are_uniform() -> None:
    drawn = draw_sequences(np.random.default_rng(0), [6, 9, 4, 5], GenreOptions(3_000, films=4))
    assert drawn.shape == (3_000, 16)
    assert (np.diff(np.sort(drawn, axis=1), axis=1) > 0).all()
    for block, (start, size) in enumerate([(0, 6), (6, 9), (15, 4), (19, 5)]):
        films, counts = np.unique(drawn[:, 4 * block : 4 * block + 4], return_counts=True)
        assert films.tolist() == list(range(start, start + size))
        share = 4 / size
        error = (3_000 * share * (1 - share)) ** 0.5
        np.testing.assert_allclose(counts, 3_000 * share, atol=4 * error + 1e-9)


def test_the_draw_is_the_same_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = draw_sequences(np.random.default_rng(0), [6, 9, 4, 5], GenreOptions(7, films=4))
    monkeypatch.setattr("whence.memory.SCORES_AT_ONCE", 12)
    pieces = draw_sequences(np.random.default_rng(0), [6, 9, 4, 5], GenreOptions(7, films=4))
    assert (whole == pieces).all()


def test_films_with_several_genres_are_omitted() -> None:
    texts = ["Sci-Fi|Horror", "Drama|Sci-Fi", None, "Romance", "Animation|Children's", "Horror"]
    found = films_by_genre(catalog(texts), 1)
    assert [films.tolist() for films in found] == [[1], [3], [4], [5]]
    with pytest.raises(InputError, match="1 films have Sci-Fi and no other genre of .* needs 2"):
        films_by_genre(catalog(texts), 2)
    with pytest.raises(InputError, match="These data have no genres"):
        films_by_genre(Catalog(pa.table({"item": [1]})), 1)


def test_impossible_measurements_raise() -> None:
    with pytest.raises(InputError, match="pairs and films must be at least 1"):
        GenreOptions(0)
    with pytest.raises(InputError, match="first block of a transformer, which GMF does not"):
        film_logits(LIVELY["gmf"](), np.arange(3))
