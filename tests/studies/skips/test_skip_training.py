"""Training on streamed sessions: what is learned, the same bits, and going on after a stop."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from whence.engine import DivergedError
from whence.errors import InputError, OutOfTime
from whence.experts import LinkedLinear
from whence_studies.sessions import (
    BASELINES,
    ListeningConfig,
    SessionSplit,
    Tracks,
    batches,
    concat_scores,
    read_tracks,
    score_skips,
    split_files,
    write_sessions,
)
from whence_studies.skips import (
    NetworkConfig,
    SkipConfig,
    TrainedSkips,
    evaluate,
    fit_skips,
    make_network,
)
from whence_studies.skips.networks import NetworkKind
from whence_studies.skips.skip_evaluation import session_tensors
from whence_studies.skips.skip_training import TrainableSessions, new_skip_training

GRU = NetworkConfig("interpretable gru", dim=4)
FEW = SkipConfig(
    steps=9, batch_size=60, learning_rate=0.01, validate_every=4, patience=0, cooldown=0
)


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> SessionSplit:
    config = ListeningConfig(sessions=300, logs=3, tracks=120, seed=2)
    return split_files(write_sessions(tmp_path_factory.mktemp("skips") / "s", config))


@pytest.fixture(scope="module")
def tracks(parts: SessionSplit) -> Tracks:
    return read_tracks(parts.train.tracks)


def same(one: TrainedSkips, two: TrainedSkips) -> bool:
    weights = zip(one.model.parameters(), two.model.parameters(), strict=True)
    return (
        one.losses == two.losses
        and one.validations == two.validations
        and all(torch.equal(first, second) for first, second in weights)
    )


def fit(
    parts: SessionSplit, tracks: Tracks, config: SkipConfig = FEW, **more: object
) -> TrainedSkips:
    return fit_skips(parts, tracks, GRU, config, 0, show_progress=False, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["interpretable gru", "interpretable transformer"])
def test_longer_sessions_are_learned_with_more_slots(kind: NetworkKind, tmp_path: Path) -> None:
    config = ListeningConfig(sessions=20, logs=3, tracks=80, shortest=21, longest=30)
    parts = split_files(write_sessions(tmp_path / "s", config))
    tracks, network = read_tracks(parts.train.tracks), NetworkConfig(kind, dim=2, n_heads=1)
    few = SkipConfig(steps=2, batch_size=10, validate_every=1)
    fitted = fit_skips(parts, tracks, network, few, 0, show_progress=False, slots=15)
    assert len(fitted.validations) == 2
    assert evaluate(fitted.model, parts.test, tracks, slots=15).scores.tracks.max() == 15
    with pytest.raises(InputError, match="does not fit into 2 × 10 slots; raise slots="):
        evaluate(fitted.model, parts.test, tracks)


def test_same_seed_same_bits(parts: SessionSplit, tracks: Tracks) -> None:
    whole = fit(parts, tracks)
    assert len(whole.losses) == 9
    assert len(whole.validations) == 2
    assert same(whole, fit(parts, tracks))
    other = fit_skips(parts, tracks, GRU, FEW, 1, show_progress=False)
    assert whole.losses != other.losses


@pytest.mark.parametrize("stopped", [1, 4, 5, 7])
def test_a_stopped_training_goes_on_to_the_same_bits(
    parts: SessionSplit, tracks: Tracks, tmp_path: Path, stopped: int
) -> None:
    """In the first epoch of five batches, at its end, and in the second."""
    kept = tmp_path / "deep" / "checkpoint"
    training = new_skip_training(parts, tracks, GRU, FEW, 0, "cpu")
    for _ in range(stopped):
        training.advance()
    kept.parent.mkdir()
    training.save(kept)
    assert same(fit(parts, tracks, checkpoint=kept), fit(parts, tracks))
    assert same(fit(parts, tracks, checkpoint=kept), fit(parts, tracks)), "when it is over"


def test_out_of_time_and_interruptions_are_gone_on_from(
    parts: SessionSplit, tracks: Tracks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "checkpoint"
    with pytest.raises(OutOfTime, match="after 0 of 9 steps"):
        fit(parts, tracks, checkpoint=kept, until=time.monotonic())
    loss, steps = TrainableSessions.loss, itertools.count()

    def interrupted(self: TrainableSessions, *given: Any) -> torch.Tensor:  # noqa: ANN401
        if next(steps) == 3:
            raise KeyboardInterrupt
        return loss(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(TrainableSessions, "loss", interrupted)
        patch.setattr("whence.engine.checkpoints.SECONDS_BETWEEN_CHECKPOINTS", 0.0)
        patch.setattr("whence.engine.checkpoints.TRAINING_PER_CHECKPOINT", 0.0)
        with pytest.raises(KeyboardInterrupt):
            fit(parts, tracks, checkpoint=kept)
    training = new_skip_training(parts, tracks, GRU, FEW, 0, "cpu")
    training.load(kept)
    assert training.step == 3, "the half-done step is not kept"
    assert same(fit(parts, tracks, checkpoint=kept), fit(parts, tracks))


KILLED = """
import sys
import itertools
from pathlib import Path
from typing import Any
from whence_studies.sessions import find_files, read_tracks, split_files
from whence_studies.skips import NetworkConfig, SkipConfig, fit_skips
parts = split_files(find_files(Path(sys.argv[1])))
config = SkipConfig(steps=100_000, batch_size=60, learning_rate=0.01, validate_every=0)
fit_skips(parts, read_tracks(parts.train.tracks), NetworkConfig("interpretable gru", dim=4),
          config, 0, checkpoint=Path(sys.argv[2]), show_progress=False)
