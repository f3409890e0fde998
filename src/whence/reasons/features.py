"""The evidence for each reason as numbers, which a calibrator turns into probabilities.

Figures are in nats and can be large, so they are squeezed by `sign(x) · log(1 + |x|)`. The
popularity of an item is not among them: it tells its role in one world, and misleads in another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import torch
from torch import Tensor

from whence.contract import PAD
from whence.reasons.figures import Figures

Named = Mapping[str, Tensor]
"""Features by name."""
SMALLEST_SPREAD, LEAST_BEATEN = 0.05, 0.002
"""So that no figure is divided by 0, and no logarithm is infinite."""
FAR: Final = 20.0
"""The largest lead."""
RECENT: Final = 5.0
"""After this many events, an item counts half for what is recent."""
TENSORS: Final = ("items", "sets", "general", "known_items", "known_sets")


BY_CHECK: Final[Mapping[str, tuple[str, ...]]] = {
    "sufficiency": ("alone",),
    "necessity": ("lost",),
    "specificity": ("specific", "beaten", "place"),
    "agreement": ("spread", "least", "agreement"),
}
"""Words in the names of the features that a check has."""


class FeatureNames(NamedTuple):
    """The names of the features, in their order."""

    items: tuple[str, ...]
    sets: tuple[str, ...]
    general: tuple[str, ...]


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
    names: FeatureNames

    def __getitem__(self, rows: Tensor | slice) -> Features:
        """Return the features of some users."""
        return Features(**{name: getattr(self, name)[rows] for name in TENSORS}, names=self.names)

    def without(self, words: Sequence[str]) -> Features:
        """Return the same with 0 for every feature whose name holds one of these words."""
        kept = {
            name: torch.tensor(
                [not any(word in one for word in words) for one in getattr(self.names, name)],
                device=self.items.device,
            )
            for name in FeatureNames._fields
        }
        masked = {name: getattr(self, name) * mask for name, mask in kept.items()}
        return replace(self, **masked)

    @staticmethod
    def joined(each: Sequence[Features]) -> Features:
        """Return the features of several runs, one target after the other: `[N, 1, …]`."""
        joined = {
            name: torch.cat([getattr(own, name).flatten(0, 1) for own in each])[:, None]
            for name in TENSORS
        }
        return Features(**joined, names=each[0].names)


def features_of(figures: Figures, targets: Tensor) -> Features:
    """Return the features of reasons for the targets `[U, k]`."""
    known = (figures.candidates != PAD)[:, None, :] & (
        figures.candidates[:, None, :] != targets[:, :, None]
    )
    older, newer = figures.pairs.unbind(dim=3)
    known_sets = (older != newer) & known.gather(2, older) & known.gather(2, newer)
    larger = torch.maximum(_at_models(figures.alone, older), _at_models(figures.alone, newer))
    beyond = figures.pair_alone - larger
    each = (
        _of_items(figures, known),
        _of_sets(figures, known_sets, known, beyond),
        _general(figures, known, known_sets, beyond),
    )
    items, sets, general = (torch.stack([*one.values()], dim=-1).float() for one in each)
    names = FeatureNames(*(tuple(one) for one in each))
    return Features(items, sets, general, known, known_sets, names)


def _of_items(figures: Figures, known: Tensor) -> Named:
    """Return `[U, k, c]` each."""
    lost, alone, lift = figures.lost.mean(dim=0), figures.alone.mean(dim=0), _lift(figures)
    spread = figures.usual_spread.clamp(min=SMALLEST_SPREAD)
    beaten = 1 + LEAST_BEATEN - figures.alone_beaten.double()
    return {
        **_over_models("lost", figures.lost),
        **_over_models("alone", figures.alone),
        "lost share": _share_lost(figures.lost),
        "alone in spreads": _squeezed((figures.alone / spread[..., None]).mean(dim=0)),
        "alone beaten": beaten.mean(dim=0).log(),
        "alone place": figures.alone_place.double().log1p().mean(dim=0),
        "lost beyond group": _squeezed((figures.lost - figures.group_lift[..., None]).mean(dim=0)),
        **_lead("lost", lost, known),
        **_lead("alone", alone, known),
        "lost agreement": agreement_of(figures.lost, known),
        "alone agreement": agreement_of(figures.alone, known),
        **_specific("lost", lost),
        **_specific("alone", alone),
        "alone missing": _squeezed(lift[..., None] - alone),
        "lost of lift": _share(lost, lift[..., None]),
        "age": _age(figures).expand(known.shape),
    }


def _of_sets(figures: Figures, known: Tensor, item_known: Tensor, beyond: Tensor) -> Named:
    """Return `[U, k, p]` each; `beyond` is what pairs bring beyond either item `[S, U, k, p]`."""
    older, newer = figures.pairs.unbind(dim=3)
    lost, alone, lift = figures.lost.mean(dim=0), figures.alone.mean(dim=0), _lift(figures)
    singly = lost.gather(2, older), lost.gather(2, newer)
    singly_alone = alone.gather(2, older), alone.gather(2, newer)
    together, brought = figures.pair_lost.mean(dim=0), figures.pair_alone.mean(dim=0)
    spread = figures.usual_spread.clamp(min=SMALLEST_SPREAD)
    age = _age(figures).expand(lost.shape)
    return {
        **_over_models("lost", figures.pair_lost),
        **_over_models("alone", figures.pair_alone),
        **_over_models("alone beyond", beyond),
        "lost share": _share_lost(figures.pair_lost),
        "alone in spreads": _squeezed((figures.pair_alone / spread[..., None]).mean(dim=0)),
        **_lead("alone beyond", beyond.mean(dim=0), known),
        "alone ahead of others": _ahead_of_others(alone, older, newer, item_known),
        **_lead("lost", together, known),
        "lost smaller": _squeezed(torch.minimum(*singly)),
        "lost larger": _squeezed(torch.maximum(*singly)),
        "alone smaller": _squeezed(torch.minimum(*singly_alone)),
        "alone larger": _squeezed(torch.maximum(*singly_alone)),
        "lost beyond": _squeezed(together - torch.maximum(*singly)),
        "alone missing": _squeezed(lift[..., None] - brought),
        "lost of lift": _share(together, lift[..., None]),
        "age of older": age.gather(2, older),
        "age of newer": age.gather(2, newer),
    }


def _general(figures: Figures, known: Tensor, known_sets: Tensor, beyond: Tensor) -> Named:
    """Return `[U, k]` each."""
    grouped = figures.in_group.sum(dim=2).double()
    length = (figures.candidates != PAD).sum(dim=1, keepdim=True).double()
    lift = figures.full - figures.usual
    without_group = figures.full - figures.group_lost - figures.usual_elsewhere
    mass = figures.group_mass - figures.group_mass_usual
    in_general = figures.usual_in_group - figures.usual_elsewhere
    lift_above = figures.full - figures.marginal
    above = figures.group_mass - figures.group_marginal
    return {
        **_over_models("lift", lift),
        **_over_models("group lost", figures.group_lost),
        **_over_models("group lost specific", figures.group_lost - figures.others_lost),
        **_over_models("group alone", figures.group_alone),
        "group lost share": _share_lost(figures.group_lost),
        "others lost": _squeezed(figures.others_lost.mean(dim=0)),
        "others lost share": _share_lost(figures.others_lost),
        "group alone missing": _squeezed(_lift(figures) - figures.group_alone.mean(dim=0)),
        "group alone in general": _squeezed(in_general.mean(dim=0)),
        "lift without group": _squeezed(without_group.mean(dim=0)),
        "lift elsewhere": _squeezed((figures.full - figures.usual_elsewhere).mean(dim=0)),
        "lift share": _share_lost(lift),
        **_over_models("group mass", mass),
        "group mass share": _share_lost(mass),
        "group mass usual": figures.group_mass_usual.double().mean(dim=0),
        "group lift": _squeezed(figures.group_lift.mean(dim=0)),
        "group lift share": _share_lost(figures.group_lift),
        "lift beyond group": _squeezed((lift - figures.group_lift).mean(dim=0)),
        "lost largest": _largest(figures.lost, known),
        "alone largest": _largest(figures.alone, known),
        "alone beyond largest": _largest(beyond, known_sets),
        **_over_models("lift above marginal", lift_above),
        "lift above marginal share": _share_lost(lift_above),
        **_over_models("group above marginal", above),
        "group above marginal share": _share_lost(above),
        # What a history does not speak for at all keeps the share of popularity.
        **_over_models("group above floor", above - figures.group_floor),
        "group above floor share": _share_lost(above - figures.group_floor),
        "lift above floor": _squeezed((lift_above - figures.group_floor).mean(dim=0)),
        "lift above floor share": _share_lost(lift_above - figures.group_floor),
        "floor": _squeezed(figures.group_floor.mean(dim=0)),
        "group mass": figures.group_mass.double().mean(dim=0),
        "group share": (figures.group_share.double() + 1e-3).log(),
        "grouped beyond share": ((grouped + 1) / (length * figures.group_share.double() + 1)).log(),
        "recent share grouped": _recent_share(figures),
        "grouped": grouped.log1p(),
        "share grouped": grouped / length.clamp(min=1),
        "length": length.log1p().expand(grouped.shape),
        "models": torch.full_like(grouped, len(figures.full)).log(),
    }


def _ahead_of_others(alone: Tensor, older: Tensor, newer: Tensor, known: Tensor) -> Tensor:
    """Return how far the weaker of two items is ahead of all items but these two."""
    ranked = alone.where(known, -torch.inf)
    count = min(3, ranked.shape[2])
    best, place = ranked.topk(count, dim=2)
    outside = (place[:, :, None, :] != older[..., None]) & (
        place[:, :, None, :] != newer[..., None]
    )
    other = best[:, :, None, :].where(outside, -torch.inf).amax(dim=3)
    weaker = torch.minimum(alone.gather(2, older), alone.gather(2, newer))
    return _squeezed((weaker - other).nan_to_num(posinf=FAR).clamp(-FAR, FAR))


def _recent_share(figures: Figures) -> Tensor:
    """Return the share of the group among the items, newer ones counting more."""
    slots = figures.candidates.shape[1]
    age = torch.arange(slots - 1, -1, -1, device=figures.full.device).double()
    weight = 0.5 ** (age / RECENT) * (figures.candidates != PAD)[:, None, :]
    return (weight * figures.in_group).sum(dim=2) / weight.sum(dim=2).clamp(min=1e-9)


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


def _over_models(name: str, values: Tensor) -> Named:
    """Return the mean, the spread and the least of the models."""
    return {
        name: _squeezed(values.mean(dim=0)),
        f"{name} spread": values.double().std(dim=0, correction=0).log1p(),
        f"{name} least": _squeezed(values.amin(dim=0)),
    }


def _share_lost(values: Tensor) -> Tensor:
    """Return the mean share of a probability that is lost.

    If sources compete, the share that is lost without one is the probability that it was that one.
    """
    return -torch.expm1(-values.double()).clamp(min=-1).mean(dim=0)


def _lead(name: str, values: Tensor, known: Tensor) -> Named:
    """Return how far each option is ahead of the best other one, and how many are better."""
    ranked = values.where(known, -torch.inf)
    if ranked.shape[-1] > 1:
        best, second = ranked.topk(2, dim=-1).values.unbind(dim=-1)
    else:
        best, second = ranked[..., 0], ranked[..., 0]
    other = torch.where(ranked == best[..., None], second[..., None], best[..., None])
    lead = (values - other).nan_to_num(posinf=FAR, neginf=-FAR).clamp(-FAR, FAR)
    place = (ranked[..., None, :] > ranked[..., :, None]).sum(dim=-1)
    return {f"{name} lead": _squeezed(lead), f"{name} place": place.double().log1p()}


def agreement_of(values: Tensor, known: Tensor) -> Tensor:
    """Return the share of the models for which the option is the best."""
    ranked = values.where(known, -torch.inf)
    return (ranked == ranked.amax(dim=-1, keepdim=True)).double().mean(dim=0)


def _specific(name: str, values: Tensor) -> Named:
    """Return how much more an item matters to a target than to the user's other targets."""
    if values.shape[1] == 1:
        best_other = torch.zeros_like(values)
    else:
        best, second = values.topk(2, dim=1).values.split(1, dim=1)
        best_other = torch.where(values == best, second, best)
    return {
        f"{name} specific": _squeezed(values - mean_of_others(values)),
        f"{name} most specific": _squeezed(values - best_other),
    }


def mean_of_others(values: Tensor) -> Tensor:
    """Return the mean of each item over the user's other targets `[U, k, c]`; 0 if it is alone."""
    k = values.shape[1]
    if k == 1:
        return torch.zeros_like(values)
    return (values.sum(dim=1, keepdim=True) - values) / (k - 1)


def _share(values: Tensor, whole: Tensor) -> Tensor:
    return (values.double() / whole.double().clamp(min=0.1)).clamp(-2, 2)


def _at_models(values: Tensor, places: Tensor) -> Tensor:
    return values.gather(3, places.expand(len(values), -1, -1, -1))
