"""A virtual environment per peer, because their requirements conflict."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ENVIRONMENTS = HERE / ".venvs"


def python_of(name: str) -> Path:
    """Return the Python of a peer's environment. Build it first if absent or out of date."""
    requirements = HERE / f"{name}.txt"
    folder = ENVIRONMENTS / name
    python = folder / "bin" / "python"
    finished = folder / "finished"
    if not is_newer(finished, requirements):
        build(folder, python, requirements)
        finished.touch()
    return python


def is_newer(marker: Path, requirements: Path) -> bool:
    """Return whether a build ended after the last change to its requirements."""
    return marker.exists() and marker.stat().st_mtime >= requirements.stat().st_mtime


def build(folder: Path, python: Path, requirements: Path) -> None:
    """Create the environment from scratch and install the requirements."""
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    # PyTorch is installed first and alone, so that no later package changes its pinned version.
    torch = [line for line in requirements.read_text().splitlines() if line.startswith("torch==")]
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, *torch], check=True)
    subprocess.run([*install, "--requirement", str(requirements)], check=True)
