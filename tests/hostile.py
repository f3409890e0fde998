"""Text that tries to act: on a terminal, in markup, in a page or in a picture."""

from __future__ import annotations

import re
import unicodedata

from whence.text import HARMFUL, JOINERS

RANGES = ((0, 0x1F), (0x7F, 0x9F), (0x200E, 0x200F), (0x2028, 0x202E), (0x2066, 0x2069),
          (0xFFFE, 0xFFFF))  # fmt: skip
SINGLE = "\u00ad\u200b\ufeff\U000e0001"
CONTROLS = SINGLE + "".join(chr(one) for first, last in RANGES for one in range(first, last + 1))
"""Every control character, and those that reorder text, break lines or are invalid."""
MARKUP = "[bold]x[/] [/nothing] [link=https://evil.example]y[/link] :bomb: \\[red]"
CODES = "\x1b[2J\x1b]0;title\x07\x1b]8;;https://evil.example\x1b\\ \x9b31m\r\b"
PAGE = '</script><script>alert(1)</script>" onload="alert(1)\' role=" id="a <b> &lt; javascript:'
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
"""The only codes that a table of Rich contains."""


def acting(text: str, colour: bool = False) -> list[str]:
    """Return the characters of an output that could act, besides newlines and colours."""
    if colour:
        text = COLOURS.sub("", text)
    return [
        one
        for one in text
        if unicodedata.category(one) in HARMFUL and one not in JOINERS and one != "\n"
    ]
