"""The answer follows from the figures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from whence.cli import app
from whence.errors import InputError
from whence.explainers import EXPLAINERS
from whence.explainers.measured import (
    SIGNED_ROLLOUT,
    Figures,
    Measured,
    SeedScores,
    as_good_as_best,
    measured_here,
    read_measured,
)
from whence.explainers.signed_rollout import SIGNS, SignedRollout
from whence.files import write_json
from whence.report.which import NOT_MEASURED, answer, as_markdown, explainer_rows, fill_page


def about(value: float) -> SeedScores:
    return [value - 0.01, value, value + 0.01]


def figures(right: float, *, inputs: float = 1, time: float = 1, sign: float = 0.5) -> Figures:
    return Figures(
        signed=inputs > 1,
        inputs=inputs,
        precision={"caused": about(right), "prevented": about(right), "taste": about(right)},
        sign=about(sign - 0.1),
        weighted_sign=about(sign),
        rank=about(right),
        milliseconds=about(time),
    )


@pytest.fixture
def measured() -> Measured:
    """Synthetic: leave-one-out is best and slow; lime is not measurably better, and slower."""
    signs = {"fading": 0.6, "gradient-input": 0.8, "leave-one-out": 0.9, "both": 0.9}
    explainers = {
        "rollout": figures(0.2),
        **{
            SIGNED_ROLLOUT + name: figures(0.3, inputs=3 if sign < 0.9 else 18, sign=sign)
            for name, sign in signs.items()
        },
        "fading": figures(0.5, inputs=2, time=2),
        "leave-one-out": figures(0.7, inputs=17, time=20),
        "shapley": figures(0.6, inputs=1024, time=30),
        "lime": replace(
            figures(0.7, inputs=1024, time=40), precision={
                reason: [0.72, 0.69, 0.72] for reason in ("caused", "prevented", "taste")
            },
        ),
        "random": figures(0.1, inputs=0, time=0.1),
    }  # fmt: skip
    return Measured(
        command="python which.py",
        machine="1 abacus",
        versions={"whence": "0"},
        seeds=[0, 1, 2],
        settings={"users": 3_000, "max_len": 20, "steps": 2_500},
        questions={"caused": 500, "prevented": 500, "taste": 420},
        reference="shapley:coalitions=4096",
        sure={"SASRec": about(0.9)},
        models={"SASRec": explainers},
    )


def said(measured: Measured) -> str:
    return "\n".join(answer(measured))


def test_the_quickest_of_those_as_good_as_the_best(measured: Measured) -> None:
    assert measured.recommended() == "leave-one-out"
    text = said(measured)
    assert "Use `leave-one-out`. Averaged over SASRec" in text
    assert (
        "in 0.700 ± 0.025 of the cases, and random scores in 0.100 ± 0.025. It takes 20 ms" in text
    )
    assert "`lime`, with 0.710 ± 0.043, is not measurably better and takes 40 ms" in text
    assert "at most 4 inputs per history, use `fading`. It is right in 0.500" in text
    assert "What caused a choice: `lime`, 0.710 ± 0.043 (random 0.100 ± 0.025)" in text
    assert "Unsigned explainers name what prevented a choice in at most 0.200 ± 0.025 of" in text
    assert "3,000 users" in text
    assert "500 caused, 500 prevented, 420 taste" in text
    assert "on 1 abacus" in text


def test_a_cheap_best_explainer_is_named_once(measured: Measured) -> None:
    explainers = dict(measured.models["SASRec"], fading=figures(0.9, inputs=2, time=2))
    better = replace(measured, models={"SASRec": explainers})
    text = said(better)
    assert "Use `fading`" in text
    assert "No other explainer is right more often." in text
    assert "inputs per history, use" not in text


def test_the_first_of_equally_quick_explainers_is_recommended(measured: Measured) -> None:
    for time, chosen in ((18.5, "leave-one-out"), (18.0, "lime")):
        lime = replace(measured.models["SASRec"]["lime"], milliseconds=about(time))
        explainers = dict(measured.models["SASRec"], lime=lime)
        assert replace(measured, models={"SASRec": explainers}).recommended() == chosen


def test_a_reason_that_no_explainer_finds_is_reported(measured: Measured) -> None:
    explainers = dict(measured.models["SASRec"])
    chance = [0.7, 0.68, 0.74]
    control = explainers["random"]
    explainers["random"] = replace(control, precision={**control.precision, "prevented": chance})
    text = said(replace(measured, models={"SASRec": explainers}))
    assert "What prevented one: none is better than random scores (0.707" in text
    assert "What caused a choice: `lime`, 0.710" in text


def test_the_sign_of_rollout_is_the_best_cheap_one(measured: Measured) -> None:
    assert measured.cheap_sign() == "gradient-input"
    text = said(measured)
    assert "gradient-input is the best sign among the cheap explainers" in text
    assert "Shapley values for 0.700 ± 0.025 of the parts (0.800 ± 0.025 by weight)" in text
    assert "leave-one-out for 0.800 ± 0.025 of the parts (0.900 ± 0.025 by weight)" in text
    assert "positive agrees for 0.400 ± 0.025 of the parts (0.500 ± 0.025 by weight)." in text


def test_models_have_equal_weight(measured: Measured) -> None:
    other = {name: figures(0.4, inputs=5) for name in measured.models["SASRec"]}
    two = replace(measured, models={**measured.models, "BERT4Rec": other})
    assert two.over_models(Figures.right)["fading"] == pytest.approx(about(0.45))
    twice = dict.fromkeys(("SASRec", "BERT4Rec"), measured.models["SASRec"])
    assert "Averaged over SASRec and BERT4Rec" in said(replace(measured, models=twice))


def test_as_good_means_an_interval_with_0_in_it() -> None:
    values = {"a": [0.5, 0.6, 0.7], "b": [0.4, 0.5, 0.6], "c": [0.3, 0.7, 0.7]}
    assert as_good_as_best(values) == ["a", "c"], "b is behind at every seed, by the same"


def test_every_explainer_is_a_row_of_the_markdown(measured: Measured) -> None:
    lines = as_markdown(measured).splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert len(rows) == 2 + len(measured.models["SASRec"]) + 1
    assert {row.count("|") for row in rows} == {10}
    assert "| `rollout` | 0.200 ± 0.025 | 0.200 ± 0.025 | 0.200 ± 0.025 | – | – |" in rows[2]


def test_a_file_comes_back_as_it_was(measured: Measured, tmp_path: Path) -> None:
    write_json(tmp_path / "measured.json", measured.as_dict())
    assert read_measured(tmp_path / "measured.json") == measured
    whole = measured.as_dict()
    no_control = {"SASRec": {"rollout": whole["models"]["SASRec"]["rollout"]}}
    wrong: list[dict[str, object]] = [
        {},
        {"models": []},
        {**whole, "more": 1},
        {**whole, "models": {}},
        {**whole, "models": no_control},
    ]
    for document in wrong:
        write_json(tmp_path / "other.json", document)
        with pytest.raises(InputError, match="is not what docs/examples/which_explainer.py"):
            read_measured(tmp_path / "other.json")


def test_a_page_without_markers_is_an_error(measured: Measured) -> None:
    with pytest.raises(InputError, match="<!-- explainers -->"):
        fill_page("# Nothing here", measured)
    with pytest.raises(InputError, match="<!-- measured -->"):
        fill_page("<!-- explainers -->\n\n<!-- end of explainers -->", measured)


def test_the_command_answers_from_a_file(measured: Measured, tmp_path: Path) -> None:
    path = tmp_path / "measured.json"
    write_json(path, measured.as_dict())
    wide = {"COLUMNS": "400"}
    table = CliRunner().invoke(app, ["explainers", "--measured", str(path)], env=wide)
    assert table.exit_code == 0
    assert all(name in table.output for name in EXPLAINERS)
    document = CliRunner().invoke(app, ["explainers", "--measured", str(path), "--json"])
    told = json.loads(document.output)
    assert told["answer"] == answer(measured)
    assert told["explainers"] == explainer_rows()
    assert told["measured"] == measured.as_dict()


def test_without_figures_the_answer_says_how_to_measure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("whence.explainers.measured.FILE", tmp_path / "measured.json")
    done = CliRunner().invoke(app, ["explainers", "--json"])
    told = json.loads(done.output)
    assert told["answer"] == [NOT_MEASURED]
    assert told["measured"] is None
    assert as_markdown(None) == NOT_MEASURED


def test_the_default_sign_is_the_one_that_was_measured_best() -> None:
    found = measured_here()
    assert found is not None
    assert SignedRollout().sign == found.cheap_sign()
    assert set(SIGNS) < {name.removeprefix(SIGNED_ROLLOUT) for name in found.models["SASRec"]}
