"""A training that is stopped, by whatever, goes on and comes to the same bits."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import whence
from conftest import STEPPED
from whence.data import Interactions, Split
from whence.engine.checkpoints import CheckpointFolder
from whence.errors import InputError, OutOfTime
from whence.models import MODELS
from whence.training import TrainingConfig, fit
from whence.training.recommenders import new_training

SMALL = {"max_len": 12, "dim": 16}


def same(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    weights = other.state_dict()
    return all(torch.equal(value, weights[name]) for name, value in one.state_dict().items())


@pytest.mark.parametrize("model", STEPPED)
@pytest.mark.parametrize(("stop", "absence"), [(0, 0.0), (1, 0.0), (7, 0.5), (29, 0.0), (30, 0.5)])
def test_stopped_after_any_step_it_comes_to_the_same_bits(
    stop: int, absence: float, model: str, split: Split, tmp_path: Path
) -> None:
    reads_windows = model in ("sasrec", "bert4rec")
    config = TrainingConfig(steps=30, batch_size=32, part_dropout=absence if reads_windows else 0.0)
    whole, losses, *_ = fit(split, model, SMALL, config, 4, show_progress=False)
    first = new_training(split, model, SMALL, config, [4], "cpu")
    for _ in range(stop):
        first.advance()
    first.save(tmp_path / "seed")
    gone_on, both, *_ = fit(
        split, model, SMALL, config, 4, show_progress=False, checkpoint=tmp_path / "seed"
    )
    assert both == losses
    assert same(whole, gone_on)


@pytest.mark.parametrize("stop", [10, 25, 39, 60])
def test_stopped_between_validations_it_keeps_the_same_best(
    stop: int, split: Split, tmp_path: Path
) -> None:
    config = TrainingConfig(
        steps=400,
        batch_size=32,
        learning_rate=0.02,
        validate_every=10,
        patience=2,
        lr_decay="linear",
    )
    whole, losses, *_ = fit(split, "sasrec", SMALL, config, 1, show_progress=False)
    first = new_training(split, "sasrec", SMALL, config, [1], "cpu")
    for _ in range(min(stop, len(losses))):
        first.advance()
    first.save(tmp_path / "seed")
    gone_on, both, *_ = fit(
        split, "sasrec", SMALL, config, 1, show_progress=False, checkpoint=tmp_path / "seed"
    )
    assert both == losses
    assert same(whole, gone_on)


def test_an_interruption_in_the_middle_of_a_step_is_as_if_the_step_had_not_been(
    split: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = TrainingConfig(steps=20, batch_size=32)
    whole, losses, *_ = fit(split, "sasrec", SMALL, config, 0, show_progress=False)
    step = torch.optim.Adam.step
    calls = 0

    def interrupted(self: torch.optim.Adam, closure: None = None) -> None:
        nonlocal calls
        calls += 1
        step(self, closure)
        if calls == 9:
            raise KeyboardInterrupt

    path = tmp_path / "seed"
    monkeypatch.setattr("whence.engine.checkpoints.SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    with monkeypatch.context() as patched:
        patched.setattr(torch.optim.Adam, "step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            fit(split, "sasrec", SMALL, config, 0, show_progress=False, checkpoint=path)
    gone_on, both, *_ = fit(split, "sasrec", SMALL, config, 0, show_progress=False, checkpoint=path)
    assert both == losses
    assert same(whole, gone_on)


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", b"\x08\0\0\0\0\0\0\0{}      "])
def test_a_damaged_checkpoint_is_one_sentence(content: bytes, split: Split, tmp_path: Path) -> None:
    (tmp_path / "seed").write_bytes(content)
    with pytest.raises(InputError, match="does not hold this training .* Remove it to start over"):
        fit(
            split, "sasrec", SMALL, TrainingConfig(steps=2), 0,
            show_progress=False, checkpoint=tmp_path / "seed",
        )  # fmt: skip


def test_a_checkpoint_of_other_sizes_is_one_sentence(split: Split, tmp_path: Path) -> None:
    new_training(split, "sasrec", SMALL, TrainingConfig(), [0], "cpu").save(tmp_path / "seed")
    with pytest.raises(InputError, match="does not hold this training"):
        fit(
            split, "sasrec", {**SMALL, "dim": 8}, TrainingConfig(steps=2), 0,
            show_progress=False, checkpoint=tmp_path / "seed",
        )  # fmt: skip


def change(path: Path, name: str, value: torch.Tensor | None) -> None:
    """Replace a tensor of a checkpoint, or remove it."""
    tensors = {one: kept for one, kept in load_file(path).items() if one != name}
    save_file(tensors if value is None else {**tensors, name: value}, path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("step", torch.tensor(-5)),
        ("step", torch.tensor(10**9)),
        ("step", torch.tensor(torch.nan)),
        ("step", torch.tensor([1, 2])),
        ("format", None),
        ("identity", torch.tensor(3)),
        ("position", None),
        ("0.losses", torch.tensor(0.5)),
        ("0.losses", torch.full((3,), torch.nan, dtype=torch.float64)),
        ("0.losses", torch.zeros(2, dtype=torch.float64)),
        ("0.validations", None),
        ("0.diverged", torch.tensor([True, False])),
        ("WEIGHT", torch.zeros(3)),
        ("WEIGHT", None),
        ("NAN", None),
        ("MOMENT", torch.zeros(3)),
        ("MOMENT", torch.zeros(1, dtype=torch.int64)),
    ],
)
def test_a_checkpoint_with_other_content_is_one_sentence(
    name: str, value: torch.Tensor | None, split: Split, tmp_path: Path
) -> None:
    config, path = TrainingConfig(steps=5, batch_size=32), tmp_path / "seed"
    training = new_training(split, "sasrec", SMALL, config, [0], "cpu")
    for _ in range(3):
        training.advance()
    training.save(path)
    weight = next(one for one in load_file(path) if one.startswith("0.model."))
    moment = next(one for one in load_file(path) if one.endswith(".exp_avg"))
    if name == "NAN":
        value = torch.full_like(load_file(path)[weight], torch.nan)
    names = {"WEIGHT": weight, "NAN": weight, "MOMENT": moment}
    change(path, names.get(name, name), value)
    with pytest.raises(InputError, match="does not hold this training .* Remove it to start over"):
        fit(split, "sasrec", SMALL, config, 0, show_progress=False, checkpoint=path)


def test_only_the_checkpoints_of_whence_are_removed(tmp_path: Path) -> None:
    unfinished = CheckpointFolder(tmp_path / "run", {"dim": 1}, overwrite=False)
    manifest = unfinished.folder / "manifest.json"
    for content in ("[]", "{", "[" * 100_000, '{"Whence version": {}}'):
        manifest.write_text(content)
        (unfinished.folder / "seeds-0-0.safetensors").touch()
        with pytest.raises(InputError, match="holds a stopped training .* Use --overwrite"):
            CheckpointFolder(tmp_path / "run", {"dim": 1, "Whence version": "9"}, overwrite=False)
        CheckpointFolder(tmp_path / "run", {"dim": 1}, overwrite=True)
        assert list(unfinished.folder.iterdir()) == [manifest]
    for name in ("seeds-x-y.safetensors", "notes.txt"):
        (unfinished.folder / name).touch()
        with pytest.raises(InputError, match=f"{name} is not part of a training. Move it"):
            CheckpointFolder(tmp_path / "run", {"dim": 2}, overwrite=True)
        (unfinished.folder / name).unlink()
    shutil.rmtree(unfinished.folder)
    unfinished.folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="is not part of a training"):
        CheckpointFolder(tmp_path / "run", {"dim": 2}, overwrite=True)


COMMAND = [sys.executable, "-m", "whence", "train", "DATA", "--seeds", "2", "--out", "RUN",
           "--set", "steps=2000,dim=16,max_len=8,batch_size=32"]  # fmt: skip
"""The later of two values of a setting counts."""

SNAPSHOTS = ",snapshots=3"


def command(data: Path, run: Path, more: str = "") -> list[str]:
    words = [{"DATA": str(data), "RUN": str(run)}.get(word, word) for word in COMMAND]
    return [*words[:-1], words[-1] + more]


def weights(run: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(run.rglob("*.safetensors"))]


def _kill_in_the_middle_of_training(
    command: list[str], unfinished: Path, environment: dict[str, str]
) -> None:
    checkpoint = unfinished / "seeds-0-1.safetensors"
    process = subprocess.Popen(command, stderr=subprocess.PIPE, env=environment)
    while not checkpoint.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert 0 < len(load_file(checkpoint)["0.losses"]) < 2_000


@pytest.mark.kill
@pytest.mark.parametrize("model", ["sasrec", "bert4rec", "gmf", "deepicf-a"])
def test_killed_at_many_moments_it_comes_to_the_same_bits(
    model: str, interactions: Interactions, tmp_path: Path
) -> None:
    """While it reads, trains, measures and writes: afterwards the run is there whole, or not.

    One model for each way to draw batches: of next items, masked items, choices and whole users.
    """
    data = interactions.save(tmp_path / "data")

    def train(run: Path) -> list[str]:
        of_users = MODELS[model].training.get("batch_size") == 1  # and of all that they have seen
        return [*command(data, run, SNAPSHOTS + of_users * ",batch_size=2"), "--model", model]

    alone = {**os.environ, "OMP_NUM_THREADS": "1"}
    begin = time.monotonic()
    subprocess.run(train(tmp_path / "calm"), check=True, capture_output=True, env=alone)
    whole = time.monotonic() - begin
    run = tmp_path / "killed"
    _kill_in_the_middle_of_training(train(run), tmp_path / ".killed.unfinished", alone)
    rng = np.random.default_rng(0)
    kills = 1
    while not run.exists():
        process = subprocess.Popen(
            train(run),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=alone,
        )
        try:
            # Each try lasts longer than the one before, so that one of them gets to the end.
            limit = (0.16 * kills + float(rng.uniform(0.02, 0.16))) * whole
            _, said = process.communicate(timeout=limit)
            assert process.returncode == 0, said.decode()
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += 1
    whence.open_run(run)
    assert weights(run) == weights(tmp_path / "calm")
    metrics = [json.loads(path.read_text()) for path in sorted(run.rglob("metrics.json"))]
    calm = [json.loads(p.read_text()) for p in sorted((tmp_path / "calm").rglob("metrics.json"))]
    assert metrics == calm


@pytest.mark.parametrize("more", ["", SNAPSHOTS])
def test_a_disk_that_fills_up_while_training_is_one_sentence(
    more: str, interactions: Interactions, tmp_path: Path
) -> None:
    data = interactions.save(tmp_path / "data")

    def small_disk() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    done = subprocess.run(
        command(data, tmp_path / "run", more),
        capture_output=True, text=True, check=False, preexec_fn=small_disk,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "cannot be written" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_start_that_was_refused_is_no_training_to_go_on_with(
    interactions: Interactions, tmp_path: Path
) -> None:
    """Nothing was trained, so other settings lose nothing."""
    data, out = interactions.save(tmp_path / "data"), tmp_path / "run"
    small = {"dim": 8, "max_len": 4}
    with pytest.raises(InputError, match="bfloat16 is for GPUs"):
        whence.train(data, training={"precision": "bfloat16"}, out=out, show_progress=False)
    assert not (tmp_path / ".run.unfinished").exists()
    CheckpointFolder(out, {"model": "another"}, overwrite=False)
    whence.train(data, model_settings=small, training={"steps": 2}, out=out, show_progress=False)
    assert not (tmp_path / ".run.unfinished").exists()


def test_a_training_stops_at_its_time_and_goes_on_to_the_same_bits(
    interactions: Interactions, tmp_path: Path
) -> None:
    data = interactions.save(tmp_path / "data")

    def train(out: str, until: float | None = None) -> whence.Run:
        return whence.train(
            data,
            model="sasrec",
            model_settings=SMALL,
            training={"steps": 200, "batch_size": 16},
            seeds=2,
            out=tmp_path / out,
            show_progress=False,
            until=until,
        )

    for _ in range(3):
        with pytest.raises(OutOfTime, match="Time is up after"):
            train("run", until=time.monotonic() + 0.05)
    assert not (tmp_path / "run").exists()
    hurried, calm = train("run"), train("calm")
    assert all(same(hurried.models[seed], calm.models[seed]) for seed in (0, 1))
