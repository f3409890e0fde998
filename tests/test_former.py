"""Folders written by version 0.1 still open, and come to the same numbers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import whence
from whence import former
from whence.console import SafeConsole
from whence.contract import ALL
from whence.data import last_two
from whence.data.origins import origin_code
from whence.files import sha256
from whence.report.tables import seeds_table
from whence.run import Run, open_run
from whence.run_document import read_description

V01 = Path(__file__).parent / "fixtures" / "v01"
EXPECTED = json.loads((V01 / "expected.json").read_text())


@pytest.fixture(scope="module")
def run() -> Run:
    opened = open_run(V01 / "run")
    return opened.with_origin(origin_code(opened.data["origin"]))


def scores_of(run: Run) -> torch.Tensor:
    return run.first.score(torch.tensor([[1, 2, 3], [-1, 4, 5]]), ALL).detach()


@pytest.mark.parametrize("format", [1, 2])
@pytest.mark.parametrize(
    ("model", "settings", "loss"),
    [
        ("sasrec", {}, "bce"),
        ("bert4rec", {"loss": "full"}, "softmax"),
        ("bert4rec", {"loss": "sampled"}, "bce"),
        ("gmf", {}, None),
    ],
)
def test_the_loss_of_former_formats(
    format: int, model: str, settings: dict[str, str], loss: str | None
) -> None:
    document = json.loads((V01 / "run" / "run.json").read_text())
    document |= {"format": format, "model": model, "model_settings": settings}
    if format == 2:
        document = {**former.current_run(document), "format": 2}
    found = read_description(document).model_settings
    assert found.get("loss") == loss


def test_a_run_of_today_keeps_its_loss() -> None:
    document = former.current_run(json.loads((V01 / "run" / "run.json").read_text()))
    document |= {"format": 3, "model_settings": {"loss": "gbce"}}
    assert read_description(document).model_settings == {"loss": "gbce"}


@pytest.mark.parametrize("loss", ["full", "sampled"])
def test_a_bert4rec_of_format_2_opens(
    loss: str, followed: Callable[..., Run], tmp_path: Path
) -> None:
    folder = followed("bert4rec").save(tmp_path / "run").folder
    assert folder is not None
    described = json.loads((folder / "run.json").read_text())
    described |= {"format": 2, "model_settings": {**described["model_settings"], "loss": loss}}
    for name in ("n_negatives", "calibration"):
        del described["model_settings"][name]
    (folder / "run.json").write_text(json.dumps(described))
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest |= {"format": 2}
    manifest["sha256"]["run.json"] = sha256(folder / "run.json")
    (folder / "manifest.json").write_text(json.dumps(manifest))
    opened = open_run(folder)
    assert opened.model_settings["loss"] == former.LOSSES[loss]
    assert torch.equal(scores_of(opened), scores_of(followed("bert4rec")))


def test_a_run_opens_under_the_current_names(run: Run) -> None:
    assert run.model_settings["loss"] == "bce"
    assert run.model_settings["max_len"] == run.model_settings["dim"] == 4
    assert run.training["batch_size"] == 8
    assert run.training["split"] == "last-two"
    assert run.training["protocol"] == "last-two split by time"
    protocol = run.metrics[0]["test"]["NDCG@10"]["protocol"]
    assert protocol.startswith("12 test events, last-two split by time; ranked among")


def test_a_run_without_measures_of_lists_is_shown(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    """Version 0.1 measured accuracy alone, and a baseline of today has more."""
    run.show()
    now = whence.evaluate(run.first, last_two(run.interactions), "test", 4)
    assert "coverage@10" in now
    SafeConsole(width=100).print(seeds_table(run.metrics, {"popularity": now}))
    SafeConsole(width=100).print(seeds_table({0: run.metrics[0], 1: run.metrics[0]}, {"now": now}))
    printed = capsys.readouterr().out
    assert printed.count("NDCG@10") >= 3
    assert "coverage@10" not in printed


def test_a_run_scores_and_recommends_as_it_did(run: Run) -> None:
    torch.testing.assert_close(scores_of(run), torch.tensor(EXPECTED["scores"]))
    recommended = whence.recommend(run, user=3, k=5)
    assert [pick.item for pick in recommended.picks] == EXPECTED["recommended"]
    last = run.snapshot(6).state_dict()
    for name, values in run.first.state_dict().items():
        assert torch.equal(last[name], values)


def test_a_run_is_measured_as_it_was(run: Run) -> None:
    found = whence.evaluate(run.first, last_two(run.interactions), "test", 4)
    assert found["NDCG@10"].value == pytest.approx(EXPECTED["NDCG@10"])
    assert run.metrics[0]["test"]["NDCG@10"]["value"] == EXPECTED["NDCG@10"]


def test_a_run_is_saved_again_in_the_current_format(run: Run, tmp_path: Path) -> None:
    run.save(tmp_path / "run")
    assert json.loads((tmp_path / "run" / "run.json").read_text())["format"] == 3
    again = open_run(tmp_path / "run")
    assert again.to_json() == run.to_json()
    assert torch.equal(scores_of(again), scores_of(run))
    assert sorted(again.snapshots[0]) == [0, 6]


def test_prepared_data_open_and_are_saved_again(tmp_path: Path) -> None:
    data = whence.load(V01 / "prepared")
    assert (data.content_hash, len(data)) == (EXPECTED["hash"], EXPECTED["events"])
    assert whence.load(data.save(tmp_path / "again")).content_hash == EXPECTED["hash"]


def test_the_preparation_of_an_origin_is_renamed() -> None:
    origin = {"source": "a.csv", "preparation": [{"min_user": 5, "core": True}, {"min_item": 2}]}
    assert former.current_origin(origin) == {
        "source": "a.csv",
        "preparation": [{"min_user_events": 5, "k_core": True}, {"min_item_events": 2}],
    }
    assert former.current_protocol("leave-last-out by published order; x") == (
        "last-one split by published order; x"
    )
