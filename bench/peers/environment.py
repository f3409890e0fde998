"""An environment of its own for each peer, since their requirements exclude one another's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ENVIRONMENTS = HERE / ".venvs"


def python_of(name: str) -> Path:
    """The python of a peer's environment, which is built first where absent or out of date."""
    requirements = HERE / f"{name}.txt"
    folder = ENVIRONMENTS / name
    python = folder / "bin" / "python"
    finished = folder / "finished"
    if not is_newer(finished, requirements):
        build(folder, python, requirements)
        finished.touch()
    return python


def is_newer(marker: Path, requirements: Path) -> bool:
    """Whether a build ended after the last change to its list."""
    return marker.exists() and marker.stat().st_mtime >= requirements.stat().st_mtime


def build(folder: Path, python: Path, requirements: Path) -> None:
    """Make the environment anew and install the list into it."""
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    # PyTorch goes first, alone: its version is exact, and nothing after it may choose another.
    torch = [line for line in requirements.read_text().splitlines() if line.startswith("torch==")]
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, *torch], check=True)
    subprocess.run([*install, "--requirement", str(requirements)], check=True)
