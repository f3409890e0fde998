"""A search that is interrupted ends as one that is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch
from safetensors.torch import load_file

import whence
from whence.data import load
from whence.engine.loop import Training
from whence.run import Run
from whence.training import choosing

SETTINGS: dict[str, Any] = {
    "model_settings": {"dim": 8, "max_len": 6},
    "training": {"steps": 40, "validate_every": 10, "patience": 2},
    "seeds": 2,
    "show_progress": False,
}


def trained(out: Path) -> Run:
    """Return a run on users who take the items in turn."""
    rows = [(user, (user + step) % 12) for user in range(110) for step in range(7)]
    table = pa.table({"user": [user for user, _ in rows], "item": [item for _, item in rows]})
    return whence.train(load(table), out=out, **SETTINGS)


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def facts(run: Run) -> tuple[object, ...]:
    return run.model, dict(run.training), dict(run.weights), run.metrics, run.accuracy


def weights(run: Run) -> list[torch.Tensor]:
    models = [*run.models.values(), *run.simple.values()]
    return [value for model in models for value in model.state_dict().values()]


def test_a_search_stopped_while_it_chooses_trains_nothing_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(choosing, "simple_models", interrupt)
        with pytest.raises(KeyboardInterrupt):
            trained(tmp_path / "stopped")
    assert [*(tmp_path / ".stopped.unfinished").rglob("*.safetensors")]
    assert not (tmp_path / "stopped").exists()
    with monkeypatch.context() as patch:
        patch.setattr(Training, "advance", interrupt)
        resumed = trained(tmp_path / "stopped")
    assert not (tmp_path / ".stopped.unfinished").exists()
    whole = trained(tmp_path / "whole")
    assert facts(resumed) == facts(whole)
    for one, other in zip(weights(resumed), weights(whole), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_a_training_stopped_after_a_validation_keeps_the_best_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[int] = []
    advance = Training.advance

    def some(training: Training[Any]) -> bool:
        steps.append(training.step)
        if len(steps) == 15:
            raise KeyboardInterrupt
        return advance(training)

    with monkeypatch.context() as patch:
        patch.setattr(Training, "advance", some)
        with pytest.raises(KeyboardInterrupt):
            trained(tmp_path / "stopped")
    (kept,) = (tmp_path / ".stopped.unfinished").rglob("*.safetensors")
    saved = load_file(kept)
    assert int(saved["step"]) == 14
    assert any(name.startswith("0.best.") for name in saved)
    del steps[:]
    resumed = trained(tmp_path / "stopped")
    assert facts(resumed) == facts(trained(tmp_path / "whole"))
