"""Random changes of bytes and of JSON documents."""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

NUMBERS: Final = (
    *(b"0 -1 -0 1 2147483648 9223372036854775807 9223372036854775808 -9223372036854775809").split(),
    *b"18446744073709551616 1e308 -1e309 1e-400 nan NaN inf -Infinity 0x10 1_000 007 ,5".split(),
    b"9" * 400,
    b"1" * 5_000,
)
TOKENS: Final = (
    *b'" \' "" \\ , ; | :: : { } [ ] ( ) # = == \n \r \r\n \t \0 \x1f - + . ... % $ ` ~'.split(
        b" "
    ),
    *b"null None true True user item time rating title 2024-01-05 2024-01-05T10:00:00Z".split(),
    *b"05/01/2024 31.12.2020 Jan 12:30 +02:00 \xef\xbb\xbf PAR1 [[a.b]]".split(),
    *b"\"\"\" ''' \\u0000 \\ud800".split(),
    b"\n\n",
    b"\x1f\x8b",
    b"\x28\xb5\x2f\xfd",
)
CHARACTERS: Final = tuple(
    one.encode("utf-8", "surrogatepass")
    for one in "\x00\x07\x08\x1b\x7f\x85\xa0\xad\u200b\u202e\u2066\u2028\ufeff\ufffd\ud800é🎬١"
)
ENCODINGS: Final = ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "utf-8-sig", "cp1252")
ODD: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**30, 10**400, 1e308, 0.5),
    *(math.nan, math.inf, -math.inf, "", " ", "x", "\0", "\u202e\x1b[31m", "../../etc/passwd"),
    *([], {}, [[]], {"": None}, [1, "a", None], {"a": {"b": [1]}}, "é" * 300, "1" * 5_000, "nan"),
)
"""Values of wrong types and absurd sizes."""
NUMBER: Final = re.compile(rb"\d{1,20}(?:\.\d{1,20})?")
LARGEST: Final = 200_000
Mutation = Callable[[Random, bytes, bytes], bytes]


def mutate(rng: Random, content: bytes, other: bytes) -> bytes:
    """Return the content after up to three changes; `other` is a file to splice with."""
    for _ in range(rng.choice((0, 1, 1, 1, 1, 2, 2, 3))):
        content = rng.choice(MUTATIONS)(rng, content, other)[:LARGEST]
    return content


def mutate_json(rng: Random, document: Any) -> Any:  # noqa: ANN401
    """Return a copy of a document in which some values are replaced, removed or added."""
    document = json.loads(json.dumps(document))
    for _ in range(rng.choice((1, 1, 2, 3))):
        document = _changed(rng, document)
    return document


def _changed(rng: Random, value: Any) -> Any:  # noqa: ANN401
    inside: Sequence[Any] = ()
    if isinstance(value, dict):
        inside = list(value)
    elif isinstance(value, list):
        inside = range(len(value))
    if not inside or rng.random() < 0.15:
        return _bomb(rng) if rng.random() < 0.02 else copy.deepcopy(rng.choice(ODD))
    place = rng.choice(inside)
    if rng.random() < 0.1:
        del value[place]
    elif isinstance(value, dict) and rng.random() < 0.1:
        value[rng.choice(("", "x", "format", "__class__", "\u202e"))] = value.pop(place)
    else:
        value[place] = _changed(rng, value[place])
    return value


def _bomb(rng: Random) -> Any:  # noqa: ANN401
    """Return a value that is nested about as deeply as Python can write it."""
    value: Any = []
    for _ in range(rng.choice((50, 300, 900))):
        value = [value] if rng.random() < 0.5 else {"a": value}
    return value


def _place(rng: Random, content: bytes) -> int:
    return rng.randrange(len(content) + 1)


def _span(rng: Random, content: bytes) -> tuple[int, int]:
    first = _place(rng, content)
    return first, min(len(content), first + rng.choice((1, 2, 4, 16, 100)))


def _put(rng: Random, content: bytes, what: bytes) -> bytes:
    at = _place(rng, content)
    return content[:at] + what + content[at:]


def _flip(rng: Random, content: bytes, other: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 8))):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _delete(rng: Random, content: bytes, _: bytes) -> bytes:
    first, last = _span(rng, content)
    return content[:first] + content[last:]


def _insert(rng: Random, content: bytes, _: bytes) -> bytes:
    return _put(rng, content, rng.randbytes(rng.choice((1, 2, 4, 16))))


def _duplicate(rng: Random, content: bytes, _: bytes) -> bytes:
    first, last = _span(rng, content)
    return _put(rng, content, content[first:last] * rng.choice((1, 2, 50)))


def _truncate(rng: Random, content: bytes, _: bytes) -> bytes:
    return content[: _place(rng, content)]


def _splice(rng: Random, content: bytes, other: bytes) -> bytes:
    return content[: _place(rng, content)] + other[_place(rng, other) :]


def _number(rng: Random, content: bytes, _: bytes) -> bytes:
    found = list(NUMBER.finditer(content[:20_000]))
    if not found:
        return _put(rng, content, rng.choice(NUMBERS))
    one = rng.choice(found)
    return content[: one.start()] + rng.choice(NUMBERS) + content[one.end() :]


def _token(rng: Random, content: bytes, _: bytes) -> bytes:
    return _put(rng, content, rng.choice(TOKENS))


def _character(rng: Random, content: bytes, _: bytes) -> bytes:
    return _put(rng, content, rng.choice(CHARACTERS))


def _encode(rng: Random, content: bytes, _: bytes) -> bytes:
    return content.decode("utf-8", "replace").encode(rng.choice(ENCODINGS), "replace")


def _lines(rng: Random, content: bytes, _: bytes) -> bytes:
    lines = content.splitlines(keepends=True) or [b""]
    change = rng.randrange(4)
    if change == 0:
        rng.shuffle(lines)
    elif change == 1:
        lines *= rng.choice((2, 10, 60))
    elif change == 2:
        lines.insert(rng.randrange(len(lines) + 1), rng.choice(lines))
    else:
        lines = lines[:1] + [line.rstrip(b"\r\n") + b"\r" for line in lines[1:]]
    return b"".join(lines)


def _nest(rng: Random, content: bytes, _: bytes) -> bytes:
    if rng.random() < 0.9:  # bombs are slow to write
        return _token(rng, content, b"")
    opening, closing = rng.choice(((b"[", b"]"), (b"{'a':", b"}"), (b'{"a":', b"}"), (b"(", b")")))
    depth = rng.choice((100, 1_000, 20_000))
    return _put(rng, content, opening * depth + closing * rng.choice((depth, 0)))


def _run(rng: Random, content: bytes, _: bytes) -> bytes:
    if rng.random() < 0.8:
        return _character(rng, content, b"")
    run = rng.choice(b"0 1 - + . , \" ' \\ a \t \n e".split(b" ")) or b" "
    return _put(rng, content, run * rng.choice((100, 5_000, 50_000)))


MUTATIONS: Final[tuple[Mutation, ...]] = (
    *(_flip, _delete, _insert, _duplicate, _truncate, _splice, _number, _number, _token, _token),
    *(_character, _encode, _lines, _nest, _run),
)
