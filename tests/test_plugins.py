"""An installed package adds a model, an explainer and a measure by its entry points alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

PACKAGE = Path(__file__).parent / "plugin_package"
COMMANDS = """
import json, sys, warnings
from typer.testing import CliRunner
from whence.cli import app

def whence(*arguments):
    result = CliRunner().invoke(app, [*arguments, "--json"], env={"COLUMNS": "200"})
    assert result.exit_code == 0, (arguments, result.output, result.exception)
    return json.loads(result.stdout)

run = sys.argv[1]
from whence.explainers import EXPLAINERS
assert EXPLAINERS["rollout"] and "whence_example" not in sys.modules, "loaded when needed"
models = whence("models")
trained = whence("train", "world", "--out", run, "--model", "Short_SASRec", "--set", "steps=2")
explained = whence("explain", run, "--user", "1", "--method", "recency", "--method", "shapley")
with warnings.catch_warnings(record=True) as noted:
    listed = whence("explainers")
from whence.testing import check_explainer
from whence.trust import MEASURES
check_explainer("recency")
print(json.dumps({
    "model": models["short-sasrec"]["summary"],
    "explained": [one["method"] for one in explained["explanations"]],
    "listed": [one["name"] for one in listed["explainers"]],
    "measures": list(MEASURES)[-1],
    "noted": [str(one.message) for one in noted],
}))
"""


def install(folder: Path) -> None:
    """Write the metadata that pip would write from pyproject.toml."""
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    name, version = project["name"], project["version"]
    metadata = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    metadata.mkdir()
    text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    (metadata / "METADATA").write_text(text)
    lines = [
        line
        for group, entries in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{entry} = {value}" for entry, value in entries.items()))
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")


def test_commands_know_the_entries_of_an_installed_package(tmp_path: Path) -> None:
    install(tmp_path)
    path = [str(tmp_path), str(PACKAGE), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS, str(tmp_path / "run")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["model"] == "SASRec that reads six items."
    assert found["explained"] == ["recency", "shapley"]
    assert found["listed"][-2:] == ["random", "recency"]
    assert found["measures"] == "parts-named"
    (note,) = found["noted"]
    assert "'unfinished' of the package whence-example cannot be loaded" in note
