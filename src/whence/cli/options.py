"""What several commands share: the consoles, and the options for reading data."""

import inspect
import json
import os
import shutil
import sys
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from whence import former
from whence.console import SafeConsole
from whence.errors import did_you_mean
from whence.text import json_text

if TYPE_CHECKING:
    from whence.data import Interactions
    from whence.run import Run

# Annotations must be objects, not strings: `reads_data` passes them to other functions.

out = SafeConsole()
err = SafeConsole(stderr=True)

Format = Literal["delimited", "sequences", "json", "literals", "parquet"]
SPLITS = ("last-two", "last-one", "temporal", "user-holdout")
Effort = Literal["quick", "normal", "best"]
Repeats = Literal["all", "first", "last"]

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A name from 'whence data list', a file, a prepared folder, or the URL of a database.",
    ),
]
RunFolder = Annotated[
    Path, typer.Argument(metavar="RUN", help="A folder that 'whence train' wrote.")
]


def _known_split(name: str) -> str:
    """Return the name of a split, or say what it is called now."""
    name = name.lower()
    if name in former.SPLITS:
        raise typer.BadParameter(f"the split '{name}' is now called '{former.SPLITS[name]}'.")
    if name not in SPLITS:
        raise typer.BadParameter(f"there is no split '{name}': {did_you_mean(name, SPLITS)}")
    return name


SplitName = Annotated[
    str,
    typer.Option(
        metavar=f"[{'|'.join(SPLITS)}]",
        callback=_known_split,
        help="Which events to hold out for validation and testing.",
    ),
]
Removal = Annotated[
    str | None,
    typer.Option(
        metavar="[dropped|attention-column|...]",
        help="How the methods remove items: 'dropped' leaves them out, and older items move up; "
        "'attention-column' hides them in their places. By default as the model does; not every "
        "model offers both.",
    ),
]


def _probability(text: str) -> float:
    """Return a probability that is written as one or in percent."""
    number = text.strip().removesuffix("%")
    try:
        value = float(number)
    except ValueError:
        raise typer.BadParameter(f"'{text}' is no number. Write 90, 90% or 0.9.") from None
    percent = "%" in text or value > 1
    found = value / 100 if percent else value
    if not 0.5 <= found <= 1:
        raise typer.BadParameter(f"'{text}' is not from 50 to 100 percent.")
    return found


Sure = Annotated[
    float | None,
    typer.Option(
        "--sure",
        metavar="PERCENT",
        parser=_probability,
        help="Say a reason only if it is the right one with at least this probability: 90 (the "
        "default), 90% or 0.9.",
    ),
]
LowRating = Annotated[
    float | None,
    typer.Option(
        "--low-rating",
        help="Items rated so or lower are never named as a reason; by default two of five of the "
        "largest rating.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the existing folder.")]


def _reading(text: str, *names: str, **more: Any) -> Any:  # noqa: ANN401
    return typer.Option(*names, help=text, rich_help_panel="How to read the data", **more)


def _filtering(text: str, *names: str, **more: Any) -> Any:  # noqa: ANN401
    return typer.Option(*names, help=text, rich_help_panel="Which events to keep", **more)


def _data_options(
    user: Annotated[str | None, _reading("Column of the user.", "--user")] = None,
    item: Annotated[str | None, _reading("Column of the item.", "--item")] = None,
    time: Annotated[str | None, _reading("Column of the time.", "--time")] = None,
    rating: Annotated[str | None, _reading("Column of the rating.", "--rating")] = None,
    title: Annotated[
        str | None, _reading("Column of the title, in the events or in --items.", "--title")
    ] = None,
    items: Annotated[
        str | None, _reading("File of item titles and features, one row per item.", metavar="FILE")
    ] = None,
    users: Annotated[
        str | None, _reading("File of user features, one row per user.", metavar="FILE")
    ] = None,
    query: Annotated[
        str | None,
        _reading(
            "Query for a database, such as 'SELECT buyer, sku, at FROM sold'.", metavar="SELECT"
        ),
    ] = None,
    format: Annotated[Format | None, _reading("Override the detected format.")] = None,
    header: Annotated[
        bool | None, _reading("Override whether the first row names the columns.")
    ] = None,
    encoding: Annotated[
        str, _reading("Encoding of text files that are not UTF-8, such as cp1252 or latin-1.")
    ] = "utf-8",
    verb: Annotated[
        str | None, _reading("What users do with items: watched, bought, played.")
    ] = None,
    keep_duplicates: Annotated[
        bool,
        _filtering("Keep rows that are equal in user, item, time and rating.", "--keep-duplicates"),
    ] = False,
    min_rating: Annotated[float | None, _filtering("Drop events with a lower rating.")] = None,
    repeats: Annotated[
        Repeats,
        _filtering("Which of a user's events with the same item to keep: all, first or last."),
    ] = "all",
    min_user_events: Annotated[int, _filtering("Drop users with fewer events.", min=1)] = 1,
    min_item_events: Annotated[int, _filtering("Drop items with fewer events.", min=1)] = 1,
    k_core: Annotated[
        bool,
        _filtering("Repeat both minimums until all users and items reach them.", "--k-core"),
    ] = False,
) -> None:
    """Declare the options of every command that reads data."""


