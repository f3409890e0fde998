"""The rooms import each other only in the order that docs/how-it-works.md lists them in."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src"
LIBRARY, STUDIES = "whence", "whence_studies"
LONGEST = 400

LATE = {
    ("whence/data/", "whence/worlds/"): "the dataset called 'world' is generated when it is loaded",
    ("whence/training/", "whence/reasons/"): (
        "a run is written when it is complete, with the calibrator that was asked for"
    ),
    ("whence/trust/", "whence/report/"): "an audit that has a folder writes its page there",
}
"""Imports inside functions that go against the order, and why."""


class Import(NamedTuple):
    """One room importing from another."""

    file: Path
    source: str
    target: str
    in_function: bool


def room_of(path: Path) -> str:
    """Return the room of a file: its folder in the package, or the module itself."""
    package, *rest = path.relative_to(SRC).parts
    return f"{package}/{rest[0]}/" if len(rest) > 1 else f"{package}/{rest[0]}"


def listed_rooms() -> list[str]:
    """Return the first column of the first table of the page."""
    text = (ROOT / "docs" / "how-it-works.md").read_text(encoding="utf-8")
    table = text[text.index("\n|") :].split("\n\n")[0]
    cells = [row.split("|")[1] for row in table.strip().splitlines()[2:]]
    return [room for cell in cells for room in re.findall(r"`([^`]+)`", cell)]


def sources() -> list[Path]:
    return sorted(SRC.rglob("*.py"))


def imports_of(path: Path) -> Iterator[Import]:
    """Yield the imports of other rooms; what only a type checker reads does not count."""

    def visit(node: ast.AST, in_function: bool) -> Iterator[tuple[str, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            inside = in_function or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            if isinstance(child, ast.Import):
                yield from ((alias.name, inside) for alias in child.names)
            if isinstance(child, ast.ImportFrom) and child.module:
                yield from ((f"{child.module}.{alias.name}", inside) for alias in child.names)
            yield from visit(child, inside)

    for module, in_function in visit(ast.parse(path.read_text(encoding="utf-8")), False):
        target = _file_of(module)
        if target and room_of(target) != room_of(path):
            yield Import(path, room_of(path), room_of(target), in_function)


def _file_of(module: str) -> Path | None:
    """Return the file of a module of ours; of a name in a module, the file of the module."""
    parts = module.split(".")
    if parts[0] not in (LIBRARY, STUDIES):
        return None
    for end in range(len(parts), 0, -1):
        place = SRC.joinpath(*parts[:end])
        for path in (place / "__init__.py", place.with_suffix(".py")):
            if path.exists():
                return path
    raise AssertionError(f"there is no module {module}")


def test_every_room_is_listed_once() -> None:
    listed = listed_rooms()
    assert len(listed) == len(set(listed))
    assert {*listed} == {room_of(path) for path in sources()}


def test_rooms_import_only_rooms_above_them() -> None:
    place = {room: number for number, room in enumerate(listed_rooms())}
    wrong = {
        f"{one.file.relative_to(SRC)} imports {one.target}"
        for path in sources()
        for one in imports_of(path)
        if place[one.target] > place[one.source]
        and not (one.in_function and (one.source, one.target) in LATE)
        and one.target != f"{LIBRARY}/__init__.py"  # every room may read the version
    }
    assert not wrong


def test_every_late_import_is_needed() -> None:
    found = {(one.source, one.target) for path in sources() for one in imports_of(path)}
    assert set(LATE) <= found


def test_the_library_never_names_the_studies_in_an_import() -> None:
    for path in (SRC / LIBRARY).rglob("*.py"):
        assert all(not one.target.startswith(STUDIES) for one in imports_of(path)), path


def test_rooms_take_the_version_alone_from_the_package() -> None:
    """`import whence` would otherwise be a way around the order."""
    for path in sources():
        if room_of(path) in (f"{LIBRARY}/__init__.py", f"{LIBRARY}/cli/"):
            continue
        used = {
            node.attr
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == LIBRARY
        }
        assert used <= {"__version__"}, path


@pytest.mark.parametrize("pattern", ["*.py", "*.j2"])
def test_no_file_is_longer_than_a_reader_can_follow(pattern: str) -> None:
    for path in SRC.rglob(pattern):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST, path
