"""Checks that a value read from a file has the types that its dataclass declares."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Collection, Mapping
from typing import Any


def check_types(instance: object, name: str = "") -> None:
    """Raise a `TypeError` that names the first field of a dataclass with a wrong type."""
    hints = typing.get_type_hints(type(instance))
    for field in dataclasses.fields(typing.cast("Any", instance)):
        path = f"{name}.{field.name}".lstrip(".")
        if not _conforms(getattr(instance, field.name), hints[field.name], path):
            raise TypeError(f"'{path}' has a wrong type")


def _conforms(value: Any, hint: Any, name: str) -> bool:  # noqa: ANN401
    """Return whether a value is what a hint declares; hints of other kinds allow everything."""
    if hint is float:
        return isinstance(value, float | int) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if hint in (str, bool):
        return isinstance(value, hint)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        if isinstance(value, hint):
            check_types(value, name)
        return isinstance(value, hint)
    return _parts_conform(value, typing.get_origin(hint), typing.get_args(hint), name)


def _parts_conform(value: Any, kind: Any, parts: tuple[Any, ...], name: str) -> bool:  # noqa: ANN401
    if kind is typing.Literal:
        return any(value == part and type(value) is type(part) for part in parts)
    if kind in (typing.Union, types.UnionType):
        return any(
            value is None if part is types.NoneType else _conforms(value, part, name)
            for part in parts
        )
    if kind in (dict, Mapping):
        return isinstance(value, Mapping) and all(
            _conforms(one, part, name)
            for pair in value.items()
            for one, part in zip(pair, parts, strict=True)
        )
    if kind in (list, tuple):
        if not isinstance(value, list | tuple):
            return False
        inner: Collection[Any] = parts * len(value) if kind is list else parts
        if kind is tuple and parts[-1] is Ellipsis:
            inner = parts[:1] * len(value)
        return len(inner) == len(value) and all(
            _conforms(one, part, name) for one, part in zip(value, inner, strict=True)
        )
    return True
