"""What the sentences of recommendations say, for many users at once."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from whence.arrays import Floats, Ints
from whence.contract import PAD
from whence.data.histories import Cases, span_events
from whence.devices import device_of
from whence.memory import cases_at_once, row_slices
from whence.models import Recommender
from whence.ranking import top_unseen
from whence.reasons.judgement import Kind
from whence.reasons.reasoner import Found, Reasoner
from whence.reasons.shown import LONGER

LARGEST_SET: Final = 2
"""How many items a sentence names at most."""


class Lists(NamedTuple):
    """Recommendations for U users, best first."""

    items: Ints
    """`[U, k]`."""
    lengths: Ints
    """`[U]`: how many of them there are; a user who has seen nearly all items has fewer."""


@dataclass(frozen=True, eq=False)
class Histories:
    """What a reasoner is told of U users, on its device."""

    longer: Tensor
    """`[U, w]`: more items than the models read, so that older ones can move up."""
    seen: Tensor
    """`[U, m]`: all items of the users."""
    low: Tensor | None
    """Bool `[U, w]`: the events that the user rated low; `None` without ratings."""

    def __getitem__(self, rows: Tensor | slice) -> Histories:
        """Return some of the users."""
        low = None if self.low is None else self.low[rows]
        return Histories(self.longer[rows], self.seen[rows], low)


@dataclass(frozen=True, eq=False)
class Said:
    """What is said of N recommendations, those of a user one after the other."""

    user: Tensor
    """`[N]`: the row of the user."""
    target: Tensor
    """`[N]`: the recommended item."""
    rank: Tensor
    """`[N]`: from 1."""
    kind: Tensor
    """`[N]`: a `Kind`."""
    confidence: Tensor
    """`[N]`: the probability that the most probable reason is the right one."""
    named: Tensor
    """`[N, LARGEST_SET]`: the items that the sentence names in ascending order, after `PAD`."""
    supposed: Tensor
    """The same of what is most probable of all that can be said, sure enough or not."""

    def __len__(self) -> int:
        """Return the number of recommendations."""
        return len(self.user)

    def __getitem__(self, rows: Tensor) -> Said:
        """Return some of the recommendations."""
        return Said(**{one.name: getattr(self, one.name)[rows] for one in fields(Said)})

    @property
    def names(self) -> Tensor:
        """Return bool `[N]`: whether the sentence names an item."""
        return self.kind <= Kind.SET

    @property
    def users(self) -> Ints:
        """Return the row of each recommendation's user, for intervals over users."""
        found: Ints = self.user.cpu().numpy()
        return found


def recommend_lists(model: Recommender, cases: Cases, item_count: int, k: int) -> Lists:
    """Return the first `k` recommendations of each case."""
    slots = model.config.max_len
    found = [
        top_unseen(model, cases[some], slots, k)
        for some in row_slices(len(cases), cases_at_once(item_count))
    ]
    items, scores = (np.concatenate(one) for one in zip(*found, strict=True))
    return Lists(items, np.isfinite(scores).sum(axis=1))


def histories_of(
    reasoner: Reasoner, model: Recommender, cases: Cases, ratings: Floats | None, low: float
) -> Histories:
    """Return the histories of the cases; `ratings` are of all events, and up to `low` is low."""
    device, window = device_of(model), LONGER * reasoner.slots
    longest = int((cases.ends - cases.starts).max())
    rated_low = None
    if ratings is not None:
        event, inside = span_events(cases.starts, cases.ends, window)
        rated_low = torch.from_numpy((ratings[event] <= low) & inside).to(device)
    return Histories(
        torch.from_numpy(cases.histories(window)).to(device),
        torch.from_numpy(cases.histories(longest)).to(device),
        rated_low,
    )


def say(reasoner: Reasoner, histories: Histories, lists: Lists) -> Said:
    """Return what the reasoner says of all recommendations."""
    found = []
    for length in np.unique(lists.lengths[lists.lengths > 0]):  # nearly always there is only one
        rows = np.flatnonzero(lists.lengths == length)
        users = torch.from_numpy(rows).to(histories.longer.device)
        targets = torch.from_numpy(lists.items[rows, :length]).to(users.device)
        some = histories[users]
        own = reasoner.find(some.longer, targets, some.seen, low=some.low)
        found.append(_flat(own, users, targets))
    every = Said(
        **{one.name: torch.cat([getattr(own, one.name) for own in found]) for one in fields(Said)}
    )
    return every[every.user.argsort(stable=True)]


def _flat(found: Found, users: Tensor, targets: Tensor) -> Said:
    """Return one recommendation after the other."""
    judgement = found.judgement
    each = {
        "user": users[:, None].expand_as(targets),
        "target": targets,
        "rank": found.figures.rank,
        "kind": judgement.kind,
        "confidence": judgement.confidence,
    }
    flat = {name: values.flatten() for name, values in each.items()}
    named, supposed = (
        _items_of(found, kind).flatten(0, 1) for kind in (judgement.kind, judgement.likeliest)
    )
    return Said(**flat, named=named, supposed=supposed)


def _items_of(found: Found, kind: Tensor) -> Tensor:
    """Return `[U, k, LARGEST_SET]`: the items of reasons of these kinds `[U, k]`."""
    figures, judgement = found.figures, found.judgement
    candidates, pairs = figures.candidates, figures.pairs
    (users, k), slots = judgement.place.shape, candidates.shape[1]
    item = candidates.gather(1, judgement.place.clamp(max=slots - 1))
    place = judgement.place.clamp(max=pairs.shape[2] - 1)
    pair = pairs.gather(2, place[..., None, None].expand(users, k, 1, LARGEST_SET))[:, :, 0]
    both = candidates.gather(1, pair.flatten(1)).view(users, k, LARGEST_SET)
    one = torch.stack((torch.full_like(item, PAD), item), dim=2)
    named = both.where((kind == Kind.SET)[..., None], one)
    return named.where((kind <= Kind.SET)[..., None], PAD).sort(dim=2).values
