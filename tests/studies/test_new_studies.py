"""The studies of accuracy and of its effect on reasons, at a tiny size."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from whence_studies.cache import StudyCache
from whence_studies.charts.study_charts import study_charts
from whence_studies.charts.study_tables import ELSEWHERE, OVER_USERS, study_tables
from whence_studies.records import NOT_RUN, NOT_THERE, Record
from whence_studies.results import UNPUBLISHED, rows_done
from whence_studies.runner import run_study
from whence_studies.study import Study, StudyDataset, StudyModel, Variant, find_study, study_files

SIMPLE = ("popularity", "recent-ease")
"""Models in closed form, which the study itself leaves to sequential-default."""
TINY = {"max_len": 6, "dim": 8, "dropout": 0.1}
TRAINING = {
    "steps": 60,
    "batch_size": 32,
    "warmup": 2,
    "validate_every": 20,
    "patience": 2,
    "learning_rate": 0.01,
}


def shrunk(
    study: Study, dataset: str, data: str, measuring: Mapping[str, Any], seeds: int = 3
) -> Study:
    """Return the study of a small world in place of one dataset, with small networks."""
    models = {
        name: replace(
            model,
            on={dataset: {key: TINY[key] for key in TINY if key in model.on.get(dataset, {})}},
        )
        for name, model in study.models.items()
    }
    settings = {} if study.models["SASRec"].on else TINY
    variants = {
        name: replace(
            one,
            training={
                key: min(value, TRAINING[key]) if key in TRAINING else value
                for key, value in one.training.items()
            },
        )
        for name, one in study.variants.items()
    }
    return replace(
        study,
        datasets={dataset: StudyDataset(data, settings, seeds=seeds)},
        models=models,
        variants=variants,
        training=TRAINING,
        measuring=measuring,
        seeds=3,
        claims=tuple(
            replace(one, datasets=(dataset,))
            for one in study.claims
            if dataset in (one.datasets or study.datasets)
        ),
    )


def run(study: Study, cache: Path, minutes: float | None = None) -> list[Record]:
    return run_study(study, cache=StudyCache(cache), minutes=minutes, show_progress=False)


@pytest.fixture(scope="module")
def frontier(data_folder: Path) -> Study:
    study = find_study("sequential-frontier")
    models = {
        name: one if name == "SASRec" else replace(one, seeds=3)
        for name, one in study.models.items()
    }
    models |= {name: StudyModel(name) for name in SIMPLE}
    variants = dict(study.variants)
    variants["one negative"] = replace(variants["one negative"], seeds=2)
    variants |= {"closed form": Variant(models=SIMPLE)}
    study = replace(study, models=models, variants=variants)
    return shrunk(study, "ML-1M 3706", str(data_folder), {"together": {"size": 2}}, seeds=4)


@pytest.fixture(scope="module")
def of_frontier(frontier: Study, tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    return run(frontier, tmp_path_factory.mktemp("frontier"))


def test_the_frontier(frontier: Study, of_frontier: list[Record]) -> None:
    records = of_frontier
    assert rows_done(frontier, records) == (6, 6)
    found = {(one.model, one.row, one.column): one for one in records}
    seeds = {(one.model, one.row): len(one.seeds) for one in records if one.column == "NDCG@10"}
    assert seeds["sasrec", "full softmax"] == 4
    assert seeds["sasrec", "one negative"] == 2
    assert seeds["esasrec", "full softmax"] == seeds["bert4rec", "full softmax"] == 3
    assert {seeds[model, "closed form"] for model in SIMPLE} == {1}
    for model in ("sasrec", "esasrec", "bert4rec"):
        alone, users, both, gained = (
            found[model, "full softmax", f"NDCG@10{kind}"]
            for kind in ("", " over users", " together", " gained together")
        )
        assert users.value == pytest.approx(alone.value)
        assert users.spread == pytest.approx(alone.spread)
        assert both.value is not None
        assert gained.value == pytest.approx(both.value - (users.value or 0))
        assert users.interval
        assert users.interval[0] < (users.value or 0) < users.interval[1]
    closed = found["recent-ease", "closed form", "NDCG@10 over users"]
    assert closed.interval is not None, "one seed has an interval over users"
    assert found["recent-ease", "closed form", "NDCG@10 together"].verdict == NOT_THERE
    claims = [one for one in records if one.row in {claim.text for claim in frontier.claims}]
    assert all(one.value is not None for one in claims)
    limits = {one.column: one.protocol for one in claims if " over users" in one.column}
    assert all("95 % interval over users; expected not lower" in one for one in limits.values())
    of_eight = found["sasrec", "full softmax", "NDCG@10 together"]
    assert "mean over all 6 such ensembles of 4 seeds" in of_eight.protocol


def test_what_the_page_of_the_frontier_says(frontier: Study, of_frontier: list[Record]) -> None:
    records = of_frontier
    tables = {table.title: table for table in study_tables(frontier, records)}
    assert tables[ELSEWHERE].headings == ("model", "dataset", "source", "recall@10", "NDCG@10")
    timed = "Tikhonovich et al. (2025); reads timestamps"
    assert ("FuXi-α", "ML-1M 3706", timed, "0.3164", "0.1813") in tables[ELSEWHERE].rows
    together = frontier.groups["Five seeds together"]
    note = OVER_USERS.format(", ".join(together))
    assert note in tables["Five seeds together, full softmax"].notes
    assert not any(
        "over users" in one for one in tables["Accuracy of one model, full softmax"].notes
    )
    charts = study_charts(frontier, records)
    assert set(frontier.figures.values()) <= set(charts)
    drawn = json.dumps(charts["Five seeds together, full softmax"].to_dict())
    assert "interval over users" in drawn
    assert "interval over seeds" not in drawn
    accuracy = json.dumps(charts["Accuracy of one model, full softmax"].to_dict())
    assert "interval over seeds" in accuracy
    assert "interval over users" not in accuracy


def test_an_interrupted_frontier_gives_the_same_records(frontier: Study, tmp_path: Path) -> None:
    longer = {**TRAINING, "steps": 200, "patience": 20}
    few = {name: frontier.models[name] for name in ("SASRec", "recent-ease")}
    variants = {
        "full softmax": replace(frontier.variants["full softmax"], models=("SASRec",)),
        "closed form": replace(frontier.variants["closed form"], models=("recent-ease",)),
    }
    study = replace(frontier, models=few, variants=variants, training=longer, claims=())
    records, stops = run(study, tmp_path / "cache", 0.5 / 60), 0
    while any(one.verdict == NOT_RUN for one in records):
        stops += 1
        assert stops < 100
        records = run(study, tmp_path / "cache", 0.5 / 60)
    assert stops > 1
    assert records == run(study, tmp_path / "calm")


def test_the_limits_of_claims_are_published_values() -> None:
    """Also: what is published is transcribed a second time."""
    study = find_study("sequential-frontier")
    page = """
    SASRec .2929 .1684 eSASRec .3133 .1772 FuXi-α .3164 .1813 HSTU .3037 .1719
    SASRec .0921 .0531 eSASRec .0928 .0523 FuXi-α .0809 .0451 HSTU .0788 .0439
    SASRec .0970 .0580 eSASRec .0939 .0538 FuXi-α .0765 .0437 HSTU .0778 .0450
    HSTU-large .3294 .1893
    """.split()
    printed = [(page[i], f"0{page[i + 1]}", f"0{page[i + 2]}") for i in range(0, len(page), 3)]
    held = {
        (cell.model, values["recall@10"], values["NDCG@10"])
        for cell, values in study.published_elsewhere().items()
    }
    assert held == set(printed)
    known = {value for _, *values in printed for value in values}
    limits = [claim for claim in study.claims if claim.limit]
    assert len(limits) == 10
    for claim in limits:
        assert f"{claim.limit:.4f}" in known
        assert claim.text.endswith(f"{claim.limit:.4f}")
        assert claim.text.startswith("one model ")
        assert claim.of.column in ("recall@10 over users", "NDCG@10 over users")


@pytest.fixture
def recipes() -> Study:
    measuring = {
        "truth": {"questions": 10, "explainers": ["leave-one-out", "shapley", "rollout",
                                                  "gradient-input", "random"]},
        "agreement": {"points": 10},
        "deletion": {"histories": 5},
        "confidence": {"users": 20, "shuffles": 2},
    }  # fmt: skip
    return shrunk(find_study("sequential-recipes"), "World", "world", measuring)


def test_the_recipes(recipes: Study, tmp_path: Path) -> None:
    records = run(recipes, tmp_path / "cache")
    assert not {(one.column, one.verdict) for one in records if one.value is None}
    assert rows_done(recipes, records) == (4, 4)
    claims = {claim.text for claim in recipes.claims}
    assert [one.row for one in records if one.value is None] == []
    assert {one.seeds for one in records} == {(0, 1, 2)}
    assert {one.row for one in records} - claims == {"2021", "converged", "full softmax"}


def test_only_worlds_have_true_causes(recipes: Study, data_folder: Path, tmp_path: Path) -> None:
    real = StudyDataset(str(data_folder), TINY, measurements=("accuracy", "stability"))
    variants = {"2021": recipes.variants["2021"]}
    study = replace(recipes, datasets={"World": real}, variants=variants, claims=())
    records = run(study, tmp_path / "cache")
    verdicts = {one.column: one.verdict for one in records}
    assert verdicts["precision of shapley, caused"] == NOT_THERE
    assert verdicts["top-10 overlap"] == UNPUBLISHED
    assert rows_done(study, records) == (1, 1)


@pytest.mark.parametrize("name", study_files())
def test_a_claim_after_another_setting_is_transferred(name: str) -> None:
    for claim in find_study(name).claims:
        assert claim.transferred_from or not claim.source.startswith("after "), claim.text
        assert not (claim.transferred_from and claim.source == "new here"), claim.text
