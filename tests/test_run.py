from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import whence
from whence.contract import ALL
from whence.data import Interactions
from whence.errors import InputError
from whence.run import Run, open_run


def test_opened_again_it_scores_the_same(run: Run) -> None:
    assert run.folder is not None
    again = open_run(run.folder)
    batch = torch.tensor([[1, 2, 3]])
    for seed in (0, 1):
        one, two = run.models[seed].score(batch, ALL), again.models[seed].score(batch, ALL)
        assert torch.equal(one, two)
    assert again.metrics[1]["test"]["recall@10"] == run.metrics[1]["test"]["recall@10"] | {
        "interval": list(run.metrics[1]["test"]["recall@10"]["interval"]),
        "range": list(run.metrics[1]["test"]["recall@10"]["range"]),
    }
    assert again.interactions.content_hash == run.data["hash"]
    assert again.catalog.table.equals(run.catalog.table)


def test_the_folder_is_as_decided(run: Run) -> None:
    assert run.folder is not None
    files = sorted(
        path.relative_to(run.folder).as_posix() for path in run.folder.rglob("*") if path.is_file()
    )
    assert files == [
        "accuracy.json",
        "catalog.parquet",
        "manifest.json",
        "run.json",
        "seeds/0/metrics.json",
        "seeds/0/weights.safetensors",
        "seeds/1/metrics.json",
        "seeds/1/weights.safetensors",
    ]
    described = json.loads((run.folder / "run.json").read_text())
    assert described["model_settings"]["dim"] == 16
    assert described["training"]["steps"] == 300
    assert described["seeds"] == [0, 1]
    assert set(json.loads((run.folder / "manifest.json").read_text())["sha256"]) == (
        set(files) - {"manifest.json"}
    )


def test_snapshots_are_models_of_the_run(interactions: Interactions, tmp_path: Path) -> None:
    data = interactions.save(tmp_path / "data")
    trained = whence.train(
        data,
        model="sasrec",
        model_settings={"dim": 8, "max_len": 4},
        training={"steps": 6, "snapshots": 3},
        seeds=2,
        out=tmp_path / "run",
        show_progress=False,
    )
    batch = torch.tensor([[1, 2, 3]])
    for run in (trained, open_run(tmp_path / "run")):
        assert {seed: sorted(kept) for seed, kept in run.snapshots.items()} == {
            0: [0, 3, 6],
            1: [0, 3, 6],
        }
        last, first = (
            run.snapshot(6, model_seed=1).score(batch, ALL),
            run.snapshot(0, model_seed=1).score(batch, ALL),
        )
        assert torch.equal(last, run.models[1].score(batch, ALL))
        assert not torch.equal(first, last)
        with pytest.raises(InputError, match="no snapshot at step 5. It has 0, 3, 6"):
            run.snapshot(5)


def test_snapshots_need_a_place(interactions: Interactions) -> None:
    with pytest.raises(InputError, match="snapshots are written to the run folder"):
        whence.train(interactions, training={"snapshots": 3}, show_progress=False)
