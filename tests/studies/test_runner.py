"""A study is trained once, goes on after any stop, and comes to the same records."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import whence
from whence.data import last_two
from whence.errors import InputError
from whence.models.sasrec import SASRecConfig
from whence.training import TrainingConfig
from whence_studies.cache import CachedColumns, StudyCache, default_folder
from whence_studies.claims import Estimate
from whence_studies.measurements.measurement import SeedColumn
from whence_studies.records import (
    NEEDS_FILE,
    NOT_RUN,
    NOT_THERE,
    Record,
    fill_from_earlier,
    read_records,
    write_records,
)
from whence_studies.results import (
    AGREES,
    HIGHER,
    LOWER,
    ONE_SEED,
    UNPUBLISHED,
    StudyResults,
    compare_with_published,
    rows_done,
)
from whence_studies.runner import run_study
from whence_studies.study import Study, find_study

Tiny = Callable[..., Path]


def run(study: Study, cache: Path, minutes: float | None = None, only: str = "") -> list[Record]:
    return run_study(
        study,
        cache=StudyCache(cache),
        minutes=minutes,
        only=[only] if only else (),
        show_progress=False,
    )


def times(cache: Path) -> dict[Path, int]:
    """When each file of the trained runs was written."""
    files = [path for path in (cache / "runs").rglob("*") if path.is_file()]
    return {path: path.stat().st_mtime_ns for path in files}


@pytest.fixture
def study(tiny: Tiny) -> Study:
    return find_study(str(tiny()))


def test_records_equal_a_training_by_hand(study: Study, data_folder: Path, tmp_path: Path) -> None:
    records = run(study, tmp_path / "cache")
    columns = ["recall@10 of 101", "recall@10", "NDCG@10", "MRR"]
    assert [(one.row, one.column) for one in records[:-1]] == [
        (row, column) for row in ("one", "two") for column in columns
    ]
    data = whence.load(data_folder)
    by_hand = whence.train(
        data,
        model="sasrec",
        model_settings=asdict(SASRecConfig(max_len=8, dim=8, n_blocks=2)),
        training=TrainingConfig(batch_size=16, steps=8),
        seeds=3,
        show_progress=False,
    )
    split = last_two(data)
    for record in records[4:8]:
        values = [
            whence.evaluate(model, split, "validation", 8)[record.column].value
            for model in by_hand.models.values()
        ]
        assert record.value == pytest.approx(np.mean(values))
        assert record.spread == pytest.approx(np.std(values, ddof=1))
        error = stats.sem(values)
        assert record.interval == pytest.approx(stats.t.interval(0.95, 2, np.mean(values), error))
        assert (record.n, record.seeds) == (300, (0, 1, 2))
        assert (record.dataset, record.model) == (str(data_folder), "sasrec")
        assert (record.published, record.verdict) == (None, UNPUBLISHED)
        assert record.protocol.startswith("300 validation events, last-two split by time; ranked")
        assert record.machine == f"{os.cpu_count()} CPU cores"
        assert record.command == f"whence study run {study.name}"
    claim = records[-1]
    assert (claim.row, claim.column) == ("two blocks are not better", "recall@10 of 101")
    assert claim.value == pytest.approx((records[4].value or 0) - (records[0].value or 0))
    assert claim.verdict == "holds"
    assert rows_done(study, records) == (2, 2)


def test_trained_runs_are_shared_between_studies(study: Study, tiny: Tiny, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    records = run(study, cache)
    before = times(cache)
    assert run(study, cache) == records
    other = find_study(str(tiny(('held = "validation"', 'held = "test"'), name="other")))
    on_test = run(other, cache)
    assert times(cache) == before, "nothing was trained again"
    assert "300 test events" in on_test[0].protocol
    wider = find_study(str(tiny(("dim = 8", "dim = 4"), name="wider")))
    run(wider, cache)
    assert len({path.parents[2] for path in times(cache) if path.name == "metrics.json"}) == 4


def test_without_time_nothing_is_trained_and_the_next_call_resumes(
    study: Study, tmp_path: Path
) -> None:
    records = run(study, tmp_path / "cache", minutes=0)
    assert {one.verdict for one in records} == {NOT_RUN}
    assert {one.value for one in records} == {None}
    assert rows_done(study, records) == (0, 2)
    assert run(study, tmp_path / "cache") == run(study, tmp_path / "calm")


def test_a_stopped_study_gives_the_same_records(tiny: Tiny, tmp_path: Path) -> None:
    study = find_study(str(tiny(("steps = 6", "steps = 60"), ("steps = 8", "steps = 90"))))
    stops = 0
    records = run(study, tmp_path / "cache", minutes=0.3 / 60)
    while any(one.verdict == NOT_RUN for one in records):
        stops += 1
        records = run(study, tmp_path / "cache", minutes=0.3 / 60)
    assert stops > 1
    assert records == run(study, tmp_path / "calm")
    assert not list((tmp_path / "cache" / "runs").glob(".*"))


@pytest.mark.kill
def test_a_killed_study_gives_the_same_records(tiny: Tiny, tmp_path: Path) -> None:
    path = tiny(("steps = 6", "steps = 500"))
    cache = tmp_path / "cache"
    command = [sys.executable, "-m", "whence", "study", "run", str(path), "--out", str(tmp_path),
               "--cache", str(cache)]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    for _ in range(2):
        begun, deadline = time.time_ns(), time.monotonic() + 60
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environment)
        while not any(
            path.stat().st_mtime_ns > begun for path in cache.glob("runs/.*/seed*.safetensors")
        ):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert {one.verdict for one in read_records("tiny", tmp_path)} == {NOT_RUN}
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert read_records("tiny", tmp_path) == run(find_study(str(path)), tmp_path / "calm")


def test_every_new_record_is_kept_at_once(study: Study, tmp_path: Path) -> None:
    kept: list[tuple[int, int]] = []
    run_study(
        study,
        cache=StudyCache(tmp_path / "cache"),
        show_progress=False,
        keep=lambda records: kept.append(rows_done(study, records)),
    )
    assert kept == [(0, 2), (1, 2), (2, 2)]


def test_unusable_cache_entries_are_replaced(study: Study, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    records = run(study, cache)
    for path in [*(cache / "runs").rglob("weights.safetensors")][:2]:
        path.write_bytes(b"broken")
    for path in [*(cache / "runs").rglob("manifest.json")][-1:]:
        path.unlink()
    for path in (cache / "measured").iterdir():
        path.write_text('{"seeds": 3}')
    assert run(study, cache) == records


def test_missing_data_are_reported(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHENCE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    study = find_study(str(tiny(("[datasets]", '[datasets]\nSteam = { data = "steam-sasrec" }'))))
    records = run(study, tmp_path / "cache")
    assert {one.verdict for one in records if one.dataset == "steam-sasrec"} == {NEEDS_FILE}
    assert rows_done(study, records) == (2, 4)
    claims = [one.verdict for one in records if one.row == study.claims[0].text]
    assert claims == [NEEDS_FILE, "holds"]


def test_only_some_datasets(tiny: Tiny, tmp_path: Path) -> None:
    small = '[datasets]\nSmall = { data = "world", settings = { max_len = 4, dim = 4 } }'
    study = find_study(str(tiny(("[datasets]", small))))
    records = run(study, tmp_path / "cache", only="World")
    assert {one.verdict for one in records if one.dataset == "world"} == {NOT_RUN}
    assert rows_done(study, records) == (2, 4)
    with pytest.raises(InputError, match="has no dataset 'Word': did you mean 'World'"):
        run(study, tmp_path / "cache", only="Word")


def test_a_missing_seed_is_left_out_of_pairs(study: Study) -> None:
    def measured(seeds: tuple[int, ...], *values: float) -> dict[str, CachedColumns]:
        found = SeedColumn(values, 300, "p", "higher is better")
        return {"accuracy": CachedColumns(seeds, {"recall@10 of 101": found})}

    one, two = study.cells()
    found = {one: measured((0, 1, 2), 0.1, 0.2, 0.9), two: measured((0, 2, 3), 0.3, 0.8, 0.7)}
    records = StudyResults(study, "2 CPU cores", "c", found).records()
    claim = records[-1]
    assert claim.seeds == (0, 2)
    assert claim.value == pytest.approx((0.2 - 0.1) / 2)
    assert records[1].verdict == NOT_THERE
    nothing = StudyResults(study, "m", "c", {one: {}, two: {}}).records()
    assert {record.verdict for record in nothing[:-1]} == {NOT_RUN}
    assert fill_from_earlier(nothing, records) == records, (
        "what was found before, or found to be absent"
    )
    alone = StudyResults(study, "m", "c", {**found, two: measured((7,), 0.3)}).records()
    assert alone[-1].verdict == "undecided"
    assert (alone[4].value, alone[4].interval) == (0.3, None)


@pytest.mark.parametrize(
    ("interval", "printed", "expected"),
    [
        ((0.816, 0.818), "0.82", AGREES),
        ((0.812, 0.8149), "0.82", LOWER),
        ((0.812, 0.8151), "0.82", AGREES),
        ((0.8251, 0.83), "0.82", HIGHER),
        ((0.8249, 0.83), "0.82", AGREES),
        ((0.816, 0.818), "0.820", LOWER),
        ((0.1, 0.2), None, UNPUBLISHED),
        (None, "0.82", ONE_SEED),
    ],
)
def test_agreement_is_to_the_published_precision(
    interval: tuple[float, float] | None, printed: str | None, expected: str
) -> None:
    assert compare_with_published(Estimate(0.8, 0.1, interval), printed) == expected


def test_records_hold_published_values(tiny: Tiny, tmp_path: Path) -> None:
    (tmp_path / "published").mkdir()
    (tmp_path / "published" / "tiny.json").write_text(
        '{"recall@10 of 101": {"SASRec": {"World": {"one": "0.95"}}}}'
    )
    records = run(find_study(str(tiny())), tmp_path / "cache")
    assert (records[0].published, records[0].verdict) == (0.95, LOWER)
    assert records[4].verdict == UNPUBLISHED


def test_records_round_trip(study: Study, tmp_path: Path) -> None:
    records = run(study, tmp_path / "cache")
    write_records(records, tmp_path)
    assert read_records("tiny", tmp_path) == records
    (tmp_path / "tiny.json").write_text('[{"study": 3}]')
    with pytest.raises(InputError, match=r"tiny.json does not hold the records of a study"):
        read_records("tiny", tmp_path)
    with pytest.raises(InputError, match="'whence study run none' to make them"):
        read_records("none", tmp_path)


def test_the_default_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WHENCE_CACHE", str(tmp_path))
    assert default_folder() == tmp_path
    monkeypatch.delenv("WHENCE_CACHE")
    assert default_folder() == Path.home() / ".cache" / "whence"
