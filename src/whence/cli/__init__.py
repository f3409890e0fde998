"""The command line: thin, and quick to answer `--help`, so heavy imports wait in the commands."""

import os
import shutil
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TextIO

import typer
from rich.markup import escape

from whence import __version__
from whence.cli import audit as audit_command
from whence.cli import data as data_commands
from whence.cli.options import AsJson, Overwrite, err, out, print_json, reads_data, say
from whence.errors import InputError, WhenceError

if TYPE_CHECKING:
    from whence.data import Interactions

EXPLAINER_NAMES = (
    "attention-first, attention-last, attention-head, rollout, attention-flow, signed-rollout, "
    "gradient-rollout, fading, gradient-norm, gradient-input, integrated-gradients, "
    "leave-one-out, leave-one-out-probability, shapley, shapley-printed, shapley-permutation, "
    "lime, neighbours, random"
)
MODEL_NAMES = "sasrec, bert4rec, gmf, mlp, neumf, content-ncf, intrp-ncf, fism, deepicf, deepicf-a"
USUAL = ("rollout", "signed-rollout", "integrated-gradients", "leave-one-out", "shapley", "random")
"""What is asked unless said otherwise: one of each kind, to fit beside each other."""

SplitName = Literal["last-two", "last-one", "temporal", "user-holdout"]

