"""The questions of `whence explain` that compare items: why not this one, and why not another."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whence.errors import InputError

if TYPE_CHECKING:
    from whence.reasons import contrast
    from whence.run import Run

WhyNot = Annotated[
    bool,
    typer.Option("--why-not", help="Say what in the history speaks against --item."),
]
RatherThan = Annotated[
    str | None,
    typer.Option(
        "--rather-than",
        metavar="ITEM",
        help="Say what in the history speaks for --item rather than this one.",
    ),
]


def compared_items(
    why_not: bool, rather_than: str | None, item: str | None, explaining: Mapping[str, object]
) -> list[str]:
    """Return the items that are asked about, or none if an item is to be explained as usual.

    `explaining` are the options of explainers; those that are set cannot be used with a comparison.
    """
    if not why_not and rather_than is None:
        return []
    if why_not and rather_than is not None:
        raise InputError("--why-not and --rather-than are two questions. Give one of them.")
    asked = "--why-not" if why_not else "--rather-than"
    if item is None:
        raise InputError(f"{asked} asks about an item. Name it with --item.")
    unused = [f"--{name}" for name, value in explaining.items() if value]
    if unused:
        raise InputError(f"{asked} needs no explainer. Leave out {' and '.join(unused)}.")
    return [item] if rather_than is None else [item, rather_than]


def answer_contrast(
    run: "Run",
    item: str,
    other: str | None = None,
    **asked: Any,  # noqa: ANN401
) -> "contrast.WhyNot | contrast.Rather":
    """Return why not the item or, with another one, why rather the item."""
    from whence import contrasting

    if other is None:
        return contrasting.why_not(run, item=item, **asked)
    return contrasting.rather(run, item=item, other=other, **asked)
