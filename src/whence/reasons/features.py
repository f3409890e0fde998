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
    known = (figures.candidates != PAD)[:, None, :] & (
        figures.candidates[:, None, :] != targets[:, :, None]
    )
    older, newer = figures.pairs.unbind(dim=3)
    known_sets = (older != newer) & known.gather(2, older) & known.gather(2, newer)
    larger = torch.maximum(_at_models(figures.alone, older), _at_models(figures.alone, newer))
    beyond = figures.pair_alone - larger
    return Features(
        _of_items(figures, known).float(),
        _of_sets(figures, known_sets, beyond).float(),
        _general(figures, known, known_sets, beyond).float(),
        known,
        known_sets,
    )


def _of_items(figures: Figures, known: Tensor) -> Tensor:
    """Return `[U, k, c, F]`."""
    lost, alone, lift = figures.lost.mean(dim=0), figures.alone.mean(dim=0), _lift(figures)
    return torch.stack(
        (
            *_over_models(figures.lost),
            *_over_models(figures.alone),
            *_lead(lost, known),
            *_lead(alone, known),
            _agreement(figures.lost, known),
            _agreement(figures.alone, known),
            *_specific(lost),
            *_specific(alone),
            _squeezed(lift[..., None] - alone),
            _share(lost, lift[..., None]),
            _age(figures).expand(known.shape),
        ),
        dim=-1,
    )


def _of_sets(figures: Figures, known: Tensor, beyond: Tensor) -> Tensor:
    """Return `[U, k, p, F]`; `beyond` is what pairs bring beyond either item `[S, U, k, p]`."""
    older, newer = figures.pairs.unbind(dim=3)
    lost, alone, lift = figures.lost.mean(dim=0), figures.alone.mean(dim=0), _lift(figures)
    singly = lost.gather(2, older), lost.gather(2, newer)
    singly_alone = alone.gather(2, older), alone.gather(2, newer)
    together, brought = figures.pair_lost.mean(dim=0), figures.pair_alone.mean(dim=0)
    age = _age(figures).expand(lost.shape)
    return torch.stack(
        (
            *_over_models(figures.pair_lost),
            *_over_models(figures.pair_alone),
            *_over_models(beyond),
            *_lead(beyond.mean(dim=0), known),
            _squeezed(torch.minimum(*singly)),
            _squeezed(torch.maximum(*singly)),
            _squeezed(torch.minimum(*singly_alone)),
            _squeezed(torch.maximum(*singly_alone)),
            _squeezed(together - torch.maximum(*singly)),
            _squeezed(lift[..., None] - brought),
            _share(together, lift[..., None]),
            age.gather(2, older),
            age.gather(2, newer),
        ),
        dim=-1,
    )


def _general(figures: Figures, known: Tensor, known_sets: Tensor, beyond: Tensor) -> Tensor:
    """Return `[U, k, F]`."""
    grouped = figures.in_group.sum(dim=2).double()
    length = (figures.candidates != PAD).sum(dim=1, keepdim=True).double()
    return torch.stack(
        (
            *_over_models(figures.full - figures.usual),
            *_over_models(figures.group_lost),
            *_over_models(figures.group_lost - figures.others_lost),
            *_over_models(figures.group_alone),
            _squeezed(figures.others_lost.mean(dim=0)),
            _squeezed(_lift(figures) - figures.group_alone.mean(dim=0)),
            _largest(figures.lost, known),
            _largest(figures.alone, known),
            _largest(beyond, known_sets),
            grouped.log1p(),
            grouped / length.clamp(min=1),
            length.log1p().expand(grouped.shape),
        ),
        dim=-1,
    )


def _lift(figures: Figures) -> Tensor:
    """Return `[U, k]`: how much the history raises a target above the usual."""
    return (figures.full - figures.usual).mean(dim=0)


def _age(figures: Figures) -> Tensor:
    """Return `[c]`: the logarithm of how far back each slot is."""
    slots = figures.candidates.shape[1]
    return torch.arange(slots - 1, -1, -1, device=figures.full.device).double().log1p()


def _largest(values: Tensor, known: Tensor) -> Tensor:
    """Return the largest mean over models, at least 0."""
    return _squeezed(values.mean(dim=0).where(known, 0.0).amax(dim=2))


def _squeezed(values: Tensor) -> Tensor:
    return values.double().sign() * values.double().abs().log1p()


def _over_models(values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the mean, the spread and the least of the models."""
    spread = values.double().std(dim=0, correction=0)
    return _squeezed(values.mean(dim=0)), spread.log1p(), _squeezed(values.amin(dim=0))


def _lead(values: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
    """Return how far each option is ahead of the best other one, and how many are better."""
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
    if k == 1:
        return _squeezed(values), torch.zeros_like(values, dtype=torch.float64)
    others = (values.sum(dim=1, keepdim=True) - values) / (k - 1)
    best, second = values.topk(2, dim=1).values.split(1, dim=1)
    other = torch.where(values == best, second, best)
    return _squeezed(values - others), _squeezed(values - other)


def _share(values: Tensor, whole: Tensor) -> Tensor:
    return (values.double() / whole.double().clamp(min=0.1)).clamp(-2, 2)


def _at_models(values: Tensor, places: Tensor) -> Tensor:
    return values.gather(3, places.expand(len(values), -1, -1, -1))
