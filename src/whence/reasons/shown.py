"""What models say of targets if only a part of the history is shown to them.

Items that are not shown are left out, as if they had never been there, or removed as the models do
it themselves, for instance by their attention columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import torch
from torch import Tensor

from whence.contract import ALL, DROPPED, PAD
from whence.memory import cases_at_once
from whence.models.base import CaseReader
from whence.reasons.altered import keeping

LONGER: Final = 2
"""Histories are this many times as long as what models read, so that older items can move up."""
USERS_AT_ONCE: Final = {"cpu": 16, "cuda": 128}


class Rows(NamedTuple):
    """Inputs of models."""

    histories: Tensor
    """`[R, n]`."""
    present: Tensor | None
    """Bool `[R, n]`: the items that are not hidden in their place."""


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

    def whole(self) -> Rows:
        """Return the histories as they are."""
        return Rows(self.histories[:, -self.slots :], None)

    def rows(self, kept: Tensor) -> Rows:
        """Return the inputs that show what is kept, bool `[U, v, w]`, one user after the other."""
        if self.removal == DROPPED:
            return Rows(keeping(self.histories[:, None, :], kept, self.slots).flatten(0, 1), None)
        newest = self.histories[:, None, -self.slots :].expand(-1, kept.shape[1], -1)
        return Rows(newest.flatten(0, 1), kept[..., -self.slots :].flatten(0, 1))

    def alone(self, candidates: Tensor) -> Rows:
        """Return the inputs that show each candidate `[U, c]` alone."""
        if self.removal == DROPPED:
            return Rows(candidates.reshape(-1, 1), None)
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

    def own_target(self, kept: Tensor) -> Answers:
        """Return the same of each target for its own parts kept `[U, k, v, w]`."""
        users, k, count, _ = kept.shape
        targets = self.targets.repeat_interleave(count, dim=1).reshape(-1, 1)
        found = self._of_rows(self.rows(kept.flatten(1, 2)), targets, k * count)
        return Answers(
            found.log_probability.view(-1, users, k, count), found.rank.view(users, k, count)
        )

    def _of_rows(self, rows: Rows, targets: Tensor, each: int) -> Answers:
        """Answer for targets `[R, k]`; each user has the same number of rows."""
        log_probabilities, ranks = [], []
        for some, scores in self.scores(rows):
            asked = targets[some]
            own = [one.gather(1, asked) for one in scores]
            log_probabilities.append(
                torch.stack(
                    [
                        mine - one.logsumexp(dim=1, keepdim=True)
                        for mine, one in zip(own, scores, strict=True)
                    ]
                )
            )
            users = torch.arange(some.start, some.start + len(asked), device=asked.device) // each
            ranks.append(_ranks(scores, own, self.seen[users]))
        return Answers(torch.cat(log_probabilities, dim=1), torch.cat(ranks))

    def ranks(self, users: slice, scores: Sequence[Tensor]) -> Tensor:
        """Return `[u, k]`: the ranks of the targets of some users, one row of scores for each."""
        own = [one.gather(1, self.targets[users]) for one in scores]
        return _ranks(scores, own, self.seen[users])

    def scores(self, rows: Rows) -> Iterator[tuple[slice, list[Tensor]]]:
        """Yield the scores of all items, `[r, items]` by each model, for some rows at a time."""
        done, at_once = 0, 1
        while done < len(rows.histories):
            some = slice(done, done + at_once)
            present = None if rows.present is None else rows.present[some]
            found = [
                model.score(rows.histories[some], ALL, present=present) for model in self.models
            ]
            yield some, found
            done += at_once
            at_once = max(1, cases_at_once(found[0].shape[1], found[0].is_cuda) // 2)


def _ranks(scores: Sequence[Tensor], own: Sequence[Tensor], seen: Tensor) -> Tensor:
    """Return `[R, k]`: the rank of targets by the mean score among what is not seen `[R, m]`."""
    mean, mine = torch.stack([*scores]).mean(dim=0), torch.stack([*own]).mean(dim=0)
    rivals = mean.scatter(1, seen.where(seen != PAD, seen[:, -1:]), -torch.inf)
    above = [(rivals > one[:, None]).sum(dim=1) for one in mine.unbind(dim=1)]
    return 1 + torch.stack(above, dim=1)
