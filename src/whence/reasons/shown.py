"""What models say of targets if only a part of the history is shown to them.

Items that are not shown are left out, as if they had never been there, or removed as the models do
it themselves, for instance by their attention columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple

import torch
from torch import Tensor

from whence.contract import ALL, DROPPED, PAD
from whence.memory import cases_at_once, row_slices
from whence.models.base import CaseReader, padding_columns
from whence.reasons.altered import keeping
from whence.reasons.answering import SLOTS_AT_ONCE, Different, Rows, mean_of, scores_of

LONGER: Final = 2
"""Histories are this many times as long as what models read, so that older items can move up."""
USERS_AT_ONCE: Final = {"cpu": 16, "cuda": 512}


class Answers(NamedTuple):
    """What models say of targets."""

    log_probability: Tensor
    """`[S, …]`: among all items, by each model."""
    rank: Tensor
    """`[…]`: from 1, by the mean score of all models, among the items not in the history."""


@dataclass(frozen=True, eq=False)
class Shown:
    """Asks models about targets of users who are shown a part of their histories."""

    models: Sequence[CaseReader]
    histories: Tensor
    """`[U, w]`, padded on the left, perhaps longer than what the models read."""
    targets: Tensor
    """`[U, k]`."""
    seen: Tensor
    """`[U, m]`: all items of the histories, which are no rivals, padded on the left."""
    slots: int
    """How many of the newest items the models read."""
    removal: str = DROPPED

    def __getitem__(self, users: slice) -> Shown:
        """Return the same for some users."""
        return replace(
            self,
            histories=self.histories[users],
            targets=self.targets[users],
            seen=self.seen[users],
        )

    def trimmed(self) -> Shown:
        """Return the same without columns of `seen` that nobody uses."""
        return replace(self, seen=self.seen[:, padding_columns(self.seen) :])

    def whole(self) -> Rows:
        """Return the histories as they are."""
        return Rows(self.histories[:, -self.slots :])

    def rows(self, kept: Tensor) -> Rows:
        """Return the inputs that show what is kept, bool `[U, v, w]`, one user after the other."""
        if self.removal == DROPPED:
            return Rows(keeping(self.histories[:, None, :], kept, self.slots).flatten(0, 1))
        newest = self.histories[:, None, -self.slots :].expand(-1, kept.shape[1], -1)
        return Rows(newest.flatten(0, 1), kept[..., -self.slots :].flatten(0, 1))

    def alone(self, candidates: Tensor) -> Rows:
        """Return the inputs that show each candidate `[U, c]` alone."""
        if self.removal == DROPPED:
            return Rows(candidates.reshape(-1, 1))
        slots = candidates.shape[1]
        each = torch.eye(slots, dtype=torch.bool, device=candidates.device)
        newest = self.histories[:, None, -slots:].expand(-1, slots, -1)
        return Rows(newest.flatten(0, 1), each.repeat(len(candidates), 1))

    def every_target(self, kept: Tensor) -> Answers:
        """Return `[S, U, k, v]` and `[U, k, v]`: every target for every part kept `[U, v, w]`."""
        users, count, _ = kept.shape
        found = self._of_rows(self.rows(kept), self.targets.repeat_interleave(count, dim=0), count)
        return Answers(
            found.log_probability.view(-1, users, count, self.targets.shape[1]).transpose(2, 3),
            found.rank.view(users, count, -1).transpose(1, 2),
        )

    def own_target(self, kept: Tensor, *, ranked: bool = True) -> Answers:
        """Return the same of each target for its own parts kept `[U, k, v, w]`.

        Ranks take time; without them, they are all 0.
        """
        users, k, count, _ = kept.shape
        targets = self.targets.repeat_interleave(count, dim=1).reshape(-1, 1)
        found = self._of_rows(self.rows(kept.flatten(1, 2)), targets, k * count, ranked)
        return Answers(
            found.log_probability.view(-1, users, k, count), found.rank.view(users, k, count)
        )

    def _of_rows(self, rows: Rows, targets: Tensor, each: int, ranked: bool = True) -> Answers:
        """Answer for targets `[R, k]`; each user has the same number of rows."""
        users = torch.arange(len(targets), device=targets.device) // each
        different = Different.of(rows, users)
        order, starts = different.asked
        log_probability = self._scored.new_empty(len(self.models), *targets.shape)
        ranks = torch.zeros_like(targets)
        for some, part, lengths in different.slices(self._item_count + 2 * self.seen.shape[1]):
            scores = [scores_of(model, part, lengths) for model in self.models]
            asking = order[starts[some.start] : starts[some.stop]]
            place, asked = different.place[asking] - some.start, targets[asking]
            for own, one in zip(log_probability, scores, strict=True):
                own[asking] = one.log_softmax(dim=1)[place[:, None], asked]
            if ranked:
                ranks[asking] = self._ranks(scores, different.users[some], place, asked)
        return Answers(log_probability, ranks)

    def scores(self, rows: Rows) -> Iterator[tuple[slice, list[Tensor]]]:
        """Yield the scores of all items, `[r, items]` by each model, for some rows at a time."""
        lengths = rows.lengths()
        each = self._item_count + SLOTS_AT_ONCE["cpu"]
        at_once = cases_at_once(each, rows.histories.is_cuda)
        for some in row_slices(len(lengths), at_once):
            part, own = rows[some], lengths[some]
            part = part.trimmed(max(1, int(own.max())))
            yield some, [scores_of(model, part, own) for model in self.models]

    def ranks(self, users: slice, scores: Sequence[Tensor]) -> Tensor:
        """Return `[u, k]`: the ranks of the targets of some users, one row of scores for each."""
        asked = self.targets[users]
        each = torch.arange(len(asked), device=asked.device)
        return self._ranks(scores, each + users.start, each, asked)

    def _ranks(
        self, scores: Sequence[Tensor], users: Tensor, place: Tensor, targets: Tensor
    ) -> Tensor:
        """Return `[R, k]`: the ranks of targets by the mean score of rows at these places `[R]`.

        Among what the users `[r]` of the rows have not seen.
        """
        mean = mean_of(scores)
        mine = mean[place[:, None], targets]
        rivals = mean.scatter_(1, self._seen[users], -torch.inf)
        if len(place) == len(rivals):
            return _ranks_among(rivals, mine)
        # Many inputs can be the same row, so only as many are looked at together as there are rows.
        each = [
            _ranks_among(rivals[place[some]], mine[some])
            for some in row_slices(len(place), len(rivals))
        ]
        return torch.cat(each)

    @cached_property
    def _seen(self) -> Tensor:
        """Return `[U, m]`: the same items without padding; some are there several times."""
        return self.seen.where(self.seen != PAD, self.seen[:, -1:])

    @property
    def _item_count(self) -> int:
        return self._scored.shape[1]

    @cached_property
    def _scored(self) -> Tensor:
        """Return the scores of all items once, for their number and type."""
        return self.models[0].score(self.histories[:1, -1:], ALL)


def _ranks_among(rivals: Tensor, own: Tensor) -> Tensor:
    """Return `[R, k]`: the ranks, from 1, of scores `[R, k]` among the scores `[R, items]`."""
    # Sums of numbers are much faster than those of truth values.
    above, found = torch.empty_like(rivals), []
    for one in own.unbind(dim=1):
        torch.gt(rivals, one[:, None], out=above)
        found.append(above.sum(dim=1))
    return 1 + torch.stack(found, dim=1).long()
