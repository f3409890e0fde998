"""Tables in the house style, of things that need no model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text


def plain_table(title: str, *headings: str, numbers: int = 0) -> Table:
    """A table of the house style; the last `numbers` columns are set to the right."""
    table = Table(
        title=escape(title),
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    for place, heading in enumerate(headings):
        right = place >= len(headings) - numbers
        # A figure that is cut would be another one.
        table.add_column(heading, justify="right" if right else "left", overflow="fold")
    return table


def captioned(table: Table, caption: str) -> Group:
    """A table with a line or more below it, which may be wider than the table."""
    return Group(table, Text(caption, style="dim"), "") if caption else Group(table)


def pairs_table(title: str, pairs: Mapping[str, object]) -> Table:
    """Names and values, numbers with thousands set apart."""
    table = plain_table(title, "", "")
    table.show_header = False
    for name, value in pairs.items():
        shown = f"{value:,}" if isinstance(value, int) else value
        shown = f"{value:.4g}" if isinstance(value, float) else shown
        table.add_row(name, "unknown" if shown is None else escape(str(shown)))
    return table


def statistics_table(title: str, found: Mapping[str, Any]) -> Table:
    """What `whence.statistics` counted, what does not apply left away."""
    shown = {name: value for name, value in found.items() if value not in (None, [], {})}
    shown["density"] = f"{100 * found['density']:.3f} %"
    for name in ("item features", "user features"):
        if name in shown:
            shown[name] = ", ".join(shown[name])
    left_out = shown.pop("left out", {})
    return pairs_table(title, {**shown, **{f"left out: {what}": n for what, n in left_out.items()}})
