"""Ranks among published negatives, and weights chosen by them, on test events too."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import whence
from conftest import lively_sasrec, ncf_layout
from whence.cli import app
from whence.data import Interactions, Split, last_one, last_two, load
from whence.data.published_negatives import published_negatives
from whence.errors import InputError
from whence.models import fitted_model
from whence.training import Evaluation, TrainingConfig, evaluate, fit
from whence.training.ranks import ranks_among

HIT, GAIN = "HR@10 of 100 published", "NDCG@10 of 100 published"


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Interactions:
    return ncf_layout(tmp_path, monkeypatch)


@pytest.mark.parametrize("coarse", [False, True])
@pytest.mark.parametrize("numbers", [10**9, 1])
def test_ranks_by_loops(
    split: Split, coarse: bool, numbers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ties, with an item as its own rival, and one case at a time."""
    monkeypatch.setattr("whence.memory.SCORES_AT_ONCE", numbers)
    cases = split.held["test"][:40]
    model = lively_sasrec(items=split.interactions.item_count, length=10)
    if coarse:
        with torch.no_grad():
            model.item.copy_(model.item.round())
    rng = np.random.default_rng(0)
    rivals = rng.integers(0, split.interactions.item_count, (40, 7))
    rivals[::3, 2] = cases.targets[::3]
    found = ranks_among(model, cases, 10, rivals)
    for row in range(40):
        history = torch.from_numpy(cases[np.array([row])].histories(10))
        candidates = torch.tensor([[cases.targets[row], *rivals[row]]])
        own, *others = model.score(history, candidates)[0].tolist()
        kept = [
            score
            for score, item in zip(others, rivals[row], strict=True)
            if item != cases.targets[row]
        ]
        assert found[row] == sum(s > own for s in kept) + sum(s == own for s in kept) / 2


def test_hits_and_gains_by_hand(data: Interactions) -> None:
    split = last_one(data)
    model = lively_sasrec(items=data.item_count, length=5)
    found = Evaluation(split, "test", 5, top=60).of(model)
    hit, gain = "HR@60 of 100 published", "NDCG@60 of 100 published"
    assert set(found.values) >= {hit, gain, "recall@60", "recall@60 of 101"}
    rivals = published_negatives(data).of(split.held["test"])
    ranks = ranks_among(model, split.held["test"], 5, rivals)
    assert (found.values[hit] == (ranks < 60)).all()
    expected = [1 / math.log2(rank + 2) if rank < 60 else 0.0 for rank in ranks]
    assert found.values[gain].tolist() == pytest.approx(expected)
    assert "99 negatives published for it (He et al. 2017)" in found.protocols[hit]
    assert "but for itself where it is one of them (1 times)" in found.protocols[hit]
    assert Evaluation(split, "test", 5).mean(hit, model) == found.values[hit].mean()
    assert Evaluation(split, "test", 5).mean(gain, model) == found.values[gain].mean()


def test_events_without_negatives_are_measured_without_them(
    split: Split, data: Interactions
) -> None:
    model = lively_sasrec(items=split.interactions.item_count, length=8)
    assert HIT not in evaluate(model, split, "test", 8)
    with pytest.raises(InputError, match="No negatives are published for"):
        Evaluation(split, "test", 8).mean(HIT, model)
    held = last_two(data)
    model = lively_sasrec(items=data.item_count, length=8)
    assert HIT in evaluate(model, held, "test", 8)
    assert HIT not in evaluate(model, held, "validation", 8)
    with pytest.raises(InputError, match="published for 4 of the 4 events"):
        Evaluation(held, "validation", 8).mean(HIT, model)


@pytest.mark.parametrize(
    "name",
    ["HR@10", "HR@10 of 101", "recall@10 of 100 published", "HR@0 of 100 published",
     "MRR of 100 published", "NDCG@10 of 101"],
)  # fmt: skip
def test_measures_that_there_are_not(name: str) -> None:
    with pytest.raises(InputError, match="There is no measure"):
        TrainingConfig(metric=name)


TRAINING = {"steps": 12, "batch_size": 4, "validate_every": 2, "metric": HIT, "patience": 2}


