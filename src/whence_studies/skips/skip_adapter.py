"""Skip networks behind the contract of all models: which features decided about a skip?

A case is one track of the second half of a session, in one row. The row holds the features of the
first half, slot by slot, then those of the second, and last the slot of the track to predict. Its
parts are the feature groups of the network's family, each in both halves at once. The targets are
that the track is played (0) and that it is skipped (1, `SKIP`).

An absent group takes its averages: each of its features has, at every track, the mean of that
feature over the tracks of the same half of the given sessions. Which slots hold a track is not a
part and stays known. The embedding of a part is one number, which interpolates between those
averages (0) and the group's own features (1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from whence.arrays import Bools, Floats32
from whence.contract import AVERAGES, All, Explainable, Selections
from whence.errors import InputError
from whence.experts import Family, SequentialModel
from whence.experts.sequential import GroupColumns
from whence.memory import MEMORY
from whence_studies.sessions.session_batches import ABSENT, SessionBatch
from whence_studies.skips.networks import UPCOMING

SKIP: Final = 1
"""The target that a track is skipped; its score is the logit."""


class _Case(NamedTuple):
    """The cases of a batch as the network reads them."""

    known: Tensor
    """`[B, slots, 73]`."""
    upcoming: Tensor
    """`[B, slots, 31]`."""
    track: Tensor
    """`[B]`: the slot to predict."""


class SkipModel(nn.Module, Explainable):
    """A trained network, and the averages over sessions that replace absent groups."""

    removal = AVERAGES

    def __init__(self, network: SequentialModel, sessions: SessionBatch) -> None:
        super().__init__()
        self.network, self.family = network, network.family
        known = {group.name: group.columns for group in self.family.groups}
        found: dict[str, Tensor] = {
            "known_means": _means(sessions.known, sessions.known_mask),
            "upcoming_means": _means(sessions.upcoming, sessions.upcoming_mask),
            "known_groups": _group_of(self.family, known),
            "upcoming_groups": _group_of(self.family, UPCOMING),
        }
        device = next(network.parameters()).device
        for name, values in found.items():
            self.register_buffer(name, values.to(device), persistent=False)

    def make_cases(self, sessions: SessionBatch) -> Tensor:
        """Return one case for every upcoming track, `[N, columns]`, session by session."""
        session, track = np.nonzero(sessions.upcoming_mask)
        halves = (sessions.known[session], sessions.upcoming[session])
        rows = [half.reshape(len(session), -1) for half in halves]
        batch = np.hstack([*rows, track[:, None].astype(np.float32)])
        return torch.from_numpy(batch).to(next(self.network.parameters()))

    def parts(self, batch: Tensor) -> Tensor:
        """Return every group as a part."""
        return torch.ones(
            len(batch), len(self.family.groups), dtype=torch.bool, device=batch.device
        )

    def part_names(self, batch: Tensor) -> list[list[str]]:
        """Return the groups' names."""
        return [list(self.family.group_names) for _ in batch]

    def embed(self, batch: Tensor) -> Tensor:
        """Return 1 for every group: its own features, with no interpolation to the averages."""
        return self.parts(batch)[..., None].to(batch.dtype)

    def score(
        self,
        batch: Tensor,
        targets: Tensor | All,
        *,
        present: Tensor | None = None,
        embedded: Tensor | None = None,
        attention: Sequence[Tensor | None] | None = None,
    ) -> Tensor:
        """Return the logits that the track is played and that it is skipped."""
        gates = (self.embed(batch) if embedded is None else embedded)[..., 0]
        if present is not None:
            gates = gates * present
        case = self._read(batch)
        known = self._towards("known", case.known, gates)
        upcoming = self._towards("upcoming", case.upcoming, gates)
        scores = _at(self.network.scores(known, upcoming), case.track)
        return scores if isinstance(targets, All) else scores.gather(1, targets)

    def score_coalitions(
        self, batch: Tensor, targets: Tensor, coalitions: Tensor, *, memory: int = MEMORY
    ) -> Tensor:
        """Score coalitions in batches that fit, given that a row is larger than its parts."""
        room = memory * coalitions.shape[-1] // batch.shape[1]
        return super().score_coalitions(batch, targets, coalitions, memory=room)

    def _read(self, batch: Tensor) -> _Case:
        widths = [len(self.get_buffer(f"{half}_means")) for half in ("known", "upcoming")]
        slots, rest = divmod(batch.shape[1] - 1, sum(widths))
        if rest or not slots:
            raise InputError(
                f"A case has {sum(widths)} numbers per slot and one for the slot to predict, but "
                f"this row has {batch.shape[1]}. Make rows with `make_cases`."
            )
        known, upcoming, track = batch.split([slots * width for width in widths] + [1], dim=1)
        return _Case(
            known.unflatten(1, (slots, -1)), upcoming.unflatten(1, (slots, -1)), track[:, 0].long()
        )

    def _towards(self, half: str, rows: Tensor, gates: Tensor) -> Tensor:
        """Interpolate from the averages to rows `[B, slots, columns]` by gates `[B, groups]`."""
        means = self.get_buffer(f"{half}_means").to(rows.dtype)
        gate = gates[:, None, self.get_buffer(f"{half}_groups")]
        there = (rows != ABSENT).any(dim=-1, keepdim=True)
        return torch.where(there, torch.lerp(means.expand_as(rows), rows, gate), rows)


class ExpertSkipModel(SkipModel):
    """A network with experts, which also reports their selection."""

    def selections(self, batch: Tensor, targets: Tensor) -> Selections:
        """Return α for the track, the same for both targets: experts predict both at once."""
        case = self._read(batch)
        weights = _at(self.network.attribute(case.known, case.upcoming), case.track)
        sees = torch.tensor(self.family.sees, device=batch.device)
        return Selections(weights, sees.expand(len(batch), -1, -1))


def explainable_skips(network: SequentialModel, sessions: SessionBatch) -> SkipModel:
    """Wrap a network for explainers, with its experts' selections if it has experts.

    The averages over `sessions` replace absent features.
    """
    if not len(sessions):
        raise InputError("Absent groups take averages over sessions. Pass at least one session.")
    kind = ExpertSkipModel if len(network.family) > 1 else SkipModel
    return kind(network, sessions)


def _means(rows: Floats32, there: Bools) -> Tensor:
    """Return the mean of each column over all tracks."""
    return torch.from_numpy(rows[there].mean(axis=0, dtype=np.float64).astype(np.float32))


def _group_of(family: Family, places: GroupColumns) -> Tensor:
    """Return the group number of each column."""
    owner = {
        column: number
        for number, group in enumerate(family.groups)
        for column in places.get(group.name, ())
    }
    return torch.tensor([owner[column] for column in range(len(owner))])


def _at(values: Tensor, track: Tensor) -> Tensor:
    """Select each case's track: `[B, slots, k]` to `[B, k]`."""
    return values[torch.arange(len(track), device=track.device), track]
