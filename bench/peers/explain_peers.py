"""Compare Shapley values by Whence, captum, shap and shapiq: `python explain_peers.py TASK`.

All explain the same models for the same full-length histories, with absent items masked out of the
attention columns. The models are SASRec and BERT4Rec, trained for a few hundred steps on
MovieLens-1M. The peers see a model as a function of masks that takes all rows at once. Captum gets
the number of rows that is fastest for it. TASK is `speed` or `curve`.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import captum.attr
import numpy as np
import numpy.typing as npt
import shap
import shapiq
import torch
from torch import Tensor

import whence
from whence.arrays import Floats
from whence.contract import All, Explainable
from whence.data import Split
from whence.explainers import explain_batch
from whence.explainers.shapley import Shapley
from whence.memory import reuse_freed_memory
from whence.models import Recommender
from whence.training import TrainingConfig
from whence.training.recommenders import fit

DATA = "ml-1m-sasrec"
THREADS = 2
STEPS = 300
COALITIONS = 1024
TOGETHER = 32
"""Histories that Whence explains in one batch."""
RUNS, OUR_RUNS = 5, 9
BATCHINGS = (16, 64, 256, 1024)
BUDGETS = (256, 512, 1024, 2048, 4096)
OUR_BUDGETS = (*BUDGETS, 8192, 16384, 32768)
CURVE_HISTORIES = 3
TRUTH = Shapley(sampler="permutation", coalitions=200_000)
"""The reference. It draws orders of the items, unlike the others, which fit a regression."""


class Peers:
    """One history, explained by each library."""

    def __init__(self, model: Recommender, history: Tensor, target: Tensor) -> None:
        self.model, self.history, self.target = model, history, target
        self.players = history.shape[1]
        self.batching = COALITIONS

    def values(self, masks: Tensor) -> Tensor:
        """Return the score under every mask."""
        rows = len(masks)
        histories, targets = self.history.expand(rows, -1), self.target.expand(rows, 1)
        with torch.no_grad():
            return self.model.score(histories, targets, present=masks > 0.5)[:, 0]

    def array_values(self, masks: npt.NDArray[Any]) -> Floats:
        """The same for libraries that work with NumPy."""
        found: Floats = self.values(torch.from_numpy(np.asarray(masks, dtype=np.float32))).numpy()
        return found

    def captum(self, budget: int, seed: int = 0) -> Floats:
        """KernelShap, with unit weights on drawn coalitions."""
        torch.manual_seed(seed)
        found = captum.attr.KernelShap(self.values).attribute(
            torch.ones(1, self.players),
            baselines=torch.zeros(1, self.players),
            n_samples=budget,
            perturbations_per_eval=min(self.batching, budget),
        )
        return found[0].double().numpy()

    def shap(self, budget: int, seed: int = 0) -> Floats:
        """KernelExplainer without feature selection, which would set most values to 0."""
        np.random.seed(seed)  # noqa: NPY002  shap draws from it
        explainer = shap.KernelExplainer(self.array_values, np.zeros((1, self.players)))
        found: Floats = explainer.shap_values(
            np.ones((1, self.players)), nsamples=budget, l1_reg=False, silent=True
        )
        return found[0]

    def shapiq(self, budget: int, seed: int = 0) -> Floats:
        """KernelSHAP."""
        approximator = shapiq.KernelSHAP(n=self.players, random_state=seed)
        found = approximator.approximate(budget=budget, game=self.array_values)
        values: Floats = found.get_n_order_values(1)
        return values

    def whence(self, budget: int, seed: int = 0) -> Floats:
        """The whole explanation, with standard errors and the sum rule."""
        method = Shapley(coalitions=budget)
        return explain_batch(self.model, self.history, self.target, method, seed).scores[0]

    def choose_batching(self) -> None:
        """Choose the number of rows per call at which captum is fastest."""

        def seconds(rows: int) -> float:
            self.batching = rows
            return min(seconds_of(lambda: self.captum(COALITIONS)) for _ in range(RUNS))

        self.batching = min(BATCHINGS, key=seconds)


class PlainBatching(Explainable):
    """A model that scores each coalition as one more row of a batch."""

    def __init__(self, model: Recommender) -> None:
        self.model, self.removal = model, model.removal

    def parts(self, batch: Tensor) -> Tensor:
        """Return the parts of the model."""
        return self.model.parts(batch)

    def score(self, batch: Tensor, targets: Tensor | All, **given: Any) -> Tensor:
        """Return the scores of the model."""
        return self.model.score(batch, targets, **given)


def models(split: Split, name: str) -> Iterator[tuple[int, Recommender]]:
    """Yield trained models with one, two and three blocks."""
    max_len = 50 if name == "sasrec" else 49
    config = TrainingConfig(steps=STEPS)
    for blocks in (1, 2, 3):
        settings = {"max_len": max_len, "n_blocks": blocks}
        yield blocks, fit(split, name, settings, config, 0, show_progress=False).model


def histories(split: Split, max_len: int, count: int) -> tuple[Tensor, Tensor]:
    """Return full-length histories and the item that came next."""
    cases = split.held["validation"]
    full = cases[np.flatnonzero(cases.ends - cases.starts >= max_len)[:count]]
    return torch.from_numpy(full.histories(max_len)), torch.from_numpy(full.targets)


def seconds_of(work: Callable[[], object]) -> float:
    """Return the duration of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def speed(split: Split) -> dict[str, float]:
    """Return the median milliseconds per history of interleaved runs."""
    found: dict[str, float] = {}
    for blocks, model in models(split, "sasrec"):
        batch, targets = histories(split, model.config.max_len, TOGETHER)
        found |= label(blocks, compare_with_peers(model, batch, targets))
    for blocks, model in models(split, "bert4rec"):
        batch, targets = histories(split, model.config.max_len, TOGETHER)
        found |= label(blocks, compare_with_batching(model, batch, targets))
    return found


