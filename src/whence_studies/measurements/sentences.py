"""What sentences say on real data, where no truth is known: kinds, necessity and agreement.

The first half of the seeds says them. The second half explains the same recommendations, and tests
what they lose without the items that the first half named.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from whence.errors import InputError
from whence.measure import Measure
from whence.reasons.judgement import Kind
from whence.reasons.of_run import reasoner_of
from whence.trust.audit.context import AuditContext
from whence.trust.sentences.halves import halves_of
from whence.trust.sentences.sample import NAMED, RANDOM, Sample
from whence_studies.measurements.measurement import MeasuredRun, Measurement, SeedColumn

SHARES: Final = {
    Kind.ITEM: "names one item",
    Kind.SET: "names two items",
    Kind.TASTE: "names a taste",
    Kind.POPULARITY: "says popularity",
    Kind.NONE: "makes no claim",
}
SAME: Final = "other seeds name the same"
SUPPOSED: Final = "the most probable claim of other seeds, too"
LOST: Final = {NAMED: "lost without what is named", RANDOM: "lost without random items"}
LEAVES: Final = {NAMED: "leaves the ten without it", RANDOM: "leaves the ten without random items"}


@dataclass(frozen=True)
class SentencesOptions:
    """How many users are recommended to."""

    users: int = 300

    def __post_init__(self) -> None:
        if self.users < 2:
            raise InputError(f"users must be at least 2, not {self.users}.")


def sentences(subject: MeasuredRun, options: SentencesOptions) -> dict[str, SeedColumn]:
    """Return the columns; their intervals are over users."""
    run = subject.run
    if len(run.models) < 2:
        raise InputError("Two halves of the seeds are compared. Set seeds to at least 2.")
    first, second = halves_of(run)
    # Models that name an item have it pass a test of necessity, so others test it again.
    said = replace(_tested(replace(subject, run=first), options), tester=reasoner_of(second, None))
    found = {
        name: said.mean((said.said.kind == kind).cpu().numpy(), name, said.said.users)
        for kind, name in SHARES.items()
    }
    halves = _tested(subject, options).halves
    assert halves is not None
    for name, (same, users) in {
        SAME: halves.same_named(),
        SUPPOSED: halves.same_supposed(),
    }.items():
        if len(np.unique(users)) > 1:
            found[name] = said.mean(same, f"{name}, if either half names an item or two", users)
    if said.compared is not None:
        found |= {name: said.compared.lost[which] for which, name in LOST.items()}
        found |= {
            name: said.compared.left[which]
            for which, name in LEAVES.items()
            if which in said.compared.left
        }
    return {name: _column(one, len(run.models)) for name, one in found.items()}


def _tested(subject: MeasuredRun, options: SentencesOptions) -> Sample:
    return Sample(AuditContext(subject.run, None, (), options.users), options.users, options.users)


def _column(measure: Measure, seeds: int) -> SeedColumn:
    return SeedColumn(
        per_seed=(measure.value,) * seeds,
        n=measure.n,
        protocol=f"{measure.protocol}; {seeds} seeds in two halves",
        direction=measure.direction,
        interval=measure.interval,
    )


MEASUREMENT: Final = Measurement(
    columns=(*SHARES.values(), SAME, SUPPOSED, *LOST.values(), *LEAVES.values()),
    measure=sentences,
    options=SentencesOptions,
    over_users=True,
)
