"""Tables for the terminal, and what every result can do: print, save itself and load again."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

from rich import box
from rich.console import Group, RenderableType
from rich.style import StyleType
from rich.table import Table
from rich.text import Text

from whence.checked_types import check_types
from whence.console import SafeConsole, plain
from whence.errors import InputError
from whence.files import new_file
from whence.reading import read_text
from whence.text import json_text, shortened, visible_lines

LONGEST_REASON = 200
NOTEBOOK_COLUMNS = 110
NOTEBOOK_HTML = '<pre style="line-height:1.3;white-space:pre">{code}</pre>'


class Result:
    """A result with `show()`, `to_json()`, `save(path)`, `load(path)` and a notebook view.

    A subclass says what its plain form is (`as_dict`, `from_dict`) and how it looks (`__rich__`).
    """

    def as_dict(self) -> dict[str, Any]:
        """Return plain types only, complete enough for `from_dict`."""
        raise NotImplementedError

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Return the result that `as_dict` described."""
        raise NotImplementedError

    def __rich__(self) -> RenderableType:
        """Return what `show` prints."""
        raise NotImplementedError

    def show(self) -> None:
        """Print the result as a table."""
        SafeConsole().print(self.__rich__())

    def to_json(self) -> str:
        """Return the result as one JSON document."""
        return json_text(self.as_dict())

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the result that `to_json` wrote."""
        try:
            result = cls.from_dict(json.loads(text))
            check_types(result)
            return result
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as problem:
            said = shortened(repr(problem), LONGEST_REASON)
        except (RecursionError, MemoryError):
            said = "it is nested too deeply or too large"
        raise InputError(f"This is not the JSON of {cls.__name__}.to_json(): {said}.")

    def save(self, path: Path | str) -> Path:
        """Write the JSON document to a file, replacing what is there."""
        with new_file(Path(path)) as partial:
            partial.write_text(self.to_json() + "\n", encoding="utf-8")
        return Path(path)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Return the result that `save` wrote."""
        return cls.from_json(read_text(Path(path)))

    def _repr_html_(self) -> str:
        return to_html(self.__rich__())


def to_html(shown: RenderableType) -> str:
    """Return what the terminal would show as HTML for a notebook."""
    console = SafeConsole(record=True, file=io.StringIO(), width=NOTEBOOK_COLUMNS)
    console.print(shown)
    return console.export_html(inline_styles=True, code_format=NOTEBOOK_HTML)


class PlainTable(Table):
    """A table whose strings are plain text from data; only a `Text` has a style or lines."""

    def add_row(
        self,
        *renderables: RenderableType | None,
        style: StyleType | None = None,
        end_section: bool = False,
    ) -> None:
        """Add a row."""
        super().add_row(*map(_cell, renderables), style=style, end_section=end_section)


C = TypeVar("C")


def _cell(content: C) -> C | Text:
    return plain(content) if isinstance(content, str) else content


def plain_table(title: str, *headings: RenderableType, numbers: int = 0) -> PlainTable:
    """Return an empty table in the house style; its last `numbers` columns align right."""
    table = PlainTable(
        title=plain(title, "bold"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    for place, heading in enumerate(headings):
        right = place >= len(headings) - numbers
        # Fold long cells: a truncated figure would read as another figure.
        table.add_column(_cell(heading), justify="right" if right else "left", overflow="fold")
    return table


def captioned(table: Table, caption: str) -> Group:
    """Return the table with a caption below it, which may be wider than the table."""
    shown = Text(visible_lines(caption), style="dim")
    return Group(table, shown, "") if caption else Group(table)


def pairs_table(title: str, pairs: Mapping[str, object]) -> PlainTable:
    """Return a table of names and values, with separators in large numbers."""
    table = plain_table(title, "", "")
    table.show_header = False
    for name, value in pairs.items():
        shown = f"{value:,}" if isinstance(value, int) else value
        shown = f"{value:.4g}" if isinstance(value, float) else shown
        table.add_row(name, "unknown" if shown is None else str(shown))
    return table


def statistics_table(title: str, found: Mapping[str, Any]) -> PlainTable:
    """Return what `whence.statistics` counted, without rows that do not apply."""
    shown = {name: value for name, value in found.items() if value not in (None, [], {})}
    shown["density"] = f"{100 * found['density']:.3f} %"
    for name in ("item features", "user features"):
        if name in shown:
            shown[name] = ", ".join(shown[name])
    dropped = shown.pop("dropped", {})
    return pairs_table(title, {**shown, **{f"dropped: {what}": n for what, n in dropped.items()}})
