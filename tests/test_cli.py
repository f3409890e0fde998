"""The command line as a user runs it, with real files."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from believing import believe
from command_line import whence
from whence import __version__
from whence.explainers import EXPLAINERS
from whence.models import MODELS

SASREC_METHODS = [name for name in EXPLAINERS if name not in ("experts", "contributions")]
REMOVALS = ("attention-column", "dropped")


def process(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "whence", *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "160", "OMP_NUM_THREADS": "1"},
        check=False,
    )


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


def test_help_and_version_in_a_process_of_their_own() -> None:
    done = process("--help")
    assert done.returncode == 0
    for verb in ("demo", "data", "train", "models", "recommend", "explain", "audit", "explainers"):
        assert verb in done.stdout
    assert process("--version").stdout.strip() == f"whence {__version__}"
    mistake = process("recommend", "nowhere", "--user", "1")
    assert (mistake.returncode, mistake.stdout) == (3, "")
    assert "Traceback" not in mistake.stderr


def test_help_does_not_wait_for_heavy_packages() -> None:
    verbs = ("", "demo", "data", "train", "models", "recommend", "explain", "audit", "study")
    code = (
        "import sys\n"
        "from whence.cli import main\n"
        f"for verb in {verbs}:\n"
        "    sys.argv = ['whence', *([verb] if verb else []), '--help']\n"
        "    try: main()\n"
        "    except SystemExit as ended: assert not ended.code, verb\n"
        "heavy = {'torch', 'numpy', 'pyarrow', 'scipy', 'altair'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_recommend_to_a_user_and_to_a_history(
    trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    believe(monkeypatch, "item")
    done = whence("recommend", trained, "--user", "u3", "-k", "3")
    assert done.returncode == 0, done.stderr
    assert "Recommended for user u3" in done.stdout
    assert "because you played Film" in " ".join(done.stdout.split())
    assert re.search(r"because you played Film \d+ +95 % +1 → \d+, −\d+ %", done.stdout)
    assert "before → after what is named is really left out" in " ".join(done.stdout.split())
    unsure = whence("recommend", trained, "--user", "u3", "-k", "3", "--sure", "96")
    assert "because you played" not in unsure.stdout
    assert unsure.stdout.count("no single reason is sure") == 3
    assert "without it" not in unsure.stdout
    done = whence("recommend", trained, "-i", "film 4", "-i", "5", "--json")
    assert "'film 4' is read as Film 4" in done.stderr
    document = json.loads(done.stdout)
    assert document["history"] == [{"item": 4, "title": "Film 4"}, {"item": 5, "title": "Film 5"}]
    assert document["recommendations"][0]["title"] == "Film 6"
    reason = document["recommendations"][0]["reason"]
    assert re.match("because you played Film [45]", reason["sentence"])
    assert reason["because"][0]["item"] in (4, 5)
    assert reason["because"][0]["probability_lost"] >= 0.05
    assert reason["because"][0]["rank_before"] == 1 <= reason["because"][0]["rank_without"]
    assert reason["confidence"] == pytest.approx(0.95)
    assert [one["name"] for one in reason["checks"]] == [
        *("direction", "necessity", "sufficiency", "specificity", "agreement", "confidence")
    ]


@pytest.mark.parametrize("sure", ["96", "96%", "0.96", " 96 % "])
def test_how_sure_a_reason_must_be(
    trained: Path, monkeypatch: pytest.MonkeyPatch, sure: str
) -> None:
    believe(monkeypatch, "item")
    for verb in ("recommend", "explain"):
        document = json.loads(whence(verb, trained, "-u", "u3", "--sure", sure, "--json").stdout)
        first = document["recommendations"][0] if verb == "recommend" else document
        assert first["reason"]["threshold"] == pytest.approx(0.96)
        assert first["reason"]["kind"] == "none"


def test_recommend_to_everyone(trained: Path, tmp_path: Path) -> None:
    path = tmp_path / "all.parquet"
    done = whence("recommend", trained, "--everyone", path, "-k", "2", "--sure", "60")
    assert done.returncode == 0, done.stderr
    assert "80 recommendations" in done.stderr
    table = pq.read_table(path)
    assert table.num_rows == 80
    assert {"kind", "because", "sentence"} <= set(table.column_names)
    done = whence("recommend", trained, "--all-users", path, "-k", "2", "--no-reasons")
    assert done.returncode == 0, done.stderr
    assert pq.read_table(path).column_names[-1] == "score"


def headings(table: str) -> list[str]:
    """Return the names of the methods above the columns, whose headings fill several lines."""
    lines = table.splitlines()
    (last,) = (place for place, line in enumerate(lines) if "newest first" in line)
    first = next(place for place in range(last, 0, -1) if not lines[place - 1].strip())
    words = [
        (match.end(), match.group())
        for line in lines[first : last + 1]
        for match in re.finditer(r"\S+", line.replace("item (newest first)", " " * 19))
    ]
    ends = sorted({end for end, _ in words})
    columns = ["".join(word for end, word in words if end == column) for column in ends]
    assert columns[:2] == ["leftout", "rank"]
    return columns[2:]


def test_explain_side_by_side_and_one_by_one(
    trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    believe(monkeypatch, "item")
    done = whence("explain", trained, "--user", "u3")
    assert done.returncode == 0, done.stderr
    assert "because you played Film" in done.stdout
    assert re.search(r"necessity +yes +loses \d+ % of its probability if Film \d+", done.stdout)
    assert "is really left out (rank 1 → " in done.stdout
    assert "95 % likely to be the right reason; it is said from 90 % on" in done.stdout
    assert re.search(r"Film \d+ +[−+]?\d+ %  ?1 → \d+ ", done.stdout), "the rank of each item"
    usual = [name for name in EXPLAINERS.tagged("usual") if name in SASREC_METHODS]
    assert headings(done.stdout) == usual
    every = whence("explain", trained, "--user", "u3", "--method", "all", columns=400)
    assert headings(every.stdout) == SASREC_METHODS
    two = whence("explain", trained, "-u", "u3", "--method", "random", "--method", "fading")
    assert headings(two.stdout) == ["random", "fading"]
    done = whence("explain", trained, "-i", "Film 1", "--item", "Film 2", "--method", "rollout")
    assert re.match(r"Film 2 \(rank \d+\): because you played Film 1", done.stdout)
    assert headings(done.stdout) == ["rollout"]
    done = whence("explain", trained, "-i", "Film 1", "--item", "Film 1", "--method", "random")
    assert "'Film 1'" not in done.stderr
    two = whence("explain", trained, "-i", "film 1", "-i", "film 3", "--method", "random")
    assert two.stderr.split() == "'film 1' is read as Film 1 'film 3' is read as Film 3".split()
    assert "Film 1: already in your history; fits your history as a whole" in done.stdout
    assert "Film 1  " in done.stdout.partition("newest first")[2], "random importances are shown"
    document = json.loads(
        whence(
            "explain", trained, "-u", "u3", *("--method", "all", "--method", "lime"), "--json"
        ).stdout
    )
    answers = document["explanations"]
    assert [answer["method"] for answer in answers] == SASREC_METHODS
    assert answers[0]["cases"][0]["target"]["item"] == 11
    assert document["reason"]["sentence"].startswith("because you played")
    one = whence("explain", trained, "-u", "u3", "--method", "attention:block=2,head=1", "--json")
    (answer,) = json.loads(one.stdout)["explanations"]
    assert answer["parameters"] == {"block": 2, "head": 1}


def test_explain_removes_items_as_asked(trained: Path) -> None:
    ask = ("explain", trained, "-u", "u3", "--method", "leave-one-out")
    hidden, dropped = (whence(*ask, "--removal", removal).stdout for removal in REMOVALS)
    assert hidden == whence(*ask).stdout
    assert "hide an item but keep its place (attention-column)" in " ".join(hidden.split())
    assert "leave an item out, as if it had never been there (dropped)" in " ".join(dropped.split())
    for removal in REMOVALS:
        document = json.loads(whence(*ask, "--removal", removal, "--json").stdout)
        assert [one["removal"] for one in document["explanations"]] == [removal]
        assert document["reason"]["removal"] == "dropped"


def test_standard_errors_are_shown_if_the_method_samples(trained: Path) -> None:
    drawn = "shapley:exact_up_to=0,coalitions=200"
    done = whence("explain", trained, "-u", "u3", "--method", drawn, "--memory", "1GB")
    assert re.search(r"Film \d+ .* % 1 → \d+ +-?\d+ ± \d+\.\d", done.stdout), (
        done.stdout + done.stderr
    )
    assert "± is the standard error" in done.stdout
    document = whence("explain", trained, "-u", "u3", "--method", drawn, "--json").stdout
    (case,) = json.loads(document)["explanations"][0]["cases"]
    assert case["evaluations"] == 200
    assert all(part["error"] > 0 for part in case["parts"])


def test_data_list_stats_and_prepare(csv: Path, tmp_path: Path) -> None:
    assert "ml-latest-small-2016" in whence("data", "list").stdout
    found = json.loads(whence("data", "stats", csv, "--json").stdout)
    assert (found["users"], found["items"], found["events"]) == (40, 12, 320)
    assert "320" in whence("data", "stats", csv).stdout
    assert whence("data", "prepare", csv, "--out", tmp_path / "prepared").returncode == 0
    again = whence("data", "prepare", csv, "--out", tmp_path / "prepared")
    assert (again.returncode, "--overwrite" in again.stderr) == (2, True)
    redone = whence("data", "prepare", csv, "--out", tmp_path / "prepared", "--overwrite")
    assert redone.returncode == 0
    no_run = whence("recommend", tmp_path / "prepared", "--user", "u3")
    assert (no_run.returncode, "prepared data, not a run" in no_run.stderr) == (3, True)
    same = json.loads(whence("data", "stats", tmp_path / "prepared", "--json").stdout)
    assert same == found


def test_doctor() -> None:
    done = whence("doctor")
    assert done.returncode == 0
    assert "torch" in done.stdout


def test_baselines_are_in_the_table_and_the_document(csv: Path, tmp_path: Path) -> None:
    command = ("train", csv, "--set", "steps=2,dim=8,max_len=4", "--out")
    table = whence(*command, tmp_path / "one").stdout
    document = json.loads(whence(*command, tmp_path / "two", "--json").stdout)
    for rule in MODELS.tagged("simple"):
        assert rule in table
        assert 0 <= document["baselines"][rule]["recall@10"]["value"] <= 1


def test_the_same_command_gives_the_same_weights(csv: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        settings = "steps=10,dim=8,max_len=4"
        model = "sasrec" if name == "one" else "SASRec"
        whence("train", csv, "--model", model, "--out", tmp_path / name, "--set", settings)
    files = [tmp_path / name / "seeds" / "0" / "weights.safetensors" for name in ("one", "two")]
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (
            ["train", "nowhere.csv", "--out", "x"],
            2,
            "There is no file or folder nowhere.csv",
        ),
        (["train", "{csv}", "--out", "x", "--set", "step=3"], 2, "did you mean 'steps'"),
        (["train", "{csv}", "--out", "x", "--set", "steps=three"], 2, "needs a whole number"),
        (
            ["train", "{csv}", "--out", "x", "--model", "deepicf-a", "--set", "alpha=1"],
            2,
            "Neither deepicf-a nor training has a setting 'alpha'",
        ),
        (["train", "{csv}", "--out", "x", "--model", "bert"], 2, "There is no model 'bert'"),
        (["train", "{csv}", "--out", "{run}"], 2, "already exists"),
        (["train", "{csv}", "--out", "x", "--item", "thing"], 2, "no column 'thing'"),
        (["train", "{csv}"], 2, "--out"),
        (["train", "{csv}", "--out", "x", "--device", "gpu"], 2, "no device 'gpu'"),
        (["recommend", "{csv}", "--user", "u3"], 3, "is not a run"),
        (["explain", "{run}", "-u", "u3", "--memory", "lots"], 2, "'lots' is not a size of memory"),
        (
            ["explain", "{run}", "-u", "u3", "--removal", "droped"],
            2,
            "SASRec cannot remove parts by 'droped'. Choose from: attention-column, dropped.",
        ),
        (["explain", "{run}", "-i", "zzz"], 2, "No item matches 'zzz'"),
        (["explain", "{run}", "-u", "u3", "--method", "shapley:error=0"], 2, "a share above 0"),
        (
            ["explain", "{run}", "-u", "u3", "--method", "shapley:coalitions=5,exact_up_to=0"],
            2,
            "Shapley values of 6 items need at least 12. Set coalitions=12",
        ),
        (["recommend", "{run}"], 2, "either a user"),
        (["recommend", "{run}", "--everyone", "x.csv", "--user", "u3"], 2, "Leave out --user"),
        (["recommend", "{run}", "--user", "u3", "--no-reasons"], 2, "is for --everyone FILE"),
        (["recommend", "{run}", "--user", "u3", "-k", "0"], 2, "-k"),
        (["recommend", "{run}", "--user", "u3", "--sure", "high"], 2, "'high' is no number"),
        (["recommend", "{run}", "--user", "u3", "--sure", "0.3"], 2, "not from 50 to 100 percent"),
        (["explain", "{run}", "--user", "u3", "--sure", "101"], 2, "not from 50 to 100 percent"),
        (["explain", "{run}", "--user", "u3", "--sure", "nan"], 2, "not from 50 to 100 percent"),
        (["explain", "{run}", "--user", "u3", "--low-rating", "2"], 2, "has no ratings"),
        (["explain", "{run}", "--user", "u3", "--low-rating", "nan"], 2, "low_rating is a rating"),
        (["explain", "{run}", "--user", "u3", "--top", "0"], 2, "--top"),
        (["train", "{csv}", "--out", "{csv}", "--overwrite"], 2, "was not written by Whence"),
        (["recommend", "{run}", "--user", "nobody"], 2, "No user has the id"),
        (["recommend", "{run}", "-i", "Flim 44"], 2, "Did you mean"),
        (["explain", "{run}", "-u", "u3", "--method", "magic"], 2, "no explainer 'magic'"),
        (["explain", "{run}", "-u", "u3", "--item", "zzz"], 2, "No item matches 'zzz'"),
        (["explainers", "--measured", "no.json"], 2, "no.json cannot be read: No such file or dir"),
        (["explainers", "--measured", "."], 2, "is a folder. Give a file in it."),
        (["explainers", "--measured", "{csv}"], 2, "cannot be read as JSON"),
        (["data", "stats", "."], 2, "is a folder. Give a file in it"),
        (["demo", "--data", "nothing"], 2, "There is no file and no dataset 'nothing'"),
    ],
)
def test_a_mistake_is_one_sentence_and_the_right_exit_code(
    arguments: list[str], code: int, sentence: str, csv: Path, trained: Path, tmp_path: Path
) -> None:
    filled = [text.format(csv=csv, run=trained) for text in arguments]
    done = whence(*filled, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert sentence in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == [], "nothing half-written"


@pytest.mark.kill
def test_ctrl_c_leaves_a_checkpoint_and_exits_with_130(csv: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("w") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", "whence", "train", str(csv), "--out",
             str(tmp_path / "run"), "--set", "steps=1000000"],
            stderr=stderr, env={**os.environ, "OMP_NUM_THREADS": "1", "FORCE_COLOR": "1"},
        )  # fmt: skip
        deadline = time.monotonic() + 60
        kept = tmp_path / ".run.unfinished"
        while not [*kept.glob("*.safetensors")] and time.monotonic() < deadline:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) == 130
    assert "loss" in log.read_text(), "it was interrupted while it trained"
    assert "Traceback" not in log.read_text()
    assert "Run the same command again to resume" in log.read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".run.unfinished", "log"]
    other = whence("train", csv, "--out", tmp_path / "run", "--set", "steps=7")
    assert other.returncode == 2
    sentence = "now it is steps=7, warmup=0. Use the same settings to resume it."
    assert sentence in " ".join(other.stderr.split())
    again = whence("train", csv, "--out", tmp_path / "run", "--set", "steps=7", "--overwrite")
    assert again.returncode == 0, again.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "run"]
