"""`whence study`: published tables and figures, run again."""

from pathlib import Path
from typing import Annotated

import typer

from whence.cli.options import out, say

app = typer.Typer(help="Run published tables and figures again.", no_args_is_help=True)


@app.command("list")
def list_() -> None:
    """The studies there are."""
    from whence.report.plain import pairs_table
    from whence.studies import STUDIES

    out.print(pairs_table("Studies", {name: summary for name, (summary, _) in STUDIES.items()}))


@app.command()
def run(
    study: Annotated[str, typer.Argument(help="A name from 'whence study list'.")],
    folder: Annotated[Path, typer.Option("--out", help="Where its records go.")] = Path("results"),
) -> None:
    """Run a study: every figure beside the published one, as a table and as JSON records."""
    from whence.errors import InputError, did_you_mean
    from whence.files import new_file
    from whence.report.plain import records_table
    from whence.studies import STUDIES
    from whence.studies.records import as_markdown, write_records

    if study not in STUDIES:
        raise InputError(f"No study is '{study}': {did_you_mean(study, STUDIES)}")
    records = STUDIES[study][1]()
    path = write_records(records, folder)
    with new_file(path.with_suffix(".md")) as partial:
        partial.write_text(as_markdown(records), encoding="utf-8")
    out.print(records_table(study, records))
    say(f"The records: {path}")