def reads_data(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options for reading data to a command; its `data` becomes a function that loads."""
    own = inspect.signature(command).parameters.values()
    shared = inspect.signature(_data_options).parameters

    @wraps(command)
    def with_loader(data: str, **given: Any) -> None:  # noqa: ANN401
        options = {name: given.pop(name) for name in shared}
        command(data=lambda: _load(data, options), **given)

    return _with_parameters(with_loader, {"data": Data}, *own, *shared.values())


def _serving_options(
    data: Annotated[
        str | None,
        _reading(
            "The data of the training, or newer events of the same items. By default the private "
            "copy of the training data.",
            metavar="DATA",
        ),
    ] = None,
    query: Annotated[
        str | None, _reading("Query for a database, if --data is one.", metavar="SELECT")
    ] = None,
    reading: Annotated[
        str | None,
        _reading(
            "How to read --data, such as user=buyer,item=sku,time=at,encoding=latin-1; by default "
            "as for the training.",
            metavar="NAME=VALUE",
        ),
    ] = None,
    origin: Annotated[
        str | None,
        _reading(
            "Read the data again from where the run says they came from. An error shows that "
            "origin, and the code that allows to read it.",
            metavar="CODE",
        ),
    ] = None,
) -> None:
    """Declare the options of every command that serves users from a run."""


def opens_run(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options for histories to a command; its `run` becomes a function that opens it."""
    own = inspect.signature(command).parameters.values()
    shared = inspect.signature(_serving_options).parameters

    @wraps(command)
    def with_run(run: Path, **given: Any) -> None:  # noqa: ANN401
        options = {name: given.pop(name) for name in shared}
        command(run=partial(_open_run, run, **options), **given)

    return _with_parameters(with_run, {"run": RunFolder}, *own, *shared.values())


def _with_parameters(
    command: Callable[..., None], kinds: dict[str, Any], *parameters: inspect.Parameter
) -> Callable[..., None]:
    """Return the command with other parameters, as Typer reads them."""
    declared = [
        one.replace(kind=one.KEYWORD_ONLY, annotation=kinds.get(one.name, one.annotation))
        for one in parameters
    ]
    command.__signature__ = inspect.Signature(declared)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in declared}
    del command.__wrapped__  # type: ignore[attr-defined]
    return command


def _open_run(
    folder: Path,
    device: str = "cpu",
    training: bool = False,
    *,
    data: str | None,
    query: str | None,
    reading: str | None,
    origin: str | None,
) -> "Run":
    """Open a run with the data that the options name; with `training`, only those it is made of."""
    from whence import ReadOptions, open_run
    from whence.config import build, parse_settings
    from whence.errors import InputError

    if data is not None and origin is not None:
        raise InputError("--data names the data, and --origin reads them again: give one of them.")
    if data is None and (query or reading):
        raise InputError("--query and --reading say how to read --data. Give --data, too.")
    run = open_run(folder, device)
    if origin is not None:
        return run.with_origin(origin)
    if data is None:
        return run
    options = build(ReadOptions, {**parse_settings(reading or ""), "query": query})
    return (run.with_training_data if training else run.with_data)(data, options)


def _load(data: str, options: dict[str, Any]) -> "Interactions":
    from dataclasses import fields

    from whence.data import Preparation, ReadOptions, load

    filters = {field.name: options[field.name] for field in fields(Preparation)}
    reading = ReadOptions(**{field.name: options[field.name] for field in fields(ReadOptions)})
    with err.status("reading the data"):
        found = load(data, reading, Preparation(**filters))
    report_reading(found)
    return found


def report_reading(found: "Interactions") -> None:
    """Print which columns were used, and how many events were dropped."""
    from whence.data.interactions import DUPLICATES
    from whence.data.readers.tabular import GUESSES

    if not found.origin.keys() & {"reading", "preparation"}:
        return
    read = found.origin.get("reading", {})
    if read:
        roles = ", ".join(f"{role}={read.get(role, 'from --items')}" for role in GUESSES)
        _note(f"columns: {roles}")
    for one in found.filters:
        if one["dropped"]:
            hint = " (use --keep-duplicates to keep them)" if one["what"] == DUPLICATES else ""
            _note(f"dropped {one['what']}: {one['dropped']:,}{hint}")


def _note(text: str) -> None:
    err.print(text, highlight=False, style="dim", soft_wrap=True)


def say(text: str) -> None:
    """Print one line on stdout."""
    out.print(text, highlight=False, soft_wrap=True)


def print_json(document: object) -> None:
    """Print one JSON document on stdout."""
    text = json_text(document)
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(document, indent=2, allow_nan=False)
    typer.echo(text)


def program() -> str:
    """Return what to type to call this program again."""
    if shutil.which("whence"):
        return "whence"
    called = Path(sys.argv[0])
    return "python -m whence" if called.name == "__main__.py" else os.path.relpath(called)