"""


@pytest.mark.kill
@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGINT])
def test_killed_it_goes_on_to_the_same_bits(
    parts: SessionSplit, tracks: Tracks, tmp_path: Path, by: signal.Signals
) -> None:
    kept = tmp_path / "checkpoint"
    folder = parts.train.logs[0].parent.parent
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(folder), str(kept)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},  # as here: sums of threads have other bits
    )
    while not kept.exists():
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(by)
    process.wait()
    endless = replace(FEW, steps=10**6)
    training = new_skip_training(parts, tracks, GRU, endless, 0, "cpu")
    training.load(kept)
    assert training.step > 0
    config = replace(FEW, steps=training.step + 2, validate_every=0)
    assert same(fit(parts, tracks, config, checkpoint=kept), fit(parts, tracks, config))


def test_a_file_of_another_training_is_refused(
    parts: SessionSplit, tracks: Tracks, tmp_path: Path
) -> None:
    kept = tmp_path / "checkpoint"
    fit(parts, tracks, checkpoint=kept)
    with pytest.raises(InputError, match="does not hold this training"):
        fit_skips(parts, tracks, replace(GRU, dim=5), FEW, 0, show_progress=False, checkpoint=kept)
    for other, said in (
        (
            {"slots": 12},
            r"\(it was started with slots 10, now it is 12\)\. Remove it to start over\.$",
        ),
        (
            {"config": replace(FEW, batch_size=50)},
            r"\(it was started with batch_size 60, now it is 50\)",
        ),
    ):
        with pytest.raises(InputError, match=said):
            fit(parts, tracks, checkpoint=kept, **other)
    kept.write_bytes(b"")
    with pytest.raises(InputError, match="does not hold this training"):
        fit(parts, tracks, checkpoint=kept)


IN_TURN = replace(FEW, steps=11, validate_every=1, warmup=2, levels_in_turn=True)
LEVELS = [[0, 1, 2, 3], [4, 5], [6], [7]]


@pytest.mark.parametrize("kind", ["interpretable gru", "interpretable transformer"])
def test_levels_learn_in_turn(kind: NetworkKind, parts: SessionSplit, tracks: Tracks) -> None:
    """Two steps each, and what is left is the last one's; what others know stays to the bit."""
    network = NetworkConfig(kind, dim=4, n_heads=2, n_layers=1)
    training = new_skip_training(parts, tracks, network, IN_TURN, 0, "cpu")
    halves = next(batches(parts.test, tracks, 20))
    last, taught, rates = training.stack.models[0].last, [], []
    assert isinstance(last, LinkedLinear)

    def known() -> torch.Tensor:
        with torch.no_grad():
            return training.stack.models[0].expert_outputs(*session_tensors(halves, "cpu")[:2])

    for _ in range(IN_TURN.steps):
        before, answers = last.own.detach().clone(), known()
        training.advance()
        learned = (last.own != before).flatten(1).any(dim=1).nonzero()[:, 0].tolist()
        taught.append(learned)
        rates.append(training.stack.optimizer.param_groups[0]["lr"])
        below = [expert for expert in range(8) if expert < learned[0]]
        assert torch.equal(known()[below], answers[below])
    turns = [0, 0, 1, 1, 2, 2, 3, 3, 3, 3, 3]
    assert taught == [LEVELS[turn] for turn in turns]
    assert rates[:8:2] == [0.005] * 4, "the rate of every level rises from the beginning"
    assert rates[1:8:2] == [0.01] * 4, "and a fall of the level before does not count"
    assert training.stack.models[0].trainable is not None
    assert fit(parts, tracks, IN_TURN).model.trainable is None


