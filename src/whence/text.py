"""Text from data, made safe and short enough to show to a person."""

from __future__ import annotations

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
    return SUSPECT.sub(lambda found: _written(found[0]), text)


def one_line(text: str) -> str:
    """Return the text with runs of blanks as single spaces, and harmful characters as codes."""
    return visible(" ".join(text.split()))


def shortened(text: str, limit: int) -> str:
    """Return at most `limit` characters; of a longer text, the start and the end."""
    if len(text) <= limit:
        return text
    end = (limit - len(ELLIPSIS)) // 4
    return f"{text[: limit - len(ELLIPSIS) - end]}{ELLIPSIS}{text[len(text) - end :]}"


def _written(character: str) -> str:
    if character in JOINERS or unicodedata.category(character) not in HARMFUL:
        return character
    return character.encode("unicode_escape").decode("ascii")
