"""The reasons of many users' recommendations, found together: what is said, and its figures.

The sentences and figures are those that `find_reasons` gives for each user alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from whence.arrays import Bools, Floats, Ints
from whence.contract import HasUserVectors, offers
from whence.data.histories import Cases, span_events
from whence.devices import device_of
from whence.errors import InputError
from whence.models.base import HasOwnReasons
from whence.reasons.evidence import evidence_by_seeds
from whence.reasons.groups import NO_GROUP, ItemGroups
from whence.reasons.judgement import Kind
from whence.reasons.of_run import COMPANIONS, Options, reasoner_of
from whence.reasons.reason import KindName, Reason, Support, Taste, listed
from whence.reasons.reasoner import Found, Reasoner
from whence.reasons.shown import LONGER
from whence.reasons.similar_users import Choices
from whence.reasons.telling import EXAMPLES, NAMES, RECENT_EVENTS
from whence.run import Run

NO_PLACE: Final = -1


class Told(NamedTuple):
    """What is written of one recommendation's reason."""

    kind: KindName
    sentence: str
    confidence: float | None = None
    named: tuple[int, ...] = ()
    """Items, newest first."""
    labels: tuple[str, ...] = ()
    taste: str | None = None
    """The name of the taste, if that is the reason."""
    rank_without: int | None = None
    """The rank without what is named: the items, or the taste but for its strongest item."""
    probability_lost: float | None = None
    """The share of its probability that it loses without."""


class _Numbers(NamedTuple):
    """What was found of recommendations `[U, k]`."""

    kinds: Ints
    confidence: Floats
    places: Ints
    """`[U, k, 2]`: the slots of the named items, newest first, or `NO_PLACE`."""
    rank: Ints
    rank_without: Ints
    probability_lost: Floats
    disliked: Ints
    """`[U, k]`: the slot of an item rated low that counts in favour, or `NO_PLACE`."""
    group: Ints
    of_group: Ints
    """`[U, k]`: how many of the newest events are of the group."""


def find_all(
    run: Run,
    cases: Cases,
    items: Ints,
    unseen: Bools,
    written: int,
    *,
    model_seed: int | None = None,
    options: Options,
) -> list[Told]:
    """Return the reasons of the first `written` recommendations of each user, one after the other.

    `items` `[U, k]` are the best ones of each user, at least `COMPANIONS`, if there are so many
    `unseen` ones; these come first.
    """
    if options.low_rating is not None and run.interactions.ratings is None:
        raise InputError(
            "These data have no ratings, so none can be low. Leave out --low-rating (in Python "
            "low_rating=)."
        )
    finder = _Finder(run, reasoner_of(run, model_seed), model_seed, options)
    told: list[list[Told]] = [[] for _ in range(len(cases))]
    counts, sizes = unseen.sum(axis=1), cases.ends - cases.starts
    together = np.minimum(counts, max(written, COMPANIONS))
    for count in np.unique(together[counts > 0]).tolist():  # nearly always the same for all
        users = np.flatnonzero(together == count)
        users = users[np.argsort(sizes[users], kind="stable")]  # alike ones at the same time
        some = finder.told(cases[users], items[users, :count], min(count, written))
        for user, own in zip(users.tolist(), some, strict=True):
            told[user] = own
    return [one for own in told for one in own]


def without_history(
    run: Run,
    cases: Cases,
    items: Ints,
    unseen: Bools,
    model_seed: int | None,
    choices: Callable[[], Choices],
) -> list[Told]:
    """Return the reasons of recommendations `[U, k]` by a model that reads no history.

    `cases` are those of adjacent users.
    """
    model = run.chosen(model_seed)
    user, _ = unseen.nonzero()
    reasons = [Reason("no history", run.verb, rank=0)] * len(user)
    first = model if model is not run.whole else run.first
    if offers(first, "selections"):
        device = device_of(model)
        batch = model.read(cases, model.config.max_len)[torch.from_numpy(user)].to(device)
        experts = [*dict.fromkeys((first, *run.models.values()))]
        evidence = evidence_by_seeds(experts, batch, torch.from_numpy(items[unseen]).to(device))
        reasons = [replace(one, evidence=own) for one, own in zip(reasons, evidence, strict=True)]
    elif isinstance(model, HasUserVectors) and run.interactions.user_count > 1:
        some = slice(int(cases.users[0]), int(cases.users[-1]) + 1)
        each = choices().similar_users(model.user_vectors(), some, items)
        who = [each[own][place] for own, place in zip(*unseen.nonzero(), strict=True)]
        reasons = [replace(one, similar_users=own) for one, own in zip(reasons, who, strict=True)]
    return [Told(one.kind, one.sentence) for one in reasons]


