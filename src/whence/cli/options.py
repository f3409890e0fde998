"""What several commands share: the consoles, and the options that say how data are read."""

import inspect
import json
import os
import shutil
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console

if TYPE_CHECKING:
    from whence.data import Interactions

# Annotations here are objects, not texts: `reads_data` gives them to other functions.

out = Console()
err = Console(stderr=True)

Format = Literal["delimited", "sequences", "json", "literals", "parquet"]
Repeats = Literal["keep", "first", "last"]
READING, LEAVING_OUT = "How the data are read", "What is left out"

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A name from 'whence data list', a file, a prepared folder, or a database's URL.",
    ),
]
RunFolder = Annotated[
    Path, typer.Argument(metavar="RUN", help="A folder that 'whence train' wrote.")
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
    title: Annotated[
        str | None, _reading("Column of the item's title, there or in --items.", "--title")
    ] = None,
    items: Annotated[
        str | None, _reading("A file of titles and features, a row an item.", metavar="FILE")
    ] = None,
    users: Annotated[
        str | None, _reading("A file of features, a row a user.", metavar="FILE")
    ] = None,
    query: Annotated[
        str | None,
        _reading("For a database: 'SELECT buyer, sku, at FROM sold'.", metavar="SELECT"),
    ] = None,
    format: Annotated[Format | None, _reading("Of a file that looks otherwise.")] = None,
    header: Annotated[
        bool | None, _reading("Whether the first row names the columns, if it looks otherwise.")
    ] = None,
    encoding: Annotated[
        str, _reading("Of text files that are not UTF-8: cp1252, latin-1, …")
    ] = "utf-8",
    verb: Annotated[
        str | None, _reading("What users do with items: watched, bought, played.")
    ] = None,
    keep_duplicates: Annotated[
        bool,
        _leaving_out(
            "Do not leave out rows equal in user, item, time and rating.", "--keep-duplicates"
        ),
    ] = False,
    min_rating: Annotated[float | None, _leaving_out("Leave out events rated lower.")] = None,
    repeats: Annotated[
        Repeats, _leaving_out("Of a user's events with one item, leave out all but these.")
    ] = "keep",
    min_user_events: Annotated[int, _leaving_out("Leave out users of fewer events.", min=1)] = 1,
    min_item_events: Annotated[int, _leaving_out("Leave out items of fewer events.", min=1)] = 1,
    core: Annotated[
        bool, _leaving_out("Count again until both hold (the k-core), not once.", "--core")
    ] = False,
) -> None:
    """The options of every command that reads data."""


def reads_data(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options of reading; its `data` becomes a function that loads them."""
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

    from whence.data import Preparation, ReadOptions, load

    leave_out = {field.name: how[field.name] for field in fields(Preparation)}
    reading = ReadOptions(**{field.name: how[field.name] for field in fields(ReadOptions)})
    with err.status("reading the data"):
        found = load(data, reading, Preparation(**leave_out))
    report_reading(found)
    return found


def report_reading(found: "Interactions") -> None:
    """What was guessed, and what was left out just now."""
    from whence.data.interactions import DUPLICATES
    from whence.data.readers.tabular import GUESSES

    if not found.origin.keys() & {"reading", "preparation"}:
        return
    read = found.origin.get("reading", {})
    if read:
        roles = ", ".join(f"{role}={read.get(role, 'of the items')}" for role in GUESSES)
        _aside(f"reading {roles}")
    for one in found.filters:
        if one["dropped"]:
            hint = " (--keep-duplicates keeps them)" if one["what"] == DUPLICATES else ""
            _aside(f"left out {one['what']}: {one['dropped']:,}{hint}")


def _aside(text: str) -> None:
    err.print(text, markup=False, highlight=False, style="dim", soft_wrap=True)


def say(text: str) -> None:
    """One line on stdout, as it is."""
    out.print(text, markup=False, highlight=False, soft_wrap=True)


def print_json(document: object) -> None:
    """One document on stdout."""
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))


def program() -> str:
    """Return what to type to call this program again."""
    if shutil.which("whence"):
        return "whence"
    called = Path(sys.argv[0])
    return "python -m whence" if called.name == "__main__.py" else os.path.relpath(called)
