"""Consoles and tables print text from data as it is, and let no character of it act."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from hostile import CODES, COLOURS, CONTROLS, MARKUP, acting
from whence.console import LONGEST_TEXT, SafeConsole
from whence.explanation import bar
from whence.progress import progress_bar
from whence.terminal import captioned, pairs_table, plain_table, to_html

ANY = st.text(st.characters(categories=None), max_size=40)


def printed(*shown: object, colour: bool) -> str:
    file = io.StringIO()
    SafeConsole(file=file, force_terminal=colour, width=120).print(*shown)
    return file.getvalue()


def foreign(text: str) -> Table:
    """A table that was made without our care."""
    table = Table(title=Text(text))
    table.add_column(Text(text))
    table.add_row(text, Text(text))
    return table


@pytest.mark.parametrize("colour", [False, True])
@given(text=ANY)
def test_nothing_that_is_printed_acts(text: str, colour: bool) -> None:
    shown = (text, Text(text), Segment(text), foreign(text), plain_table(text, text))
    assert not acting(printed(*shown, colour=colour), colour)


@pytest.mark.parametrize("colour", [False, True])
def test_markup_and_pictures_are_text(colour: bool) -> None:
    assert MARKUP in COLOURS.sub("", printed(MARKUP, colour=colour))
    table = plain_table(MARKUP, MARKUP)
    table.add_row(MARKUP)
    output = printed(captioned(table, MARKUP), pairs_table("", {MARKUP: MARKUP}), colour=colour)
    assert output.count(":bomb:") == 6
    assert output.count("[bold]x[/]") == 6
    assert "\x1b]8" not in output, "no link"


def test_a_table_is_safe_on_any_console() -> None:
    """A result may be printed by `rich.print`."""
    table = plain_table(MARKUP + CODES, MARKUP + CODES)
    table.add_row(MARKUP + CODES)
    file = io.StringIO()
    Console(file=file, width=200).print(captioned(table, CONTROLS))
    assert file.getvalue().count(":bomb:") == 3
    assert not acting(file.getvalue())


def test_a_notebook_shows_text() -> None:
    table = plain_table("<script>alert(1)</script>", MARKUP)
    table.add_row(CODES + CONTROLS)
    page = to_html(table)
    assert "<script>" not in page
    assert "href" not in page
    assert ":bomb:" in page
    assert not acting(page)


def test_a_long_cell_is_shortened() -> None:
    table = plain_table("", "title")
    table.add_row("x" * 10**6)
    assert printed(table, colour=False).count("x") < LONGEST_TEXT


def test_styles_of_our_own_stay() -> None:
    assert "\x1b[31m" in printed(bar(-1.0, 1.0, signed=True), colour=True)
    assert "\x1b[1mtitle" in printed(plain_table("title", "column"), colour=True)


def test_progress_titles_are_text(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "300")
    progress = progress_bar(f"{MARKUP}\x1b]0;title\x07", 2)
    for _ in progress.track(range(2)):
        progress.say("[bold]note[/]\x1b[2J")
    output = capsys.readouterr().err
    assert "[bold]note[/]\\x1b[2J" in output
    assert ":bomb:" in output
    assert "\x1b]" not in output
