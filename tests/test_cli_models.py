"""Odd names, moved runs, and the list of models on the command line."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import asdict, fields
from pathlib import Path

import pytest
from typer.testing import CliRunner

from command_line import whence
from whence.cli import app
from whence.config import settings_help
from whence.errors import WhenceError
from whence.models import MODELS
from whence.run import Run
from whence.training import TrainingConfig


@pytest.fixture(scope="module")
def csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("csv") / "events.csv"
    rows = (
        f"u{user},{(user + step) % 12},{step},Film {(user + step) % 12}\n"
        for user in range(40)
        for step in range(8)
    )
    path.write_text("user,item,time,title\n" + "".join(rows))
    return path


@pytest.fixture(scope="module")
def trained(csv: Path) -> Path:
    """A run trained from a CSV file by the command itself."""
    folder = csv.parent / "run"
    done = whence(
        "train", csv, "--out", folder, "--verb", "played",
        "--set", "steps=150,max_len=6", "--set", "dim=16",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "recall@10" in done.stdout
    assert "seed 0" in done.stdout
    assert "popularity" in done.stdout, "a figure alone says little"
    return folder


def test_brackets_and_odd_names_are_only_text(tmp_path: Path) -> None:
    folder = tmp_path / "c[b]"
    folder.mkdir()
    path = folder / "a[b].csv"
    rows = "".join(f"[/u{user}],{item},[red]F{item}[/]\n" for user in range(9) for item in range(5))
    path.write_text("user,item,title\n" + rows)
    done = whence("train", path, "--out", folder / "[run]", "--set", "steps=2,dim=8,max_len=4")
    assert done.returncode == 0, done.stderr
    assert "[run]" in done.stdout
    done = whence("recommend", folder / "[run]", "--user", "[/u3]")
    assert "user [/u3]" in done.stdout
    assert "[red]F4[/]" in done.stdout
    assert "nothing: every item" in done.stdout
    assert "a[b].csv" in whence("data", "stats", path).stdout


def test_a_run_works_where_it_was_moved(run: Run, tmp_path: Path) -> None:
    assert run.folder is not None
    moved = shutil.copytree(run.folder, tmp_path / "elsewhere")
    done = whence("recommend", moved, "--user", "1", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["for"] == "user 1"


def test_models_are_listed_with_their_settings_and_defaults() -> None:
    listed = json.loads(whence("models", "--json").stdout)
    assert list(listed) == list(MODELS)
    for name, spec in MODELS.items():
        found = listed[name]
        assert found["summary"]
        assert plain(asdict(spec.config())) == defaults(found["model"])
        training = {} if spec.closed_form else {**asdict(TrainingConfig()), **spec.training}
        assert plain(training) == defaults(found["training"])
    table = " ".join(whence("models").stdout.split())
    assert all(name in table for name in MODELS)
    one = " ".join(whence("models", "MLP").stdout.split())
    assert "Settings of mlp" in one, "capitals do not matter"
    assert "hidden_dims 64-32-16" in one
    assert "steps 2500" in one
    assert "training" not in whence("models", "ease").stdout, "it is computed at once"
    assert "Initial weights can come from runs of gmf and mlp" in whence("models", "neumf").stdout


def plain(settings: dict[str, object]) -> object:
    return json.loads(json.dumps(settings))


def defaults(settings: dict[str, dict[str, object]]) -> dict[str, object]:
    return {name: setting["default"] for name, setting in settings.items()}


def test_every_setting_is_explained() -> None:
    configs: list[type] = [TrainingConfig, *(spec.config for spec in MODELS.values())]
    for config in configs:
        for setting in settings_help(config):
            assert setting.help, f"{setting.name} of {config.__name__}"


def test_no_setting_belongs_to_both_the_model_and_training() -> None:
    """Otherwise --set could not tell which is meant."""
    training = {field.name for field in fields(TrainingConfig)}
    for spec in MODELS.values():
        assert not training & {field.name for field in fields(spec.config)}


def test_train_initializes_from_other_runs(csv: Path, tmp_path: Path) -> None:
    def train(model: str, settings: str, *more: object) -> tuple[str, Path]:
        run = tmp_path / model
        done = whence("train", csv, "--model", model, "--out", run, "--set", settings, *more)
        assert done.returncode == 0, done.stderr
        return done.stdout, run

    early = "epochs=60,batch_size=64,learning_rate=0.05,validate_every=1,patience=1"
    said, gmf = train("gmf", f"dim=4,{early}")
    assert re.search(r"Seed 0 stopped after \d+ steps and kept the weights of step \d+", said)
    layers = "epochs=1,dim=4,hidden_dims=8-6"
    said, mlp = train("mlp", layers)
    assert "stopped after" not in said, "all steps of its epoch are done"
    _, neumf = train("neumf", layers, "--init-from", mlp, "--init-from", gmf)
    begun = json.loads((neumf / "run.json").read_text())["training"]["init_from"]
    assert [one["model"] for one in begun] == ["mlp", "gmf"]


@pytest.mark.parametrize("model", ["content-ncf", "intrp-ncf"])
def test_train_makes_room_for_the_content_of_the_data(
    model: str, csv: Path, tmp_path: Path
) -> None:
    """More ages and genres than usual; what the user says is not changed, but refused at once."""
    users, items, run = tmp_path / "users.csv", tmp_path / "items.csv", tmp_path / "run"
    users.write_text("user,age\n" + "".join(f"u{user},{20 + user}\n" for user in range(40)))
    rows = (f"{item},A{item}|B{item},{1990 + item}\n" for item in range(12))
    items.write_text("item,genres,year\n" + "".join(rows))
    small = "steps=2,dim=4,hidden_dims=6-4"
    command = ("train", csv, "--users", users, "--items", items, "--model", model, "--out", run)
    refused = whence(*command, "--set", f"{small},n_ages=7,n_genres=18")
    assert refused.returncode == 2
    assert "The data have 40 ages and 24 genres" in refused.stderr
    assert "--set n_ages=40,n_genres=24" in refused.stderr
    done = whence(*command, "--set", small)
    assert done.returncode == 0, done.stderr
    settings = json.loads((run / "run.json").read_text())["model_settings"]
    names = ("n_genders", "n_ages", "n_occupations", "n_genres")
    sizes = {name: settings[name] for name in names}
    assert sizes == {"n_genders": 2, "n_ages": 40, "n_occupations": 21, "n_genres": 24}
    shown = whence("recommend", run, "--user", "u1", "--json")
    assert json.loads(shown.stdout)["recommendations"], "the run opens again"


def test_a_run_that_cannot_initialize_a_model_is_one_sentence(
    csv: Path, trained: Path, tmp_path: Path
) -> None:
    for model, run, sentence in (
        ("deepicf", trained, "deepicf is initialized from runs of fism, not of sasrec"),
        ("sasrec", trained, "No other model can initialize sasrec"),
        ("deepicf", tmp_path, "is not a run"),
    ):
        command = ["train", str(csv), "--model", model, "--out", str(tmp_path / "run")]
        found = CliRunner().invoke(app, [*command, "--init-from", str(run)])
        assert isinstance(found.exception, WhenceError)
        assert sentence in str(found.exception)


def test_explain_mentions_places_if_the_model_has_them(csv: Path, tmp_path: Path) -> None:
    for model, has_places in (("sasrec", True), ("fism", False)):
        settings = "steps=2,dim=8,max_len=4"
        whence("train", csv, "--model", model, "--out", tmp_path / model, "--set", settings)
        shown = whence("explain", tmp_path / model, "-u", "u3").stdout
        assert "how its probability changes" in shown
        assert ("hide an item but keep its place" in shown) == has_places
