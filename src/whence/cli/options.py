"""What several commands share: the consoles, and the options that say how data are read."""

import inspect
import json
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

if TYPE_CHECKING:
    from whence.data import Interactions

# Annotations here are objects, not texts: `reads_data` gives them to other functions.

out = Console()
err = Console(stderr=True)

READING, LEAVING_OUT = "How the data are read", "What is left out"

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A name from 'whence data list', a file, a prepared folder, or a database's URL.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")]


def _reading(text: str, *names: str, **more: Any) -> Any:  # noqa: ANN401
    return typer.Option(*names, help=text, rich_help_panel=READING, **more)


def _leaving_out(text: str, *names: str, **more: Any) -> Any:  # noqa: ANN401
    return typer.Option(*names, help=text, rich_help_panel=LEAVING_OUT, **more)


def _data_options(
    user: Annotated[str | None, _reading("Column of the user.", "--user")] = None,
    item: Annotated[str | None, _reading("Column of the item.", "--item")] = None,
    time: Annotated[str | None, _reading("Column of the time.", "--time")] = None,
    rating: Annotated[str | None, _reading("Column of the rating.", "--rating")] = None,
    title: Annotated[str | None, _reading("Column of the item's title.", "--title")] = None,
    items: Annotated[
        str | None, _reading("A file of titles and features, a row an item.", metavar="FILE")
    ] = None,
    users: Annotated[
        str | None, _reading("A file of features, a row a user.", metavar="FILE")
    ] = None,
    query: Annotated[
        str | None, _reading("For a database: the rows that are the events.", metavar="SELECT")
    ] = None,
    format: Annotated[
        str | None,
        _reading("delimited, sequences, json, literals or parquet, if it looks otherwise."),
    ] = None,
    header: Annotated[
        bool | None, _reading("Whether the first row names the columns, if it looks otherwise.")
    ] = None,
    encoding: Annotated[str, _reading("Of text files: utf-8, latin-1, …")] = "utf-8",
    verb: Annotated[
        str | None, _reading("What users do with items: watched, bought, played.")
    ] = None,
    keep_duplicates: Annotated[
        bool, _leaving_out("Keep rows equal in user, item, time and rating.", "--keep-duplicates")
    ] = False,
    min_rating: Annotated[float | None, _leaving_out("Events rated lower.")] = None,
    repeats: Annotated[
        str, _leaving_out("Of a user's events with one item: keep all, the first or the last.")
    ] = "keep",
    min_user: Annotated[int, _leaving_out("Users of fewer events.", min=1)] = 1,
    min_item: Annotated[int, _leaving_out("Items of fewer events.", min=1)] = 1,
    core: Annotated[
        bool, _leaving_out("Count again until both hold (the k-core), not once.", "--core")
    ] = False,
) -> None:
    """The options of every command that reads data."""


def reads_data(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options of reading; it gets `data` as loaded interactions."""
    own = inspect.signature(command).parameters.values()
    shared = inspect.signature(_data_options).parameters

    @wraps(command)
    def reading_first(data: str, **given: Any) -> None:  # noqa: ANN401
        how = {name: given.pop(name) for name in shared}
        command(data=lambda: _load(data, how), **given)

    kinds = {"data": Data}
    parameters = [
        one.replace(kind=one.KEYWORD_ONLY, annotation=kinds.get(one.name, one.annotation))
        for one in (*own, *shared.values())
    ]
    reading_first.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    reading_first.__annotations__ = {one.name: one.annotation for one in parameters}
    del reading_first.__wrapped__
    return reading_first


def _load(data: str, how: dict[str, Any]) -> "Interactions":
    from dataclasses import fields

    from whence.data import Preparation, Reading, load

    leave_out = {field.name: how[field.name] for field in fields(Preparation)}
    reading = Reading(**{field.name: how[field.name] for field in fields(Reading)})
    with err.status("reading the data"):
        found = load(data, reading, Preparation(**leave_out))
    tell_reading(found)
    return found


def tell_reading(found: "Interactions") -> None:
    """What was guessed, and what was left out."""
    from whence.data.readers.reading import GUESSES

    read = found.origin.get("reading", {})
    if read:
        roles = ", ".join(f"{role}={read[role]}" for role in GUESSES)
        err.print(f"reading {roles}", markup=False, highlight=False, style="dim")
    for one in found.filters:
        if one["dropped"]:
            text = f"left out {one['what']}: {one['dropped']:,}"
            err.print(text, markup=False, highlight=False, style="dim")


def say(text: str) -> None:
    """One line on stdout, as it is."""
    out.print(text, markup=False, highlight=False, soft_wrap=True)


def print_json(document: object) -> None:
    """One document on stdout."""
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))