app = typer.Typer(
    help="Train recommenders that can say why, and measure whether the why can be believed.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(data_commands.app, name="data")
# The studies are a neighbour that uses this library, found by name so that it never needs them.
if find_spec("whence_studies"):
    app.add_typer(import_module("whence_studies.commands").app, name="study")

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A folder 'whence train' wrote.")]
User = Annotated[str | None, typer.Option("--user", "-u", help="A user of the data, by id.")]
History = Annotated[
    list[str] | None,
    typer.Option("--history", "-i", help="An id or a title, oldest first; once for each item."),
]
Seed = Annotated[int | None, typer.Option(help="Which of the run's seeds; the first by default.")]


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Print the version, if asked."""
    if show:
        out.print(f"whence {__version__}", highlight=False)
        raise typer.Exit


@app.command()
def demo(
    folder: Annotated[Path, typer.Option("--out", help="Where to write.")] = Path("demo"),
    data: Annotated[str | None, typer.Option(help="Other data than the embedded ones.")] = None,
) -> None:
    """Train on the embedded data, recommend with reasons, and write a report. About a minute."""
    from whence.demonstration import demonstrate
    from whence.report import tables
    from whence.report.demo_page import write_demo_report

    found = demonstrate(folder, data)
    out.print(found.picks)
    out.print(tables.accuracy_table(found.accuracy))
    command = "whence demo" + (f" --data {data}" if data else "")
    path = write_demo_report(found, folder / "report.html", command)
    say(f"The whole story: {path}  The run: {folder / 'run'}")
    say(f"Next: {_program()} explain {folder / 'run'} --user {found.user}")


@app.command()
@reads_data
def train(
    data: Callable[[], "Interactions"],
    folder: Annotated[Path, typer.Option("--out", metavar="RUN", help="The folder to write.")],
    model: Annotated[str, typer.Option(help=f"One of {MODEL_NAMES}.")] = "sasrec",
    seeds: Annotated[int, typer.Option(min=1, help="How many, counted from 0.")] = 1,
    seeds_at_once: Annotated[
        int | None,
        typer.Option(min=1, help="How many as one computation; by default what is fastest."),
    ] = None,
    split: Annotated[SplitName, typer.Option(help="What is held out.")] = "last-two",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting of the model or training."),
    ] = None,
    init_from: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="RUN",
            help="A run that first weights are taken from, once for each: of gmf and mlp for "
            "neumf, of fism for deepicf and deepicf-a.",
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Train a model on interactions and write a run.

    sasrec and bert4rec read a history in its order, fism, deepicf and
    deepicf-a as a set of items; gmf, mlp and neumf read none: they know the
    users of the data by their numbers, and can give no item as a reason.
    content-ncf and intrp-ncf know them so too, with their age and the like
    and the items' genres and year; intrp-ncf says which of it counted.
    Stopped by Ctrl-C or worse, the same command goes on where it was.

    Settings of the models and their defaults:

    sasrec, bert4rec: max_len=50, dim=64, n_blocks=2, n_heads=1, dropout=0.2,
    init_std=0.02; bert4rec: max_len=49, mask_prob=0.2, last_mask_prob=0.0, loss=full

    gmf, mlp, neumf: max_len=50, dim=8, n_negatives=4, init_std=0.01; mlp, neumf:
    hidden_dims=64-32-16

    content-ncf, intrp-ncf: max_len=50, dim=64, n_negatives=4, init_std=0.05,
    n_genders=2, n_ages=7, n_occupations=21, n_genres=18, use_ids=true, n_classes=1,
    dislike_threshold=2.0, predict_ratings=false; content-ncf: hidden_dims=512-256-128-64;
    intrp-ncf: hidden_dims=128-64-32-16, linked=true, embeddings_trained_by=all; of genders, ages,
    occupations and genres as many as the data have, where those are more

    fism, deepicf, deepicf-a: max_len=299, dim=16, n_negatives=4, init_std=0.01;
    fism: alpha=0.0, embedding_decay=1e-07; deepicf, deepicf-a:
    embedding_decay=1e-06, hidden_dims=64-32-16, n_classes=1,
    dislike_threshold=2.0, class_balanced=false; deepicf:
    alpha=0.5, layer_decay=0.1; deepicf-a: layer_decay=10.0, attention_dim=16, beta=0.8

    Settings of the training and their defaults:

    steps=2500, epochs=0, batch_size=128, optimizer=adam, learning_rate=0.001,
    beta2=0.98, clip=none, warmup=0, lr_decay=none, validate_every=0,
    metric=NDCG@10, validate_on=validation, patience=0, snapshots=0,
    averaging=none, average_every=0, swa_start=0.75, swa_lr_factor=1.0, part_dropout=0.0,
    precision=float32; gmf, mlp, neumf, content-ncf, intrp-ncf: epochs=20,
    batch_size=256, beta2=0.999; fism, deepicf, deepicf-a: epochs=20, batch_size=1,
    optimizer=adagrad, learning_rate=0.01
    """
    from whence import open_run
    from whence.config import parse_settings
    from whence.training import train as train_run
    from whence.training.runs import baseline_accuracy, plain_measures, split_settings

    model_settings, training = split_settings(model, parse_settings(",".join(settings or [])))
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
        err.print("stopped; the same command goes on from what was last kept")
        raise
    for seed, found in run.metrics.items():
        if run.training["patience"] and found["kept_step"] < found["steps"]:
            steps, kept = found["steps"], found["kept_step"]
            say(f"Seed {seed} stopped after {steps} steps and kept the weights of step {kept}.")
    baselines = baseline_accuracy(
        run.interactions,
        split,
        run.first.config.max_len,
        show_progress=True,
        rated=not run.first.foretells_chances,
    )
    if as_json:
        plain = {name: plain_measures(found) for name, found in baselines.items()}
        print_json({"run": str(folder), "metrics": run.metrics, "baselines": plain})
        return
    from whence.report.tables import seeds_table

    out.print(seeds_table(run.metrics, baselines))
    whom = "--history TITLE" if run.first.reads_histories else "--user USER"
    say(f"Next: {_program()} recommend {folder} {whom}")


@app.command()
def recommend(
    run: RunFolder,
    user: User = None,
    history: History = None,
    everyone: Annotated[
        Path | None,
        typer.Option(help="All users, without reasons, into this .csv or .parquet file."),
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="How many.")] = 10,
    seed: Seed = None,
    as_json: AsJson = False,
) -> None:
    """Recommend to a user of the data, to a new history, or to everyone."""
    from whence import open_run, recommendation
    from whence.report import tables

    if everyone is not None and (user or history or as_json):
        raise InputError(
            "--everyone writes a file for all users; leave out --user, --history and --json."
        )
    opened = open_run(run)
    if everyone is not None:
        rows = recommendation.recommend_all(opened, everyone, k=k, model_seed=seed)
        err.print(f"{rows:,} recommendations in {everyone}", markup=False)
        return
    picks = recommendation.recommend(opened, user=user, history=history, k=k, model_seed=seed)
    _tell_readings(history, picks.history)
    if as_json:
        print_json(picks.as_dict())
        return
    out.print(picks)


