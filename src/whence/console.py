"""Consoles on which text from data cannot act."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from whence.text import shortened, visible, visible_lines

LONGEST_TEXT = 2_000
"""A longer title or name is shortened: nobody reads it, and laying it out takes time."""


class SafeConsole(Console):
    """Prints strings as they are: no markup, no emoji codes, no control characters.

    The only escape codes in its output are those of Rich itself.
    """

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401
        super().__init__(markup=False, emoji=False, **settings)

    def render_str(self, text: str, **settings: Any) -> Text:  # noqa: ANN401
        """Clean the text before it is laid out."""
        return super().render_str(visible_lines(text), **settings)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Clean everything else, whatever it was made by."""
        for one in super().render(renderable, options):
            yield one if one.control else one._replace(text=visible_lines(one.text))


def plain(text: str, style: str = "") -> Text:
    """Return text from data as one line that any console of Rich can show."""
    return Text(visible(shortened(text, LONGEST_TEXT)), style)
