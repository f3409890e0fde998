"""Write demo.txt and test.txt: every package to install, with the hashes of all its files.

Needs uv. Versions stay as they are if they can; `--upgrade` takes the newest ones.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
PROJECT = HERE.parent / "pyproject.toml"
WITH_TORCH = re.compile(r"(torch|triton|nvidia-.*|cuda-.*)==")
"""PyTorch and what only its own builds need. They are installed without hashes."""
HEADER = """\
# {use} Written by requirements/update.py; do not edit.
"""


def main() -> None:
    """Resolve once for everything, and once for the demo to know which packages it needs."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build = tomllib.loads(PROJECT.read_text())["build-system"]["requires"]
        # Hatchling imports `editables` when it installs a project for editing.
        (folder / "build.in").write_text("\n".join([*build, "editables"]))
        everything = folder / "all.txt"
        everything.write_text("".join(path.read_text() for path in HERE.glob("*.txt")))
        found = resolved(everything, ["demo", "test"], [], sys.argv[1:])
        needed = resolved(folder / "demo.txt", ["demo"], [everything], [])
    write("demo", "What `make demo` installs.", {one: found[one] for one in needed})
    more = {one: text for one, text in found.items() if one not in needed}
    write("test", "What `make test` adds.", more)


def resolved(
    target: Path, extras: list[str], constraints: list[Path], options: list[str]
) -> dict[str, str]:
    """Return the requirement of each package, for every system and Python from 3.11 on."""
    command = ["uv", "pip", "compile", "--quiet", "--universal", "--python-version", "3.11"]
    command += ["--generate-hashes", "--no-header", "--no-annotate", "--output-file", str(target)]
    command += [f"--extra={extra}" for extra in extras]
    command += [f"--constraint={path}" for path in (HERE / "torch.txt", *constraints)]
    inputs = [str(PROJECT), str(target.with_name("build.in"))]
    subprocess.run([*command, *options, *inputs], check=True)
    blocks = re.findall(r"^\S.*(?:\n .*)*\n", target.read_text(), re.MULTILINE)
    return {one.split("==")[0]: one for one in blocks if not WITH_TORCH.match(one)}


def write(name: str, use: str, packages: dict[str, str]) -> None:
    """Write one of the files."""
    text = HEADER.format(use=use) + "".join(packages.values())
    (HERE / f"{name}.txt").write_text(text)


if __name__ == "__main__":
    main()
