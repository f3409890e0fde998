"""`whence data`: list, download, describe and prepare interactions."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whence.cli.options import AsJson, Overwrite, err, out, print_json, reads_data, say

if TYPE_CHECKING:
    from whence.data import Interactions

app = typer.Typer(help="List, download, describe and prepare interactions.", no_args_is_help=True)


@app.command("list")
def list_() -> None:
    """List the datasets known by name, and whether each is here."""
    from whence.data import DATASETS
    from whence.terminal import captioned, plain_table

    table = plain_table("Datasets known by name", "name", "here", "content")
    for name, named in DATASETS.items():
        absent = f"needs {named.package}" if named.package else "no"
        table.add_row(name, "yes" if named.available else absent, named.summary)
    out.print(captioned(table, "Download one from its publisher with 'whence data get NAME'."))


@app.command()
def get(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name from 'whence data list'.")],
    mirror: Annotated[str | None, typer.Option(help="Another address that hosts the file.")] = None,
) -> None:
    """Download a dataset from its publisher, or resume an interrupted download."""
    from whence.data.addresses import public_name
    from whence.data.dataset_files import unchecked_files
    from whence.data.datasets import DATASETS
    from whence.data.datasets import get as get_named
    from whence.errors import InputError, did_you_mean

    name = name.lower()
    if name not in DATASETS:
        raise InputError(
            f"There is no dataset '{public_name(name)}': {did_you_mean(name, DATASETS)}"
        )
    if DATASETS[name].terms:
        err.print(f"Terms of {name}: {DATASETS[name].terms}", highlight=False, style="dim")
    if not DATASETS[name].available:
        for line in unchecked_files(DATASETS[name]):
            err.print(line, highlight=False, style="dim")
    found = get_named(name, mirror)
    say(f"{name} is ready: {len(found):,} events of {found.user_count:,} users")


@app.command()
@reads_data
def stats(data: Callable[[], "Interactions"], as_json: AsJson = False) -> None:
    """Count users, items, events and ties in time."""
    from whence.data import statistics
    from whence.terminal import statistics_table

    interactions = data()
    found = statistics(interactions)
    if as_json:
        print_json(found)
    else:
        out.print(statistics_table(str(interactions.origin.get("source", "")), found))


@app.command()
@reads_data
def prepare(
    data: Callable[[], "Interactions"],
    folder: Annotated[Path, typer.Option("--out", help="The folder to write.")],
    overwrite: Overwrite = False,
) -> None:
    """Read and filter interactions, and save them in a folder that loads fast."""
    from whence.files import claim_folder

    with claim_folder(folder, overwrite):
        interactions = data()
        interactions.save(folder, overwrite)
        err.print(f"wrote {len(interactions):,} events to {folder}")