@pytest.mark.parametrize("model", ["sasrec", "deepicf-a", "gmf"])
def test_training_stops_by_the_test_events_and_says_so(
    model: str, data: Interactions, tmp_path: Path
) -> None:
    run = whence.train(
        data,
        model=model,
        model_settings={"max_len": 6, "dim": 8},
        training={**TRAINING, "validate_on": "test"},
        split="last-one",
        out=tmp_path / "run",
        show_progress=False,
    )
    written = json.loads((tmp_path / "run" / "run.json").read_text())["training"]
    assert written["validate_on"] == "test"
    words = f"weights chosen by {HIT} on the test events themselves"
    assert words in written["protocol"]
    metrics = run.metrics[0]
    assert "validation" not in metrics
    assert all(words in measure["protocol"] for measure in metrics["test"].values())
    validations = dict(metrics["validations"])
    assert metrics["test"][HIT]["value"] == max(validations.values())
    assert validations[metrics["kept_step"]] == max(validations.values())


def test_looking_at_test_events_without_choosing_is_not_called_choosing() -> None:
    looking = TrainingConfig(validate_every=2, validate_on="test")
    assert looking.selection_note == ""
    assert TrainingConfig(validate_every=2, patience=2).selection_note == ""
    assert "themselves" in replace(looking, patience=1).selection_note


def test_what_cannot_be_validated_is_said_before_training(data: Interactions, split: Split) -> None:
    settings = {"max_len": 6, "dim": 8}

    def refused(sentence: str, on: Split, **changed: object) -> None:
        config = TrainingConfig(**{**TRAINING, **changed})  # type: ignore[arg-type]
        with pytest.raises(InputError, match=sentence):
            fit(on, "sasrec", settings, config, 0, show_progress=False)

    refused("The split holds out no validation events. Leave out validate_every", last_one(data))
    refused("published for 4 of the 4 events", last_two(data))
    refused("No negatives are published for", split, validate_on="test")
    with pytest.raises(InputError, match="validate_on cannot be 'train': known: "):
        TrainingConfig(validate_on="train")  # type: ignore[arg-type]


def test_the_split_on_the_command_line(data_folder: Path, tmp_path: Path) -> None:
    run = CliRunner()
    assert "last-one" in run.invoke(app, ["train", "--help"], env={"COLUMNS": "200"}).output
    order = ["train", str(data_folder), "--out", str(tmp_path / "run"), "--split", "last-one"]
    done = run.invoke(app, [*order, "--set", "steps=3,max_len=6,dim=8"])
    assert done.exit_code == 0, done.output
    assert "last-one" in done.output
    again = whence.open_run(tmp_path / "run")
    assert "validation" not in again.metrics[0]
    assert "last-one" in again.metrics[0]["test"]["MRR"]["protocol"]
    assert whence.recommend(again, user=again.interactions.users["user"][0].as_py()).picks


@pytest.mark.needs("data")
def test_popularity_on_the_published_negatives() -> None:
    """Counted and ranked with nothing of what is tested."""
    data = load("ml-1m-ncf")
    split = last_one(data)
    found = Evaluation(split, "test", 5).published(fitted_model("popularity", {}, split))
    path = Path(os.environ["WHENCE_DATA"]) / "ml-1m" / "ncf_leave_one_out_test.csv.gz"
    with gzip.open(path) as packed:
        rows = list(csv.DictReader(io.TextIOWrapper(packed)))
    counts = Counter(data.catalog.raw_ids(data.items))
    counts.subtract(int(row["movie_id"]) for row in rows)
    hits, gains = [], []
    for row in rows:
        own = int(row["movie_id"])
        rivals = [counts[int(item)] for item in row["negatives"].split() if int(item) != own]
        rank = sum(r > counts[own] for r in rivals) + sum(r == counts[own] for r in rivals) / 2
        hits.append(rank < 10)
        gains.append(math.log(2) / math.log(rank + 2) if rank < 10 else 0.0)
    assert found.values[HIT].mean() == pytest.approx(np.mean(hits))
    assert found.values[GAIN].mean() == pytest.approx(np.mean(gains))
    assert "6,040 test events" in found.protocols[HIT]
    assert "itself where it is one of them (156 times)" in found.protocols[HIT]
