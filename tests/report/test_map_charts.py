from __future__ import annotations

from dataclasses import replace
from typing import Any

import altair as alt
import numpy as np
import pytest
import torch

from conftest import lively_sasrec, ragged_batch
from whence.errors import InputError
from whence.explainers import explain_batch
from whence.explanation import Explanation, Labels
from whence.maps import Groups, LearnedMap
from whence.maps.learned_map import OTHERS, SEVERAL
from whence.report.charts import to_png
from whence.report.map_charts import (
    learned_chart,
    rating_chart,
    reason_chart,
    signed_shares,
)

GENRES = Groups(
    "genre",
    ("Action", "Children's", "Horror"),
    np.array([[0, 0, 1], [1, 0, 1], [0, 1, 0], [0, 0, 0], [0, 1, 1]], dtype=bool),
)
FILMS = LearnedMap(
    np.arange(10.0).reshape(5, 2), ("Alien", "Jaws", "Bambi", "Heat", "It"), GENRES, "PCA", 0.61
)


def rows_of(chart: alt.Chart | alt.LayerChart) -> list[dict[str, Any]]:
    (rows,) = chart.to_dict()["datasets"].values()
    return list(rows)


def test_every_film_is_drawn_where_it_is_once() -> None:
    chart = learned_chart(FILMS, ["Horror", "Children's"])
    drawn = {row["name"]: row for row in rows_of(chart)}
    assert [drawn[name]["of"] for name in FILMS.names] == [
        "Horror",
        "Horror",
        "Children's",
        OTHERS,
        SEVERAL,
    ]
    assert [(drawn[name]["x"], drawn[name]["y"]) for name in FILMS.names] == [
        tuple(point) for point in FILMS.points.tolist()
    ]
    assert drawn["Jaws"]["groups"] == "Action, Horror"
    assert rows_of(chart)[0]["of"] == OTHERS, "others lie below"
    document = chart.to_dict()
    assert document["title"]["text"] == "PCA, 61 % of the variance"
    assert document["encoding"]["color"]["scale"]["domain"] == [
        "Horror",
        "Children's",
        SEVERAL,
        OTHERS,
    ]
    assert to_png(chart).startswith(b"\x89PNG")


def test_a_map_without_groups_is_grey() -> None:
    bare = replace(FILMS, groups=Groups("age", (), np.zeros((5, 0), dtype=bool)), kept=None)
    assert {row["of"] for row in rows_of(learned_chart(bare))} == {OTHERS}
    with pytest.raises(InputError, match="There is no genre 'Horor': did you mean 'Horror'"):
        learned_chart(FILMS, ["Horor"])
    many = tuple(map(str, range(9)))
    crowd = replace(FILMS, groups=Groups("genre", many, np.zeros((5, 9), dtype=bool)))
    assert len(rows_of(learned_chart(crowd))) == 5
    with pytest.raises(InputError, match="at most 7 groups in colour, not 9"):
        learned_chart(crowd, many)


@pytest.fixture
def read() -> Explanation:
    """One history of eight slots, two of them padding, for three targets."""
    batch = ragged_batch(1, 8, 30).repeat(3, 1)
    batch[:, :2] = -1
    titles = tuple("" if item < 0 else f"film {item}" for item in batch[0].tolist())
    labels = Labels((titles,) * 3, ("Toy Story", "Heat", "Heat"))
    targets = torch.tensor([3, 9, 9])
    return explain_batch(lively_sasrec(), batch, targets, "leave-one-out", labels=labels)


def test_the_strongest_items_are_shown_in_their_order(read: Explanation) -> None:
    chart = reason_chart(read, shown=4)
    rows = rows_of(chart)
    assert len(rows) == 12
    shares = read.scores / np.abs(read.scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(signed_shares(read), shares)
    strongest = sorted(np.argsort(-np.abs(shares).max(axis=0))[:4].tolist())
    assert read.labels is not None
    items = [f"{place}. {read.labels.parts[0][slot]}" for place, slot in enumerate(strongest, 1)]
    assert list(dict.fromkeys(row["item"] for row in rows)) == items
    assert [row["share"] for row in rows[:4]] == pytest.approx(shares[0, strongest].tolist())
    assert list(dict.fromkeys(row["target"] for row in rows)) == [
        "1. Toy Story",
        "2. Heat",
        "3. Heat",
    ]
    assert to_png(chart).startswith(b"\x89PNG")


def test_padding_is_never_shown(read: Explanation) -> None:
    assert len(rows_of(reason_chart(read))) == 3 * 6
    silent = replace(read, scores=np.zeros((3, 8)))
    assert {row["share"] for row in rows_of(reason_chart(silent))} == {0.0}


def test_a_method_without_signs_has_one_colour(read: Explanation) -> None:
    unsigned = replace(read, scores=read.magnitude(), signed=False)
    for one, colours in ((read, 3), (unsigned, 2)):
        scale = reason_chart(one).to_dict()["layer"][0]["encoding"]["color"]["scale"]
        assert len(scale["domain"]) == len(scale["range"]) == colours


def test_ratings_are_shares_of_all_with_their_mean() -> None:
    chart = rating_chart({1.0: 1, 3.0: 2, 4.5: 1})
    bars, mean = chart.to_dict()["datasets"].values()
    assert [(row["rating"], row["share"]) for row in bars] == [(1, 0.25), (3, 0.5), (4.5, 0.25)]
    assert mean == [{"rating": 2.875}]
    assert chart.to_dict()["title"]["text"] == "dashed: the mean, 2.88"
    assert to_png(chart).startswith(b"\x89PNG")
