"""The study of true reasons: complete, resumed from its cache, and judged."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from whence.reasons import pupils
from whence.worlds.designs import GENERATORS
from whence_studies.records import NOT_RUN, Record
from whence_studies.results import judge_by_records
from whence_studies.study import REASONS, Study, find_study
from whence_studies.tables import reasons, reasons_plan
from whence_studies.tables.trained_skips import Workspace

TINY = {
    "learned": 1,
    "reported": 2,
    "wide": 1,
    "users": 20,
    "fewer_users": 10,
    "seeds": 2,
    "steps": 5,
}


@pytest.fixture(scope="module")
def study() -> Study:
    return replace(find_study("reasons-truth"), measuring={REASONS: TINY})


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def records(study: Study, cache: Path) -> list[Record]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pupils, "STEPS", 4)
        patch.setattr(pupils, "VALIDATE_EVERY", 2)
        patch.setattr(reasons_plan, "draw_config", _tiny_world)
        patch.setattr(reasons_plan, "draw_wide_config", _tiny_wide_world)
        return reasons.measure(study, Workspace(cache, show_progress=False))


def _tiny_world(generator: str, seed: int) -> object:
    from whence.worlds import draw_config

    return draw_config(generator, seed, users=60, items=130, events=12)  # type: ignore[arg-type]


def _tiny_wide_world(generator: str, seed: int) -> object:
    from whence.worlds import draw_config

    return draw_config(generator, seed, users=60, items=170, events=8, groups=16)  # type: ignore[arg-type]


def test_every_row_has_its_figures(records: list[Record]) -> None:
    by_row = {(one.dataset, one.row) for one in records}
    for generator in GENERATORS:
        assert {(generator, row) for row in reasons.row_names()} <= by_row
    former = [one for one in records if one.row == reasons.FORMER]
    assert not [one for one in former if one.column.startswith(reasons.CALIBRATION)]
    shares = [one.value for one in records if one.value is not None]
    assert all(0 <= one <= 1 for one in shares)


def test_it_resumes_from_its_cache(
    study: Study, cache: Path, records: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("a network or a calibrator was trained again")

    monkeypatch.setattr(pupils, "STEPS", 4)
    monkeypatch.setattr(pupils, "VALIDATE_EVERY", 2)
    monkeypatch.setattr(pupils, "fit_seeds", never)
    monkeypatch.setattr(reasons, "fit", never)
    monkeypatch.setattr(reasons_plan, "draw_config", _tiny_world)
    monkeypatch.setattr(reasons_plan, "draw_wide_config", _tiny_wide_world)
    assert reasons.measure(study, Workspace(cache, show_progress=False)) == records


def test_the_default_calibrator_is_the_one_that_the_study_tests(
    study: Study, cache: Path, records: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert records
    monkeypatch.setattr(reasons_plan, "draw_config", _tiny_world)
    monkeypatch.setattr(reasons_plan, "draw_wide_config", _tiny_wide_world)
    found = reasons.learn_default(study, Workspace(cache, show_progress=False)).to_bytes()
    kept = (cache / "reasons" / "calibrators").glob("*.safetensors")
    assert found in [path.read_bytes() for path in kept]


def test_without_time_nothing_is_run(study: Study, tmp_path: Path) -> None:
    space = Workspace(tmp_path, until=time.monotonic() - 1, show_progress=False)
    found = reasons.measure(study, space)
    assert {one.verdict for one in found} == {NOT_RUN}
    assert {one.value for one in found} == {None}


def test_claims_name_rows_and_columns_that_exist(study: Study, records: list[Record]) -> None:
    places = {(one.dataset, one.row, one.column) for one in records}
    for claim in study.claims:
        for side in claim.sides:
            assert (side.dataset, side.variant, side.column or claim.column) in places
    judged = judge_by_records(study, records)
    assert len(judged) == len(records) + len(study.claims)
