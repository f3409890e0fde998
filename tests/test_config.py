from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from whence.config import build, parse_settings
from whence.errors import InputError


@dataclass(frozen=True)
class Settings:
    blocks: int = 2
    rate: float = 0.1
    head: int | None = None
    unit: Literal["logit", "probability"] = "logit"
    name: str = "x"
    fair: bool = False


def test_texts_become_the_declared_types() -> None:
    told = {"n_blocks": "3", "rate": "0.5", "head": "none", "unit": "probability", "fair": "true"}
    expected = Settings(blocks=3, rate=0.5, head=None, unit="probability", fair=True)
    assert build(Settings, told) == expected
    assert not build(Settings, {"fair": "false"}).fair


def test_a_list_of_numbers_is_a_text_with_dashes() -> None:
    assert build(Whole, {"title": "t", "parts": {}, "rates": "1-0.5"}).rates == (1.0, 0.5)
    with pytest.raises(InputError, match="rates needs a number, not '1;2'"):
        build(Whole, {"title": "t", "parts": {}, "rates": "1;2"})


def test_plain_values_pass() -> None:
    told = {"n_blocks": 3, "rate": 1, "head": 2}
    assert build(Settings, told) == Settings(blocks=3, rate=1.0, head=2)


def test_an_unknown_key_raises_and_suggests() -> None:
    with pytest.raises(InputError, match="no setting 'block'.*did you mean 'blocks'"):
        build(Settings, {"block": 3})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("blocks", "two"),
        ("blocks", 2.5),
        ("blocks", True),
        ("rate", "fast"),
        ("unit", "percent"),
        ("name", 3),
        ("fair", "yes"),
        ("fair", 1),
    ],
)
def test_a_wrong_type_is_one_sentence_with_the_key(key: str, value: object) -> None:
    with pytest.raises(InputError, match=key):
        build(Settings, {key: value})


def test_settings_on_the_command_line() -> None:
    assert parse_settings("block=1, head=2") == {"block": "1", "head": "2"}
    assert parse_settings("") == {}
    with pytest.raises(InputError, match="name=value"):
        parse_settings("block")


@dataclass(frozen=True)
class Whole:
    title: str
    parts: Mapping[str, Settings]
    rates: tuple[float, ...] = ()
    free: Mapping[str, Any] | None = None


def test_wholes_are_built_with_their_parts() -> None:
    told = {"title": "t", "parts": {"one": {"n_blocks": 3}}, "rates": [1, 0.5]}
    assert build(Whole, told) == Whole("t", {"one": Settings(blocks=3)}, (1.0, 0.5))
    assert build(Whole, {**told, "rates": "1-0.5"}).rates == (1.0, 0.5)
    assert build(Whole, {**told, "free": {"any": [1]}}).free == {"any": [1]}


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ({"parts": {}}, "Whole needs the setting 'title'"),
        ({"title": "t", "parts": 3}, "parts needs a table of settings, not 3"),
        ({"title": "t", "parts": {"one": 3}}, "parts.one needs a table"),
        ({"title": "t", "parts": {"one": {"block": 3}}}, "Settings has no setting 'block'"),
        ({"title": "t", "parts": {}, "rates": 3}, "rates needs a list, not 3"),
        ({"title": "t", "parts": {}, "rates": ["x"]}, "rates needs a number, not 'x'"),
    ],
)
def test_a_wrong_part_is_one_sentence_too(told: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        build(Whole, told)
