"""`whence study`: published tables and figures, run again."""

from pathlib import Path
from typing import Annotated

import typer

from whence.cli.options import AsJson, err, out, print_json, say

app = typer.Typer(help="Run published tables and figures again.", no_args_is_help=True)

Name = Annotated[
    str, typer.Argument(metavar="STUDY", help="A name from 'whence study list', or a .toml file.")
]
Results = Annotated[Path, typer.Option("--results", help="Where the records are.")]
RESULTS = Path("results")


@app.command("list")
def list_(results: Results = RESULTS) -> None:
    """The studies there are, whether their data are here, and how far they are done."""
    from whence.errors import InputError
    from whence.terminal import captioned, plain_table
    from whence_studies.records import read_records, records_file
    from whence_studies.results import rows_done
    from whence_studies.study import find_study, study_files

    table = plain_table("Studies", "name", "what it is", "source", "data here", "done")
    table.columns[0].no_wrap = True
    for name in study_files():
        study = find_study(name)
        absent = [shown for shown, data in study.datasets.items() if not data.available]
        here = f"without {', '.join(absent)}" if absent else "yes"
        done = "no"
        if records_file(name, results).exists():
            try:
                done = "{} of {} rows".format(*rows_done(study, read_records(name, results)))
            except InputError:
                done = "its records cannot be read"
        table.add_row(name, study.title, study.source, here, done)
    out.print(
        captioned(table, "'whence study run NAME' runs one, 'whence study show NAME' shows it.")
    )


@app.command()
def run(
    name: Name,
    folder: Annotated[Path, typer.Option("--out", help="Where its records go.")] = RESULTS,
    minutes: Annotated[
        float | None,
        typer.Option(min=0, help="Stop after so long; the same command goes on."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="DATASET", help="Train on this one alone; may be said again."),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    cache: Annotated[
        Path | None,
        typer.Option(help="Where trained runs are kept; WHENCE_CACHE, or ~/.cache/whence."),
    ] = None,
) -> None:
    """Run a study: every figure beside the published one, as tables, charts and JSON records.

    Stopped by time, by Ctrl-C or worse, the same command goes on where it was.
    """
    from whence_studies.cache import StudyCache, default_folder
    from whence_studies.charts.study_page import can_draw, write_study
    from whence_studies.charts.study_tables import terminal_tables
    from whence_studies.records import (
        NOT_RUN,
        Record,
        read_records,
        records_file,
        with_former,
        write_records,
    )
    from whence_studies.results import judge_by_records, rows_done
    from whence_studies.runner import run_study
    from whence_studies.study import find_study

    study = find_study(name)
    former = read_records(study.id, folder) if records_file(study.id, folder).exists() else []

    def together(found: list[Record]) -> list[Record]:
        return judge_by_records(study, with_former(found, former))

    try:
        records = run_study(
            study,
            cache=StudyCache(cache or default_folder()),
            minutes=minutes,
            device=device,
            only=only or (),
            keep=lambda found: write_records(together(found), folder),
        )
    except KeyboardInterrupt:
        err.print("stopped; the same command goes on from what was last kept")
        raise
    records = together(records)
    write_study(study, records, folder)
    for table in terminal_tables(study, records):
        out.print(table)
    say(f"The records: {records_file(study.id, folder)}")
    if not can_draw():
        say(f"Charts need altair and jinja2; where they are, 'whence study show {name} --write'.")
    if any(record.verdict == NOT_RUN for record in records):
        done, rows = rows_done(study, records)
        say(f"{done} of {rows} rows done; run the same command to go on.")


@app.command()
def show(
    name: Name,
    results: Results = RESULTS,
    write: Annotated[
        bool, typer.Option("--write", help="Write the page, the Markdown and the charts again.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what a study found, from its records."""
    from whence_studies.charts.study_page import write_study
    from whence_studies.charts.study_tables import terminal_tables
    from whence_studies.checking import check_study
    from whence_studies.records import read_records
    from whence_studies.results import check_records
    from whence_studies.study import find_study

    study = find_study(name)
    check_study(study)
    records = read_records(study.id, results)
    check_records(study, records)
    if write:
        for path in write_study(study, records, results):
            err.print(str(path), markup=False, highlight=False, soft_wrap=True)
    if as_json:
        print_json([record.as_dict() for record in records])
        return
    for table in terminal_tables(study, records):
        out.print(table)
