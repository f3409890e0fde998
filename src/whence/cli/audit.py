"""`whence audit`: every question about a run, and the answers in one page."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from whence.cli.options import AsJson, err, out, print_json, say

CASES = 300
DEVICE = "cpu"
STAGE_NAMES = (
    "accuracy, calibration, learned, likeness, faithfulness, agreement, popularity, stability, "
    "permutation"
)

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A folder 'whence train' wrote.")]


def audit(
    run: RunFolder,
    folder: Annotated[
        Path | None,
        typer.Option("--out", metavar="AUDIT", help="The folder to write; RUN-audit by default."),
    ] = None,
    stages: Annotated[
        str | None,
        typer.Option(help=f"Some of {STAGE_NAMES}, with commas between; all by default."),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="An explainer to ask, once for each; by default the cheap ones and Shapley values."
        ),
    ] = None,
    cases: Annotated[int, typer.Option(min=1, help="How many histories to ask about.")] = CASES,
    seed: Annotated[
        int | None, typer.Option(help="Which of the run's seeds; the first by default.")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = DEVICE,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="For altered histories at a time, about, such as 2GB; by default 512MB.",
        ),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin anew, whatever is kept.")] = False,
    as_json: AsJson = False,
) -> None:
    """Test whether a model's reasons can be believed, and write one report about it.

    Every finished stage is kept: stopped by Ctrl-C or worse, the same command goes on.
    """
    from whence import open_run
    from whence.memory import read_size
    from whence.report.audit_page import audit_table, write_audit
    from whence.trust.audit.auditor import audit as audit_run
    from whence.trust.audit.folder import PAGE, default_folder
    from whence.trust.audit.stage import chosen_stages

    names = None if stages is None else [name.strip() for name in stages.split(",")]
    chosen_stages(names)
    at_once = read_size(memory) if memory is not None else None
    opened = open_run(run, device)
    place = folder or default_folder(run)
    try:
        found = audit_run(
            opened,
            out=place,
            stages=names,
            methods=method,
            cases=cases,
            seed=seed,
            memory=at_once,
            fresh=fresh,
        )
    except KeyboardInterrupt:
        err.print("stopped; the same command goes on from what was last kept")
        raise
    options = {
        "--out": folder,
        "--stages": stages,
        "--cases": None if cases == CASES else cases,
        "--seed": seed,
        "--device": None if device == DEVICE else device,
        "--memory": memory,
    }
    page = write_audit(found, place / PAGE, _command(run, options, method or []))
    if as_json:
        print_json(found.as_dict())
        return
    out.print(audit_table(found))
    say(f"The report: {page}")


def _command(run: Path, options: Mapping[str, object], methods: list[str]) -> str:
    """What to type for the same page; an option of None is not said."""
    said = [(name, value) for name, value in options.items() if value is not None]
    said += [("--method", method) for method in methods]
    return shlex.join(["whence", "audit", str(run), *(str(word) for pair in said for word in pair)])