@dataclass(frozen=True, eq=False)
class _Finder:
    """Finds and tells the reasons of users with equally many recommendations."""

    run: Run
    reasoner: Reasoner
    model_seed: int | None
    options: Options

    @cached_property
    def low(self) -> float:
        """Return the highest low rating."""
        return self.options.low_of(self.run)

    @cached_property
    def plain(self) -> Callable[[KindName, int], str]:
        """Return what says a sentence that names nothing, which most recommendations have."""
        return cache(lambda kind, rank: Reason(kind, self.run.verb, rank).sentence)

    def told(self, cases: Cases, targets: Ints, written: int) -> list[list[Told]]:
        """Return the reasons of the first targets `[U, k]` of each user."""
        slots = self.reasoner.slots
        device = device_of(self.reasoner.models[0])
        histories = torch.from_numpy(cases.histories(LONGER * slots)).to(device)
        longest = int((cases.ends - cases.starts).max())
        seen = torch.from_numpy(cases.histories(longest)).to(device)
        low = self.rated_low(cases, LONGER * slots)
        found = self.reasoner.find(
            histories,
            torch.from_numpy(targets).to(device),
            seen,
            sure=self.options.sure,
            low=None if low is None else torch.from_numpy(low).to(device),
        )
        recent = torch.from_numpy(cases.histories(RECENT_EVENTS)).to(device)
        numbers = _numbers(found, written, self.reasoner.groups, recent)
        own = self._own_rules(histories[:, -slots:], targets[:, :written])
        return _Teller(self, cases, numbers, own).told()

    def rated_low(self, cases: Cases, newest: int) -> Bools | None:
        """Return `[U, newest]`: the events that the user rated low."""
        ratings = self.run.interactions.ratings
        if ratings is None:
            return None
        event, inside = span_events(cases.starts, cases.ends, newest)
        return inside & (ratings[event].astype(np.float64) <= self.low)

    def _own_rules(self, histories: Tensor, targets: Ints) -> list[str] | None:
        """Return the sentences of a model whose rule is the reason, one user after the other."""
        model = self.run.chosen(self.model_seed)
        if not isinstance(model, HasOwnReasons):
            return None
        each = histories.repeat_interleave(targets.shape[1], dim=0)
        flat = torch.from_numpy(targets.reshape(-1)).to(histories.device)
        rules = model.own_reasons(each, flat)
        labels = self.run.catalog.labels([one.item or 0 for one in rules])
        return [
            rule.sentence.format(verb=self.run.verb, item="" if rule.item is None else label)
            for rule, label in zip(rules, labels, strict=True)
        ]


@torch.no_grad()
def _numbers(found: Found, written: int, groups: ItemGroups | None, recent: Tensor) -> _Numbers:
    """Return what is said of the first targets, given the newest items `[U, r]`."""
    figures, judgement = found.figures, found.judgement
    kind, place, group = (
        one[:, :written] for one in (judgement.kind, judgement.place, figures.group)
    )
    item, pair = kind == Kind.ITEM, kind == Kind.SET
    of_pair = place.clamp(max=figures.pairs.shape[2] - 1)
    older, newer = (_at(one, of_pair) for one in figures.pairs.unbind(dim=3))
    nowhere = torch.full_like(place, NO_PLACE)
    places = (
        torch.where(item, place, torch.where(pair, newer, nowhere)),
        torch.where(pair, older, nowhere),
    )
    lost, rank = (
        torch.where(
            item, _at(one, place), torch.where(pair, _at(two, of_pair), of_group[:, :written])
        )
        for one, two, of_group in (
            (
                figures.lost.mean(dim=0),
                figures.pair_lost.mean(dim=0),
                figures.group_lost.mean(dim=0),
            ),
            (figures.rank_without, figures.pair_rank_without, figures.group_rank_without),
        )
    )
    count = torch.zeros_like(place)
    if groups is not None:
        count = groups.contains(group[:, :, None], recent[:, None, :]).sum(dim=2)
    return _Numbers(
        kinds=_on_cpu(kind),
        confidence=_on_cpu(judgement.confidence[:, :written].double().nan_to_num(0.0)),
        places=_on_cpu(torch.stack(places, dim=2)),
        rank=_on_cpu(figures.rank[:, :written]),
        rank_without=_on_cpu(rank),
        probability_lost=_on_cpu(-torch.expm1(-lost.double().clamp(min=-700)).nan_to_num(0.0)),
        disliked=_on_cpu(judgement.disliked[:, :written]),
        group=_on_cpu(group),
        of_group=_on_cpu(count),
    )


def _at(values: Tensor, places: Tensor) -> Tensor:
    """Return `[U, k]`: the values `[U, k', n]` of the first k at the places `[U, k]`."""
    return values[:, : places.shape[1]].gather(2, places[..., None])[..., 0]


