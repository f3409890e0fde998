"""`whence audit`: test a run's reasons and write a report."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whence.cli.options import AsJson, Removal, err, opens_run, out, print_json, say

if TYPE_CHECKING:
    from whence.run import Run

CASES = 300
DEVICE = "cpu"
LIST = "list"


@opens_run
def audit(
    run: Callable[[str, bool], "Run"],
    folder: Annotated[
        Path | None,
        typer.Option("--out", metavar="AUDIT", help="The folder to write; by default RUN-audit."),
    ] = None,
    stages: Annotated[
        str | None,
        typer.Option(
            help="Stages to run, separated by commas; by default all. 'list' prints their names."
        ),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="An explainer to test; repeat it for several. By default the quick ones and "
            "Shapley values; 'whence explainers' lists them."
        ),
    ] = None,
    cases: Annotated[int, typer.Option(min=1, help="How many histories to use.")] = CASES,
    model_seed: Annotated[
        int | None,
        typer.Option(
            "--model-seed", help="The seed of the run's model to test; by default all, as one."
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = DEVICE,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Memory for altered histories, such as 2GB; by default about 512MB.",
        ),
    ] = None,
    removal: Removal = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start over instead of reusing finished stages.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Test whether a model's reasons can be believed, and write a report.

    Finished stages are kept. If the audit is interrupted, run the same command
    again to resume it.
    """
    from whence.memory import read_size
    from whence.trust.audit.auditor import PAGE, default_folder
    from whence.trust.audit.auditor import audit as audit_run
    from whence.trust.audit.stage import STAGES, chosen_stages

    if stages == LIST:
        for name, stage in STAGES.items():
            say(f"{name}: {stage.question}")
        return
    names = None if stages is None else [name.strip() for name in stages.split(",")]
    chosen_stages(names)
    at_once = read_size(memory) if memory is not None else None
    opened = run(device, True)
    assert opened.folder is not None
    place = folder or default_folder(opened.folder)
    try:
        found = audit_run(
            opened,
            out=place,
            stages=names,
            methods=method,
            cases=cases,
            model_seed=model_seed,
            memory=at_once,
            removal=removal,
            fresh=fresh,
        )
    except KeyboardInterrupt:
        err.print("Stopped. Run the same command again to resume after the last finished stage.")
        raise
    if as_json:
        print_json(found.as_dict())
        return
    out.print(found)
    say(f"Report: {place / PAGE}")
