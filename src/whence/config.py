"""Frozen dataclasses from plain mappings; the one place where an unknown key raises."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from whence.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")
TRUTHS = {"true": True, "false": False}


def build(cls: type[T], settings: Mapping[str, Any], name: str = "") -> T:
    """An instance of the frozen dataclass `cls`; texts such as "0.2" become the declared type.

    "true" and "false" are what they say, and "64-32" is a tuple of both.
    Dataclasses inside it, and mappings and tuples of them, are built the same way. `name` is what
    a user knows it by, where that is not the class.
    """
    name = name or cls.__name__
    hints = typing.get_type_hints(cls)
    known = {field.name: field for field in dataclasses.fields(cls) if field.init}
    for key in settings:
        if key not in known:
            raise InputError(f"{name} has no setting '{key}': {did_you_mean(key, known)}")
    for key, field in known.items():
        if key not in settings and field.default is field.default_factory is dataclasses.MISSING:
            raise InputError(f"{name} needs the setting '{key}'.")
    return cls(**{key: _convert(key, value, hints[key]) for key, value in settings.items()})


def parse_settings(text: str) -> dict[str, str]:
    """`"block=1,head=2"` as a mapping, for options on the command line."""
    pairs = [pair.partition("=") for pair in text.split(",") if pair.strip()]
    for key, equals, _ in pairs:
        if not equals:
            raise InputError(f"'{key}' is not a setting; write name=value, with commas between.")
    return {key.strip(): value.strip() for key, _, value in pairs}


def require_choice(key: str, value: object, literal: Any) -> None:  # noqa: ANN401
    """Raise unless the setting has one of the values of a `Literal`, however it was given."""
    choices = typing.get_args(literal)
    if value not in choices:
        raise InputError(f"{key} cannot be '{value}': {did_you_mean(str(value), choices)}")


def _convert(key: str, value: Any, hint: Any) -> Any:  # noqa: ANN401
    """`value` as the declared type, or an error that names both."""
    choices = typing.get_args(hint)
    if hint is Any:
        return value
    if dataclasses.is_dataclass(hint) or typing.get_origin(hint) in (Mapping, tuple):
        return _convert_whole(key, value, hint)
    if typing.get_origin(hint) is typing.Literal:
        require_choice(key, value, hint)
        return value
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        if value is None or (value == "none" and str not in choices):
            return None
        chosen = next(choice for choice in choices if choice is not types.NoneType)
        return _convert(key, value, chosen)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is bool and isinstance(value, str) and value in TRUTHS:
        return TRUTHS[value]
    if isinstance(value, str) and hint in (int, float):
        try:
            return hint(value)
        except ValueError:
            raise InputError(f"{key} needs {_article(hint)}, not '{value}'.") from None
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise InputError(f"{key} needs {_article(hint)}, not {value!r}.")
    return value


def _convert_whole(key: str, value: Any, hint: Any) -> Any:  # noqa: ANN401
    """What has parts of its own: a dataclass, a mapping from names, or a tuple."""
    if typing.get_origin(hint) is tuple:
        if isinstance(value, str):
            value = value.split("-")
        if not isinstance(value, list | tuple):
            raise InputError(f"{key} needs a list, not {value!r}.")
        return tuple(_convert(key, one, typing.get_args(hint)[0]) for one in value)
    if not isinstance(value, Mapping):
        raise InputError(f"{key} needs a table of settings, not {value!r}.")
    if dataclasses.is_dataclass(hint):
        return build(typing.cast("type[DataclassInstance]", hint), value)
    inner = typing.get_args(hint)[1]
    return {name: _convert(f"{key}.{name}", one, inner) for name, one in value.items()}


def _article(hint: type) -> str:
    names = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
    return names.get(hint, hint.__name__)
