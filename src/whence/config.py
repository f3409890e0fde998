"""Configurations: frozen dataclasses built from plain mappings, and their help texts."""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import textwrap
import types
import typing
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from whence import former
from whence.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")
BOOLEANS: Final = {"true": True, "false": False}
SYNONYMS: Final[Mapping[str, tuple[str, ...]]] = {
    "lr": ("learning_rate",),
    "batch": ("batch_size",),
    "train_batch_size": ("batch_size",),
    "n_epochs": ("epochs",),
    "num_epochs": ("epochs",),
    "max_epochs": ("epochs",),
    "n_steps": ("steps",),
    "max_steps": ("steps",),
    "clip_norm": ("clip",),
    "clip_grad_norm": ("clip",),
    "grad_clip": ("clip",),
    "warmup_steps": ("warmup",),
    "scheduler": ("lr_decay",),
    "early_stopping": ("patience",),
    "stopping_step": ("patience",),
    "eval_step": ("validate_every",),
    "eval_every": ("validate_every",),
    "weight_decay": ("embedding_decay", "layer_decay"),
    "reg_weight": ("embedding_decay", "layer_decay"),
    "d": ("dim",),
    "d_model": ("dim",),
    "hidden_size": ("dim",),
    "hidden_units": ("dim",),
    "hidden_dim": ("dim", "hidden_dims"),
    "embedding_size": ("dim",),
    "embedding_dim": ("dim",),
    "mlp_hidden_size": ("hidden_dims",),
    "layers": ("hidden_dims", "n_layers", "n_blocks"),
    "n_layers": ("n_blocks", "hidden_dims"),
    "num_layers": ("n_blocks", "n_layers", "hidden_dims"),
    "num_blocks": ("n_blocks",),
    "num_heads": ("n_heads",),
    "maxlen": ("max_len",),
    "max_length": ("max_len",),
    "max_seq_length": ("max_len",),
    "seq_len": ("max_len",),
    "session_max_len": ("max_len",),
    "dropout_rate": ("dropout",),
    "dropout_prob": ("dropout",),
    "hidden_dropout_prob": ("dropout",),
    "attn_dropout_prob": ("dropout",),
    "mask_ratio": ("mask_prob",),
    "initializer_range": ("init_std",),
    "num_negatives": ("n_negatives",),
    "neg_num": ("n_negatives",),
    "num_classes": ("n_classes",),
}
"""Names that other libraries give a setting, and Whence's names for it in order."""


class Setting(NamedTuple):
    """One field of a configuration, as help texts show it."""

    name: str
    default: Any
    """`dataclasses.MISSING` if the setting is required."""
    help: str


def build(cls: type[T], settings: Mapping[str, Any] | T, name: str = "") -> T:
    """Return an instance of the frozen dataclass `cls`, or `settings` if it is one already.

    A text such as "0.2" becomes the declared type, "true" and "false" become Booleans, and "64-32"
    becomes a tuple. Nested dataclasses, mappings and tuples are built in the same way. Messages
    use `name` instead of the name of the class.
    """
    if isinstance(settings, cls):
        return settings
    name = name or cls.__name__
    converted = convert(cls, settings, name)
    for field in dataclasses.fields(cls):
        required = field.init and field.default is field.default_factory is dataclasses.MISSING
        if required and field.name not in converted:
            raise InputError(f"{name} needs the setting '{field.name}'.")
    return cls(**converted)


def convert(cls: type[DataclassInstance], settings: object, name: str = "") -> dict[str, Any]:
    """Return some settings of `cls` as their declared types; the others keep their defaults."""
    name = name or cls.__name__
    if not isinstance(settings, Mapping):
        raise InputError(f"{name} needs a table of settings, not {settings!r}.")
    hints = typing.get_type_hints(cls)
    known = {field.name for field in dataclasses.fields(cls) if field.init}
    for key in settings:
        if key not in known:
            raise InputError(f"{name} has no setting '{key}': {suggest_setting(key, known)}")
    return {key: _convert(key, value, hints[key]) for key, value in settings.items()}


