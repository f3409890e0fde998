"""Regular expressions take a time that grows with the length of the text, not with its square."""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

SRC = Path(__file__).parent.parent / "src"
CALLS = ("search", "match", "fullmatch", "findall", "sub")
LENGTH = 20_000
SECONDS = 1.0
"""A quadratic search takes several."""
REPEATED = ("1", " ", "\n", "(", ")", "()", " (a)", ", ", ", a", " 1999", "(1999) ", ":", "@", "'",
            "',", "('", '"', "a", "a ", ":a@", "//", "/a", ' role="', "<", "[ ", "-", "1.", "1e",
            "order ", "'a', ", "x=", "&", "\\")  # fmt: skip
STARTS = ("", "1", "(", "'", "[", "password=")


def patterns() -> Iterator[tuple[str, str, re.Pattern[Any]]]:
    """Yield every pattern in the sources with the place and the function that it is used by."""
    sources = {path: path.read_text(encoding="utf-8") for path in sorted(SRC.rglob("*.py"))}
    every = "\n".join(sources.values())
    for path, text in sources.items():
        place = path.relative_to(SRC).as_posix()
        if "re." not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in {f"re.{c}" for c in CALLS}:
                assert isinstance(node.func, ast.Attribute)
                if isinstance(node.args[0], ast.Constant):
                    yield place, node.func.attr, re.compile(node.args[0].value)
        module = import_module(
            place.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        )
        for name, value in vars(module).items():
            if isinstance(value, re.Pattern):
                for call in CALLS:
                    if f"{name}.{call}(" in every:
                        yield place, call, value


FOUND = list({(place, call, one.pattern, one.flags): None for place, call, one in patterns()})


def test_the_patterns_are_found() -> None:
    assert len(FOUND) > 15


@pytest.mark.parametrize(("place", "call", "pattern", "flags"), FOUND)
def test_a_pattern_is_linear(place: str, call: str, pattern: str | bytes, flags: int) -> None:
    compiled: re.Pattern[Any] = re.compile(pattern, flags)
    for start in STARTS:
        for part in REPEATED:
            text: Any = f"{start}{part * (LENGTH // len(part))}\x00"
            text = text.encode() if isinstance(pattern, bytes) else text
            began = time.process_time()
            compiled.sub(text[:0], text) if call == "sub" else getattr(compiled, call)(text)
            assert time.process_time() - began < SECONDS, (start, part)
