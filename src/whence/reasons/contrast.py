"""Why not another item, and why one item rather than another: what the history says to that.

Each item of the history is really left out, at all its places, and every model scores the rest. The
figures are means over the models, such as those of the seeds, in log-probability. An item is only
named if more than half of the models agree on its sign. Ranks are those of the whole recommender.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt
from rich.console import Group

from whence.console import plain
from whence.data.catalog import Catalog
from whence.errors import InputError
from whence.models.base import CaseReader
from whence.reasons.amounts import (
    MAJORITY,
    before_and_after,
    more_probable,
    percent,
    share_of,
)
from whence.reasons.evidence import NOTICEABLE
from whence.reasons.left_out import leave_out_each, mean_and_agreement
from whence.terminal import Result, plain_table
from whence.text import shortened

GAINS, LOSES = math.log1p(NOTICEABLE), math.log1p(-NOTICEABLE)
"""Changes of a log-probability, or of log-odds, from which on they are noticeable."""
LONGEST_HEADING: Final = 24
"""Titles in headings are cut to this many characters."""


@dataclass(frozen=True)
class Effect:
    """One item of the history, and what happens to the asked item without it."""

    item: Any
    """The raw id."""
    label: str
    gained: float
    """The change of the asked item's log-probability without it, as the mean over the models."""
    agreeing: float
    """The share of the models whose change has the same sign."""
    rank_before: int
    """From 1, among the items that are not in the history."""
    rank_without: int


