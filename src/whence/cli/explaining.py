"""`whence recommend`, `whence explain` and `whence explainers`."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whence.cli.contrasting import RatherThan, WhyNot, answer_contrast, compared_items
from whence.cli.options import (
    AsJson,
    LowRating,
    Removal,
    Sure,
    err,
    opens_run,
    out,
    print_json,
    say,
)
from whence.errors import InputError

if TYPE_CHECKING:
    from whence.run import Run

User = Annotated[str | None, typer.Option("--user", "-u", help="The id of a user in the data.")]
History = Annotated[
    list[str] | None,
    typer.Option(
        "--history", "-i", help="An id or a title; repeat it for each item, oldest first."
    ),
]
ModelSeed = Annotated[
    int | None,
    typer.Option("--model-seed", help="The seed of the run's model to use; by default all as one."),
]


@opens_run
def recommend(
    run: Callable[[], "Run"],
    user: User = None,
    history: History = None,
    everyone: Annotated[
        Path | None,
        typer.Option(
            "--everyone",
            "--all-users",
            metavar="FILE",
            help="Write the recommendations of all users, with reasons, to this .parquet, .jsonl "
            "or .csv file.",
        ),
    ] = None,
    reasons: Annotated[
        bool, typer.Option("--reasons/--no-reasons", help="Whether --everyone writes reasons.")
    ] = True,
    k: Annotated[int, typer.Option("-k", min=1, help="How many items to recommend.")] = 10,
    model_seed: ModelSeed = None,
    sure: Sure = None,
    low_rating: LowRating = None,
    as_json: AsJson = False,
) -> None:
    """Recommend items to a user of the data, for a new history, or to everyone."""
    from whence import recommendation
    from whence.reasons.judgement import SURE

    if everyone is not None and (user or history or as_json):
        raise InputError(
            "--everyone writes a file for all users. Leave out --user, --history and --json."
        )
    if everyone is None and not reasons:
        raise InputError("--no-reasons is for --everyone FILE. Leave it out, or name a file.")
    opened = run()
    if everyone is not None:
        from whence.everyone import recommend_all

        rows = recommend_all(
            opened,
            everyone,
            k=k,
            model_seed=model_seed,
            reasons=reasons,
            sure=SURE if sure is None else sure,
            low_rating=low_rating,
        )
        err.print(f"Wrote {rows:,} recommendations to {everyone}")
        return
    picks = recommendation.recommend(
        opened,
        user=user,
        history=history,
        k=k,
        model_seed=model_seed,
        sure=SURE if sure is None else sure,
        low_rating=low_rating,
    )
    _report_matches(history, picks.history)
    if as_json:
        print_json(picks.as_dict())
    else:
        out.print(picks)


@opens_run
def explain(
    run: Callable[[], "Run"],
    user: User = None,
    history: History = None,
    item: Annotated[
        str | None, typer.Option("--item", help="The item to explain; by default the best one.")
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="An explainer, with settings if you like: shapley:coalitions=4096. Repeat it to "
            "compare several, or say 'all'. 'whence explainers' lists them and marks those that "
            "are used by default, if the model supports them."
        ),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="How many parts to show for each method.")] = 5,
    model_seed: ModelSeed = None,
    seed: Annotated[int, typer.Option(help="The random seed of explainers that sample.")] = 0,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Memory for altered histories, such as 2GB; by default about 512MB.",
        ),
    ] = None,
    removal: Removal = None,
    sure: Sure = None,
    low_rating: LowRating = None,
    why_not: WhyNot = False,
    rather_than: RatherThan = None,
    as_json: AsJson = False,
) -> None:
    """Show which items of the history a recommendation rests on, by one method or several."""
    from whence import recommendation
    from whence.memory import read_size
    from whence.reasons.judgement import SURE
    from whence.report.tables import side_by_side

    only = {
        **{"method": method, "seed": seed, "memory": memory, "removal": removal, "top": top != 5},
        **{"sure": sure is not None, "low-rating": low_rating is not None},
    }
    at_once = read_size(memory) if memory is not None else None
    compared = compared_items(why_not, rather_than, item, only)
    opened = run()
    if compared:
        contrast = answer_contrast(
            opened, *compared, user=user, history=history, model_seed=model_seed
        )
        typed = [*(history or ()), *compared]
        _report_matches(typed, tuple(opened.catalog.labels([*map(opened.catalog.find, typed)])))
        if as_json:
            print_json(contrast.as_dict())
        else:
            out.print(contrast)
        return
    answers = recommendation.compare(
        opened,
        user=user,
        history=history,
        item=item,
        methods=_chosen_methods(opened, method),
        model_seed=model_seed,
        seed=seed,
        memory=at_once,
        removal=removal,
    )
    reason = recommendation.reason(
        opened,
        user=user,
        history=history,
        item=item,
        model_seed=model_seed,
        sure=SURE if sure is None else sure,
        low_rating=low_rating,
    )
    first = next(iter(answers.values()))
    target = first.target_name(0)
    _report_matches(
        history, tuple(first.part_name(0, slot) for slot in first.parts[0].nonzero()[0])
    )
    _report_matches([item] if item else None, (target,))
    if as_json:
        documents = [answer.as_dict() for answer in answers.values()]
        print_json({"reason": reason.as_dict(), "explanations": documents})
        return
    rank = "" if reason.in_history else f" (rank {reason.rank:,})"
    say(f"{target}{rank}: {reason.sentence}")
    out.print(*reason.details(), sep="\n")
    out.print(side_by_side(answers, reason, top, out.width))


def _chosen_methods(run: "Run", names: list[str] | None) -> list[str]:
    """Return the named methods. "all" stands for all that the model supports."""
    from whence.explainers import EXPLAINERS, able

    if not names:
        return able(run.first, EXPLAINERS.tagged("usual"))
    if "all" not in names:
        return names
    every = able(run.first, EXPLAINERS)
    return list(dict.fromkeys((*every, *(name for name in names if name != "all"))))


def explainers(
    measured: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Figures to use instead of those that come with Whence, as "
            "docs/examples/which_explainer.py --json writes them.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the explainers, and say from measured figures which one to use."""
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


def _report_matches(typed: list[str] | None, found: tuple[str, ...]) -> None:
    """Print which title was found for each text that differs; a model may read only the newest."""
    matched = list(zip(reversed(typed or []), reversed(found), strict=False))
    for text, title in reversed(matched):
        if text != title and not title.startswith("item "):
            err.print(f"'{text}' is read as {title}", highlight=False, style="dim")
