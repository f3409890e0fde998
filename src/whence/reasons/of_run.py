"""What finds the reasons of a run: its models, the groups of its items, and a calibrator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Final, cast
from weakref import WeakKeyDictionary

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from whence.arrays import Bools, Floats, Ints, Ints32
from whence.contract import DROPPED, PAD, HasItemVectors, offers
from whence.data.histories import Cases, one_history
from whence.devices import device_of
from whence.errors import InputError, RunError
from whence.models import Recommender
from whence.models.base import HasOwnReasons
from whence.ranking import top_unseen
from whence.reasons.calibrator import Calibrator
from whence.reasons.groups import ItemGroups, groups_of_catalog, neighbourhoods
from whence.reasons.judgement import SURE
from whence.reasons.reason import Reason
from whence.reasons.reasoner import Reasoner
from whence.reasons.shown import LONGER
from whence.reasons.smallest import smallest_sets
from whence.reasons.telling import Asked, leaving, tell
from whence.run import Run
from whence.run_document import CALIBRATOR

COMPANIONS: Final = 10
"""With so many recommendations of the same user a target is compared."""
LOW: Final = 0.4
"""Ratings up to this share of the largest one are low: two of five."""
LARGEST_SCALE: Final = 100.0
"""Larger numbers are counts, such as how often a song was played. None of them is low."""
DEFAULT_FILE: Final = "calibrator.safetensors"
DEFAULT: Final = "default"
OWN: Final = "of this run"


@dataclass(frozen=True)
class Options:
    """How reasons are found."""

    sure: float = SURE
    """The probability from which on a reason is said."""
    low_rating: float | None = None
    """Items rated so or lower are never named; by default two of five."""
    removal: str = DROPPED
    k: int = 10
    """The size of the list that a target can leave."""

    def __post_init__(self) -> None:
        if not 0.5 <= self.sure <= 1:
            raise InputError(f"sure is a probability from 0.5 to 1, not {self.sure}.")
        if self.low_rating is not None and not math.isfinite(self.low_rating):
            raise InputError(f"low_rating is a rating, not {self.low_rating}.")

    def low_of(self, run: Run) -> float:
        """Return the highest low rating, or minus infinity if the ratings are on no scale."""
        if self.low_rating is not None:
            return self.low_rating
        ratings = run.interactions.ratings
        largest = 0.0 if ratings is None else float(ratings.max(initial=0.0))
        return LOW * largest if 0 < largest <= LARGEST_SCALE else -math.inf


_KEPT: Final[WeakKeyDictionary[Run, dict[tuple[int | None, str], Reasoner]]] = WeakKeyDictionary()


def reasoner_of(run: Run, model_seed: int | None = None, removal: str = DROPPED) -> Reasoner:
    """Return what finds reasons for a run, or for the model of one seed; it is made once."""
    made = _KEPT.setdefault(run, {})
    key = (model_seed, removal)
    if key not in made:
        made[key] = make_reasoner(run, run.recommenders(model_seed), removal)
    return made[key]


def find_reasons(
    run: Run,
    items: Ints32,
    targets: Ints,
    *,
    model_seed: int | None = None,
    ratings: Floats | None = None,
    options: Options,
    search: bool = False,
) -> list[Reason]:
    """Return the reasons of targets `[k]` for a history `[w]` with its ratings, oldest first.

    The user's best recommendations are looked at, too: what matters to all of them alike is no
    reason for one. `search` looks for the smallest set that each target needs, not only for those
    that two items explain together.
    """
    model = run.chosen(model_seed)
    reasoner = reasoner_of(run, model_seed, options.removal)
    device, slots = device_of(model), reasoner.slots
    seen = torch.from_numpy(items.astype(np.int64))[None].to(device)
    best, scores = top_unseen(model, _case(items), slots, COMPANIONS)
    others = [one for one in best[0][np.isfinite(scores[0])].tolist() if one not in targets]
    together = [*targets.tolist(), *others[: max(0, COMPANIONS - len(targets))]]
    low = _rated_low(run, ratings, options)
    histories = torch.from_numpy(one_history(items, LONGER * slots)).to(device)
    found = reasoner.find(
        histories,
        torch.tensor([together], device=device),
        seen,
        sure=options.sure,
        low=None if low is None else _one_row(low, LONGER * slots).to(device),
    )
    asked = Asked(
        items,
        ratings,
        run.catalog,
        run.verb,
        reasoner.groups,
        options.sure,
        reasoner.calibrator_name,
        options.removal,
        low,
    )
    reasons = tell(asked, found, targets)
    for place, one in enumerate(reasons):
        if (one.kind == "set" or search) and not one.in_history:
            own = torch.from_numpy(targets[place : place + 1]).to(device)
            (smallest,) = smallest_sets(model, seen[0], own, slots, options.k)
            reasons[place] = replace(one, smallest=leaving(run.catalog, smallest, options.k))
    return _with_own_rules(model, histories[:, -slots:], targets, run, reasons)


def _with_own_rules(
    model: Recommender, history: Tensor, targets: Ints, run: Run, reasons: list[Reason]
) -> list[Reason]:
    """Let a model whose rule is the reason say it itself."""
    if not isinstance(model, HasOwnReasons):
        return reasons
    own = model.own_reasons(
        history.expand(len(targets), -1), torch.from_numpy(targets).to(history.device)
    )
    said = [
        rule.sentence.format(
            verb=run.verb, item="" if rule.item is None else run.catalog.labels([rule.item])[0]
        )
        for rule in own
    ]
    by_rule = Reason("rule", run.verb, 0, likeliest="rule")
    return [
        replace(
            by_rule,
            own=rule,
            rank=one.rank,
            considered=one.considered,
            in_history=one.in_history,
            removal=one.removal,
        )
        for one, rule in zip(reasons, said, strict=True)
    ]


def _rated_low(run: Run, ratings: Floats | None, options: Options) -> Bools | None:
    """Return which events of a history were rated low."""
    if ratings is not None:
        return np.asarray(ratings <= options.low_of(run))
    if options.low_rating is not None:
        raise InputError(
            "This history has no ratings, so none can be low. Leave out --low-rating (in Python "
            "low_rating=), or ask for a user of data with ratings."
        )
    return None


def _one_row(values: Bools, length: int) -> Tensor:
    """Return the newest values as `[1, length]`, padded on the left."""
    row = torch.from_numpy(values[-length:])
    return F.pad(row, (length - len(row), 0))[None]


def _case(items: Ints32) -> Cases:
    """Return a history as a case without a target."""
    zero = np.array([0])
    return Cases(items, np.array([PAD]), zero, np.array([len(items)]), zero)


def make_reasoner(run: Run, models: Sequence[Recommender], removal: str = DROPPED) -> Reasoner:
    """Return what finds reasons for some models of a run."""
    device = device_of(models[0])
    groups = groups_of(run)
    return Reasoner(
        models,
        models[0].config.max_len,
        len(run.catalog),
        None if groups is None else groups.to(device),
        calibrator_of(run).to(device),
        DEFAULT if run.calibrator is None else OWN,
        removal,
    )


def calibrator_of(run: Run) -> Calibrator:
    """Return the calibrator of the run, or the one that comes with Whence."""
    if run.calibrator is None:
        return default_calibrator()
    try:
        return Calibrator.from_bytes(run.calibrator, f"The file {CALIBRATOR} of this run")
    except InputError as problem:
        raise RunError(f"{problem} Train the run again.") from None


@cache
def default_calibrator() -> Calibrator:
    """Return the calibrator that comes with Whence, learned on worlds of all generators."""
    content = resources.files("whence.reasons").joinpath(DEFAULT_FILE).read_bytes()
    return Calibrator.from_bytes(content, DEFAULT_FILE)


def groups_of(run: Run) -> ItemGroups | None:
    """Return the groups that a taste can be for: genres, or the model's own neighbourhoods."""
    found = groups_of_catalog(run.catalog)
    if found is not None or not offers(run.first, "item_vectors"):
        return found
    vectors = cast("HasItemVectors", run.first).item_vectors()
    return neighbourhoods(vectors, run.catalog.popularity)