@dataclass(frozen=True, repr=False)
class WhyNot(Result):
    """Why an item is not recommended: what in the history speaks against it."""

    item: Any
    """The raw id."""
    label: str
    verb: str
    rank: int
    """The asked item's rank, from 1, among the items that are not in the history."""
    list_size: int
    """An item is recommended if its rank is at most this."""
    in_history: bool
    models: int
    """How many models were asked."""
    considered: tuple[Effect, ...]
    """Every item of the history that the models read, newest first."""

    @property
    def against(self) -> tuple[Effect, ...]:
        """Items without which the asked one noticeably gains, the strongest first."""
        return tuple(sorted(self._agreed(GAINS, math.inf), key=lambda one: -one.gained))

    @property
    def supporting(self) -> tuple[Effect, ...]:
        """Items without which it noticeably loses, the strongest first."""
        return tuple(sorted(self._agreed(-math.inf, LOSES), key=lambda one: one.gained))

    def _agreed(self, least: float, most: float) -> list[Effect]:
        """Return items that the models agree on; the asked item is never its own reason."""
        return [
            one
            for one in self.considered
            if least <= one.gained <= most and one.agreeing > MAJORITY and one.item != self.item
        ]

    @property
    def sentence(self) -> str:
        """What to tell the user."""
        if self.in_history:
            return "already in your history"
        if self.rank <= self.list_size:
            return f"already recommended (rank {self.rank:,})"
        found = f"not recommended (rank {self.rank:,})"
        if self.against:
            first = self.against[0]
            return f"{found}: you {self.verb} {first.label}; without it, {self._gain(first)}"
        found += ": nothing in your history speaks against it"
        if self.supporting:
            return f"{found}; {self.supporting[0].label} speaks for it, but other items fit better"
        return f"{found}; no single item adds much to it"

    def _gain(self, first: Effect) -> str:
        """Return what it would gain. It can become more probable, and others even more so."""
        if first.rank_without < self.rank:
            return f"it would be ranked {first.rank_without:,}"
        still = "still " if first.rank_without == self.rank else ""
        more = more_probable(first.gained)
        return f"it would be {more}, but {still}ranked {first.rank_without:,}"

    def as_dict(self) -> dict[str, Any]:
        """Return plain types only, with the figures behind the sentence."""
        against = [asdict(one) for one in self.against]
        considered = [asdict(one) for one in self.considered]
        return {
            "sentence": self.sentence,
            **{**asdict(self), "against": against, "considered": considered},
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Return the result that `as_dict` described."""
        considered = tuple(Effect(**one) for one in document["considered"])
        return cls(**{**_fields(document, "sentence", "against"), "considered": considered})

    def __rich__(self) -> Group:
        headings = ("item (newest first)", "probability without it", "models that agree", "rank")
        table = plain_table("Without each item of the history", *headings, numbers=3)
        for one in self.considered:
            ranks = before_and_after(one.rank_before, one.rank_without, self.in_history)
            agree = share_of(one.agreeing, self.models)
            table.add_row(one.label, percent(one.gained), agree, ranks)
        return Group(plain(f"{self.label}: {self.sentence}"), table)

    def __repr__(self) -> str:
        return f"WhyNot({self.label!r}, {self.sentence!r})"


@dataclass(frozen=True)
class Shift:
    """One item of the history, and how it moves one item against another."""

    item: Any
    """The raw id."""
    label: str
    moved: float
    """How much it moves the log-odds of the item against the other, as the mean over the models."""
    agreeing: float
    """The share of the models that it moves in the same direction."""
    reverses: bool
    """Whether without it, the one that is behind would be ahead."""
    rank_before: int
    rank_without: int
    other_rank_before: int
    other_rank_without: int


@dataclass(frozen=True, repr=False)
class Rather(Result):
    """Why one item rather than another."""

    item: Any
    """The raw id."""
    label: str
    other: Any
    """The raw id of the other item."""
    other_label: str
    verb: str
    log_odds: float
    """log p(item) − log p(other), as the mean over the models; the item is ahead if positive."""
    rank: int
    """From 1, among the items that are not in the history."""
    other_rank: int
    in_history: bool
    other_in_history: bool
    models: int
    """How many models were asked."""
    considered: tuple[Shift, ...]
    """Every item of the history that the models read, newest first."""

    @property
    def decisive(self) -> tuple[Shift, ...]:
        """Items without which the one that is behind would be ahead, the strongest first."""
        return tuple(one for one in self._favourable if one.reverses)

    @property
    def _favourable(self) -> list[Shift]:
        """Return what noticeably speaks for the one ahead; neither item is a reason itself."""
        side = math.copysign(1.0, self.log_odds)
        named = [
            one
            for one in self.considered
            if (one.reverses or side * one.moved >= -LOSES)
            and one.agreeing > MAJORITY
            and one.item not in (self.item, self.other)
        ]
        return sorted(named, key=lambda one: -side * one.moved)

    @property
    def sentence(self) -> str:
        """What to tell the user."""
        known = [self.label] * self.in_history + [self.other_label] * self.other_in_history
        verb = "is" if len(known) == 1 else "are"
        note = f"; {' and '.join(known)} {verb} already in your history" if known else ""
        return self._comparison + note

    @property
    def _comparison(self) -> str:
        if self.log_odds == 0:
            return f"{self.label} and {self.other_label} have the same score; neither is ahead"
        ahead, behind = f"{self.label} rather than {self.other_label}", self.other_label
        if self.log_odds < 0:
            ahead, behind = f"{self.other_label} is ahead of {self.label}", self.label
        if self.decisive:
            because = f"because you {self.verb} {self.decisive[0].label}"
            return f"{ahead} {because}: without it, {behind} would be ahead"
        if not self._favourable:
            return f"{ahead}: no single item decides it, and none adds much to it"
        first = self._favourable[0]
        fall = f"{-100 * math.expm1(-abs(first.moved)):.0f} %"
        most = f"most for it: {first.label} (without it, the odds fall by {fall})"
        return f"{ahead}: no single item decides it; {most}"

    def as_dict(self) -> dict[str, Any]:
        """Return plain types only, with the figures behind the sentence."""
        considered = [asdict(one) for one in self.considered]
        return {"sentence": self.sentence, **{**asdict(self), "considered": considered}}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Return the result that `as_dict` described."""
        considered = tuple(Shift(**one) for one in document["considered"])
        return cls(**{**_fields(document, "sentence"), "considered": considered})

    def __rich__(self) -> Group:
        one_title, other_title = (
            shortened(title, LONGEST_HEADING) for title in (self.label, self.other_label)
        )
        odds = f"odds of {one_title} without it"
        headings = ("item (newest first)", odds, "reversed", "models that agree")
        ranks = (f"rank of {one_title}", f"rank of {other_title}")
        title = f"{one_title} against {other_title}, without each item of the history"
        table = plain_table(title, *headings, *ranks, numbers=5)
        for one in self.considered:
            table.add_row(
                one.label,
                percent(-one.moved),
                "yes" if one.reverses else "no",
                share_of(one.agreeing, self.models),
                before_and_after(one.rank_before, one.rank_without, self.in_history),
                before_and_after(
                    one.other_rank_before, one.other_rank_without, self.other_in_history
                ),
            )
        return Group(plain(self.sentence), table)

    def __repr__(self) -> str:
        return f"Rather({self.sentence!r})"


def find_why_not(
    models: Sequence[CaseReader],
    whole: CaseReader,
    items: npt.NDArray[np.int32],
    asked: int,
    slots: int,
    catalog: Catalog,
    verb: str,
    list_size: int,
) -> WhyNot:
    """Return what in a whole history `[w]` speaks against an item.

    `models` and `whole`, which gives the ranks, read the newest `slots` items.
    """
    found = leave_out_each(models, whole, items, [asked], slots, catalog)
    change = found.log_probability[:, 1:, 0] - found.log_probability[:, :1, 0]
    ((rank,), *ranks) = found.rank.tolist()
    gained, agreeing = mean_and_agreement(change)
    raw, label = _named(catalog, asked)
    return WhyNot(
        item=raw,
        label=label,
        verb=verb,
        rank=rank,
        list_size=list_size,
        in_history=bool((items == asked).any()),
        models=len(models),
        considered=tuple(
            Effect(
                item=found.raw[row],
                label=found.labels[row],
                gained=gained[row],
                agreeing=agreeing[row],
                rank_before=rank,
                rank_without=without,
            )
            for row, (without,) in enumerate(ranks)
        ),
    )


def find_rather(
    models: Sequence[CaseReader],
    whole: CaseReader,
    items: npt.NDArray[np.int32],
    item: int,
    other: int,
    slots: int,
    catalog: Catalog,
    verb: str,
) -> Rather:
    """Return what in a whole history `[w]` speaks for an item rather than another.

    `models` and `whole`, which gives the ranks, read the newest `slots` items.
    """
    if item == other:
        (label,) = catalog.labels([item])
        raise InputError(f"{label} cannot be compared with itself. Name two different items.")
    found = leave_out_each(models, whole, items, [item, other], slots, catalog)
    odds = found.log_probability[..., 0] - found.log_probability[..., 1]
    log_odds, *odds_without = odds.mean(dim=0).tolist()
    ((rank, other_rank), *ranks) = found.rank.tolist()
    moved, agreeing = mean_and_agreement(odds[:, :1] - odds[:, 1:])
    raw, label = _named(catalog, item)
    other_raw, other_label = _named(catalog, other)
    return Rather(
        item=raw,
        label=label,
        other=other_raw,
        other_label=other_label,
        verb=verb,
        log_odds=log_odds,
        rank=rank,
        other_rank=other_rank,
        in_history=bool((items == item).any()),
        other_in_history=bool((items == other).any()),
        models=len(models),
        considered=tuple(
            Shift(
                item=found.raw[row],
                label=found.labels[row],
                moved=moved[row],
                agreeing=agreeing[row],
                reverses=log_odds * odds_without[row] < 0,
                rank_before=rank,
                rank_without=rank_without,
                other_rank_before=other_rank,
                other_rank_without=other_rank_without,
            )
            for row, (rank_without, other_rank_without) in enumerate(ranks)
        ),
    )


def _named(catalog: Catalog, item: int) -> tuple[Any, str]:
    (raw,), (label,) = catalog.raw_ids([item]), catalog.labels([item])
    return raw, label


def _fields(document: Mapping[str, Any], *derived: str) -> dict[str, Any]:
    """Return the fields of a document, without what is derived from them."""
    return {name: value for name, value in document.items() if name not in derived}
