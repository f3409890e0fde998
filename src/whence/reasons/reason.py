"""A reason in words, with the figures behind it: the result of `whence.reason`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, Self

from rich.console import Group, RenderableType

from whence.config import build
from whence.console import plain
from whence.contract import DROPPED
from whence.reasons.amounts import before_and_after, percent_lost, percent_sure
from whence.reasons.evidence import Evidence
from whence.reasons.similar_users import SimilarUsers
from whence.terminal import Result, captioned, plain_table

KindName = Literal["item", "set", "taste", "popularity", "none", "rule", "no history"]
NO_HISTORY: Final = (
    "fits your taste as the model learned it; this model reads no history, so it names no item"
)
NOT_POSSIBLE: Final = "not possible"
"""How a document says that no item can be removed."""
WHOLE, NONE_SURE = "fits your history as a whole", "no single reason is sure"
FIRST: Final = 10
"""What is ranked lower need not be popular: everyone alike may hardly want it."""
CALLED: Final[Mapping[KindName, str]] = {
    "item": "one item",
    "set": "two items together",
    "taste": "your taste",
    "popularity": "its popularity",
}
"""What tables call a kind that can be said."""


@dataclass(frozen=True)
class Support:
    """One item of the history, and what it does for the recommendation."""

    item: Any
    """The raw id."""
    label: str
    probability_lost: float
    """Necessity: the share of its probability that the recommendation loses without the item."""
    times_alone: float
    """Sufficiency: how many times more probable than usual the item alone makes it."""
    specific: float | None
    """Specificity: by what factor it loses more than the user's other recommendations do; `None`
    if there is no other one."""
    agreement: float | None
    """The share of models for which no item matters more; `None` if the run has one model."""
    confidence: float
    """The probability that this item is the reason."""
    rank_before: int
    """From 1, among the items that are not in the history."""
    rank_without: int
    rating: float | None = None
    """The user's newest rating of it."""


@dataclass(frozen=True)
class Together:
    """What a recommendation loses without both items that are named."""

    probability_lost: float
    rank_before: int
    rank_without: int


@dataclass(frozen=True)
class Taste:
    """The items of the history that are of the recommendation's group."""

    name: str
    count: int
    """How many of the newest events are of the group."""
    of: int
    probability_lost: float
    """The share lost without the group, but for its strongest item."""
    lost_without_others: float
    """The share lost without as many other items."""
    rank_before: int
    rank_without: int
    """Without the group, but for its strongest item."""


@dataclass(frozen=True)
class Check:
    """One test of a reason, with its figure in words."""

    name: str
    says: str
    value: float | None
    passed: bool | None
    """`None` if it could not be tested."""
    required: bool = True
    """Whether a reason that fails it is never said; otherwise it counts in the confidence."""


@dataclass(frozen=True)
class Leaving:
    """The smallest set of items without which the recommendation leaves the list."""

    items: tuple[Any, ...]
    """Raw ids."""
    labels: tuple[str, ...]
    rank_without: int
    list_size: int
    proved: bool
    """Whether it is searched in full; of three items, only some sets are tried."""

    @property
    def sentence(self) -> str:
        """What to tell the user."""
        named = listed(self.labels)
        falls = f"without {named} it falls to rank {self.rank_without:,}"
        if self.proved and len(self.items) == 1:
            return falls  # there is no smaller set
        proof = "no single item does this" if self.proved else "no single item and no two items do"
        return f"{falls}; {proof}"


