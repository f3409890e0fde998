"""The examples of CONTRIBUTING.md are complete: one file and one test, and nothing else to edit."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"```python\n# (\S+)\n(.*?)```", CONTRIBUTING, re.DOTALL))
"""The content of each example, by the path on its first line."""
CONFORMANCE = (
    "tests/explainers/test_every_explainer.py",
    "tests/trust/test_every_measure.py",
    "tests/test_contract.py",
)
LISTED = """
from whence.explainers import EXPLAINERS
from whence.models import MODELS
from whence.report.which import explainers_markdown
from whence.trust import MEASURES
from whence.trust.audit.stage import STAGES

assert "recency" in list(EXPLAINERS), "listed"
assert list(EXPLAINERS)[-1] == "random", "after the others, before the control"
assert "| `recency` | no | 0 | – | How new each item is" in explainers_markdown()
assert "shallow" in list(MODELS)
assert "largest-share" in list(MEASURES)
assert "concentration" in list(STAGES)
"""


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository with the examples in their places."""
    folder = tmp_path_factory.mktemp("contributing")
    unneeded = shutil.ignore_patterns("__pycache__", "*.png", "definitions")
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=unneeded)
    shutil.copy(ROOT / "pyproject.toml", folder)
    for path, text in FILES.items():
        assert not (folder / path).exists(), f"{path} is a new file"
        (folder / path).write_text(text, encoding="utf-8")
    return folder


def run_python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_entry_is_one_file_and_one_test() -> None:
    files = [path for path in FILES if path.startswith("src/")]
    tests = [path for path in FILES if path.startswith("tests/")]
    assert len(files) == len(tests) == len(FILES) / 2 == 4


def test_registries_and_tables_list_the_examples(copied: Path) -> None:
    done = run_python(copied, "-c", LISTED)
    assert done.returncode == 0, done.stderr


def test_the_examples_pass_their_tests_and_the_conformance_tests(copied: Path) -> None:
    own = [path for path in FILES if path.startswith("tests/")]
    names = "recency or shallow or largest or concentration"
    options = ("-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-k", names)
    done = run_python(copied, *options, *own, *CONFORMANCE)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    (passed,) = re.findall(r"(\d+) passed", done.stdout)
    assert int(passed) > 100, "the conformance tests know the examples"
