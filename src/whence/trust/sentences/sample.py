"""What an audit tests of the sentences: the first ten recommendations of some of its users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from torch import Tensor

from whence.arrays import Bools, Floats, Ints
from whence.data.histories import Cases
from whence.errors import InputError
from whence.measure import Direction, Measure
from whence.reasons.of_run import Options, reasoner_of
from whence.reasons.reasoner import Reasoner
from whence.trust.audit.context import AuditContext
from whence.trust.perturbation import TOP_TEN
from whence.trust.resampling import mean_over_users
from whence.trust.sentences.halves import Halves, compare_halves
from whence.trust.sentences.necessity import Necessity, necessity
from whence.trust.sentences.said import (
    Histories,
    Lists,
    Said,
    histories_of,
    recommend_lists,
    say,
)

USERS, OF_HALVES = 200, 100
NAMED, RANDOM, DIFFERENCE = "named items", "random", "difference"
"""What is left out: the named items, as many others, and how much more the first matters."""


@dataclass(frozen=True, eq=False)
class Compared:
    """What recommendations lose without named and without random items, of the same cases."""

    lost: Mapping[str, Measure]
    """By `NAMED`, `RANDOM` and `DIFFERENCE`: the share of its probability."""
    left: Mapping[str, Measure]
    """The share that leaves the list; empty if a list holds everything."""
    users: int


@dataclass(frozen=True, eq=False)
class Sample:
    """The users, and what is said of their recommendations; each part is found on first use."""

    context: AuditContext
    users: int = USERS
    """The recommendations of at most so many users are tested."""
    of_halves: int = OF_HALVES
    """The same for two halves of the seeds, which are two more recommenders."""
    tester: Reasoner | None = None
    """The models that test what is lost without the items, if not those that name them."""

    @property
    def removal(self) -> str:
        """How items are removed."""
        return self.context.sentence_removal

    @cached_property
    def cases(self) -> Cases:
        """The first of the audit's cases, but for empty histories."""
        drawn = self.context.cases[: self.users]
        found = drawn[np.flatnonzero(drawn.ends > drawn.starts)]
        if not len(found):
            raise InputError("All histories are empty, so no sentence can name an item.")
        return found

    @cached_property
    def reasoner(self) -> Reasoner:
        """What finds the reasons that users see."""
        return reasoner_of(self.context.run, self.context.model_seed, self.removal)

    @property
    def ratings(self) -> Floats | None:
        """The ratings of all events."""
        found = self.context.split.interactions.ratings
        return None if found is None else found.astype(np.float64)

    @cached_property
    def histories(self) -> Histories:
        """What the reasoner is told; items that were rated low are not named."""
        low = Options().low_of(self.context.run)
        return histories_of(self.reasoner, self.context.model, self.cases, self.ratings, low)

    @cached_property
    def lists(self) -> Lists:
        """The recommendations."""
        items = len(self.context.run.catalog)
        return recommend_lists(self.context.model, self.cases, items, TOP_TEN)

    @cached_property
    def said(self) -> Said:
        """What is said of them."""
        return say(self.reasoner, self.histories, self.lists)

    @cached_property
    def naming(self) -> Said:
        """The recommendations whose sentences name items."""
        return self.said[self.said.names]

    @cached_property
    def necessity(self) -> Necessity | None:
        """What these lose without the items; `None` if no sentence names any."""
        if not len(self.naming):
            return None
        return necessity(
            self.tester or self.reasoner, self.histories, self.naming, self.context.seed
        )

    @cached_property
    def compared(self) -> Compared | None:
        """Named items next to random ones; `None` if there are fewer than two users with both."""
        if self.necessity is None:
            return None
        matched = self.necessity.matched
        users = self.naming[matched].users
        count = len(np.unique(users))
        if count < 2:
            return None
        lost, at_random = self.necessity.lost, self.necessity.lost_at_random
        what = "share of its probability that a recommendation loses without"
        found = self._side_by_side(users, what, (-1, 1), lost[matched], at_random[matched])
        listed = matched & (self.necessity.rank_with <= TOP_TEN)  # nothing else can leave
        users = self.naming[listed].users
        if self.context.list_is_catalog or len(np.unique(users)) < 2:
            return Compared(found, {}, count)
        own, others = self.necessity.left(TOP_TEN)
        what = f"share of recommendations that leave the first {TOP_TEN} without"
        left = self._side_by_side(users, what, (0, 1), own[listed], others[listed])
        return Compared(found, left, count)

    def _side_by_side(
        self, users: Ints, what: str, range: tuple[float, float], own: Tensor, others: Tensor
    ) -> dict[str, Measure]:
        """Return the means without named items, without random ones, and of the difference."""
        one, other = (values.double().cpu().numpy() for values in (own, others))
        low, high = range
        better: Direction = "higher is better"
        named = f"{what} the items that its sentence names"
        return {
            NAMED: self.mean(one, named, users, better, range),
            RANDOM: self.mean(other, f"{what} as many random items", users, "neither", range),
            DIFFERENCE: self.mean(
                one - other,
                f"{named}, minus that without random items",
                users,
                better,
                (low - high, high - low),
            ),
        }

    @cached_property
    def halves(self) -> Halves | None:
        """What two halves of the run's seeds say; `None` if there is one seed."""
        run = self.context.run
        if len(run.models) < 2:
            return None
        some = slice(self.of_halves)
        return compare_halves(run, self.cases[some], self.histories[some], self.removal, TOP_TEN)

    @cached_property
    def same_named(self) -> tuple[Bools, Ints] | None:
        """Whether both halves name the same items, and the users; `None` if it is unknown."""
        if self.halves is None:
            return None
        same, users = self.halves.same_named()
        return (same, users) if len(np.unique(users)) > 1 else None

    def mean(
        self,
        values: Floats | Bools,
        what: str,
        users: Ints,
        direction: Direction = "neither",
        range: tuple[float, float] = (0.0, 1.0),
    ) -> Measure:
        """Return the mean over recommendations of these users."""
        protocol = (
            f"{what}; the first {TOP_TEN} recommendations of each user; removal {self.removal}; "
            f"seed {self.context.seed}; interval over {len(np.unique(users)):,} users"
        )
        return mean_over_users(values.astype(np.float64), users, protocol, direction, range)
