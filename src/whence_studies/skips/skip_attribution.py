"""Which experts a network selects for skips, and whether the known causes need them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from whence.arrays import Floats32
from whence.errors import InputError
from whence.measure import Measure, mean_measure
from whence_studies.sessions.schema import GROUP_OF, Cause
from whence_studies.sessions.session_batches import NO_CAUSE, SessionBatch
from whence_studies.sessions.skip_accuracy import ratio_interval
from whence_studies.skips.networks import EXPERT_OF, EXPERTS

PROTOCOL: Final = "tracks in the second half of sessions; the most selected expert"
ALL_CAUSES, CAUSE_MEAN = "attribution accuracy", "attribution accuracy, mean over causes"
SEEN: Final = "cause seen"
SEES: Final = np.array(
    [[GROUP_OF.get(cause) in subset.groups for subset in EXPERTS.subsets] for cause in Cause]
)
"""`[causes, H]`: whether an expert sees the group that reveals a cause."""


@dataclass(frozen=True, eq=False)
class SkipAttribution:
    """The selections for N upcoming tracks, session by session."""

    selected: Floats32
    """`[N, H]`: α."""
    session: npt.NDArray[np.int64]
    """`[N]`: the session of each track, from 0."""
    causes: npt.NDArray[np.int8] | None = None
    """`[N]`: as a `Cause`, if known."""

    def __len__(self) -> int:
        return len(self.selected)

    @property
    def sessions(self) -> int:
        """Number of sessions."""
        return int(self.session[-1]) + 1 if len(self) else 0

    @property
    def first(self) -> npt.NDArray[np.int64]:
        """`[N]`: the most selected expert; the simplest one in a tie."""
        first: npt.NDArray[np.int64] = self.selected.argmax(axis=1)
        return first


def attribution_of(selected: Floats32, batch: SessionBatch) -> SkipAttribution:
    """Keep the selections `[B, slots, H]` of slots with a track."""
    mask = batch.upcoming_mask
    return SkipAttribution(
        selected=selected[mask],
        session=np.nonzero(mask)[0],
        causes=None if batch.causes is None else batch.causes[mask],
    )


def concat_attributions(parts: Sequence[SkipAttribution]) -> SkipAttribution:
    """Concatenate the attributions of all batches."""
    if not parts:
        raise InputError("There are no attributions to concatenate.")
    starts = np.cumsum([0, *(part.sessions for part in parts)])
    causes = [part.causes for part in parts if part.causes is not None]
    return SkipAttribution(
        selected=np.concatenate([part.selected for part in parts]),
        session=np.concatenate(
            [part.session + start for part, start in zip(parts, starts[:-1], strict=True)]
        ),
        causes=np.concatenate(causes) if len(causes) == len(parts) else None,
    )


def most_selected_shares(attribution: SkipAttribution) -> dict[str, Measure]:
    """Measure how often each expert is selected most: the first bars of Figure 8."""
    return {
        name: _share(attribution, attribution.first == number, f"{PROTOCOL} is {name}")
        for number, name in enumerate(EXPERTS.names)
    }


def mean_attributions(attribution: SkipAttribution) -> dict[str, Measure]:
    """Measure each expert's mean share of the selection: the second bars of Figure 8.

    Each session counts by the mean over its tracks.
    """
    whole = attribution.selected.sum(axis=1, keepdims=True, dtype=np.float64)
    shares = attribution.selected / np.maximum(whole, np.finfo(np.float64).tiny)
    tracks = np.bincount(attribution.session)
    return {
        name: mean_measure(
            np.bincount(attribution.session, weights=shares[:, number]) / tracks,
            f"share of the attribution that {name} has, mean over sessions",
            direction="neither",
        )
        for number, name in enumerate(EXPERTS.names)
    }


def cause_accuracy(attribution: SkipAttribution) -> dict[str, Measure]:
    """Measure how often the most selected expert is the simplest that can see the known cause.

    The result covers all tracks with such a cause, the mean over causes, and each cause. A network
    that always names the most common cause does not win the mean. Intervals are bootstrapped over
    sessions.
    """
    simplest = np.zeros(SEES.shape, dtype=bool)
    simplest[list(EXPERT_OF), list(EXPERT_OF.values())] = True
    protocol = f"{PROTOCOL} is the simplest that sees the true cause"
    return _by_cause(attribution, simplest, protocol, (ALL_CAUSES, CAUSE_MEAN, ""))


def cause_seen(attribution: SkipAttribution) -> dict[str, Measure]:
    """Measure how often the most selected expert can see the known cause.

    Compare it with `cause_accuracy`: an expert that sees everything is always right here.
    """
    protocol = f"{PROTOCOL} sees the true cause"
    return _by_cause(attribution, SEES, protocol, (SEEN, f"{SEEN}, mean over causes", f"{SEEN}: "))


def _by_cause(
    attribution: SkipAttribution,
    table: npt.NDArray[np.bool_],
    protocol: str,
    names: tuple[str, str, str],
) -> dict[str, Measure]:
    """Measure how often `table` `[causes, H]` holds, over all tracks, over causes, and per cause.

    `names` are the names of the first two, and the prefix of the others.
    """
    causes = _known(attribution)
    right = table[causes, attribution.first]
    caused = causes != Cause.CHANCE
    if not caused.any():
        raise InputError("Chance decided about all of these tracks, so no cause can be named.")
    of_all, over_causes, of_cause = names
    by_cause = {
        f"{of_cause}{cause.word}": _share(
            attribution, right, f"{protocol}; {cause.word}", causes == cause
        )
        for cause in EXPERT_OF
        if (causes == cause).any()
    }
    return {
        of_all: _share(attribution, right, protocol, caused),
        over_causes: _mean_over_causes(attribution, right, causes, protocol),
        **by_cause,
    }


def selected_by_cause(attribution: SkipAttribution) -> npt.NDArray[np.float64]:
    """Return `[causes, H]`: how often each expert is selected most for each cause."""
    causes = _known(attribution)
    counts = np.zeros((len(Cause), len(EXPERTS)))
    np.add.at(counts, (causes, attribution.first), 1)
    shares: npt.NDArray[np.float64] = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return shares


def _known(attribution: SkipAttribution) -> npt.NDArray[np.int8]:
    causes = attribution.causes
    if causes is None or (causes == NO_CAUSE).any():
        raise InputError(
            "The causes of these skips are unknown. Only synthetic sessions have causes."
        )
    return causes


def _share(
    attribution: SkipAttribution,
    right: npt.NDArray[np.bool_],
    protocol: str,
    of: npt.NDArray[np.bool_] | None = None,
) -> Measure:
    """Return a share of tracks with an interval over sessions."""
    of = np.ones(len(right), dtype=bool) if of is None else of
    parts = np.bincount(attribution.session[right & of], minlength=attribution.sessions)
    wholes = np.bincount(attribution.session[of], minlength=attribution.sessions)
    parts, wholes = parts[wholes > 0], wholes[wholes > 0]
    interval = ratio_interval(parts, wholes)
    value = float(parts.sum() / wholes.sum())
    return Measure(value, interval, int(of.sum()), protocol, "higher is better", (0.0, 1.0))


def _mean_over_causes(
    attribution: SkipAttribution,
    right: npt.NDArray[np.bool_],
    causes: npt.NDArray[np.int8],
    protocol: str,
    resamples: int = 1_000,
) -> Measure:
    """Return the mean of the causes' shares, with an interval that resamples whole sessions."""
    which = [cause for cause in EXPERT_OF if (causes == cause).any()]
    count = attribution.sessions
    tables = np.stack(
        [
            np.stack([np.bincount(attribution.session[rows], minlength=count) for rows in pair])
            for cause in which
            for pair in [((causes == cause) & right, causes == cause)]
        ]
    )
    rng = np.random.default_rng(np.random.SeedSequence(0))
    drawn = (
        tables @ np.bincount(rng.integers(0, count, count), minlength=count)
        for _ in range(resamples)
    )
    means = [
        float((parts / np.maximum(wholes, 1)).mean()) for parts, wholes in map(np.transpose, drawn)
    ]
    parts, wholes = tables.sum(axis=2).T
    low, high = np.percentile(means, [2.5, 97.5])
    return Measure(
        float((parts / wholes).mean()),
        (float(low), float(high)),
        int(wholes.sum()),
        f"{protocol}; mean over causes",
        "higher is better",
        (0.0, 1.0),
    )
