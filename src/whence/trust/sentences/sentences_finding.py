"""Audit stage: a sentence deserves belief if the recommendation needs the items that it names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from whence.contract import DROPPED
from whence.errors import CapabilityError
from whence.measure import Measure
from whence.models import model_spec
from whence.models.base import HasOwnReasons
from whence.reasons.judgement import SURE, Kind
from whence.reasons.of_run import OWN, Options, find_reasons
from whence.reasons.reason import Reason
from whence.trust.audit.context import AuditContext
from whence.trust.audit.finding import (
    ENOUGH,
    Answer,
    Chart,
    Figure,
    Finding,
    Table,
    clearly_positive,
    dot,
)
from whence.trust.audit.stage import STAGES, Stage
from whence.trust.audit.words import between, percent, points, points_between, too_few
from whence.trust.perturbation import TOP_TEN
from whence.trust.sentences.necessity import DRAWS
from whence.trust.sentences.tested import DIFFERENCE, NAMED, RANDOM, Compared, Tested

SAME: Final = 0.7
"""From this agreement of two halves of the seeds on, the answer can be yes."""
SEEDS: Final = 5
"""As many seeds as the page advises to train."""
EXAMPLES: Final = 3
KINDS: Final = {
    Kind.ITEM: ("one item", "names one item"),
    Kind.SET: ("two items together", "names two items that count together"),
    Kind.TASTE: ("a taste", "names a taste"),
    Kind.POPULARITY: ("popularity", "says that the recommended item is popular"),
    Kind.NONE: ("no claim", "makes no claim, because no reason is sure enough"),
}
"""What the page calls each kind of sentence, and what such a sentence does."""


def find_sentences(context: AuditContext) -> Finding:
    """Test the sentences of the first ten recommendations of some users."""
    model = context.run.chosen(context.model_seed)
    if isinstance(model, HasOwnReasons):
        raise CapabilityError(
            f"The reason of every recommendation by {model.kind} is the rule of the model itself, "
            "so there is nothing to test."
        )
    tested = Tested(context)
    shares = {
        kind: tested.mean(
            (tested.said.kind == kind).cpu().numpy(),
            f"share of recommendations whose sentence {does}",
            tested.said.users,
        )
        for kind, (_, does) in KINDS.items()
    }
    compared, same = tested.compared, _same_named(tested)
    answer, why = _answer(tested, compared, same)
    return Finding(
        answer=answer,
        summary=f"{_naming(tested)} {why}",
        figures=(
            *(_share_figure(kind, one) for kind, one in shares.items()),
            *_confidence_figure(tested),
            *([] if compared is None else _necessity_figures(compared)),
            *([] if same is None else [_agreement_figure(tested, same)]),
        ),
        charts=(
            Chart(
                "dots",
                "share of the recommendations",
                "What the sentences say. Of the reasons that are right with a probability of at "
                f"least {percent(SURE)}, the most probable one is said.",
                tuple(dot(name, shares[kind]) for kind, (name, _) in KINDS.items()),
            ),
            *([] if compared is None else _necessity_charts(compared)),
        ),
        tables=(_examples(tested),),
        notes=tuple(_notes(tested)),
    )


def _naming(tested: Tested) -> str:
    """Say how many of the sentences name items."""
    names = tested.said.names.double().mean().item()
    return (
        f"{percent(names)} of the sentences name an item or two of the history, for the first "
        f"{TOP_TEN} recommendations of {len(tested.cases):,} users."
    )


def _same_named(tested: Tested) -> Measure | None:
    """Return how often two halves of the seeds name the same; `None` if it is unknown."""
    if tested.same_named is None:
        return None
    what = "share of recommendations for which both halves of the seeds name the same items, "
    return tested.mean(
        tested.same_named[0],
        f"{what}if either names any",
        tested.same_named[1],
        "higher is better",
    )


def _answer(tested: Tested, compared: Compared | None, same: Measure | None) -> tuple[Answer, str]:
    """Answer by the difference to random items, and then by the agreement of the seeds."""
    if len(tested.cases) < ENOUGH:
        return "partly", f"{_first_upper(too_few(len(tested.cases), ENOUGH, 'users'))}."
    count = len(tested.naming)
    if compared is None or compared.users < ENOUGH:
        return "partly", (
            f"Only {count} of {len(tested.said):,} name any, which is too few to test them: these "
            "sentences claim little, and so promise little."
        )
    lost, seeds = compared.lost, _seeds_in_words(tested, same)
    said = (
        f"Without the named items, a recommendation loses {percent(lost[NAMED].value)} of its "
        f"probability, without as many random items of the same history "
        f"{percent(lost[RANDOM].value)}"
    )
    if not clearly_positive(lost[DIFFERENCE].interval, compared.users):
        return "no", f"{said}, which is not clearly less."
    known = same is not None and same.value >= SAME
    answer: Answer = "yes" if known or _same_for_every_seed(tested) else "partly"
    return answer, f"{said}. {seeds}"


def _seeds_in_words(tested: Tested, same: Measure | None) -> str:
    """Say whether other seeds name the same."""
    if same is not None:
        return f"Two halves of the seeds name the same items in {percent(same.value)} of the cases."
    if _same_for_every_seed(tested):
        return "Every seed gives the same model, so it names the same items."
    if tested.halves is None:
        return "Whether another seed names the same items is unknown."
    return "Two halves of the seeds, each alone, name too few items to compare them."


def _same_for_every_seed(tested: Tested) -> bool:
    run = tested.context.run
    return len(run.models) == 1 and model_spec(run.model).closed_form


def _share_figure(kind: Kind, share: Measure) -> Figure:
    name, does = KINDS[kind]
    return Figure(
        "share of the recommendations",
        name,
        share,
        f"The sentence {does} in {percent(share.value)} of the cases ({between(share)}).",
    )


def _confidence_figure(tested: Tested) -> Iterator[Figure]:
    """Yield the mean confidence of what is said, if anything is."""
    some = tested.said[tested.said.kind != Kind.NONE]
    if not len(some):
        return
    sure = some.confidence.double().cpu().numpy()
    measure = tested.mean(sure, "mean confidence of the reasons that are said", some.users)
    yield Figure(
        "stated confidence",
        "reasons that are said",
        measure,
        f"The reasons that are said are right with a probability of {percent(measure.value)} on "
        f"average, by their own statement ({between(measure)}).",
    )


def _necessity_figures(compared: Compared) -> Iterator[Figure]:
    """Yield what recommendations lose, and how often they leave the list."""
    lost, left = compared.lost, compared.left
    yield Figure(
        "probability lost",
        NAMED,
        lost[NAMED],
        "Without the items that its sentence names, a recommendation loses "
        f"{percent(lost[NAMED].value)} of its probability ({between(lost[NAMED])}).",
    )
    yield Figure(
        "probability lost",
        RANDOM,
        lost[RANDOM],
        f"Without as many random items of the same history, it loses {percent(lost[RANDOM].value)} "
        f"({between(lost[RANDOM])}).",
    )
    yield _difference("probability lost", lost[DIFFERENCE])
    if not left:
        return
    yield Figure(
        f"leaves the first {TOP_TEN}",
        NAMED,
        left[NAMED],
        f"Without the named items, {percent(left[NAMED].value)} of these recommendations leave "
        f"the list of {TOP_TEN} ({between(left[NAMED])}).",
    )
    yield Figure(
        f"leaves the first {TOP_TEN}",
        RANDOM,
        left[RANDOM],
        f"Without as many random items, {percent(left[RANDOM].value)} leave it "
        f"({between(left[RANDOM])}).",
    )
    yield _difference(f"leaves the first {TOP_TEN}", left[DIFFERENCE])


def _difference(name: str, one: Measure) -> Figure:
    return Figure(
        name,
        "named items, above random",
        one,
        f"That is {points(abs(one.value))} {'more' if one.value >= 0 else 'less'} than without "
        f"random items, case by case ({points_between(one)}).",
    )


def _agreement_figure(tested: Tested, same: Measure) -> Figure:
    assert tested.halves is not None
    first, second = (", ".join(map(str, seeds)) for seeds in tested.halves.seeds)
    return Figure(
        "same items named",
        "two halves of the seeds",
        same,
        f"If the seeds {first} or the seeds {second} name items for a recommendation, both name "
        f"the same in {percent(same.value)} of the cases ({between(same)}).",
    )


def _necessity_charts(compared: Compared) -> Iterator[Chart]:
    """Yield a dot for the named items, and one for random items."""
    shown = [
        (
            "probability that the recommendation loses",
            "What a recommendation loses of its probability without the items that its sentence "
            "names, and without as many random items of the same history (the dashed line).",
            compared.lost,
        ),
        (
            f"recommendations that leave the first {TOP_TEN}",
            "How often it leaves the list then.",
            compared.left,
        ),
    ]
    for title, reading, measures in shown:
        if measures:
            rows = tuple(dot(name, measures[name]) for name in (NAMED, RANDOM))
            yield Chart("dots", title, reading, rows)


def _notes(tested: Tested) -> Iterator[str]:
    """Say what was tested, and how."""
    yield (
        f"Items are removed by '{tested.removal}', "
        + (
            "as in the checks of the sentences that users see. "
            if tested.removal == DROPPED
            else "as you asked; the sentences that users see leave items out of the history. "
        )
        + f"Random items are drawn {DRAWS} times for each recommendation. What a removal adds to "
        "the probability counts as a negative loss, as a share of the larger probability."
    )
    own = tested.reasoner.calibrator_name == OWN
    yield (
        "The stated confidence was learned on synthetic worlds, by the calibrator "
        + ("of this run" if own else "that comes with Whence")
        + ". There it can be tested; for real data it is an estimate."
    )
    if len(tested.context.run.models) == 1 and not _same_for_every_seed(tested):
        yield (
            "The run has one seed, so it is unknown whether another one names the same items; "
            f"train with --seeds {SEEDS} to find out."
        )
    elif tested.context.model_seed is not None and tested.halves is not None:
        yield "The two halves are of all seeds of the run, not only of the audited one."
    yield "The intervals are over users."


# Examples


def _examples(tested: Tested) -> Table:
    """Return some sentences with their confidence and what happens without the named items."""
    rows = _chosen(tested)
    reasons = [_reason(tested, row) for row in rows]
    titles = tested.context.run.catalog.labels(tested.said.target[rows].cpu().numpy())
    without = _ranks_without(tested)
    return Table(
        "Sentences of some users, as they see them",
        ("confidence", "rank", "rank without the named items"),
        tuple(
            (
                f"{title}: {reason.sentence}",
                "–" if reason.confidence is None else percent(reason.confidence),
                f"{int(tested.said.rank[row]):,}",
                f"{without[row]:,}" if row in without else "–",
            )
            for row, title, reason in zip(rows, titles, reasons, strict=True)
        ),
    )


def _chosen(tested: Tested) -> list[int]:
    """Return a recommendation each of the first users: the first one whose sentence names items.

    If there are not enough, others whose sentence makes a claim, and then any, fill up.
    """
    kinds, users = tested.said.kind.cpu().numpy(), tested.said.users
    usual: list[int] = []
    for wanted in (kinds <= Kind.SET, kinds < Kind.NONE, kinds <= Kind.NONE):
        taken = users[usual]
        rows = np.flatnonzero(wanted & ~np.isin(users, taken))
        _, first = np.unique(users[rows], return_index=True)
        usual += rows[first].tolist()[: EXAMPLES - len(usual)]
    return usual


def _reason(tested: Tested, row: int) -> Reason:
    """Return the reason of a recommendation, as `whence.reason` gives it."""
    context, user = tested.context, int(tested.said.user[row])
    events = slice(int(tested.cases.starts[user]), int(tested.cases.ends[user]))
    ratings = tested.ratings
    length = int(tested.lists.lengths[user])
    place = int(np.flatnonzero(tested.lists.items[user] == int(tested.said.target[row]))[0])
    found = find_reasons(
        context.run,
        tested.cases.items[events],
        tested.lists.items[user, :length],
        model_seed=context.model_seed,
        ratings=None if ratings is None else ratings[events],
        options=Options(removal=tested.removal, k=TOP_TEN),
    )
    return found[place]


def _ranks_without(tested: Tested) -> dict[int, int]:
    """Return the rank without the named items, by the recommendation's row."""
    if tested.necessity is None:
        return {}
    rows: Sequence[int] = tested.said.names.nonzero()[:, 0].tolist()
    return dict(zip(rows, tested.necessity.rank.tolist(), strict=True))


def _first_upper(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}"


STAGES.add(
    "sentences",
    Stage(
        "Sentences",
        "Can the sentences be believed?",
        find_sentences,
        (
            "recommendations clearly lose more without the items that their sentences name than "
            f"without random ones, and two halves of the seeds name the same in at least "
            f"{percent(SAME)}",
            "they clearly lose more, but fewer are the same or there is only one seed; or hardly "
            "any item is named",
            "they do not clearly lose more",
        ),
        needs=("score",),
        needs_history=True,
        needs_probabilities=True,
    ),
    place=5,
)
