"""Several models as one, and models that drop items, for the tests that every model passes."""

from __future__ import annotations

from collections.abc import Callable

from conftest import LIVELY
from whence.contract import DROPPED
from whence.models import Recommender
from whence.models.dropping import with_removal
from whence.models.ensemble import Ensemble, Member


def lively_seeds(name: str = "sasrec", length: int = 8, items: int = 30, seed: int = 0) -> Ensemble:
    """Return two models that differ only in their seed, as one."""
    build = LIVELY[name]
    models = [build(length=length, items=items, seed=one) for one in (seed, seed + 7)]
    return Ensemble([Member(model, 0.5) for model in models])


def lively_blend(length: int = 8, items: int = 30, seed: int = 0) -> Ensemble:
    """Return two seeds that read half of a history, and a simple model that reads all of it."""
    seeds = lively_seeds("sasrec", max(1, length // 2), items, seed)
    simple = LIVELY["recent-ease"](length=length, items=items, seed=seed)
    return Ensemble([*seeds.members, Member(simple, 1.7)])


TOGETHER: dict[str, Callable[..., Ensemble]] = {"seeds": lively_seeds, "blend": lively_blend}
"""Several models as one, which keep the contract as each of them does."""


def dropping(name: str) -> Callable[..., Recommender]:
    """Return a builder of the model that drops the items that it would hide by itself."""
    build = {**LIVELY, **TOGETHER}[name]
    return lambda **sizes: with_removal(build(**sizes), DROPPED)


DROPPING = {f"dropping-{name}": dropping(name) for name in ("sasrec", "bert4rec", "blend")}
EVERY: dict[str, Callable[..., Recommender]] = {**LIVELY, **TOGETHER, **DROPPING}