def test_the_rate_of_a_level_falls_by_its_own_validations(
    parts: SessionSplit, tracks: Tracks
) -> None:
    """Every second step is validated here; after a fall, the next level begins anew."""
    config = replace(IN_TURN, steps=48, validate_every=2, warmup=0, learning_rate=0.02)
    training = new_skip_training(parts, tracks, GRU, config, 0, "cpu")
    rates = []
    for step in range(config.steps):
        training.advance()
        rates.append(training.stack.optimizer.param_groups[0]["lr"])
        begun = 12 * (step // 12)
        own = training.logs[0].validations[begun // 2 : step // 2]
        assert rates[-1] == config.rate(step - begun, own)
    assert [rates[begun] for begun in (0, 12, 24, 36)] == [0.02] * 4
    assert min(rates[begun] for begun in (11, 23, 35, 47)) < 0.02, "one has fallen"


@pytest.mark.parametrize("stopped", [1, 2, 3, 9])
def test_levels_in_turn_go_on_to_the_same_bits(
    parts: SessionSplit, tracks: Tracks, tmp_path: Path, stopped: int
) -> None:
    """Within a level, between two, and in the last."""
    kept = tmp_path / "checkpoint"
    training = new_skip_training(parts, tracks, GRU, IN_TURN, 0, "cpu")
    for _ in range(stopped):
        training.advance()
    training.save(kept)
    whole = fit(parts, tracks, IN_TURN)
    assert same(fit(parts, tracks, IN_TURN, checkpoint=kept), whole)
    with pytest.raises(InputError, match=r"started with steps per level 2, now it is 5\)"):
        fit(parts, tracks, replace(IN_TURN, steps=20), checkpoint=kept)
    with pytest.raises(InputError, match=r"started with steps per level 2, now it is 0\)"):
        fit(parts, tracks, checkpoint=kept)


def test_a_checkpoint_of_an_older_version_is_refused(
    parts: SessionSplit, tracks: Tracks, tmp_path: Path
) -> None:
    kept = tmp_path / "checkpoint"
    save_file({"losses": torch.zeros(3), "order": torch.zeros(4)}, kept)
    with pytest.raises(
        InputError, match=r"\(an older version of Whence wrote it\)\. Remove it to start over\.$"
    ):
        fit(parts, tracks, checkpoint=kept)


def test_links_are_left_out_of_networks_that_have_some() -> None:
    with pytest.raises(InputError, match=r"^An ordinary network has no experts"):
        NetworkConfig("ordinary gru", linked=False)


def test_levels_in_turn_need_a_step_each(parts: SessionSplit, tracks: Tracks) -> None:
    with pytest.raises(InputError, match=r"^4 levels in turn need at least 4 steps, not 3\.$"):
        fit(parts, tracks, replace(IN_TURN, steps=3))


def test_what_is_not_a_number_ends_it(parts: SessionSplit, tracks: Tracks, tmp_path: Path) -> None:
    kept = tmp_path / "checkpoint"
    with pytest.raises(
        DivergedError, match=r"^Training diverged at step \d+ \(loss is NaN or inf\)\. Lower"
    ):
        fit(parts, tracks, replace(FEW, steps=30, learning_rate=1e38), checkpoint=kept)
    assert not kept.exists()


def test_the_learning_rate_falls_as_pytorchs_does() -> None:
    rng = np.random.default_rng(0)
    config = SkipConfig(
        patience=2, cooldown=1, learning_rate=1.0, min_learning_rate=0.3, lr_factor=0.7
    )
    losses = [float(one) for one in rng.integers(0, 8, 60) / 8 + np.linspace(1, 0, 60)]
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, factor=0.7, patience=2, cooldown=1, min_lr=0.3, threshold=0.0
    )
    seen = set()
    for count, loss in enumerate(losses, start=1):
        plateau.step(loss)
        rate = config.rate(100 * count, losses[:count])
        assert rate == pytest.approx(optimizer.param_groups[0]["lr"])
        seen.add(round(rate, 6))
    assert len(seen) > 2


def test_the_learning_rate_rises_as_pytorchs_does(parts: SessionSplit, tracks: Tracks) -> None:
    """And the optimiser is told of it."""
    config = replace(FEW, warmup=5, validate_every=0)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=config.learning_rate)
    rising = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1 / 5, total_iters=4)
    training = new_skip_training(parts, tracks, GRU, config, 0, "cpu")
    for _ in range(config.steps):
        training.advance()
        told = training.stack.optimizer.param_groups[0]["lr"]
        assert told == pytest.approx(optimizer.param_groups[0]["lr"])
        optimizer.step()
        rising.step()


