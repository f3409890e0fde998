"""Maps as a measurement, against neighbours found one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from whence.contract import HasItemVectors
from whence.data import Interactions, Split
from whence.data.catalog import Catalog
from whence.errors import InputError
from whence.maps import pca
from whence.models.transformer import Transformer, TransformerConfig
from whence.run import Run
from whence_studies.cache import StudyCache
from whence_studies.measurements.map_neighbours import MEASUREMENT, maps
from whence_studies.measurements.measurement import MeasuredRun, NoOptions
from whence_studies.runner import run_study
from whence_studies.study import read_study

Followed = Callable[..., Run]


class KnowsUsers(Transformer):
    """By number, each where it is told; of items it knows nothing."""

    def __init__(self, places: torch.Tensor) -> None:
        super().__init__(TransformerConfig(), 1, torch.Generator())
        self.places = places

    item_vectors = None  # type: ignore[assignment]

    def user_vectors(self) -> torch.Tensor:
        return self.places


def slow_share(vectors: np.ndarray, groups: list[str], k: int) -> float:
    shares = []
    for one, place in enumerate(vectors):
        others = [other for other in range(len(vectors)) if other != one]
        others.sort(key=lambda other: float(np.linalg.norm(place - vectors[other])))
        shares.append(np.mean([groups[other] == groups[one] for other in others[:k]]))
    return float(np.mean(shares))


def test_items_share_genres(followed: Followed, split: Split) -> None:
    run = followed()
    found = maps(MeasuredRun(run, split, "validation", False), NoOptions())
    groups = run.catalog.table["genres"].to_pylist()
    for place, model in enumerate(run.models.values()):
        assert isinstance(model, HasItemVectors)
        vectors = model.item_vectors().detach()
        for k in (3, 10):
            column = found[f"same genre, {k} nearest"]
            assert column.per_seed[place] == pytest.approx(slow_share(vectors.numpy(), groups, k))
            assert column.n == len(groups)
        plane = slow_share(pca(vectors).points, groups, 10)
        assert found["same genre, 10 nearest in the 2-D map"].per_seed[place] == pytest.approx(
            plane
        )
    chance = np.mean([[one == other for other in groups] for one in groups])
    chance = (chance * len(groups) - 1) / (len(groups) - 1)
    assert found["same genre, random pairs"].per_seed == pytest.approx([chance] * 3)
    times = np.divide(found["same genre, 10 nearest"].per_seed, chance)
    assert found["same genre, ratio to random"].per_seed == pytest.approx(times)
    assert not any("age" in column for column in found), "SASRec knows no users"


def test_users_share_ages(followed: Followed, split: Split, interactions: Interactions) -> None:
    """Two ages, one left and one right: all neighbours are alike, of whom chance has half."""
    count = interactions.user_count
    old = np.arange(count) % 2 == 1
    places = torch.from_numpy(np.stack((100.0 * old, np.arange(count)), axis=1))
    users = interactions.users.append_column("age", pa.array(np.where(old, 60, 20)))
    known = replace(split, interactions=replace(interactions, users=users))
    run = replace(followed(), models={0: KnowsUsers(places), 1: KnowsUsers(places)})
    found = maps(MeasuredRun(run, known, "validation", False), NoOptions())
    assert found["same age, 10 nearest"].per_seed == (1.0, 1.0)
    assert found["same age, random pairs"].per_seed == pytest.approx(
        [(count / 2 - 1) / (count - 1)] * 2
    )
    assert found["56 and over among the 10 nearest"].per_seed == (1.0, 1.0)
    assert "25–34 in the data" not in found, "nobody is of that age"
    declared = set(MEASUREMENT.all_columns)
    assert set(found) <= declared
    assert not any("genre" in column for column in found)


def test_a_study_draws_maps(tiny: Callable[..., Path], tmp_path: Path) -> None:
    path = tiny(
        (
            'measurements = ["accuracy"]',
            'measurements = ["accuracy", "maps"]\nmaps = ["same genre"]',
        )
    )
    records = run_study(
        read_study(path, str(path)), cache=StudyCache(tmp_path), show_progress=False
    )
    values = {(one.row, one.column): one for one in records}
    assert values["one", "same genre, 10 nearest"].value is not None
    assert values["one", "same age, 10 nearest"].verdict == "not measured on these data"
    assert values["one", "Horror in the data"].value is None, "no genre of this world"


def test_data_without_groups_raise(followed: Followed, split: Split) -> None:
    bare = replace(
        split.interactions, catalog=Catalog(split.interactions.catalog.table.select([0]))
    )
    asked = MeasuredRun(followed(), replace(split, interactions=bare), "validation", False)
    with pytest.raises(InputError, match="Maps need item vectors and data with genres"):
        maps(asked, NoOptions())
    table = bare.catalog.table
    alone = table.append_column("genres", pa.array([f"g{one}" for one in range(len(table))]))
    apart = replace(split, interactions=replace(bare, catalog=Catalog(alone)))
    with pytest.raises(InputError, match="No two have the same genre"):
        maps(MeasuredRun(followed(), apart, "validation", False), NoOptions())
