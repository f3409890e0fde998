"""Text from data cannot act on a terminal, and messages stay short."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostile import acting
from whence.errors import LONGEST_MESSAGE, InputError, nearest
from whence.text import (
    HARMFUL,
    JOINERS,
    json_text,
    one_line,
    shortened,
    visible,
    visible_lines,
)

ANY = st.text(st.characters(categories=None))


@given(st.text(st.characters(categories=None)))  # surrogates, too
def test_nothing_harmful_is_left(text: str) -> None:
    left = [one for one in visible(text) if unicodedata.category(one) in HARMFUL]
    assert all(one in JOINERS for one in left)
    visible(text).encode()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, Amélie, 千と千尋, 🎬", "plain, Amélie, 千と千尋, 🎬"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\u202eb", "a\\u202eb"),
        ("\ud800", "\\ud800"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("one\ntwo", "one\\ntwo"),
        ("\uffff", "\\uffff"),  # forbidden in XML
    ],
)
def test_codes_stand_for_harmful_characters(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text(st.characters(categories=None)))
def test_lines_stay_lines(text: str) -> None:
    assert visible_lines(text).split("\n") == [visible(line) for line in text.split("\n")]


@given(st.dictionaries(ANY, ANY | st.integers() | st.lists(ANY)))
def test_json_keeps_its_value_and_cannot_act(document: dict[str, object]) -> None:
    written = json_text(document)
    assert json.loads(written) == document
    assert not acting(written)
    written.encode()


def test_json_stays_readable() -> None:
    assert json_text({"title": "Amélie 千と千尋 🎬"}) == '{\n  "title": "Amélie 千と千尋 🎬"\n}'


def test_one_line_joins_lines() -> None:
    assert one_line(" a\n\tb\x00 ") == "a b\\x00"


@given(st.text(), st.integers(1, 50))
def test_shortened_keeps_the_limit(text: str, limit: int) -> None:
    short = shortened(text, limit)
    assert len(short) <= limit
    assert short == text or "…" in short


def test_a_message_keeps_its_start_and_its_advice() -> None:
    value = "x\n" * 10**7
    said = str(InputError(f"The value '{value}' is wrong. Correct it."))
    assert len(said) <= LONGEST_MESSAGE
    assert said.startswith("The value 'x x")
    assert said.endswith("is wrong. Correct it.")


def test_names_of_any_length_are_compared_quickly() -> None:
    assert nearest("user" + "x" * 10**6, ["user", "y" * 10**6]) == []
    assert nearest("usr", ["user", "item"]) == ["user"]