def label(blocks: int, found: dict[str, float]) -> dict[str, float]:
    """Add the number of blocks to each name."""
    return {f"{name} {blocks}": value for name, value in found.items()}


def compare_with_peers(model: Recommender, batch: Tensor, targets: Tensor) -> dict[str, float]:
    """Measure every library on one history, and Whence also on many at once."""
    peers = Peers(model, batch[:1], targets[:1])
    peers.choose_batching()
    tasks: dict[str, Callable[[], object]] = {
        name: partial(getattr(peers, name), COALITIONS)
        for name in ("captum", "shap", "shapiq", "whence")
    }
    tasks["together"] = partial(explain_batch, model, batch, targets, Shapley())
    found = in_turn(tasks)
    found["together"] /= len(batch)
    return found


def compare_with_batching(model: Recommender, batch: Tensor, targets: Tensor) -> dict[str, float]:
    """Measure BERT4Rec's `score_coalitions`, and one batch row per coalition."""
    tasks: dict[str, Callable[[], object]] = {
        "bert": partial(explain_batch, model, batch[:1], targets[:1], Shapley()),
        "bert plainly": partial(
            explain_batch, PlainBatching(model), batch[:1], targets[:1], Shapley()
        ),
    }
    return in_turn(tasks)


def in_turn(tasks: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Return median milliseconds. Whence is fast, so it runs more often per turn."""
    taken: dict[str, list[float]] = {name: [] for name in tasks}
    for work in tasks.values():
        work()
    for _ in range(RUNS):
        for name, work in tasks.items():
            repeats = 1 if name in ("captum", "shap", "shapiq") else OUR_RUNS
            taken[name] += [1e3 * seconds_of(work) for _ in range(repeats)]
    return {name: statistics.median(values) for name, values in taken.items()}


def curve(split: Split) -> list[dict[str, Any]]:
    """Return the error and the time of each library at several budgets."""
    points = []
    for blocks, model in models(split, "sasrec"):
        batch, targets = histories(split, model.config.max_len, CURVE_HISTORIES)
        truth = explain_batch(model, batch, targets, TRUTH, seed=99)
        cases = [Peers(model, batch[[one]], targets[[one]]) for one in range(len(batch))]
        for name in ("captum", "shap", "shapiq", "whence"):
            for budget in OUR_BUDGETS if name == "whence" else BUDGETS:
                found = [once(one, name, budget, seed) for seed, one in enumerate(cases)]
                errors = [
                    float(np.linalg.norm(values - true) / np.linalg.norm(true))
                    for (values, _), true in zip(found, truth.scores, strict=True)
                ]
                milliseconds = 1e3 * statistics.median(seconds for _, seconds in found)
                points.append(
                    {
                        "library": name,
                        "blocks": blocks,
                        "coalitions": budget,
                        "milliseconds": milliseconds,
                        "error": statistics.mean(errors),
                    }
                )
        assert truth.error is not None
        error = float(np.linalg.norm(truth.error) / np.linalg.norm(truth.scores))
        points.append({"library": "truth", "blocks": blocks, "error": error})
    return points


def once(peers: Peers, name: str, budget: int, seed: int) -> tuple[Floats, float]:
    """Return the values of a library, and its seconds after a warm-up call."""
    explain = getattr(peers, name)
    explain(budget, seed)
    start = time.perf_counter()
    found: Floats = explain(budget, seed)
    return found, time.perf_counter() - start


def main() -> None:
    """Print the record of the task."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(THREADS)
    reuse_freed_memory()
    split = whence.last_two(whence.load(DATA))
    print(json.dumps({"speed": speed, "curve": curve}[sys.argv[1]](split)))


if __name__ == "__main__":
    main()
