from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from whence.config import build, parse_settings, settings_help, suggest_setting
from whence.errors import InputError


@dataclass(frozen=True)
class Settings:
    n_blocks: int = 2
    rate: float = 0.1
    head: int | None = None
    unit: Literal["logit", "probability"] = "logit"
    name: str = "x"
    fair: bool = False


@dataclass(frozen=True)
class Larger(Settings):
    """Fields of its own, and those of its base."""

    rate: float = 0.5
    """How fast,
    in units."""
    dims: tuple[int, ...] = field(default_factory=lambda: (2, 3))
    """Sizes of the layers."""


def test_texts_become_the_declared_types() -> None:
    given = {"n_blocks": "3", "rate": "0.5", "head": "none", "unit": "probability", "fair": "true"}
    expected = Settings(n_blocks=3, rate=0.5, head=None, unit="probability", fair=True)
    assert build(Settings, given) == expected
    assert not build(Settings, {"fair": "false"}).fair


def test_a_list_of_numbers_is_a_text_with_dashes() -> None:
    assert build(Whole, {"title": "t", "parts": {}, "rates": "1-0.5"}).rates == (1.0, 0.5)
    with pytest.raises(InputError, match="rates needs a number, not '1;2'"):
        build(Whole, {"title": "t", "parts": {}, "rates": "1;2"})


def test_plain_values_pass() -> None:
    given = {"n_blocks": 3, "rate": 1, "head": 2}
    assert build(Settings, given) == Settings(n_blocks=3, rate=1.0, head=2)


def test_an_unknown_key_raises_and_suggests() -> None:
    with pytest.raises(InputError, match="no setting 'block': did you mean 'n_blocks'"):
        build(Settings, {"block": 3})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("n_blocks", "two"),
        ("n_blocks", 2.5),
        ("n_blocks", True),
        ("rate", "fast"),
        ("unit", "percent"),
        ("name", 3),
        ("fair", "yes"),
        ("fair", 1),
    ],
)
def test_a_wrong_type_gives_a_clear_error_with_the_key(key: str, value: object) -> None:
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
    given = {"title": "t", "parts": {"one": {"n_blocks": 3}}, "rates": [1, 0.5]}
    assert build(Whole, given) == Whole("t", {"one": Settings(n_blocks=3)}, (1.0, 0.5))
    assert build(Whole, {**given, "rates": "1-0.5"}).rates == (1.0, 0.5)
    assert build(Whole, {**given, "free": {"any": [1]}}).free == {"any": [1]}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"parts": {}}, "Whole needs the setting 'title'"),
        ({"title": "t", "parts": 3}, "parts needs a table of settings, not 3"),
        ({"title": "t", "parts": {"one": 3}}, "parts.one needs a table"),
        ({"title": "t", "parts": {"one": {"block": 3}}}, "Settings has no setting 'block'"),
        ({"title": "t", "parts": {}, "rates": 3}, "rates needs a list, not 3"),
        ({"title": "t", "parts": {}, "rates": ["x"]}, "rates needs a number, not 'x'"),
    ],
)
def test_a_wrong_part_gives_a_clear_error_too(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        build(Whole, given)


def test_help_is_the_docstring_below_the_field() -> None:
    found = {one.name: one for one in settings_help(Larger)}
    assert [*found] == ["n_blocks", "rate", "head", "unit", "name", "fair", "dims"]
    assert found["rate"] == ("rate", 0.5, "How fast, in units.")
    assert found["dims"] == ("dims", (2, 3), "Sizes of the layers.")
    assert found["n_blocks"] == ("n_blocks", 2, "")


def test_a_configuration_is_taken_as_it_is() -> None:
    given = Settings(n_blocks=4)
    assert build(Settings, given) is given
    assert build(Whole, {"title": "t", "parts": {"one": given}}).parts["one"] is given
    with pytest.raises(InputError, match="Settings needs a table of settings, not 3"):
        build(Settings, 3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("lr", "learning_rate"),
        ("hidden_size", "dim"),
        ("embedding_size", "dim"),
        ("d", "dim"),
        ("width", "dim"),
        ("num_layers", "n_blocks"),
        ("n_layers", "n_blocks"),
        ("num_heads", "n_heads"),
        ("maxlen", "max_len"),
        ("length", "max_len"),
        ("batch", "batch_size"),
        ("second_moment", "beta2"),
    ],
)
def test_names_of_other_libraries_and_of_older_versions_are_understood(
    wrong: str, meant: str
) -> None:
    names = ["learning_rate", "dim", "n_blocks", "n_heads", "max_len", "batch_size", "beta2"]
    assert suggest_setting(wrong, names) == f"did you mean '{meant}'?"
