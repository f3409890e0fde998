"""The text of a query, split into tokens: where it ends, and whether it has an ORDER BY.

Nothing here decides what a query may do; the database does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

# Every alternative takes what follows it to the end if it is not closed, so that no text is
# scanned twice. A doubled quote inside a string ends one token and starts the next.
SHARED = r"""[ \t\n\r\f\v]+|'[^']*'?|"[^"]*"?|[^\W\d][\w$]*|"""
POSTGRES = re.compile(
    r"--[^\n\r]*|/\*|[eE]'(?:[^'\\]|\\.?)*'?|\$(?:[^\W\d]\w*)?\$|" + SHARED + ".", re.DOTALL
)
SQLITE = re.compile(r"--[^\n]*|/\*|\[[^]]*\]?|`[^`]*`?|" + SHARED + ".", re.DOTALL)
NESTED = re.compile(r"/\*|\*/")


@dataclass(frozen=True)
class Token:
    """A word, quoted text or character of a query, and where it ends."""

    text: str
    end: int


def tokens(query: str, grammar: re.Pattern[str]) -> Iterator[Token]:
    """Yield the tokens, without blanks and comments, in linear time."""
    place = 0
    while found := grammar.match(query, place):
        place, text = found.end(), found[0]
        if text == "/*":
            place = _end_of_comment(query, place, nested=grammar is POSTGRES)
        elif text[0] == "$" and len(text) > 1:  # PostgreSQL's $tag$ … $tag$
            place = _after(query, text, place)
            yield Token(text, place)
        elif not text.isspace() and not text.startswith("--"):
            yield Token(text, place)


def has_order_by(query: str, grammar: re.Pattern[str]) -> bool:
    """Return whether there is an ORDER BY outside parentheses."""
    depth, before = 0, ""
    for token in tokens(query, grammar):
        word = token.text.upper()
        depth += (word == "(") - (word == ")")
        if not depth and (before, word) == ("ORDER", "BY"):
            return True
        before = word
    return False


def without_semicolon(query: str, grammar: re.Pattern[str]) -> str:
    """Return the query up to its last token that is not a semicolon."""
    end = 0
    for token in tokens(query, grammar):
        if token.text != ";":
            end = token.end
    return query[:end]


def _end_of_comment(query: str, place: int, nested: bool) -> int:
    if not nested:
        return _after(query, "*/", place)
    depth = 1
    for found in NESTED.finditer(query, place):
        depth += 1 if found[0] == "/*" else -1
        if not depth:
            return found.end()
    return len(query)


def _after(query: str, mark: str, place: int) -> int:
    """Return where the next mark ends, or the end of the query."""
    found = query.find(mark, place)
    return len(query) if found < 0 else found + len(mark)
