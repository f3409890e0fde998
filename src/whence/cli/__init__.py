"""The command line. Commands import what is heavy when they run, so `--help` stays quick."""

import io
import sys
import warnings
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, TextIO, cast

import typer
from rich.text import Text

from whence import __version__
from whence.cli import data as data_commands
from whence.cli.audit import audit
from whence.cli.explaining import explain, explainers, recommend
from whence.cli.failures import check_arguments, drop_unwritable_output, sentence_of
from whence.cli.options import err, out, program, say
from whence.cli.training import models, recipes, train
from whence.errors import LONGEST_MESSAGE, WhenceError
from whence.text import one_line, shortened

USAGE_ERROR = cast("type[typer.BadParameter]", typer.BadParameter.__mro__[1])
"""Every mistake in the arguments; Typer exports only this subclass of it."""

app = typer.Typer(
    help="Train recommenders that can say why, and measure whether the why can be believed.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Print the version if asked to."""
    if show:
        out.print(f"whence {__version__}", highlight=False)
        raise typer.Exit


@app.command()
def demo(
    folder: Annotated[Path, typer.Option("--out", help="The folder to write.")] = Path("demo"),
    data: Annotated[
        str | None, typer.Option(help="Data to use instead of the demonstration data.")
    ] = None,
) -> None:
    """Train on MovieLens, recommend with reasons, and write a report. Takes about two minutes."""
    from whence.demonstration import demonstrate
    from whence.files import check_own_file, make_parent
    from whence.locks import lock
    from whence.report import tables
    from whence.report.demo_page import write_demo_report

    path = folder / "report.html"
    make_parent(folder)
    with lock(folder):
        check_own_file(path)
        found = demonstrate(folder, data)
        command = "whence demo" + (f" --data {data}" if data else "")
        write_demo_report(found, path, command)
    out.print(found.picks)
    say(found.whom)
    out.print(tables.outcome_tables(found.outcome))
    say(f"Report: {path}")
    say(f"Run: {folder / 'run'}")
    say(f"Next: {program()} explain {folder / 'run'} --user {found.user}")


def doctor() -> None:
    """Print which packages are installed and what they enable."""
    from whence.doctor import environment
    from whence.terminal import pairs_table

    out.print(pairs_table("Your environment", environment()))


app.add_typer(data_commands.app, name="data")
for command in (train, models, recipes, recommend, explain, explainers, audit, doctor):
    app.command()(command)
# The studies are a separate package that uses this one. It is looked up by name, so that the
# library never imports it.
if find_spec("whence_studies"):
    app.add_typer(import_module("whence_studies.commands").app, name="study")


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print the sentence alone, without the line of code that it comes from."""
    _tell("note:", "bold yellow", str(message))


def main() -> None:
    """Run a command. An error that you can fix is one sentence, not a traceback."""
    warnings.showwarning = _show_warning
    _write_any_character()
    try:
        check_arguments(sys.argv)
        code = app(standalone_mode=False)
    except USAGE_ERROR as problem:
        sys.exit(_tell_usage(problem))
    except WhenceError as problem:
        _tell("error:", "bold red", str(problem))
        sys.exit(problem.exit_code)
    except Exception as problem:
        sentence = sentence_of(problem)
        if sentence is None:
            raise
        drop_unwritable_output()
        _tell("error:", "bold red", sentence)
        sys.exit(WhenceError.exit_code)
    sys.exit(code)


def _write_any_character() -> None:
    """Make stdout write codes for characters that its encoding lacks, as stderr does."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _tell(kind: str, style: str, text: str) -> None:
    """Print a note or an error. A closed or full stderr must not hide the exit code."""
    shown = Text.assemble((kind, style), " ", shortened(one_line(text), LONGEST_MESSAGE))
    with suppress(OSError):
        err.print(shown, highlight=False, soft_wrap=True)


def _tell_usage(problem: typer.BadParameter) -> int:
    """Print a mistake in the arguments as Typer does, without what could act on a terminal."""
    from typer.rich_utils import rich_format_error

    problem.message = shortened(one_line(problem.message), LONGEST_MESSAGE)
    rich_format_error(problem)
    return problem.exit_code
