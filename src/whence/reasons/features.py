"""The evidence for each reason as numbers, which a calibrator turns into probabilities.

Figures are in nats and can be large, so they are squeezed by `sign(x) · log(1 + |x|)`. The
popularity of an item is not among them: it tells its role in one world, and misleads in another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from whence.contract import PAD
from whence.reasons.figures import Figures


@dataclass(frozen=True, eq=False)
class Features:
    """For U users, k targets, c candidate items and p pairs."""

    items: Tensor
    """`[U, k, c, F]`."""
    sets: Tensor
    """`[U, k, p, F]`."""
    general: Tensor
    """`[U, k, F]`."""
    known_items: Tensor
    """Bool `[U, k, c]`: which candidates can be a reason."""
    known_sets: Tensor
    """Bool `[U, k, p]`."""

    def __getitem__(self, rows: Tensor | slice) -> Features:
        """Return the features of some users."""
        return Features(*(getattr(self, one.name)[rows] for one in fields(self)))

    @staticmethod
    def joined(each: Sequence[Features]) -> Features:
        """Return the features of several runs, one target after the other: `[N, 1, …]`."""
        return Features(
            *(
                torch.cat([getattr(own, one.name).flatten(0, 1) for own in each])[:, None]
                for one in fields(Features)
            )
        )


def features_of(figures: Figures, targets: Tensor) -> Features:
    """Return the features of reasons for the targets `[U, k]`."""
    lost, alone = figures.lost, figures.alone
    known = (figures.candidates != PAD)[:, None, :] & (
        figures.candidates[:, None, :] != targets[:, :, None]
    )
    age = torch.arange(lost.shape[-1] - 1, -1, -1, device=lost.device).double()
    length = (figures.candidates != PAD).sum(dim=1).double()
    lift = figures.full - figures.usual
    shape = known.shape
    items = torch.stack(
        (
            *_over_models(lost),
            *_over_models(alone),
            *_lead(lost.mean(dim=0), known),
            *_lead(alone.mean(dim=0), known),
            _agreement(lost, known),
            _agreement(alone, known),
            *_specific(lost.mean(dim=0)),
            *_specific(alone.mean(dim=0)),
            _squeezed(_mean(lift)[..., None] - alone.mean(dim=0)),
            _share(lost.mean(dim=0), _mean(lift)[..., None]),
            age.log1p().expand(shape),
        ),
        dim=-1,
    )
    pairs = figures.pairs
    known_sets = (pairs[..., 0] != pairs[..., 1]) & known.gather(2, pairs[..., 0])
    known_sets &= known.gather(2, pairs[..., 1])
    singly = [_at(lost.mean(dim=0), pairs[..., one]) for one in (0, 1)]
    singly_alone = [_at(alone.mean(dim=0), pairs[..., one]) for one in (0, 1)]
    together, brought = figures.pair_lost.mean(dim=0), figures.pair_alone.mean(dim=0)
    beyond = figures.pair_alone - torch.maximum(
        _at_models(alone, pairs[..., 0]), _at_models(alone, pairs[..., 1])
    )
    sets = torch.stack(
        (
            *_over_models(figures.pair_lost),
            *_over_models(figures.pair_alone),
            *_over_models(beyond),
            *_lead(beyond.mean(dim=0), known_sets),
            _squeezed(torch.minimum(*singly)),
            _squeezed(torch.maximum(*singly)),
            _squeezed(torch.minimum(*singly_alone)),
            _squeezed(torch.maximum(*singly_alone)),
            _squeezed(together - torch.maximum(*singly)),
            _squeezed(_mean(lift)[..., None] - brought),
            _share(together, _mean(lift)[..., None]),
            _at(age.log1p().expand(shape), pairs[..., 0]),
            _at(age.log1p().expand(shape), pairs[..., 1]),
        ),
        dim=-1,
    )
    grouped = figures.in_group.sum(dim=2).double()
    beyond_others = figures.group_lost - figures.others_lost
    largest_lost = lost.mean(dim=0).where(known, 0.0).amax(dim=2)
    largest_alone = alone.mean(dim=0).where(known, 0.0).amax(dim=2)
    largest_beyond = beyond.mean(dim=0).where(known_sets, 0.0).amax(dim=2)
    general = torch.stack(
        (
            *_over_models(lift),
            *_over_models(figures.group_lost),
            *_over_models(beyond_others),
            *_over_models(figures.group_alone),
            _squeezed(figures.others_lost.mean(dim=0)),
            _squeezed(_mean(lift) - figures.group_alone.mean(dim=0)),
            _squeezed(largest_lost),
            _squeezed(largest_alone),
            _squeezed(largest_beyond),
            grouped.log1p(),
            grouped / length.clamp(min=1)[:, None],
            length.log1p()[:, None].expand(grouped.shape),
        ),
        dim=-1,
    )
    return Features(items.float(), sets.float(), general.float(), known, known_sets)


def _mean(values: Tensor) -> Tensor:
    return values.mean(dim=0)


def _squeezed(values: Tensor) -> Tensor:
    return values.double().sign() * values.double().abs().log1p()


def _over_models(values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the mean, the spread and the least of the models."""
    spread = values.double().std(dim=0, correction=0)
    return _squeezed(values.mean(dim=0)), spread.log1p(), _squeezed(values.amin(dim=0))


def _lead(values: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
    """Return how far each option is before the best other one, and the share of better ones."""
    ranked = values.where(known, -torch.inf)
    if ranked.shape[-1] > 1:
        best, second = ranked.topk(2, dim=-1).values.unbind(dim=-1)
    else:
        best, second = ranked[..., 0], ranked[..., 0]
    other = torch.where(ranked == best[..., None], second[..., None], best[..., None])
    lead = (values - other).nan_to_num(posinf=20.0, neginf=-20.0).clamp(-20, 20)
    place = (ranked[..., None, :] > ranked[..., :, None]).sum(dim=-1)
    return _squeezed(lead), place.double().log1p()


def _agreement(values: Tensor, known: Tensor) -> Tensor:
    """Return the share of the models for which the option is the best."""
    ranked = values.where(known, -torch.inf)
    return (ranked == ranked.amax(dim=-1, keepdim=True)).double().mean(dim=0)


def _specific(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return how much more an item matters to a target than to the user's other targets."""
    k = values.shape[1]
    others = (values.sum(dim=1, keepdim=True) - values) / max(1, k - 1)
    if k == 1:
        return _squeezed(values), torch.zeros_like(values, dtype=torch.float64)
    best, second = values.topk(2, dim=1).values.split(1, dim=1)
    other = torch.where(values == best, second, best)
    return _squeezed(values - others), _squeezed(values - other)


def _share(values: Tensor, whole: Tensor) -> Tensor:
    return (values.double() / whole.double().clamp(min=0.1)).clamp(-2, 2)


def _at(values: Tensor, places: Tensor) -> Tensor:
    return values.gather(2, places)


def _at_models(values: Tensor, places: Tensor) -> Tensor:
    return values.gather(3, places.expand(len(values), -1, -1, -1))
