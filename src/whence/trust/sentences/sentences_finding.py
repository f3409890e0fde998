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
from whence.trust.audit.words import between, listed, percent, points, points_between, too_few
from whence.trust.perturbation import TOP_TEN
from whence.trust.sentences.necessity import DRAWS
from whence.trust.sentences.sample import DIFFERENCE, NAMED, RANDOM, Compared, Sample

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
    sample = Sample(context)
    shares = {
        kind: sample.mean(
            (sample.said.kind == kind).cpu().numpy(),
            f"share of recommendations whose sentence {does}",
            sample.said.users,
        )
        for kind, (_, does) in KINDS.items()
    }
    compared, same = sample.compared, _same_named(sample)
    answer, why = _answer(sample, compared, same)
    return Finding(
        answer=answer,
        summary=why,
        figures=(
            *(_share_figure(kind, one) for kind, one in shares.items()),
            *_confidence_figure(sample),
            *([] if compared is None else _necessity_figures(compared)),
            *([] if same is None else [_agreement_figure(sample, same)]),
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
        tables=(_examples(sample),),
        notes=tuple(_notes(sample)),
    )


def _same_named(sample: Sample) -> Measure | None:
    """Return how often two halves of the seeds name the same; `None` if it is unknown."""
    if sample.same_named is None:
        return None
    what = "share of recommendations for which both halves of the seeds name the same items, "
    return sample.mean(
        sample.same_named[0],
        f"{what}if either names any",
        sample.same_named[1],
        "higher is better",
    )


def _answer(sample: Sample, compared: Compared | None, same: Measure | None) -> tuple[Answer, str]:
    """Answer by the difference to random items, and then by the agreement of the seeds."""
    count, of = len(sample.naming), len(sample.said)
    whose = f"For the first {TOP_TEN} recommendations of {len(sample.cases):,} users,"
    naming = f"{whose} {percent(count / of)} of the sentences name one or two items"
    if len(sample.cases) < ENOUGH:
        return "partly", f"{naming}; {too_few(len(sample.cases), ENOUGH, 'users')}."
    if compared is None or compared.users < ENOUGH:
        return "partly", (
            f"{whose} only {count} of {of:,} sentences name an item, which is too few to test "
            "whether it is needed. All others claim something more general, or nothing."
        )
    lost = compared.lost
    said = (
        f"{naming}. Without these, a recommendation {_loses(lost[NAMED])} of its probability; "
        f"without as many random items of the same history, it {_loses(lost[RANDOM])}"
    )
    if not clearly_positive(lost[DIFFERENCE].interval, compared.users):
        return "no", f"{said}. The difference is not clear."
    known = same is not None and same.value >= SAME
    answer: Answer = "yes" if known or _same_for_every_seed(sample) else "partly"
    return answer, f"{said}. {_seeds_in_words(sample, same)}"


def _loses(lost: Measure) -> str:
    """Say what is lost, or gained."""
    return f"{'loses' if round(lost.value, 3) >= 0 else 'gains'} {percent(abs(lost.value))}"


def _seeds_in_words(sample: Sample, same: Measure | None) -> str:
    """Say whether other seeds name the same."""
    if same is not None:
        return f"Two halves of the seeds name the same items in {percent(same.value)} of the cases."
    if _same_for_every_seed(sample):
        return "Every seed gives the same model, so it names the same items."
    if sample.halves is None:
        return "Whether another seed names the same items is unknown."
    return "Two halves of the seeds, each alone, name too few items to compare them."


def _same_for_every_seed(sample: Sample) -> bool:
    run = sample.context.run
    return len(run.models) == 1 and model_spec(run.model).closed_form


def _share_figure(kind: Kind, share: Measure) -> Figure:
    name, does = KINDS[kind]
    return Figure(
        "share of the recommendations",
        name,
        share,
        f"The sentence {does} in {percent(share.value)} of the cases ({between(share)}).",
    )


def _confidence_figure(sample: Sample) -> Iterator[Figure]:
    """Yield the mean confidence of what is said, if anything is."""
    some = sample.said[sample.said.kind != Kind.NONE]
    if not len(some):
        return
    sure = some.confidence.double().cpu().numpy()
    measure = sample.mean(sure, "mean confidence of the reasons that are said", some.users)
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
        f"Without the items that its sentence names, a recommendation {_loses(lost[NAMED])} of its "
        f"probability (loss: {between(lost[NAMED])}).",
    )
    yield Figure(
        "probability lost",
        RANDOM,
        lost[RANDOM],
        f"Without as many random items of the same history, it {_loses(lost[RANDOM])} "
        f"(loss: {between(lost[RANDOM])}).",
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


def _agreement_figure(sample: Sample, same: Measure) -> Figure:
    assert sample.halves is not None
    first, second = (
        f"{'seed' if len(seeds) == 1 else 'seeds'} {listed([*map(str, seeds)])}"
        for seeds in sample.halves.seeds
    )
    return Figure(
        "same items named",
        "two halves of the seeds",
        same,
        f"If {first} or {second} would name items for a recommendation, both would name the same "
        f"in {percent(same.value)} of the cases ({between(same)}).",
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


def _notes(sample: Sample) -> Iterator[str]:
    """Say what was sample, and how."""
    yield (
        f"Items are removed by '{sample.removal}', "
        + (
            "as in the checks of the sentences that users see. "
            if sample.removal == DROPPED
            else "as you asked; the sentences that users see leave items out of the history. "
        )
        + f"Random items are drawn {DRAWS} times for each recommendation. What a removal adds to "
        "the probability counts as a negative loss, as a share of the larger probability."
    )
    own = sample.reasoner.calibrator_name == OWN
    yield (
        "The stated confidence was learned on synthetic worlds, by the calibrator "
        + ("of this run" if own else "that comes with Whence")
        + ". There it can be tested; for real data it is an estimate."
    )
    if len(sample.context.run.models) == 1 and not _same_for_every_seed(sample):
        yield (
            "The run has one seed, so it is unknown whether another one names the same items; "
            f"train with --seeds {SEEDS} to find out."
        )
    elif sample.context.model_seed is not None and sample.halves is not None:
        yield "The two halves are of all seeds of the run, not only of the audited one."
    yield "The intervals are over users."


# Examples


def _examples(sample: Sample) -> Table:
    """Return some sentences with their confidence and what happens without the named items."""
    rows = _chosen(sample)
    reasons = [_reason(sample, row) for row in rows]
    titles = sample.context.run.catalog.labels(sample.said.target[rows].cpu().numpy())
    without = _ranks_without(sample)
    return Table(
        "Sentences of some users, as they see them",
        ("confidence", "rank", "rank without the named items"),
        tuple(
            (
                f"{title}: {reason.sentence}",
                "–" if reason.confidence is None else percent(reason.confidence),
                f"{int(sample.said.rank[row]):,}",
                f"{without[row]:,}" if row in without else "–",
            )
            for row, title, reason in zip(rows, titles, reasons, strict=True)
        ),
    )


def _chosen(sample: Sample) -> list[int]:
    """Return a recommendation each of the first users: the first one whose sentence names items.

    If there are not enough, others whose sentence makes a claim, and then any, fill up.
    """
    kinds, users = sample.said.kind.cpu().numpy(), sample.said.users
    usual: list[int] = []
    for wanted in (kinds <= Kind.SET, kinds < Kind.NONE, kinds <= Kind.NONE):
        taken = users[usual]
        rows = np.flatnonzero(wanted & ~np.isin(users, taken))
        _, first = np.unique(users[rows], return_index=True)
        usual += rows[first].tolist()[: EXAMPLES - len(usual)]
    return usual


def _reason(sample: Sample, row: int) -> Reason:
    """Return the reason of a recommendation, as `whence.reason` gives it."""
    context, user = sample.context, int(sample.said.user[row])
    events = slice(int(sample.cases.starts[user]), int(sample.cases.ends[user]))
    ratings = sample.ratings
    length = int(sample.lists.lengths[user])
    place = int(np.flatnonzero(sample.lists.items[user] == int(sample.said.target[row]))[0])
    found = find_reasons(
        context.run,
        sample.cases.items[events],
        sample.lists.items[user, :length],
        model_seed=context.model_seed,
        ratings=None if ratings is None else ratings[events],
        options=Options(removal=sample.removal, k=TOP_TEN),
    )
    return found[place]


def _ranks_without(sample: Sample) -> dict[int, int]:
    """Return the rank without the named items, by the recommendation's row."""
    if sample.necessity is None:
        return {}
    rows: Sequence[int] = sample.said.names.nonzero()[:, 0].tolist()
    return dict(zip(rows, sample.necessity.rank.tolist(), strict=True))


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
