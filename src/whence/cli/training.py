"""`whence train`, and `whence models` with the settings that it takes."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group
from rich.table import Table

from whence.cli.options import (
    AsJson,
    Effort,
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
        str | None,
        typer.Option(
            help="The model to train; 'whence models' lists them. By default a network and "
            "simple models are tried, and the best of them, or all together, is kept."
        ),
    ] = None,
    recipe: Annotated[
        str,
        typer.Option(
            help="Named settings; 'whence recipes' lists them. The default follows your data; the "
            "others are those of papers."
        ),
    ] = "default",
    effort: Annotated[
        Effort, typer.Option(help="Time against quality, for the default recipe.")
    ] = "normal",
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How many models to train, with seeds 0, 1, 2, … They recommend together. By "
            "default several if that costs little.",
        ),
    ] = None,
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
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate",
            help="Learn on worlds like your data how probable reasons are; by default, a "
            "calibrator that comes with Whence tells.",
        ),
    ] = False,
    calibrate_minutes: Annotated[
        float | None,
        typer.Option(help="How long --calibrate takes at most; by default 60 minutes."),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Train a recommender on your interactions and write a run folder.

    If training is interrupted, by Ctrl-C or otherwise, run the same command
    again to resume it.
    """
    from whence import open_run
    from whence.config import parse_settings
    from whence.files import claim_folder
    from whence.training import train as train_run
    from whence.training.outcome import Outcome
    from whence.training.plans import default_model
    from whence.training.runs import split_settings

    named = model or default_model(recipe)
    model_settings, training = split_settings(named, parse_settings(",".join(settings or [])))
    # Until the end of the command: if it is killed, the same command ends as this one would.
    with claim_folder(folder, overwrite):
        try:
            run = train_run(
                data,
                model=model,
                recipe=recipe,
                effort=effort,
                model_settings=model_settings,
                training=training,
                seeds=seeds,
                split=split,
                init_from=[open_run(one) for one in init_from or []],
                out=folder,
                overwrite=overwrite,
                device=device,
                seeds_at_once=seeds_at_once,
                calibrate=calibrate,
                calibrate_minutes=calibrate_minutes,
            )
        except KeyboardInterrupt:
            err.print("Stopped. Run the same command again to resume from the last checkpoint.")
            raise
        outcome = Outcome.of(run)
        if as_json:
            print_json({"run": str(folder), **outcome.as_dict()})
            return
        from whence.reasons.calibration import Calibration
        from whence.report.tables import outcome_tables

        if outcome.calibration is not None and outcome.calibration["held_out"]:
            out.print(Calibration.from_dict(outcome.calibration).table())
        out.print(outcome_tables(outcome))
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


def recipes(as_json: AsJson = False) -> None:
    """List the recipes: named settings for 'whence train --recipe'."""
    from whence.terminal import plain_table
    from whence.training.plans import default_model
    from whence.training.recipes import DEFAULT, RECIPES

    if as_json:
        print_json(
            {
                name: {"summary": one.summary, "models": list(one.models)}
                for name, one in RECIPES.items()
            }
        )
        return
    table = plain_table("Recipes", "name", "models", "what it is")
    for name, one in RECIPES.items():
        models = ", ".join(one.models) if name != DEFAULT else "all"
        table.add_row(name, models, one.summary)
    out.print(table)
    first = next(name for name in RECIPES if name != DEFAULT)
    say(
        f"'whence train DATA --recipe {first} --out RUN' trains {default_model(first)}, the first "
        "of its models; --model names another."
    )


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