@dataclass(frozen=True, repr=False)
class Reason(Result):
    """What a recommendation rests on, and how sure that is."""

    kind: KindName
    verb: str
    rank: int
    """The recommendation's rank, from 1, among the items that are not in the history."""
    supports: tuple[Support, ...] = ()
    """The item or the items that are named."""
    together: Together | None = None
    """What is lost without two items, if two are named."""
    taste: Taste | None = None
    confidence: float | None = None
    """The probability that the most probable reason is the right one."""
    likeliest: KindName = "none"
    """The kind of the most probable reason, even if it is not sure enough to be said."""
    threshold: float | None = None
    """The probability from which on a reason is said."""
    checks: tuple[Check, ...] = ()
    considered: tuple[Support, ...] = ()
    """Every item of the history that the model reads, newest first."""
    although: tuple[Support, ...] = ()
    """Items that count in favour although the user rated them low."""
    smallest: Leaving | None = None
    """The smallest set without which it leaves the list, if it was searched and found."""
    calibrator: str = ""
    """Which calibrator gave the confidence."""
    models: int = 1
    """How many models were asked."""
    in_history: bool = False
    """Whether the explained item is in the history; it is never its own reason."""
    evidence: Evidence | None = None
    """What the experts rest on, if the model has experts and reads no history."""
    similar_users: SimilarUsers | None = None
    """Similar users who chose the item, if the model has user vectors and reads no history."""
    own: str | None = None
    """The rule of the model in words, if its rule is the reason."""
    removal: str = DROPPED
    """How the checks remove an item; all its copies in the history are removed."""

    @property
    def reads_history(self) -> bool:
        """Whether the model reads histories; otherwise no item can be named."""
        return self.kind != "no history"

    @property
    def sentence(self) -> str:
        """What to tell the user."""
        if self.evidence is not None:
            return self.evidence.sentence
        if self.similar_users is not None:
            return self.similar_users.sentence(self.verb)
        if not self.reads_history:
            return NO_HISTORY
        return f"already in your history; {self._said}" if self.in_history else self._said

    @property
    def _said(self) -> str:
        if self.own is not None:
            return self.own
        if self.kind in ("item", "set") and self.supports:
            together = ", which count together" if self.kind == "set" else ""
            named = listed([one.label for one in self.supports])
            return f"because you {self.verb} {named}{together}{self._although}"
        if self.kind == "taste" and self.taste is not None:
            often = f"{self.taste.count} of the last {self.taste.of} you {self.verb}"
            return f"because of your taste for {self.taste.name}: {often}{self._although}"
        if self.kind == "popularity":
            if self.rank > FIRST:
                return "your history adds little to its popularity"
            return "popular with everyone; your history adds little"
        return f"{WHOLE}{self._although}; {NONE_SURE}"

    @property
    def _although(self) -> str:
        """What counts in favour although it was rated low."""
        rated = [
            one.label if one.rating is None else f"{one.label} only {one.rating:g}"
            for one in self.although
        ]
        return f", although you rated {listed(rated)}" if rated else ""

    @property
    def without(self) -> tuple[str, ...]:
        """The rank before and after and the change of the probability, without what is named."""
        named: tuple[Support | Together | Taste, ...] = self.supports
        if self.kind == "taste" and self.taste is not None:
            named = (self.taste,)
        if self.together is not None:
            named = (self.together,)
        return tuple(
            f"{before_and_after(one.rank_before, one.rank_without, self.in_history)}, "
            f"{percent_lost(one.probability_lost)}"
            for one in named
        )

    @property
    def sure(self) -> str:
        """How sure the reason is, in percent; empty if none is claimed."""
        if self.kind not in CALLED or self.confidence is None:
            return ""
        return percent_sure(self.confidence)

    def as_dict(self) -> dict[str, Any]:
        """Return plain types only, with the figures behind the sentence."""
        optional = {
            "taste": self.taste,
            "together": self.together,
            "smallest": self.smallest,
            "evidence": self.evidence,
            "similar_users": self.similar_users,
        }
        return {
            "sentence": self.sentence,
            "kind": self.kind,
            "confidence": self.confidence,
            "likeliest": self.likeliest,
            "threshold": self.threshold,
            "calibrator": self.calibrator,
            "models": self.models,
            "rank": self.rank,
            "verb": self.verb,
            "removal": self.removal if self.reads_history else NOT_POSSIBLE,
            "in_history": self.in_history,
            "because": [asdict(one) for one in self.supports],
            "although": [asdict(one) for one in self.although],
            "checks": [asdict(one) for one in self.checks],
            "considered": [asdict(one) for one in self.considered],
            **{name: asdict(one) for name, one in optional.items() if one is not None},
            **({} if self.own is None else {"own": self.own}),
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Return the reason that `as_dict` described."""
        given = dict(document)
        given.pop("sentence")
        if given["removal"] == NOT_POSSIBLE:
            given["removal"] = DROPPED
        given["supports"] = given.pop("because")
        for name in ("supports", "although", "considered"):
            given[name] = tuple(Support(**one) for one in given[name])
        given["checks"] = tuple(Check(**one) for one in given["checks"])
        kinds = (("taste", Taste), ("together", Together), ("smallest", Leaving))
        for name, kind in (*kinds, ("evidence", Evidence)):
            if given.get(name) is not None:
                given[name] = build(kind, given[name])
        if given.get("similar_users") is not None:
            given["similar_users"] = SimilarUsers(**given["similar_users"])
        return cls(**given)

    def __rich__(self) -> RenderableType:
        return Group(plain(self.sentence), *self.details())

    def details(self) -> list[RenderableType]:
        """Return what stands below the sentence: the smallest set, and the checks."""
        found: list[RenderableType] = []
        if self.smallest is not None:
            found.append(plain(self.smallest.sentence))
        if self.checks:
            found.append(checks_table(self))
        return found

    def __repr__(self) -> str:
        return f"Reason({self.sentence!r}, rank={self.rank})"


MARKS: Final[Mapping[bool | None, str]] = {True: "yes", False: "no", None: "not tested"}


def checks_title(reason: Reason) -> str:
    """Return what the checks are about."""
    if reason.kind in CALLED:
        return "Checks of the reason"
    return f"Checks of the most likely reason: {CALLED.get(reason.likeliest, reason.likeliest)}"


def checks_caption(reason: Reason) -> str:
    """Return which checks decide."""
    counted = [one.name for one in reason.checks if not one.required]
    required = [one.name for one in reason.checks if one.required]
    also = f"; part of the confidence: {listed(counted)}" if counted else ""
    return f"needed for a reason to be said: {listed(required)}{also}"


def checks_table(reason: Reason) -> RenderableType:
    """Return the checks of a reason as a table."""
    table = plain_table(checks_title(reason), "check", "passed", "what was found")
    for one in reason.checks:
        table.add_row(one.name, MARKS[one.passed], one.says)
    return captioned(table, checks_caption(reason))


def listed(names: Sequence[str]) -> str:
    """Return "A", "A and B" or "A, B and C"."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
