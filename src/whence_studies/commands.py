"""`whence study`: re-run published tables and figures."""

from pathlib import Path
from typing import Annotated

import typer

from whence.cli.options import AsJson, err, out, print_json, say

app = typer.Typer(help="Re-run published tables and figures.", no_args_is_help=True)

StudyName = Annotated[
    str, typer.Argument(metavar="STUDY", help="A name from 'whence study list', or a .toml file.")
]
ResultsFolder = Annotated[
    Path | None,
    typer.Option(
        "--results", help="Folder with the records.", show_default="./results, or those shipped"
    ),
]
RESULTS = Path("results")


@app.command("list")
def list_(
    results: ResultsFolder = None,
    write: Annotated[
        bool, typer.Option("--write", help="Also write the overview README.md into the folder.")
    ] = False,
) -> None:
    """List the studies, one line each, with their source and how many rows are done."""
    from whence.files import new_file
    from whence.terminal import captioned, plain_table
    from whence_studies.charts.overview import overview, progress_text
    from whence_studies.study import find_study, study_files

    studies = [find_study(name) for name in study_files()]
    rows = []
    for study in studies:
        absent = sum(not data.available for data in study.datasets.values())
        here = "yes" if not absent else "no" if absent == len(study.datasets) else "some"
        rows.append((study.id, study.source, here, progress_text(study, results, RESULTS)))
    table = plain_table("Studies", "name", "source", "data", "rows done")
    # One line per study: the source takes the width that the other columns leave.
    width = max(20, out.width - max(len(name) for name, *_ in rows) - len("data rows done") - 14)
    for name, source, here, done in rows:
        cut = source if len(source) <= width else f"{source[: width - 1]}…"
        table.add_row(name, cut, here, done)
    out.print(
        captioned(
            table,
            "data: whether the datasets are on this machine.\n"
            "'whence study show NAME' shows a study's results, 'whence study run NAME' runs it.",
        )
    )
    if write:
        path = (results or RESULTS) / "README.md"
        with new_file(path) as partial:
            partial.write_text(overview(studies, results or RESULTS), encoding="utf-8")
        say(f"Wrote {path}")


@app.command()
def run(
    name: StudyName,
    folder: Annotated[Path, typer.Option("--out", help="Folder for the records.")] = RESULTS,
    minutes: Annotated[
        float | None,
        typer.Option(min=0, help="Stop after this time; the same command resumes."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="DATASET", help="Train on this dataset only; can be repeated."),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    cache: Annotated[
        Path | None,
        typer.Option(
            help="Folder for trained runs.", show_default="WHENCE_CACHE or ~/.cache/whence"
        ),
    ] = None,
) -> None:
    """Run a study and compare its values with the published ones.

    It writes tables, charts and JSON records. If it stops early, run the same
    command again to resume it.
    """
    from whence.files import make_parent
    from whence.locks import lock
    from whence_studies.cache import StudyCache, default_folder
    from whence_studies.charts.study_page import can_draw, terminal_tables, write_study
    from whence_studies.checking import check_study
    from whence_studies.records import (
        NOT_RUN,
        Record,
        fill_from_earlier,
        read_records,
        records_file,
        write_records,
    )
    from whence_studies.results import judge_by_records, rows_done
    from whence_studies.runner import run_study
    from whence_studies.study import find_study

    study = find_study(name)
    check_study(study)  # before anything is written
    path = records_file(study.id, folder)
    make_parent(path)
    with lock(path):  # so that the same study does not run twice
        earlier = read_records(study.id, folder) if path.exists() else []

        def complete(found: list[Record]) -> list[Record]:
            return judge_by_records(study, fill_from_earlier(found, earlier))

        try:
            records = run_study(
                study,
                cache=StudyCache(cache or default_folder()),
                minutes=minutes,
                device=device,
                only=only or (),
                keep=lambda found: write_records(complete(found), folder),
            )
        except KeyboardInterrupt:
            err.print("Stopped. The same command resumes from the last record.")
            raise
        records = complete(records)
        write_study(study, records, folder)
    for table in terminal_tables(study, records):
        out.print(table)
    say(f"Records: {path}")
    if not can_draw():
        say(
            "Charts need altair, vl-convert-python and jinja2. Once they are installed, "
            f"'whence study show {name} --write' draws them."
        )
    if any(record.verdict == NOT_RUN for record in records):
        done, rows = rows_done(study, records)
        say(f"{done} of {rows} rows done. Run the same command to resume.")


@app.command()
def show(
    name: StudyName,
    results: ResultsFolder = None,
    write: Annotated[
        bool,
        typer.Option("--write", help="Rewrite the Markdown with its figures, and the HTML page."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the results of a study from its records."""
    from whence_studies.charts.study_page import terminal_tables, write_study
    from whence_studies.checking import check_study
    from whence_studies.records import find_records, read_records
    from whence_studies.results import check_records
    from whence_studies.study import find_study

    study = find_study(name)
    check_study(study)
    records = read_records(study.id, find_records(study.id, results, RESULTS))
    check_records(study, records)
    if write:
        for path in write_study(study, records, results or RESULTS):
            err.print(str(path), highlight=False, soft_wrap=True)
    if as_json:
        print_json([record.as_dict() for record in records])
        return
    for table in terminal_tables(study, records):
        out.print(table)