def suggest_setting(wrong: str, known: Iterable[str]) -> str:
    """Return a half-sentence with the setting that was probably meant.

    It knows the names that other libraries and Whence 0.1 use.
    """
    known = set(known)
    old = (names[wrong] for names in (former.MODEL, former.TRAINING) if wrong in names)
    synonyms = dict.fromkeys((*SYNONYMS.get(wrong, ()), *old))
    if meant := [name for name in synonyms if name in known]:
        return "did you mean " + " or ".join(f"'{name}'" for name in meant) + "?"
    return did_you_mean(wrong, known)


@functools.cache
def settings_help(cls: type[DataclassInstance]) -> list[Setting]:
    """Return every setting of a configuration with its default and its help text.

    The help is the docstring below the field in the source of the class or of the base class that
    declares it. It is empty if the field has none.
    """
    helps: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if dataclasses.is_dataclass(base):
            helps |= _field_docstrings(base)
    return [
        Setting(field.name, _default(field), helps.get(field.name, ""))
        for field in dataclasses.fields(cls)
        if field.init
    ]


def _default(field: dataclasses.Field[Any]) -> Any:  # noqa: ANN401
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _field_docstrings(cls: type) -> dict[str, str]:
    """Return the string literal below each annotated field of the class."""
    try:
        source = textwrap.dedent(inspect.getsource(cls))
    except (OSError, TypeError):  # a class typed at a prompt has no source
        return {}
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.ClassDef)
    found: dict[str, str] = {}
    for field, below in zip(definition.body, definition.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
            and isinstance(below.value.value, str)
        ):
            found[field.target.id] = " ".join(below.value.value.split())
    return found


def parse_settings(text: str) -> dict[str, str]:
    """Return `"block=1,head=2"`, as an option of the command line gives it, as a mapping."""
    pairs = [pair.partition("=") for pair in text.split(",") if pair.strip()]
    for key, equals, _ in pairs:
        if not equals:
            raise InputError(f"'{key}' is not a setting. Write name=value, separated by commas.")
    return {key.strip(): value.strip() for key, _, value in pairs}


def require_choice(key: str, value: object, literal: Any) -> None:  # noqa: ANN401
    """Raise unless the value is one of those of the `Literal`."""
    choices = typing.get_args(literal)
    if value not in choices:
        raise InputError(f"{key} cannot be '{value}': {did_you_mean(str(value), choices)}")


def _convert(key: str, value: Any, hint: Any) -> Any:  # noqa: ANN401
    """Return `value` as the declared type, or raise an error that names both."""
    choices = typing.get_args(hint)
    if hint is Any:
        return value
    if dataclasses.is_dataclass(hint) or typing.get_origin(hint) in (Mapping, tuple):
        return _convert_container(key, value, hint)
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
    if hint is bool and isinstance(value, str) and value in BOOLEANS:
        return BOOLEANS[value]
    if isinstance(value, str) and hint in (int, float):
        try:
            return hint(value)
        except ValueError:
            raise InputError(f"{key} needs {_article(hint)}, not '{value}'.") from None
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise InputError(f"{key} needs {_article(hint)}, not {value!r}.")
    return value


def _convert_container(key: str, value: Any, hint: Any) -> Any:  # noqa: ANN401
    """Return a dataclass, a mapping or a tuple whose parts are converted."""
    if typing.get_origin(hint) is tuple:
        if isinstance(value, str):
            value = value.split("-")
        if not isinstance(value, list | tuple):
            raise InputError(f"{key} needs a list, not {value!r}.")
        return tuple(_convert(key, one, typing.get_args(hint)[0]) for one in value)
    if dataclasses.is_dataclass(hint) and isinstance(value, typing.cast("type", hint)):
        return value
    if not isinstance(value, Mapping):
        raise InputError(f"{key} needs a table of settings, not {value!r}.")
    if dataclasses.is_dataclass(hint):
        return build(typing.cast("type[DataclassInstance]", hint), value)
    inner = typing.get_args(hint)[1]
    return {name: _convert(f"{key}.{name}", one, inner) for name, one in value.items()}


def _article(hint: type) -> str:
    names = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
    return names.get(hint, hint.__name__)
