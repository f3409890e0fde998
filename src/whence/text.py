"""Text from data, made safe and short enough to show to a person."""

from __future__ import annotations

import json
import re
import unicodedata

JOINERS = "\u200c\u200d"
"""Invisible, but part of correct spelling in Persian, Hindi and many emoji."""
HARMFUL = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode categories of what moves the cursor, reorders text, breaks lines or is invalid."""
SUSPECT = re.compile(r"[^ -~\u00a1-\u00ac\u00ae-\u02ff]")
"""What needs a look: everything but printable ASCII and Latin letters."""
ELLIPSIS = "…"


def visible(text: str) -> str:
    r"""Return the text with every harmful character written as its code, such as `\x1b`."""
    if text.isprintable():
        return text
    return SUSPECT.sub(lambda found: _written(found[0]), text)


def visible_lines(text: str) -> str:
    """Return the same for a text of several lines, which stay lines."""
    return "\n".join(map(visible, text.split("\n")))


def one_line(text: str) -> str:
    """Return the text with runs of blanks as single spaces, and harmful characters as codes."""
    return visible(" ".join(text.split()))


def shortened(text: str, limit: int) -> str:
    """Return at most `limit` characters; of a longer text, the start and the end."""
    if len(text) <= limit:
        return text
    end = (limit - len(ELLIPSIS)) // 4
    return f"{text[: limit - len(ELLIPSIS) - end]}{ELLIPSIS}{text[len(text) - end :]}"


def json_text(document: object) -> str:
    """Return indented JSON in which harmful characters are escaped; its value is the same."""
    written = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    # The only raw newlines are those between values.
    return "\n".join(SUSPECT.sub(_escaped, line) for line in written.split("\n"))


def _written(character: str) -> str:
    if not _harmful(character):
        return character
    return character.encode("unicode_escape").decode("ascii")


def _escaped(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1] if _harmful(found[0]) else found[0]


def _harmful(character: str) -> bool:
    if character in JOINERS:
        return False
    # Noncharacters end with FFFE or FFFF. They are forbidden in XML, and so in pictures.
    return unicodedata.category(character) in HARMFUL or ord(character) & 0xFFFE == 0xFFFE
