"""How well reasons are told where the truth is known.

A claim is compared with the most probable truth. Cases whose truth is not clear count only in the
true probability of what is named, and in the calibration, which compares it with the confidence.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final

import numpy as np
import torch
from torch import Tensor

from whence.arrays import Bools, Floats, Ints
from whence.ranking import seen_items
from whence.reasons.calibrator import Beliefs, Calibrator, cross_entropy
from whence.reasons.evidence import NOTICEABLE
from whence.reasons.judgement import Judgement, Kind, judge
from whence.reasons.lessons import Lesson
from whence.worlds.causal import CausalWorld

CLEAR: Final = 0.6
"""From this probability on, the truth is clear."""
NOISE: Final = 4
"""The kind of what nothing explains, among those of the truth."""
LIKELY: Final = 0.5
"""The calibration is that of reasons with at least this confidence."""
BINS: Final = 10
RAREST: Final = 1e-6
"""The least share of a kind, so that nothing is divided by 0."""


@dataclass(frozen=True, eq=False)
class Scores:
    """What is said of N recommendations, and what is true."""

    said: Ints
    """`[N]`: the `Kind` of the reason, if it passes its checks and is likely, or else `NONE`."""
    confidence: Floats
    """`[N]`: its probability, as it was stated."""
    posterior: Floats
    """`[N]`: its true probability."""
    right: Bools
    """`[N]`: whether it is the most probable truth."""
    kind: Ints
    """`[N]`: the `Kind` that is most probable compared with how common it is."""
    true_kind: Ints
    """`[N]`: the `Kind` of the truth, or `NOISE`."""
    true_probability: Floats
    """`[N]`"""

    @staticmethod
    def of(
        lesson: Lesson, beliefs: Beliefs, judgement: Judgement, shares: Tensor | None = None
    ) -> Scores:
        """Compare judgements with the truth of a world.

        `shares` `[4]` tell how common each kind is: `kinds_right` counts all of them alike.
        """
        truth = lesson.truth_of_reasons()
        named = truth.named.flatten(0, 1).cpu().numpy()
        c, p = beliefs.items.shape[2], beliefs.sets.shape[2]
        starts = np.array([0, c, c + p, c + p + 1, 0])  # where each kind begins in `named`
        said = judgement.kind.flatten().cpu().numpy()
        chosen = starts[said] + judgement.place.flatten().cpu().numpy()
        kinds = beliefs.kinds() if shares is None else beliefs.kinds() / shares.clamp(min=RAREST)
        rows = np.arange(len(named))
        best = named.argmax(axis=1)
        return Scores(
            said,
            judgement.confidence.flatten().double().cpu().numpy(),
            np.where(said == Kind.NONE, 0.0, named[rows, chosen]),
            (best == chosen) & (said != Kind.NONE),
            kinds.argmax(dim=-1).flatten().cpu().numpy(),
            truth.kinds[best],
            named[rows, best],
        )

    @staticmethod
    def joined(each: Sequence[Scores]) -> Scores:
        """Return the scores of several worlds."""
        return Scores(
            **{
                one.name: np.concatenate([getattr(own, one.name) for own in each])
                for one in fields(Scores)
            }
        )

    @property
    def clear(self) -> Bools:
        """Whether the truth is clear."""
        return self.true_probability >= CLEAR

    @property
    def caused(self) -> Bools:
        """Whether it is clear that an item or a pair caused it."""
        return self.clear & (self.true_kind <= Kind.SET)

    def named(self, sure: float) -> Bools:
        """Return whether an item or a pair is said at this confidence."""
        return (self.said <= Kind.SET) & (self.confidence >= sure)

    def precision(self, sure: float) -> float:
        """Return the share of what is named that is right."""
        return _share(self.right[self.named(sure) & self.clear])

    def probability(self, sure: float) -> float:
        """Return how probable what is named truly is, on average; unclear cases count, too."""
        named = self.named(sure)
        return float(self.posterior[named].mean()) if named.any() else float("nan")

    def coverage(self, sure: float) -> float:
        """Return the share of what was caused whose cause is named rightly."""
        return _share((self.right & self.named(sure))[self.caused])

    def false_claims(self, sure: float) -> float:
        """Return for which share of what nothing in the history caused a single item is named."""
        uncaused = self.clear & ~self.caused
        return _share((self.named(sure) & (self.said == Kind.ITEM))[uncaused])

    def confusion(self) -> Ints:
        """Return `[true kinds, kinds]`: the counts of clear cases, noise last."""
        found = np.zeros((NOISE + 1, NOISE), dtype=np.int64)
        np.add.at(found, (self.true_kind[self.clear], self.kind[self.clear]), 1)
        return found

    def kinds_right(self) -> float:
        """Return the share of the clear cases whose kind is right, averaged over the four kinds."""
        counts = self.confusion()[:NOISE]
        there = counts.sum(axis=1) > 0
        return float((counts.diagonal() / counts.sum(axis=1).clip(min=1))[there].mean())

    def calibration_error(self, kind: Kind) -> float:
        """Return how far stated confidences of a kind are from the true probabilities.

        It is the mean distance over bins with equally many cases.
        """
        asked = (self.said == kind) & (self.confidence >= LIKELY)
        order = np.argsort(self.confidence[asked], kind="stable")
        if not len(order):
            return float("nan")
        stated, true = self.confidence[asked][order], self.posterior[asked][order]
        bins = np.array_split(np.arange(len(order)), min(BINS, len(order)))
        gaps = [abs(stated[one].mean() - true[one].mean()) * len(one) for one in bins]
        return float(sum(gaps) / len(order))


def scores_of(lesson: Lesson, calibrator: Calibrator, without: Sequence[str] = ()) -> Scores:
    """Return what is said by a calibrator, which may have learned without some features."""
    beliefs = calibrator.believe(lesson.features.without(without))
    judgement = judge(beliefs, lesson.figures, LIKELY)
    return Scores.of(lesson, beliefs, judgement, calibrator.kind_shares)


def log_probability_of_truth(lesson: Lesson, calibrator: Calibrator) -> float:
    """Return the mean log-probability that a calibrator gives to the truth.

    It is a proper score: no calibrator reaches a higher one than the true probabilities.
    """
    examples = lesson.examples()
    with torch.no_grad():
        return -float(cross_entropy(examples.truth, calibrator(examples.features)))


def scores_of_former_rule(lesson: Lesson) -> Scores:
    """Return what the former rule says: the item whose loss costs most, if it costs 5 %."""
    lost = lesson.figures.lost.mean(dim=0).where(lesson.features.known_items, -torch.inf)
    most, place = lost.max(dim=2)
    said = most > -math.log1p(-NOTICEABLE)
    items = torch.zeros_like(lost).scatter(2, place[..., None], 1.0) * said[..., None]
    shape = lesson.features.known_sets.shape
    general = torch.zeros(*shape[:2], 3, device=lost.device)
    general[..., Kind.TASTE - 2] = (~said).float()  # "fits your history as a whole"
    beliefs = Beliefs(items, torch.zeros(shape, device=lost.device), general)
    none = torch.full_like(place, int(Kind.NONE))
    judgement = Judgement(
        kind=torch.where(said, int(Kind.ITEM), none),
        likeliest=torch.where(said, int(Kind.ITEM), none),
        confidence=said.double(),
        place=place,
        disliked=torch.full_like(place, -1),
    )
    return Scores.of(lesson, beliefs, judgement)


def scores_of_ideal(world: CausalWorld, users: int, k: int = 10) -> Scores:
    """Return what could be said of the truly most probable next items, knowing every probability.

    Its reasons are right as often as they are probable, and nobody can do better.
    """
    cases = world.last_cases(users)
    likely = world.probabilities(cases)
    rows, seen = (one.numpy() for one in seen_items(cases))
    likely[rows, seen] = 0.0
    items = np.argsort(-likely, axis=1, kind="stable")[:, :k]
    asked = cases[np.repeat(np.arange(len(cases)), k)]
    longest = int((cases.ends - cases.starts).max())
    truth = world.truth(asked, items.reshape(-1), longest)
    best_item = truth.item.max(axis=1)
    each = np.stack((best_item, truth.pair, truth.taste, truth.popularity, truth.noise), axis=1)
    kinds = np.stack(
        (truth.item.sum(axis=1), truth.pair, truth.taste, truth.popularity, truth.noise), axis=1
    )
    likeliest, most = each.argmax(axis=1), each.max(axis=1)
    return Scores(
        np.minimum(likeliest, int(Kind.NONE)),
        most,
        most,
        np.ones(len(most), dtype=np.bool_),
        kinds[:, :NOISE].argmax(axis=1),
        likeliest,
        most,
    )


def _share(passed: Bools) -> float:
    """Return the share that passed, or NaN of nothing."""
    return float(passed.mean()) if len(passed) else float("nan")
