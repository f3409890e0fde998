"""`whence train`, and `whence models` with the settings that it takes."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group
from rich.table import Table

from whence.cli.options import (
    AsJson,
    Overwrite,
    SplitName,
    err,
    out,
    print_json,
    program,
    reads_data,
    say,
)

if TYPE_CHECKING:
    from whence.data import Interactions
    from whence.models import ModelSpec


@reads_data
def train(
    data: Callable[[], "Interactions"],
    folder: Annotated[Path, typer.Option("--out", metavar="RUN", help="The folder to write.")],
    model: Annotated[
        str, typer.Option(help="The model to train; 'whence models' lists them.")
    ] = "sasrec",
    seeds: Annotated[
        int, typer.Option(min=1, help="How many models to train, with seeds 0, 1, 2, …")
    ] = 1,
    seeds_at_once: Annotated[
        int | None,
        typer.Option(
            min=1, help="The most seeds to train together; by default whatever is fastest."
        ),
    ] = None,
    split: SplitName = "last-two",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Settings of the model or of training, such as n_blocks=3,steps=5000; "
            "'whence models MODEL' lists them.",
        ),
    ] = None,
    init_from: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="RUN",
            help="A run to take initial weights from; repeat it for several. "
            "'whence models MODEL' says which models can be used.",
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Train a model on your interactions and write a run folder.

    If training is interrupted, by Ctrl-C or otherwise, run the same command
    again to resume it.
    """
    from whence import open_run
    from whence.config import parse_settings
    from whence.files import claim_folder
    from whence.training import train as train_run
    from whence.training.runs import baseline_accuracy, plain_measures, split_settings

    model_settings, training = split_settings(model, parse_settings(",".join(settings or [])))
    # Until the end of the command: if it is killed, the same command ends as this one would.
    with claim_folder(folder, overwrite):
        try:
            run = train_run(
                data,
                model=model,
                model_settings=model_settings,
                training=training,
                seeds=seeds,
                split=split,
                init_from=[open_run(one) for one in init_from or []],
                out=folder,
                overwrite=overwrite,
                device=device,
                seeds_at_once=seeds_at_once,
            )
        except KeyboardInterrupt:
            err.print("Stopped. Run the same command again to resume from the last checkpoint.")
            raise
        for seed, found in run.metrics.items():
            if run.training["patience"] and found["kept_step"] < found["steps"]:
                steps, kept = found["steps"], found["kept_step"]
                say(f"Seed {seed} stopped after {steps} steps and kept the weights of step {kept}.")
        baselines = baseline_accuracy(
            run.interactions,
            split,
            show_progress=True,
            other_than=run.model,
            rated=not run.first.predicts_probabilities,
        )
        if as_json:
            plain = {name: plain_measures(found) for name, found in baselines.items()}
            print_json({"run": str(folder), "metrics": run.metrics, "baselines": plain})
            return
        from whence.report.tables import seeds_table

        out.print(seeds_table(run.metrics, baselines))
        whom = "--history TITLE" if run.first.reads_history else "--user USER"
        say(f"Next: {program()} recommend {folder} {whom}")


def models(
    model: Annotated[
        str | None, typer.Argument(metavar="[MODEL]", help="Show the settings of this model.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the models that you can train, or the settings of one model with their defaults."""
    from whence.models import MODELS, model_spec

    if model is None:
        documents = {name: _model_document(spec) for name, spec in MODELS.items()}
        if as_json:
            print_json(documents)
        else:
            out.print(_models_table(documents))
            say("'whence models MODEL' shows the settings of a model.")
        return
    document = _model_document(model_spec(model))
    if as_json:
        print_json(document)
    else:
        out.print(_settings_tables(MODELS.name_of(model), document))


def _model_document(spec: "ModelSpec") -> dict[str, Any]:
    """Return what a model is and takes, in plain types."""
    from whence.config import settings_help
    from whence.training import TrainingConfig

    def settings(config: type, defaults: Mapping[str, Any]) -> dict[str, Any]:
        return {
            one.name: {"default": defaults.get(one.name, one.default), "help": one.help}
            for one in settings_help(config)
        }

    return {
        "summary": spec.summary,
        "reads": "user ids" if spec.known_users_only else "histories",
        "init_from": list(spec.init_from),
        "model": settings(spec.config, {}),
        "training": {} if spec.closed_form else settings(TrainingConfig, spec.training),
    }


def _models_table(documents: Mapping[str, Mapping[str, Any]]) -> Table:
    from whence.terminal import plain_table

    table = plain_table("Models", "name", "reads", "what it is")
    for name, document in documents.items():
        table.add_row(name, document["reads"], document["summary"])
    return table


def _settings_tables(model: str, document: Mapping[str, Any]) -> Group:
    from whence.terminal import plain_table

    tables = []
    for kind, title in (("model", f"Settings of {model}"), ("training", "Settings of training")):
        if not document[kind]:
            continue
        table = plain_table(title, "setting", "default", "what it is")
        for name, setting in document[kind].items():
            table.add_row(name, written_setting(setting["default"]), setting["help"])
        tables.append(table)
    others = " and ".join(document["init_from"])
    return Group(
        document["summary"],
        *tables,
        "Change a setting with --set NAME=VALUE.",
        *([f"Initial weights can come from runs of {others} (--init-from)."] if others else []),
    )


def written_setting(value: object) -> str:
    """Return a setting as `--set` reads it."""
    if isinstance(value, tuple):
        return "-".join(map(str, value))
    written = "none" if value is None else str(value)
    return written.lower() if isinstance(value, bool) else written
