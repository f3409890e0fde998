"""Whence trains recommenders that can say why, and measures whether the why can be believed.

import whence

data = whence.load("ml-latest-small-2016")
run = whence.train(data, out="runs/first")
whence.recommend(run, history=["Toy Story", "Heat"]).show()
whence.explain(run, history=["Toy Story", "Heat"]).show()
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from whence import worlds as worlds
    from whence.contract import ALL as ALL
    from whence.contract import PAD as PAD
    from whence.contract import Explainable as Explainable
    from whence.contrasting import rather as rather
    from whence.contrasting import why_not as why_not
    from whence.data import Catalog as Catalog
    from whence.data import Interactions as Interactions
    from whence.data import Preparation as Preparation
    from whence.data import ReadOptions as ReadOptions
    from whence.data import last_two as last_two
    from whence.data import load as load
    from whence.data import prepare as prepare
    from whence.data import statistics as statistics
    from whence.data import temporal as temporal
    from whence.data import user_holdout as user_holdout
    from whence.demonstration import demonstrate as demonstrate
    from whence.errors import CapabilityError as CapabilityError
    from whence.errors import InputError as InputError
    from whence.errors import RunError as RunError
    from whence.errors import WhenceError as WhenceError
    from whence.everyone import recommend_all as recommend_all
    from whence.explainers import compare_batch as compare_batch
    from whence.explainers import explain_batch as explain_batch
    from whence.explanation import Explanation as Explanation
    from whence.explanation import Labels as Labels
    from whence.measure import Measure as Measure
    from whence.picks import Pick as Pick
    from whence.picks import Recommendations as Recommendations
    from whence.reasons.contrast import Rather as Rather
    from whence.reasons.contrast import WhyNot as WhyNot
    from whence.reasons.reason import Reason as Reason
    from whence.recommendation import compare as compare
    from whence.recommendation import explain as explain
    from whence.recommendation import reason as reason
    from whence.recommendation import recommend as recommend
    from whence.run import Run as Run
    from whence.run import open_run as open_run
    from whence.training import TrainingConfig as TrainingConfig
    from whence.training import evaluate as evaluate
    from whence.training import train as train
    from whence.trust.audit.auditor import audit as audit
    from whence.trust.audit.result import Audit as Audit

# Names are imported on first use, so that `whence --help` need not wait for PyTorch.
_HOMES = {
    "trust.audit.auditor": ("audit",),
    "trust.audit.result": ("Audit",),
    "contract": ("ALL", "PAD", "Explainable"),
    "contrasting": ("rather", "why_not"),
    "data": (
        "Catalog",
        "Interactions",
        "Preparation",
        "ReadOptions",
        "last_two",
        "load",
        "prepare",
        "statistics",
        "temporal",
        "user_holdout",
    ),
    "demonstration": ("demonstrate",),
    "errors": ("CapabilityError", "InputError", "RunError", "WhenceError"),
    "everyone": ("recommend_all",),
    "explainers": ("compare_batch", "explain_batch"),
    "explanation": ("Explanation", "Labels"),
    "measure": ("Measure",),
    "picks": ("Pick", "Recommendations"),
    "reasons.reason": ("Reason",),
    "reasons.contrast": ("Rather", "WhyNot"),
    "recommendation": (
        "compare",
        "explain",
        "reason",
        "recommend",
    ),
    "run": ("Run", "open_run"),
    "training": ("TrainingConfig", "evaluate", "train"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted([*_HOME_OF, "worlds"])


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name == "worlds":
        return import_module("whence.worlds")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'whence' has no attribute '{name}'")
    return getattr(import_module(f"whence.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