@app.command()
def explain(
    run: RunFolder,
    user: User = None,
    history: History = None,
    item: Annotated[
        str | None, typer.Option("--item", help="The item to explain; the best one by default.")
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            help=f"'all', or, once for each, of {EXPLAINER_NAMES}; with settings as "
            f"shapley:coalitions=4096 or attention:block=1,head=2. By default {', '.join(USUAL)}, "
            "as far as the model has what they need."
        ),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="How many parts of each method to show.")] = 5,
    seed: Seed = None,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="For altered histories at a time, about, such as 2GB; by default 512MB.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say which items of the history a recommendation rests on, by one method or several."""
    from whence import open_run, recommendation
    from whence.explainers import OWN, READY, able
    from whence.memory import read_size
    from whence.report import tables

    at_once = read_size(memory) if memory is not None else None
    opened = open_run(run)
    methods = method or able(opened.first, (*OWN, *USUAL))
    if "all" in methods:
        every = able(opened.first, READY)
        methods = list(dict.fromkeys((*every, *(one for one in methods if one != "all"))))
    answers = recommendation.compare(
        opened,
        user=user,
        history=history,
        item=item,
        methods=methods,
        model_seed=seed,
        memory=at_once,
    )
    found = recommendation.reason(opened, user=user, history=history, item=item, model_seed=seed)
    first = next(iter(answers.values()))
    parts = tuple(first.part_name(0, slot) for slot in first.parts[0].nonzero()[0])
    _tell_readings(history, parts)
    _tell_readings([item] if item else None, (first.target_name(0),))
    if as_json:
        documents = [answer.as_dict() for answer in answers.values()]
        print_json({"reason": found.as_dict(), "explanations": documents})
        return
    target = first.target_name(0)
    place = f"in place {found.rank:,} of the recommendations"
    where = "already in the history" if target in parts else place
    say(f"{target}, {where}: {found.sentence}")
    out.print(tables.side_by_side(answers, found, top, out.width))


app.command()(audit_command.audit)


@app.command()
def explainers(
    measured: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Other figures than those that come with Whence, as "
            "docs/examples/which_explainer.py --json writes them.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the explainers, and answer from measured figures which one to use."""
    from whence.explainers.measured import measured_here, read_measured
    from whence.report import which

    figures = read_measured(measured) if measured else measured_here()
    if as_json:
        print_json(
            {
                "explainers": which.explainer_rows(),
                "answer": which.answer(figures),
                "measured": figures and figures.as_dict(),
            }
        )
        return
    out.print(which.explainers_table())
    out.print(which.answer_text(figures))


@app.command()
def doctor() -> None:
    """Print what is installed and what can be used here."""
    from whence.doctor import environment
    from whence.terminal import pairs_table

    out.print(pairs_table("Whence here", environment()))


def _tell_readings(typed: list[str] | None, read: tuple[str, ...]) -> None:
    """Say how a title was understood where it was typed otherwise; a model may read fewer."""
    for text, title in zip(reversed(typed or []), reversed(read), strict=False):
        if text != title and not title.startswith("item "):
            err.print(escape(f"'{text}' is read as {title}"), highlight=False, style="dim")


def _program() -> str:
    """What to type to call this program again."""
    if shutil.which("whence"):
        return "whence"
    called = Path(sys.argv[0])
    return "python -m whence" if called.name == "__main__.py" else os.path.relpath(called)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """One sentence, without the line of code it came from."""
    err.print(f"[bold yellow]note:[/] {escape(str(message))}", highlight=False, soft_wrap=True)


def main() -> None:
    """Run a command; what a user can mend is one sentence, not a traceback."""
    warnings.showwarning = _show_warning
    try:
        app()
    except WhenceError as problem:
        err.print(f"[bold red]error:[/] {escape(str(problem))}", highlight=False, soft_wrap=True)
        sys.exit(problem.exit_code)
