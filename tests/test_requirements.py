"""The lists of packages: complete, pinned once, with hashes, and installed with nothing else."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "requirements"


def packages(name: str) -> dict[str, str]:
    """Return the lines of each package of a list by its name."""
    text = (FOLDER / f"{name}.txt").read_text()
    blocks = re.findall(r"^[a-z].*(?:\n .*)*", text, re.MULTILINE)
    return {re.split("[=<>~! ]", block)[0]: block for block in blocks}


def names(requirements: list[str]) -> set[str]:
    """Return the packages that these requirements name, with the one that an extra adds."""
    found = {re.split(r"[\[=<>~! ]", one)[0].lower() for one in requirements}
    return found | ({"psycopg-binary"} if "psycopg" in found else set())


def test_every_requirement_has_a_version_and_hashes() -> None:
    for name in ("demo", "test"):
        for block in packages(name).values():
            first, *hashes = block.split(" \\\n")
            assert re.fullmatch(r"[a-z0-9-]+==[^ ]+( ; .+)?", first), first
            assert hashes, first
            assert all(re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}", one) for one in hashes), (
                first
            )


def test_the_lists_cover_the_project_and_each_other() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    needed = project["project"]["dependencies"] + project["build-system"]["requires"]
    demo, test, torch = packages("demo"), packages("test"), packages("torch")
    assert names(needed + extras["demo"]) <= {*demo, *torch}
    assert names(extras["test"]) <= {*demo, *test}
    assert set(extras) == {"demo", "maps", "postgres", "test"}
    assert names(extras["maps"] + extras["postgres"]) <= {*demo, *test}
    assert not demo.keys() & test.keys(), "a version stands once"


def test_pytorch_has_one_version() -> None:
    (line,) = packages("torch").values()
    assert re.fullmatch(r"torch==\d+\.\d+\.\d+", line)


def test_the_lists_name_no_server() -> None:
    assert not re.search(r"://|index-url", "".join(p.read_text() for p in FOLDER.iterdir()))


def test_make_installs_nothing_unlisted() -> None:
    """The one exception is PyTorch, whose own packages differ between its builds."""
    makefile = (ROOT / "Makefile").read_text()
    installs = re.findall(r"^\t\$\(PIP\) install (.*)$", makefile, re.MULTILINE)
    assert installs == [
        "--quiet --requirement requirements/torch.txt",
        "--quiet --no-deps --no-build-isolation --editable .",
    ]
    assert re.findall(r"^LISTED := .*$", makefile, re.MULTILINE) == [
        "LISTED := $(PIP) install --quiet --no-deps --only-binary :all: --require-hashes "
        "--requirement"
    ]