def test_a_training_stopped_in_its_warmup_goes_on(
    parts: SessionSplit, tracks: Tracks, tmp_path: Path
) -> None:
    config, kept = replace(FEW, warmup=6), tmp_path / "checkpoint"
    begun = new_skip_training(parts, tracks, GRU, config, 0, "cpu")
    for _ in range(3):
        begun.advance()
    begun.save(kept)
    assert same(fit(parts, tracks, config, checkpoint=kept), fit(parts, tracks, config))


def test_a_track_of_no_weight_teaches_nothing(parts: SessionSplit, tracks: Tracks) -> None:
    """Whatever became of it; and weights of 1 change nothing."""
    plain = fit(parts, tracks)
    whole = fit(parts, tracks, weigh=lambda halves: np.ones_like(halves.labels, dtype=np.float32))
    assert same(plain, whole)
    none = fit(parts, tracks, weigh=lambda halves: np.zeros_like(halves.labels, dtype=np.float32))
    untrained = make_network(GRU, 0)
    for one, two in zip(none.model.parameters(), untrained.parameters(), strict=True):
        assert torch.equal(one, two)


def test_more_is_learned_than_to_repeat_the_last(parts: SessionSplit, tracks: Tracks) -> None:
    config = SkipConfig(steps=60, batch_size=100, learning_rate=0.02, validate_every=0)
    for kind in ("interpretable gru", "ordinary gru"):
        network = NetworkConfig(kind, dim=4)
        fitted = fit_skips(parts, tracks, network, config, 0, show_progress=False)
        found = evaluate(fitted.model, parts.test, tracks).scores.measures()["accuracy"]
        scores = [
            score_skips(BASELINES["last"](some), some) for some in batches(parts.test, tracks)
        ]
        assert found.value > concat_scores(scores).measures()["accuracy"].value


@pytest.mark.parametrize(
    "wrong",
    [
        {"steps": 0},
        {"batch_size": 0},
        {"patience": -1},
        {"warmup": -1},
        {"lr_factor": 1.5},
        {"learning_rate": 0.0},
        {"min_learning_rate": 1.0},
    ],
)
def test_wrong_settings(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError):
        SkipConfig(**wrong)  # type: ignore[arg-type]


def test_wrong_networks() -> None:
    with pytest.raises(InputError, match="kind cannot be 'lstm'"):
        NetworkConfig("lstm")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="at least"):
        NetworkConfig(dim=0)


@pytest.mark.needs("cuda")
def test_on_a_gpu_too(parts: SessionSplit, tracks: Tracks) -> None:
    network = NetworkConfig(dim=8, n_heads=2, n_layers=1)
    fitted = [
        fit_skips(parts, tracks, network, FEW, 0, show_progress=False, device=device)
        for device in ("cuda", "cuda", "cpu")
    ]
    assert same(*fitted[:2])
    assert fitted[0].losses == pytest.approx(fitted[2].losses, rel=1e-3)
