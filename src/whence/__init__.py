"""Whence trains recommenders that can say why, and measures whether the why can be believed.

import whence

data = whence.load("ml-latest-small-2016")
run = whence.train(data, out="runs/first")
picks = whence.recommend(run, history=["Toy Story", "Heat"])
whence.explain(run, history=["Toy Story", "Heat"], method="rollout").show()
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from whence.contract import ALL, PAD, Explainable
    from whence.data import Catalog, Interactions, leave_one_out, load
    from whence.errors import CapabilityError, InputError, RunError, WhenceError
    from whence.explainers import explain_batch
    from whence.explanation import Explanation
    from whence.measure import Measure
    from whence.recommendation import (
        Recommendations,
        compare,
        explain,
        recommend,
        recommend_everyone,
    )
    from whence.run import Run, open_run
    from whence.training import train

# Names are looked up on first use, so that `whence --help` need not wait for PyTorch.
_HOMES = {
    "whence.contract": ("ALL", "PAD", "Explainable"),
    "whence.data": ("Catalog", "Interactions", "leave_one_out", "load"),
    "whence.errors": ("InputError", "CapabilityError", "RunError", "WhenceError"),
    "whence.explainers": ("explain_batch",),
    "whence.explanation": ("Explanation",),
    "whence.recommendation": (
        "Recommendations",
        "compare",
        "explain",
        "recommend",
        "recommend_everyone",
    ),
    "whence.run": ("Run", "open_run"),
    "whence.training": ("train",),
    "whence.measure": ("Measure",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "ALL",
    "PAD",
    "CapabilityError",
    "Catalog",
    "Explainable",
    "Explanation",
    "InputError",
    "Interactions",
    "Measure",
    "Recommendations",
    "Run",
    "RunError",
    "WhenceError",
    "compare",
    "explain",
    "explain_batch",
    "leave_one_out",
    "load",
    "open_run",
    "recommend",
    "recommend_everyone",
    "train",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name not in _HOME_OF:
        raise AttributeError(f"module 'whence' has no attribute '{name}'")
    return getattr(import_module(_HOME_OF[name]), name)
