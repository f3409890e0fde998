"""Why not this item, and why one item rather than another: two more questions to a run."""

from __future__ import annotations

from whence.data.sources import Source
from whence.errors import InputError
from whence.reasons.contrast import Rather, WhyNot, find_rather, find_why_not
from whence.recommendation import History, find_subject, serving
from whence.run import Run


def why_not(
    run: Run,
    *,
    user: object = None,
    history: History | None = None,
    item: str | int,
    k: int = 10,
    model_seed: int | None = None,
    data: Source | None = None,
) -> WhyNot:
    """Return what in the history speaks against an item that is not among the best `k`.

    Every item of the history is really left out, and the models of all seeds are asked, unless
    `model_seed` chooses one. `data` are newer events of the same items.
    """
    if k < 1:
        raise InputError(f"The number of recommendations must be at least 1, not {k}.")
    run = serving(run, data)
    subject, whole = find_subject(run, user, history), run.chosen(model_seed)
    return find_why_not(
        run.recommenders(model_seed),
        whole,
        subject.items,
        run.catalog.find(str(item)),
        whole.config.max_len,
        run.catalog,
        run.verb,
        k,
    )


def rather(
    run: Run,
    *,
    user: object = None,
    history: History | None = None,
    item: str | int,
    other: str | int,
    model_seed: int | None = None,
    data: Source | None = None,
) -> Rather:
    """Return what in the history speaks for an item rather than another one.

    Every item of the history is really left out, and the models of all seeds are asked, unless
    `model_seed` chooses one. `data` are newer events of the same items.
    """
    run = serving(run, data)
    subject, whole = find_subject(run, user, history), run.chosen(model_seed)
    return find_rather(
        run.recommenders(model_seed),
        whole,
        subject.items,
        run.catalog.find(str(item)),
        run.catalog.find(str(other)),
        whole.config.max_len,
        run.catalog,
        run.verb,
    )
