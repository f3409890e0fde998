"""Toys with known attributions, and Table 1 and Figure 6 of Afchar & Hennequin (2020)."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch

from conftest import LIVELY, ncf_layout
from whence.contract import HasSelections
from whence.data import last_two
from whence.data.histories import Cases
from whence.errors import InputError
from whence.experts import InterpretableMLP, fit
from whence.randomness import Randomness
from whence.trust.stability.seed_pairs import choice_in_common, same_choice
from whence_studies.cache import StudyCache
from whence_studies.checking import check_study
from whence_studies.claims import HOLDS
from whence_studies.measurements.expert_selections import (
    ALIKE,
    ALL_FILMS,
    LARGEST,
    MEAN,
    MOST,
    SHARED_CHOICE,
    SIMPLE,
    selections_of,
)
from whence_studies.measurements.group_agreement import SAME, same_where_chosen
from whence_studies.results import judge_by_records
from whence_studies.runner import run_study
from whence_studies.study import find_study
from whence_studies.tables.toys import ACCURACY, ATTRIBUTION, NOTEBOOK, ROWS, ToySchedule, measure
from whence_studies.toy_data import TOYS

TABLE_1 = """
NCF-MLP    content only   38.6  21.8
NCF-MLP    plain          71.5  43.8
Intrp-MLP  plain          67.8  40.6
"""


def test_published_values_of_table_1() -> None:
    published = find_study("attribution-movielens").published
    for line in TABLE_1.strip().splitlines():
        model, *variant, hits, gain = line.split()
        for column, text in (("HR@10 (%)", hits), ("NDCG@10 (%)", gain)):
            assert published[column][model]["ML-1M"][" ".join(variant)] == text
    shares = [
        float(published[column]["Intrp-MLP"]["ML-1M"]["plain"])
        for column in (SIMPLE, "S4 is selected most")
    ]
    assert sum(shares) == 1


def test_published_accuracies_of_toys() -> None:
    study = find_study("attribution-toys")
    check_study(study)
    printed = {
        rows[NOTEBOOK]["dataset"]: rows[NOTEBOOK][ACCURACY] for rows in study.published.values()
    }
    assert printed == {"a": "0.997", "b": "0.995", "d": "0.999"}


def test_every_row_of_every_toy() -> None:
    settings = {"steps": 6, "points": 32, "batch_size": 32}
    study = replace(find_study("attribution-toys"), measuring={"toys": settings}, seeds=3)
    records = measure(study, show_progress=False)
    rows = {(one.dataset, one.row) for one in records}
    assert rows == {(toy, row) for toy in TOYS for row in ROWS}
    with_experts = {one.row for one in records if one.column == ATTRIBUTION}
    assert with_experts == set(ROWS) - {"ordinary network"}
    assert all(one.value is not None and one.seeds == (0, 1, 2) for one in records)
    assert {one.column for one in records if one.published is not None} == {ACCURACY}
    assert all("6 steps of 32 points at 0.005" in one.protocol for one in records)
    claims = judge_by_records(study, records)[len(records) :]
    assert [one.dataset for one in claims] == ["a", "a", "b", "b", "d", "d"]
    assert all(one.interval is not None for one in claims), "every side is a cell of a table"


def test_invalid_schedules_are_rejected() -> None:
    with pytest.raises(InputError, match="Set steps, batch_size and points"):
        ToySchedule(steps=0)


def test_train_only_freezes_the_others() -> None:
    toy = TOYS["b"]
    model = InterpretableMLP(toy.family, (4, 4), Randomness(0).torch("init"))
    rows = toy.draw(64, Randomness(0).torch("evaluation")).rows

    def answers() -> torch.Tensor:
        with torch.no_grad():
            return model.expert_outputs(rows)

    before = answers()
    model.train_only([0, 1])
    fit(model, toy.batches(5, 64, seed=0), learning_rate=0.01)
    after = answers()
    assert (after[:2] != before[:2]).any(dim=(1, 2)).all()
    model.train_only([2])
    fit(model, toy.batches(5, 64, seed=0), learning_rate=0.01)
    last = answers()
    assert torch.equal(last[:2], after[:2])
    assert not torch.equal(last[2], after[2])


def test_one_level_after_another_learns_the_toy() -> None:
    toy = TOYS["a"]
    how = ToySchedule(steps=300, batch_size=128, learning_rate=0.02)
    model = ROWS["one level after another"](toy, 0, how)
    points = toy.draw(512, Randomness(0).torch("evaluation"))
    assert (model.scores(points.rows).argmax(dim=1) == points.labels).double().mean() > 0.95


def test_same_choice_by_hand() -> None:
    chosen = np.random.default_rng(0).integers(0, 3, (4, 50))
    found = same_choice(chosen)
    expected = [(chosen[i] == chosen[j]).mean() for i, j in combinations(range(4), 2)]
    assert found.measure().value == pytest.approx(np.mean(expected))
    assert np.mean(found.over_seeds()) == pytest.approx(np.mean(expected))


def test_same_where_chosen_by_hand() -> None:
    """Three seeds and four cases; only one seed selects a fourth expert."""
    chosen = np.array([[0, 0, 1, 2], [0, 1, 1, 2], [0, 1, 2, 2]])
    expected = [3 / 4, 2 / 4, 3 / 4]  # cases of both, by those of one and of the other, halved
    found = [np.mean(same_where_chosen(chosen, expert)) for expert in range(3)]
    assert found == pytest.approx(expected)
    both, either = choice_in_common(chosen == 0)
    assert both.pairs[np.triu_indices(3, 1)] == pytest.approx([1 / 4, 1 / 4, 1 / 4])
    assert either.pairs[np.triu_indices(3, 1)] == pytest.approx([1.5 / 4, 1.5 / 4, 1 / 4])
    chosen[1, 3] = 3
    assert same_where_chosen(chosen, 3) == []
    assert same_where_chosen(chosen, 4) == []


def test_same_where_chosen_sums_over_experts() -> None:
    chosen = np.random.default_rng(1).choice(4, (5, 60), p=[0.1, 0.2, 0.3, 0.4])
    pairs = list(combinations(range(5), 2))
    total = 0.0
    for expert in range(4):
        of, by = (
            [(np.mean(chosen[i] == expert) + np.mean(chosen[j] == expert)) / 2 for i, j in pairs],
            [np.mean((chosen[i] == expert) & (chosen[j] == expert)) for i, j in pairs],
        )
        share = np.mean(same_where_chosen(chosen, expert))
        assert share == pytest.approx(np.mean(by) / np.mean(of))
        total += share * np.mean(of)
    assert total == pytest.approx(same_choice(chosen).measure().value)


def test_the_movielens_study_from_end_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a synthetic release of four users."""
    data = ncf_layout(tmp_path, monkeypatch)
    study = find_study("attribution-movielens")
    small = {
        name: replace(model, settings={"dim": 4, "hidden_dims": [6, 4]})
        for name, model in study.models.items()
    }
    study = replace(
        study,
        models=small,
        seeds=3,
        training={**study.training, "epochs": 2, "batch_size": 64},
        measuring={"evidence": {"points": 8}},
    )
    cache = StudyCache(tmp_path / "cache")
    records = run_study(study, cache=cache, show_progress=False)
    found = {(one.model, one.row, one.column): one for one in records}
    assert found["intrp-ncf", "plain", "HR@10 (%)"].value is not None
    assert found["content-ncf", "content only", "NDCG@10 (%)"].published == 21.8
    most = [found["intrp-ncf", "plain", column].value for column in MOST.values()]
    assert sum(most) == pytest.approx(1)  # type: ignore[arg-type]
    assert sum(found["intrp-ncf", "plain", one].value for one in MEAN.values()) == pytest.approx(1)  # type: ignore[misc]
    simple = found["intrp-ncf", "plain", SIMPLE].value
    assert simple == pytest.approx(1 - (most[-1] or 0))
    assert found["content-ncf", "plain", SAME].value is None, "it has no experts"
    alike = [found["intrp-ncf", "plain", column] for column in ALIKE.values()]
    assert any(one.value is not None and SHARED_CHOICE in one.protocol for one in alike)
    assert all(found["intrp-ncf", "plain", one].value is not None for one in (LARGEST, SAME))
    assert found["intrp-ncf", "plain", "KL between seeds, shapley"].value is not None
    less, more = (found["content-ncf", row, ALL_FILMS].value for row in ("content only", "plain"))
    assert (more or 0) - (less or 0) == (3_883 + 6_040) * 4 + 2 * 4 * 6
    claims = [one for one in records if one.row == study.claims[0].text]
    assert claims[0].verdict in (HOLDS, "does not hold", "undecided")
    cell = next(cell for cell in study.cells() if cell.model == "Intrp-MLP")
    assert cell.variant == "plain"
    assert len(last_two(data).held["test"]) == found["intrp-ncf", "plain", SIMPLE].n


def test_selections_come_from_the_model() -> None:
    model = LIVELY["intrp-ncf"](items=30)
    users = np.arange(7)
    cases = Cases(np.zeros(0, np.int32), users, users, users, users + 3)
    assert isinstance(model, HasSelections)
    expected = model.selections(model.read(cases, 1), torch.from_numpy(cases.targets)).weights
    np.testing.assert_allclose(selections_of(model, cases), expected.detach())
