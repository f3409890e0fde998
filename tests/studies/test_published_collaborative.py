"""Tables 3.1 and 3.2 of Jain (2019), transcribed a second time, and how the second is measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

import whence
from conftest import ncf_layout
from whence.data import Interactions, last_one, last_two
from whence.errors import InputError
from whence.files import read_json
from whence.models.sasrec import SASRec, SASRecConfig
from whence.run import Run
from whence_studies.measurements import published_accuracy as measurement
from whence_studies.measurements.measurement import MeasuredRun, NoOptions
from whence_studies.measurements.registry import MEASUREMENTS
from whence_studies.study import HERE

TABLE_3_1 = """
Full   1,000,209 6,040 3,706
Train  994,169   6,040 3,706
Test   6,040     6,040 1,921
"""
TABLE_3_2 = """
DeepICF   plain                  68.81 41.13
DeepICF   pretrained             70.84 43.80
NeuMF     pretrained             70.70 42.60
DeepICF+a two classes            70.41 43.00
DeepICF+a two classes, balanced  68.61 41.14
DeepICF+a three classes          68.69 40.54
"""
"""In the order of the page: DeepICF*, *+Pretrain, NeuMF*+Pretrain, (ours), +cls-wt, (3-output)."""


def test_published_values_of_table_3_1() -> None:
    held = read_json(HERE / "definitions" / "published" / "dataset-statistics.json")[
        "Table 3.1 (Jain 2019)"
    ]
    for line in TABLE_3_1.split("\n")[1:-1]:
        row, *values = line.split()
        columns = dict(zip(("interactions", "users", "items"), values, strict=True))
        assert held.pop(row) == {"dataset": "ml-1m-ncf", **columns}
    assert not held


def test_published_values_of_table_3_2() -> None:
    held = read_json(HERE / "definitions" / "published" / "collaborative-accuracy.json")
    expected: dict[tuple[str, str, str], str] = {}
    for line in TABLE_3_2.split("\n")[1:-1]:
        model, *variant, hits, gain = line.split()
        expected["HR@10 (%)", model, " ".join(variant)] = hits
        expected["NDCG@10 (%)", model, " ".join(variant)] = gain
    found = {
        (column, model, variant): text
        for column, by_model in held.items()
        for model, by_dataset in by_model.items()
        for dataset, by_variant in by_dataset.items()
        for variant, text in by_variant.items()
        if dataset == "ML-1M"
    }
    assert found == expected
    assert set(held) <= set(MEASUREMENTS["published-negatives"].columns)


class ForOrAgainst(SASRec):
    """Liked where its score is above 0."""

    def classes(
        self,
        batch: Tensor,
        targets: Tensor,
        *,
        attention: Sequence[Tensor | None] | None = None,
    ) -> Tensor:
        score = self.score(batch, targets)
        return torch.stack((score, torch.zeros_like(score)), dim=-1)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Interactions:
    return ncf_layout(tmp_path, monkeypatch)


def trained(data: Interactions, split: str) -> Run:
    return whence.train(
        data,
        model="sasrec",
        model_settings={"max_len": 6, "dim": 8},
        training={"steps": 4, "batch_size": 4},
        seeds=2,
        split=split,
        show_progress=False,
    )


def test_columns_are_what_training_measured_in_per_cent(data: Interactions) -> None:
    run = trained(data, "last-one")
    asked = MeasuredRun(run, last_one(data), "test", show_progress=False)
    found = measurement.published_negatives(asked, NoOptions())
    assert list(found) == ["HR@10 (%)", "NDCG@10 (%)"], "SASRec tells no classes"
    measured = [metrics["test"]["HR@10 of 100 published"] for metrics in run.metrics.values()]
    assert found["HR@10 (%)"].per_seed == tuple(100 * one["value"] for one in measured)
    assert found["HR@10 (%)"].protocol == measured[0]["protocol"]
    assert found["HR@10 (%)"].n == 4


def test_models_with_classes_have_class_columns(data: Interactions) -> None:
    run = trained(data, "last-one")
    config = SASRecConfig(max_len=6, dim=8)
    telling = {}
    for seed, model in run.models.items():
        telling[seed] = ForOrAgainst(config, data.item_count, torch.Generator()).eval()
        telling[seed].load_state_dict(model.state_dict())
    split = last_one(data)
    asked = MeasuredRun(replace(run, models=telling), split, "test", show_progress=False)
    found = measurement.published_negatives(asked, NoOptions())
    assert set(found) == set(MEASUREMENTS["published-negatives"].columns) - {
        "accuracy on disliked (%)"
    }
    cases = split.held["test"]
    for number, model in enumerate(telling.values()):
        scores = model.score(model.read(cases, 6), torch.from_numpy(cases.targets)[:, None])
        share = 100 * (scores > 0).double().mean().item()
        assert found["accuracy on liked (%)"].per_seed[number] == pytest.approx(share)
    assert found["accuracy on liked (%)"].protocol.endswith("; last-one split by time")


def test_events_without_published_negatives_raise(data: Interactions) -> None:
    run = trained(data, "last-two")
    asked = MeasuredRun(run, last_two(data), "validation", show_progress=False)
    with pytest.raises(InputError, match="validation events have no published negatives"):
        measurement.published_negatives(asked, NoOptions())