def _on_cpu(values: Tensor) -> Any:  # noqa: ANN401
    return values.cpu().numpy()


@dataclass(frozen=True, eq=False)
class _Teller:
    """Says what was found."""

    finder: _Finder
    cases: Cases
    numbers: _Numbers
    own: list[str] | None
    """The sentences of a model whose rule is the reason."""

    def told(self) -> list[list[Told]]:
        """Return what is said of the recommendations of each user."""
        numbers, (users, k) = self.numbers, self.numbers.kinds.shape
        if self.own is not None:
            told = [Told("rule", one) for one in self.own]
        else:
            flat = (one.reshape(users * k) for one in numbers if one.ndim == 2)
            rows = zip(
                np.repeat(np.arange(users), k).tolist(),
                zip(*(one.tolist() for one in flat), strict=True),
                zip(*self._items(numbers.places), strict=True),
                self._although(numbers.disliked),
                strict=True,
            )
            told = [self._told(*row) for row in rows]
        return [told[start : start + k] for start in range(0, len(told), k)]

    def _told(
        self,
        user: int,
        values: tuple[Any, ...],
        named: tuple[tuple[int, ...], tuple[str, ...]],
        although: tuple[Support, ...],
    ) -> Told:
        number, confidence, rank, rank_without, lost, _, group, of_group = values
        kind, (items, labels) = NAMES[number], named
        if kind in ("popularity", "none") and not although:
            return Told(kind, self.finder.plain(kind, rank), confidence)
        taste = None
        if kind == "taste" and group != NO_GROUP:
            taste = self._taste(user, group, of_group)
        reason = Reason(
            kind=kind,
            verb=self.finder.run.verb,
            rank=rank,
            supports=tuple(map(_support, labels)),
            taste=taste,
            confidence=confidence,
            although=although,
        )
        rests = bool(items) or taste is not None
        return Told(
            kind,
            reason.sentence,
            confidence,
            items,
            labels,
            None if taste is None else taste.name,
            rank_without if rests else None,
            lost if rests else None,
        )

    def _items(self, places: Ints) -> tuple[list[tuple[int, ...]], list[tuple[str, ...]]]:
        """Return the items at the slots `[U, k, n]`, and their titles, one user after the other."""
        event = self.cases.ends[:, None, None] - self.finder.reasoner.slots + places
        there = places != NO_PLACE
        flat = self.cases.items[event[there]].astype(np.int64)
        titles = self.finder.run.catalog.labels(flat)
        stops = there.sum(axis=2).reshape(-1).cumsum().tolist()
        spans = list(zip([0, *stops], stops, strict=False))
        numbers = flat.tolist()
        return (
            [tuple(numbers[start:stop]) for start, stop in spans],
            [tuple(titles[start:stop]) for start, stop in spans],
        )

    def _although(self, places: Ints) -> list[tuple[Support, ...]]:
        """Return what counts in favour although it was rated low, with its newest rating."""
        ratings = self.finder.run.interactions.ratings
        if ratings is None or (places == NO_PLACE).all():
            return [()] * places.size
        _, labels = self._items(places[..., None])
        event = self.cases.ends[:, None] - self.finder.reasoner.slots + places
        rated = ratings[np.where(places == NO_PLACE, 0, event)].astype(np.float64)
        return [
            tuple(_support(label, rating) for label in own)
            for own, rating in zip(labels, rated.reshape(-1).tolist(), strict=True)
        ]

    def _taste(self, user: int, group: int, count: int) -> Taste:
        """Return as much of a taste as a sentence needs."""
        case = self.cases[user : user + 1]
        size = min(RECENT_EVENTS, int(case.ends[0] - case.starts[0]))
        return Taste(self._group_name(case, group, size), count, size, 0.0, 0.0, 0, 0)

    def _group_name(self, case: Cases, group: int, newest: int) -> str:
        """Return the name of a group, or some of the user's newest items of it."""
        groups = self.finder.reasoner.groups
        assert groups is not None
        if groups.names:
            return groups.names[group]
        items = case.histories(newest)[0]
        liked = groups.member[group].cpu().numpy()[items]
        low = self.finder.rated_low(case, newest)
        if low is not None:
            liked &= ~low[0]
        chosen = [*dict.fromkeys(items[liked][::-1].tolist())][:EXAMPLES]
        like = listed(self.finder.run.catalog.labels(chosen)) if chosen else "this one"
        return f"items like {like}"


def _support(label: str, rating: float | None = None) -> Support:
    """Return a named item without its figures."""
    return Support(None, label, 0.0, 1.0, None, None, 0.0, 0, 0, rating)
