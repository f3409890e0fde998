"""`whence train` without a model, with recipes and efforts, and what it says at the end."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from command_line import whence
from whence.models import MODELS
from whence.training.recipes import RECIPES

QUICK = ("--effort", "quick", "--set", "steps=60,validate_every=20,patience=3,dim=16")


@pytest.fixture(scope="module")
def csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Users who take the items in turn, so that the last item decides."""
    path = tmp_path_factory.mktemp("csv") / "events.csv"
    rows = (f"u{user},{(user + step) % 15},{step}\n" for user in range(120) for step in range(7))
    path.write_text("user,item,time\n" + "".join(rows))
    return path


@pytest.fixture(scope="module")
def printed(csv: Path) -> str:
    done = whence("train", csv, "--out", csv.parent / "run", *QUICK, columns=80)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_says_what_it_chose_and_why(printed: str) -> None:
    text = " ".join(printed.split())
    assert "Loss: softmax over all items, because the catalog has 15 items, not more than" in text
    assert "One seed (effort quick)." in text
    tried = printed[printed.index("What was tried") : printed.index("How well")]
    for name in ("sasrec", *MODELS.tagged("simple")):
        assert re.search(rf"^ {name} +[01]\.\d{{3}}", tried, re.MULTILINE), name
    found = [float(value) for value in re.findall(r" ([01]\.\d{3})\b", tried)]
    assert found == sorted(found, reverse=True)
    assert max(map(len, printed.splitlines()[:-1])) <= 80


def test_the_last_line_says_how_it_compares(printed: str) -> None:
    text = " ".join(printed.split())
    starts = "Clearly better|Better than|As good as|Loses to|Not better|Recommended:"
    assert re.search(rf"no bias ({starts}) .*NDCG@10 [01]\.\d{{3}}[^|]* Next: [^|]*$", text)


def test_the_document_holds_the_same_facts(printed: str, csv: Path, tmp_path: Path) -> None:
    done = whence("train", csv, "--out", tmp_path / "run", *QUICK, "--json")
    found = json.loads(done.stdout)
    text = " ".join(printed.split())
    assert all(note in text for note in found["notes"])
    assert found["closing"] in text
    assert found["comparison"]["sentence"] in found["closing"]
    assert found["chosen"] == max(found["tried"], key=lambda one: found["tried"][one])
    assert found["recommends"] in text
    assert found["comparison"]["leads"].keys() <= found["baselines"].keys()
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert run["training"]["tried"] == found["tried"]
    assert run["training"]["effort"] == "quick"


def test_a_simple_model_is_recommended_if_it_wins(csv: Path, tmp_path: Path) -> None:
    """The network has learned nothing after one step."""
    done = whence(
        "train", csv, "--out", tmp_path / "run", "--set", "steps=1,dim=4,learning_rate=1e-9",
        "--seeds", "1", "--json",
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert found["chosen"] != "sasrec"
    if found["chosen"] in MODELS.tagged("simple"):
        assert found["recommends"] == found["chosen"]
        assert f"Recommended: {found['chosen']}, a simple model" in found["closing"]


def test_a_named_model_that_loses_says_what_to_try(csv: Path, tmp_path: Path) -> None:
    done = whence("train", csv, "--model", "popularity", "--out", tmp_path / "run", "--json")
    found = json.loads(done.stdout)
    assert found["tried"] == {}
    assert found["closing"].startswith("Loses to ")
    best = max(found["baselines"], key=lambda one: found["baselines"][one]["NDCG@10"]["value"])
    assert found["closing"].endswith(
        f"Try --model {best}, or the defaults, which try all and keep the best."
    )
    assert "popularity" not in found["baselines"], "a model is not compared with itself"


def test_recipes_are_listed_and_one_word_away(csv: Path, tmp_path: Path) -> None:
    listed = json.loads(whence("recipes", "--json").stdout)
    assert list(listed) == list(RECIPES)
    table = " ".join(whence("recipes").stdout.split())
    assert all(name in table for name in RECIPES)
    run = tmp_path / "run"
    small = "epochs=1,dim=4,hidden_dims=8-4"
    done = whence("train", csv, "--recipe", "he-2017", "--out", run, "--set", small)
    assert done.returncode == 0, done.stderr
    document = json.loads((run / "run.json").read_text())
    assert document["model"] == "neumf"
    assert document["training"]["recipe"] == "he-2017"
    assert document["training"]["beta2"] == 0.999
    assert "tried" not in document["training"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--recipe", "baumhauer"], "did you mean 'baumhauer-2021'"),
        (["--recipe", "he-2017", "--model", "sasrec"], "no settings for sasrec"),
        (["--recipe", "he-2017", "--effort", "best"], "an effort changes nothing"),
        (["--model", "ease", "--effort", "best"], "do not follow an effort"),
        (["--model", "ease", "--seeds", "3"], "all 3 seeds would be equal"),
        (["--effort", "high"], "'high' is not one of"),
        (["--set", "dimm=3"], "did you mean 'dim'"),
    ],
)
def test_what_needs_no_data_is_said_before_they_are_read(
    arguments: list[str], sentence: str, tmp_path: Path
) -> None:
    done = whence("train", "nowhere.csv", "--out", tmp_path / "run", *arguments)
    assert done.returncode == 2
    assert sentence in " ".join(done.stderr.split())
    assert "nowhere.csv" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_schedule_follows_the_settings_as_in_python(csv: Path, tmp_path: Path) -> None:
    """On the command line they are texts."""
    run = tmp_path / "run"
    done = whence("train", csv, "--model", "sasrec", "--out", run, "--set", "steps=40,dim=6")
    assert done.returncode == 0, done.stderr
    found = json.loads((run / "run.json").read_text())
    training = found["training"]
    assert (training["steps"], training["validate_every"], training["warmup"]) == (40, 2, 4)
    assert (found["model_settings"]["dim"], found["model_settings"]["n_heads"]) == (6, 1)


@pytest.mark.parametrize(
    ("given", "patience"), [("validate_every=0", 0), ("snapshots=0", 10), ("epochs=0", 10)]
)
def test_what_is_switched_off_is_as_in_python(
    given: str, patience: int, csv: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    done = whence(
        "train", csv, "--model", "sasrec", "--out", run, "--set", f"steps=3,dim=4,{given}"
    )
    assert done.returncode == 0, done.stderr
    training = json.loads((run / "run.json").read_text())["training"]
    assert (training["steps"], training["patience"]) == (3, patience)
