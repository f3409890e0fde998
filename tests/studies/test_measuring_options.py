"""A study whose variants differ only in how they are measured: trained once, measured twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

import whence
from whence.data import last_two
from whence.models.sasrec import SASRecConfig
from whence.training import TrainingConfig
from whence_studies.cache import MeasuringPlan, StudyCache
from whence_studies.measurements.explainer_agreement import agreement
from whence_studies.measurements.measurement import MeasuredRun, NoOptions
from whence_studies.measurements.point_sample import PointSample
from whence_studies.records import NOT_RUN, NOT_THERE, Record
from whence_studies.results import rows_done
from whence_studies.runner import run_study
from whence_studies.study import Study, find_study

Tiny = Callable[..., Path]
CHANGES = (
    ('"accuracy"', '"agreement"'),
    (
        "seeds = 3",
        'seeds = 3\nmeasuring = { agreement = { points = 4 } }\ncurves = ["histograms"]\n'
        'groups = { Few = ["ρ(∇, α)", "ρ(|φ|, α first)", "ρ(∇, α first 2)"] }',
    ),
    ("one = { settings = { n_blocks = 1 } }", "one = {}"),
    (
        "two = { settings = { n_blocks = 2 }, training = { steps = 8 } }",
        'two = { measuring = { agreement = { drawn = "uniformly" } } }',
    ),
    ('"recall@10 of 101"', '"ρ(∇, α)"'),
)
COLUMNS = 3 + 4 * 20


@pytest.fixture
def study(tiny: Tiny) -> Study:
    return find_study(str(tiny(*CHANGES)))


def run(study: Study, cache: Path, minutes: float | None = None) -> list[Record]:
    return run_study(study, cache=StudyCache(cache), minutes=minutes, show_progress=False)


def kept(cache: Path) -> tuple[dict[Path, int], dict[str, int]]:
    """The run folders and the measured files, with when each was written."""
    runs = {
        folder: (folder / "run.json").stat().st_mtime_ns for folder in (cache / "runs").iterdir()
    }
    files = {path.name: path.stat().st_mtime_ns for path in (cache / "measured").iterdir()}
    return runs, files


def test_variants_that_differ_in_measuring_share_a_training(
    study: Study, tmp_path: Path, data_folder: Path
) -> None:
    records = run(study, tmp_path / "cache")
    runs, files = kept(tmp_path / "cache")
    assert len(runs) == 1
    assert len(files) == 2
    assert all(next(iter(runs)).name in name for name in files)
    data = whence.load(data_folder)
    by_hand = whence.train(
        data,
        model="sasrec",
        model_settings=asdict(SASRecConfig(max_len=8, dim=8)),
        training=TrainingConfig(batch_size=16, steps=6),
        seeds=3,
        show_progress=False,
    )
    asked = MeasuredRun(by_hand, last_two(data), "validation", False)
    for row, how in (("one", PointSample(4)), ("two", PointSample(4, "uniformly"))):
        expected = agreement(asked, how)
        own = [one for one in records if one.row == row]
        assert len(own) == COLUMNS
        for record in own:
            if record.column == "ρ(∇, α first 2)":
                assert (record.value, record.verdict) == (None, NOT_THERE)
            else:
                of_seeds = expected[record.column].per_seed
                assert record.value == pytest.approx(sum(of_seeds) / 3), record.column
    values = {(one.row, one.column): one.value or 0.0 for one in records}
    assert values["one", "ρ(∇, α)"] != values["two", "ρ(∇, α)"]
    difference = values["two", "ρ(∇, α)"] - values["one", "ρ(∇, α)"]
    assert records[-1].value == pytest.approx(difference)


def test_it_resumes_between_two_variants(study: Study, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert {one.verdict for one in run(study, cache, minutes=0)} == {NOT_RUN}

    def stop_after_one(records: list[Record]) -> None:
        if rows_done(study, records)[0] == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_study(study, cache=StudyCache(cache), show_progress=False, keep=stop_after_one)
    runs, files = kept(cache)
    assert (len(runs), len(files)) == (1, 1)
    half = run(study, cache, minutes=0)
    assert rows_done(study, half) == (1, 2)
    records = run(study, cache)
    assert records == run(study, tmp_path / "calm")
    assert [one for one in half if one.row == "one"] == [one for one in records if one.row == "one"]
    runs_after, files_after = kept(cache)
    assert runs_after == runs, "nothing was trained again"
    assert files.items() < files_after.items(), "nor measured again"


def test_other_points_do_not_train_again(study: Study, tiny: Tiny, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    records = run(study, cache)
    runs, files = kept(cache)
    more = find_study(str(tiny(*CHANGES, ("points = 4", "points = 5"), name="more")))
    changed = run(more, cache)
    runs_after, files_after = kept(cache)
    assert runs_after == runs
    assert len(files_after) == 4
    assert files.items() < files_after.items()
    assert (records[0].n, changed[0].n) == (4, 5)
    assert changed[0].protocol.startswith("5 validation events")


def test_measured_values_are_cached_by_their_options() -> None:
    one, two = PointSample(4), PointSample(4, "uniformly")
    keys = {
        MeasuringPlan("agreement", "validation", one).key,
        MeasuringPlan("agreement", "validation", two).key,
        MeasuringPlan("agreement", "test", one).key,
        MeasuringPlan("controls", "validation", one).key,
        MeasuringPlan("agreement", "validation", PointSample(5)).key,
        MeasuringPlan("agreement", "validation", one, edition=2).key,
    }
    assert len(keys) == 6
    assert all(set('/\\ :*?"<>|').isdisjoint(key) for key in keys)
    assert MeasuringPlan("accuracy", "test", NoOptions()).key == "accuracy-test"
