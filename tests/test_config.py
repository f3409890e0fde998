from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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


def test_texts_become_the_declared_types() -> None:
    told = {"blocks": "3", "rate": "0.5", "head": "none", "unit": "probability"}
    expected = Settings(blocks=3, rate=0.5, head=None, unit="probability")
    assert build(Settings, told) == expected


def test_plain_values_pass() -> None:
    told = {"blocks": 3, "rate": 1, "head": 2}
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
