"""A run learns its own calibrator on worlds like its data, in time, and resumes if interrupted."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import whence
from command_line import whence as command
from conftest import interactions_of
from fuzz.forking import content
from whence.config import build
from whence.data import Interactions
from whence.data.interactions import Counts
from whence.errors import InputError, OutOfTime
from whence.models import MODELS, build_model
from whence.models.base import HasOwnReasons
from whence.reasons import calibration, pupils
from whence.reasons.calibration import Calibrating, Calibration, Reached
from whence.reasons.lessons import Lesson
from whence.reasons.of_run import DEFAULT, OWN, default_calibrator
from whence.reasons.scoring import log_probability_of_truth, scores_of
from whence.reasons.teaching import ALL_SEEDS, WorldLessons
from whence.run import Run
from whence.training.plans import NOMINAL, Asked
from whence.training.seeds import fit_seeds
from whence.worlds import WorldConfig, draw_config, make_world
from whence.worlds.designs import GENERATORS

SMALL: dict[str, Any] = {
    "model": "sasrec",
    "model_settings": {"max_len": 6, "dim": 8},
    "training": {"steps": 5},
    "seeds": 2,
    "show_progress": False,
}
NEEDED = 2 * len(GENERATORS)


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Worlds and networks are tiny, and what is kept belongs to one test."""
    for module, constants in (
        (pupils, {"STEPS": 4, "VALIDATE_EVERY": 2, "SETTINGS": {"max_len": 8, "dim": 8}}),
        (calibration, {"USERS": 4, "WORLDS_EACH": 1, "STEPS": 5}),
    ):
        for name, value in constants.items():
            monkeypatch.setattr(module, name, value)
    monkeypatch.setenv("WHENCE_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def data() -> Interactions:
    return make_world(WorldConfig(users=40, items=30, events=7, genres=2, seed=1)).interactions


@pytest.fixture(scope="module")
def plain(data: Interactions) -> Run:
    """A run without a calibrator."""
    return whence.train(data, **SMALL)


@pytest.fixture
def lessons(tmp_path: Path) -> Mapping[str, Lesson]:
    """What two networks show on a small world."""
    config = draw_config("films", 4, users=40, items=40, events=8, groups=4)
    return WorldLessons(config, seeds=2, users=6).lessons(tmp_path / "other", show_progress=False)


def kept(folder: Path) -> set[str]:
    return {path.name for path in (folder / "cache" / "reasons").rglob("*.safetensors")}


def test_a_run_keeps_its_calibrator_and_recommends_with_it(
    data: Interactions, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = whence.train(data, calibrate=True, out=tmp_path / "run", **SMALL)
    again = whence.open_run(tmp_path / "run")
    assert run.calibrator is not None
    assert again.calibrator == run.calibrator
    found = Calibration.from_dict(again.training["calibration"])
    assert (found.kept, found.worlds, found.minutes) == (OWN, 3, calibration.MINUTES)
    assert found.as_dict() == again.training["calibration"]
    assert whence.recommend(again, user=3, k=1).picks[0].reason.calibrator == OWN
    again.show()
    assert "calibrator of this run" in capsys.readouterr().out
    assert len(kept(tmp_path)) == 3 * NEEDED, "networks and two lessons of each world"


def test_an_interrupted_calibration_resumes_and_ends_with_the_same_bytes(
    data: Interactions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whence.train(data, calibrate=True, out=tmp_path / "one", **SMALL)
    monkeypatch.setenv("WHENCE_CACHE", str(tmp_path / "again" / "cache"))
    lessons_of, calls = WorldLessons.lessons, iter(range(100))

    def interrupted(self: WorldLessons, *given: Any, **more: Any) -> Mapping[str, Lesson]:  # noqa: ANN401
        found = lessons_of(self, *given, **more)
        if next(calls) == 3:
            raise KeyboardInterrupt
        return found

    with monkeypatch.context() as patch:
        patch.setattr(WorldLessons, "lessons", interrupted)
        with pytest.raises(KeyboardInterrupt):
            whence.train(data, calibrate=True, out=tmp_path / "two", **SMALL)
    assert not (tmp_path / "two").exists(), "it is complete only with its calibrator"
    before = kept(tmp_path / "again")
    assert len(before) == 3 * 4
    trained: list[str] = []

    def counted(*given: Any, **more: Any) -> Any:  # noqa: ANN401
        trained.append("one")
        return fit_seeds(*given, **more)

    monkeypatch.setattr(pupils, "fit_seeds", counted)
    whence.train(data, calibrate=True, out=tmp_path / "two", **SMALL)
    assert len(trained) == NEEDED - 4, "the others are kept"
    assert content(tmp_path / "two") == content(tmp_path / "one")


def test_a_damaged_lesson_is_made_again(lessons: Mapping[str, Lesson], tmp_path: Path) -> None:
    config = draw_config("films", 4, users=40, items=40, events=8, groups=4)
    for path in (tmp_path / "other" / "lessons").glob("*.safetensors"):
        start = path.read_bytes()[:100]
        path.unlink()  # the lessons above are mapped from it
        path.write_bytes(start)
    again = WorldLessons(config, seeds=2, users=6).lessons(tmp_path / "other", show_progress=False)
    for name, one in lessons.items():
        assert torch.equal(one.features.items, again[name].features.items)


class Clock:
    """Worlds that take ten minutes each, on a clock of its own."""

    def __init__(self, lessons: Mapping[str, Lesson]) -> None:
        self.now, self.lessons = 0.0, lessons

    def monotonic(self) -> float:
        return self.now

    def make(self, _: WorldLessons, __: Path, *, until: float, **___: object) -> Any:  # noqa: ANN401
        if self.now + 600 > until:
            self.now = until
            raise OutOfTime("Time is up after 3 of 4 steps.")
        self.now += 600
        return self.lessons


@pytest.fixture
def clock(lessons: Mapping[str, Lesson], monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock(lessons)
    monkeypatch.setattr(calibration, "WORLDS_EACH", 10)
    monkeypatch.setattr(calibration, "time", SimpleNamespace(monotonic=found.monotonic))
    monkeypatch.setattr(
        WorldLessons, "lessons", lambda self, cache, **more: found.make(self, cache, **more)
    )
    return found


def test_worlds_are_made_in_turn_until_another_would_take_too_long(
    clock: Clock, plain: Run
) -> None:
    run = Calibrating(minutes=100, show_progress=False).complete(plain)
    assert clock.now == 80 * 60, "another would end after the 85 minutes for worlds"
    assert run.training["calibration"]["worlds"] == 8 - len(GENERATORS)


def test_the_time_of_the_caller_counts_too(clock: Clock, plain: Run) -> None:
    run = Calibrating(minutes=600, until=70 * 60, show_progress=False).complete(plain)
    assert run.training["calibration"]["worlds"] == 7 - len(GENERATORS)


def test_too_little_time_is_said_with_what_to_do(clock: Clock, plain: Run) -> None:
    with pytest.raises(OutOfTime, match=r"4 of the 6 worlds .* --calibrate-minutes"):
        Calibrating(minutes=50, show_progress=False).complete(plain)
    assert clock.now <= 50 * 60


def test_the_number_of_worlds_is_limited(clock: Clock, plain: Run) -> None:
    run = Calibrating(minutes=1e6, show_progress=False).complete(plain)
    assert run.training["calibration"]["worlds"] == 10 * len(GENERATORS)


def test_the_default_calibrator_stays_if_it_is_as_good(
    clock: Clock, plain: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration, "fit", lambda each, *, start, **_: start)
    run = Calibrating(minutes=100, show_progress=False).complete(plain)
    assert run.calibrator is None
    assert run.training["calibration"]["kept"] == DEFAULT
    assert "keep the default calibrator" in run.training["calibration"]["why"]


def test_what_is_reached_is_what_scoring_says(lessons: Mapping[str, Lesson]) -> None:
    lesson, default = lessons[ALL_SEEDS], default_calibrator()
    found, scores = Reached.of([lesson, lesson], default), scores_of(lesson, default)
    assert found.log_probability == pytest.approx(log_probability_of_truth(lesson, default))
    for name in ("precision", "coverage", "false_claims"):
        wanted = getattr(scores, name)(0.9)
        assert getattr(found, name) == (None if math.isnan(wanted) else wanted)
    examples = lesson.examples()
    said = default(examples.features).exp().detach().double().numpy()
    truth = examples.truth.double().numpy()
    log = np.log(said, where=truth > 0, out=np.zeros_like(said))
    assert found.log_probability == pytest.approx((truth * log).sum(axis=-1).mean(), abs=1e-5)


def test_the_truth_itself_has_the_highest_score(lessons: Mapping[str, Lesson]) -> None:
    """The score is proper, so nothing is won by stating too much or too little."""
    lesson = lessons[ALL_SEEDS]
    truth = lesson.examples().truth

    def stating(power: float) -> Any:  # noqa: ANN401
        stated = truth**power
        return lambda _: (stated / stated.sum(dim=-1, keepdim=True)).log()

    scores = [log_probability_of_truth(lesson, stating(power)) for power in (0.5, 1.0, 2.0)]
    assert scores[1] == max(scores)


def test_a_simple_model_that_wins_needs_none(plain: Run, data: Interactions) -> None:
    simple = whence.train(data, model="popularity", show_progress=False)
    run = Calibrating(show_progress=False).complete(simple)
    assert run.calibrator is None
    found = Calibration.from_dict(run.training["calibration"])
    assert found.kept is None
    assert "its rule is its reason" in found.why


@pytest.mark.parametrize("name", MODELS)
def test_every_model_is_refused_before_the_training_or_never(name: str) -> None:
    spec = MODELS[name]
    asked = Asked.of(name, "default", "normal", None, None, None, "cpu")
    counts = Counts(items=NOMINAL.items, users=NOMINAL.items)
    settings = asked.resolve(NOMINAL).settings
    model = build_model(name, settings, counts, torch.Generator())
    assert build(spec.config, settings) == model.config
    calibrating = Calibrating()
    if model.reads_history and not isinstance(model, HasOwnReasons):
        calibrating.check_model(model, name)
    else:
        with pytest.raises(InputError, match=rf"{name} (reads no history|is the reason)"):
            calibrating.check_model(model, name)


def unread() -> Interactions:
    raise AssertionError("the data are not needed to say this")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"model": "neumf", "calibrate": True}, "neumf reads no history"),
        ({"model": "popularity", "calibrate": True}, "rule of popularity is the reason"),
        ({"calibrate": True, "calibrate_minutes": 0}, "must be above 0, not 0"),
        ({"calibrate": True, "calibrate_minutes": math.nan}, "must be above 0, not nan"),
        ({"calibrate_minutes": 5}, "Add --calibrate"),
    ],
)
def test_what_cannot_be_calibrated_is_one_sentence(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        whence.train(unread, **given)


def test_data_that_no_world_resembles_are_refused_before_the_training() -> None:
    few = interactions_of([[1, 2, 3, 4, 5]] * 5)
    with pytest.raises(InputError, match="10 items with events"):
        whence.train(few, calibrate=True, **SMALL)


def test_a_folder_that_cannot_be_written_is_said_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WHENCE_CACHE", str(tmp_path / "file"))
    with pytest.raises(InputError, match="Set WHENCE_CACHE"):
        whence.train(unread, calibrate=True, **SMALL)


@pytest.fixture
def prepared(data: Interactions, tmp_path: Path) -> Path:
    return data.save(tmp_path / "prepared")


OPTIONS = ("--model", "sasrec", "--set", "steps=5,dim=8,max_len=6", "--seeds", 1)


def test_the_command_says_how_long_it_takes_and_what_it_reached(
    prepared: Path, tmp_path: Path
) -> None:
    done = command("train", prepared, "--out", tmp_path / "run", "--calibrate", *OPTIONS)
    assert done.returncode == 0, done.stderr
    said, table = " ".join(done.stderr.split()), " ".join(done.stdout.split())
    assert "Calibrating the reasons, on worlds like the data, takes at most 60 minutes." in said
    assert "Reasons said at 90%, on 3 held-out worlds like the data (films, shop, music)" in table
    assert "of this run" in table
    assert "learned on 3 worlds like the data" in table
    doctor = " ".join(command("doctor").stdout.split())
    assert "worlds of calibrations" in doctor


def test_the_document_has_the_same_facts(prepared: Path, tmp_path: Path) -> None:
    words = ("--calibrate", "--calibrate-minutes", 7, *OPTIONS, "--json")
    done = command("train", prepared, "--out", tmp_path / "run", *words)
    found = json.loads(done.stdout)["calibration"]
    assert found["minutes"] == 7
    assert set(found["held_out"]) == {OWN, DEFAULT}
    assert set(found["held_out"][OWN]) == {
        "log_probability", "precision", "coverage", "false_claims",
    }  # fmt: skip
    assert json.loads((tmp_path / "run" / "run.json").read_text())["training"][
        "calibration"
    ] == found  # fmt: skip


def test_a_limit_without_a_calibration_is_refused(prepared: Path, tmp_path: Path) -> None:
    done = command("train", prepared, "--out", tmp_path / "run", "--calibrate-minutes", 7)
    assert done.returncode == 2
    assert "Add --calibrate" in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_training_says_nothing_of_calibration_unless_asked(plain: Run) -> None:
    assert "calibration" not in plain.training
    assert replace(plain, calibrator=None).calibrator is None
