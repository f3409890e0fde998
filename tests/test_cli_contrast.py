"""`whence explain --why-not` and `--rather-than`, as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import whence as library
from command_line import whence
from whence.run import Run


@pytest.fixture
def folder(run: Run) -> Path:
    assert run.folder is not None
    return run.folder


def test_why_not(run: Run, folder: Path) -> None:
    expected = library.why_not(run, user=3, item=7)
    ask = ("explain", folder, "--user", "3", "--item", "7", "--why-not")
    done = whence(*ask)
    assert done.returncode == 0, done.stderr
    assert f"{expected.label}: {expected.sentence}" in " ".join(done.stdout.split())
    assert expected.considered[0].label in done.stdout
    document = json.loads(whence(*ask, "--json").stdout)
    assert library.WhyNot.from_dict(document) == expected
    one = json.loads(whence(*ask, "--json", "--model-seed", "1").stdout)
    assert one["models"] == 1


def test_rather_than(run: Run, folder: Path) -> None:
    expected = library.rather(run, user=3, item=7, other=9)
    ask = ("explain", folder, "--user", "3", "--item", "7", "--rather-than", "9")
    done = whence(*ask)
    assert done.returncode == 0, done.stderr
    assert expected.sentence in " ".join(done.stdout.split())
    document = json.loads(whence(*ask, "--json").stdout)
    assert library.Rather.from_dict(document) == expected


def test_which_titles_were_found_is_said(run: Run, folder: Path) -> None:
    (title,) = run.catalog.labels([9])
    assert title.lower() != title
    done = whence(
        "explain", folder, "-i", "3", "-i", "4", "--item", "7", "--rather-than", title.lower()
    )
    assert f"'{title.lower()}' is read as {title}" in done.stderr


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--why-not"], "--why-not asks about an item. Name it with --item."),
        (["--rather-than", "7"], "--rather-than asks about an item. Name it with --item."),
        (
            ["--item", "7", "--why-not", "--rather-than", "9"],
            "--why-not and --rather-than are two questions. Give one of them.",
        ),
        (
            ["--item", "7", "--why-not", "--method", "shapley", "--top", "3"],
            "--why-not needs no explainer. Leave out --method and --top.",
        ),
        (
            ["--item", "7", "--rather-than", "9", "--removal", "dropped", "--seed", "1"],
            "--rather-than needs no explainer. Leave out --seed and --removal.",
        ),
        (["--item", "7", "--rather-than", "7"], "cannot be compared with itself. Name two"),
        (["--item", "7", "--rather-than", "zzz"], "zzz"),
        (["--item", "zzz", "--why-not"], "zzz"),
    ],
)
def test_a_mistake_is_one_sentence(options: list[str], sentence: str, folder: Path) -> None:
    done = whence("explain", folder, "--user", "3", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
