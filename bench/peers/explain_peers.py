"""Shapley values by Whence, captum, shap and shapiq side by side; `python explain_peers.py TASK`.

All ask the same models, SASRec or BERT4Rec trained for a few hundred steps on MovieLens-1M, about
the same full-length histories, with absent items masked out of the attention columns. The peers see
a model as a function of masks that takes all of its rows at once, captum in the number of rows that
is fastest for it. TASK is `speed` or `curve`.
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
"""Histories that Whence explains as one batch, beside one alone."""
RUNS, RUNS_OF_OURS = 5, 9
BATCHINGS = (16, 64, 256, 1024)
BUDGETS = (256, 512, 1024, 2048, 4096)
BUDGETS_OF_OURS = (*BUDGETS, 8192, 16384, 32768)
HISTORIES_OF_CURVE = 3
TRUTH = Shapley(sampler="permutation", coalitions=200_000)
"""What is taken to be the truth: orders of the items, not a regression like the others."""


class Peers:
    """How each library explains one history."""

    def __init__(self, model: Recommender, history: Tensor, target: Tensor) -> None:
        self.model, self.history, self.target = model, history, target
        self.players = history.shape[1]
        self.batching = COALITIONS

    def values(self, masks: Tensor) -> Tensor:
        """The score under every mask."""
        rows = len(masks)
        histories, targets = self.history.expand(rows, -1), self.target.expand(rows, 1)
        with torch.no_grad():
            return self.model.score(histories, targets, present=masks > 0.5)[:, 0]

    def of_arrays(self, masks: npt.NDArray[Any]) -> Floats:
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
        """KernelExplainer without its selection of features, which would set most of them to 0."""
        np.random.seed(seed)  # noqa: NPY002  that is what it draws from
        explainer = shap.KernelExplainer(self.of_arrays, np.zeros((1, self.players)))
        found: Floats = explainer.shap_values(
            np.ones((1, self.players)), nsamples=budget, l1_reg=False, silent=True
        )
        return found[0]

    def shapiq(self, budget: int, seed: int = 0) -> Floats:
        """KernelSHAP."""
        approximator = shapiq.KernelSHAP(n=self.players, random_state=seed)
        found = approximator.approximate(budget=budget, game=self.of_arrays)
        values: Floats = found.get_n_order_values(1)
        return values

    def whence(self, budget: int, seed: int = 0) -> Floats:
        """The whole explanation, with standard errors and the sum rule."""
        method = Shapley(coalitions=budget)
        return explain_batch(self.model, self.history, self.target, method, seed).scores[0]

    def choose_batching(self) -> None:
        """The number of rows at a time at which captum is fastest, by the best of some tries."""

        def seconds(rows: int) -> float:
            self.batching = rows
            return min(seconds_of(lambda: self.captum(COALITIONS)) for _ in range(RUNS))

        self.batching = min(BATCHINGS, key=seconds)


class Plainly(Explainable):
    """A model without its own way with coalitions: each is one more row of a batch."""

    def __init__(self, model: Recommender) -> None:
        self.model, self.removal = model, model.removal

    def parts(self, batch: Tensor) -> Tensor:
        """As the model."""
        return self.model.parts(batch)

    def score(self, batch: Tensor, targets: Tensor | All, **given: Any) -> Tensor:
        """As the model."""
        return self.model.score(batch, targets, **given)


def models(split: Split, name: str) -> Iterator[tuple[int, Recommender]]:
    """With one, two and three blocks."""
    length = 50 if name == "sasrec" else 49
    config = TrainingConfig(steps=STEPS)
    for blocks in (1, 2, 3):
        settings = {"max_len": length, "n_blocks": blocks}
        yield blocks, fit(split, name, settings, config, 0, show_progress=False).model


def histories(split: Split, length: int, count: int) -> tuple[Tensor, Tensor]:
    """Of users who have enough events, with the item that came next."""
    cases = split.held["validation"]
    full = cases[np.flatnonzero(cases.ends - cases.starts >= length)[:count]]
    return torch.from_numpy(full.histories(length)), torch.from_numpy(full.targets)


def seconds_of(work: Callable[[], object]) -> float:
    """That it takes once."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def speed(split: Split) -> dict[str, float]:
    """Milliseconds a history, the median of runs in turn."""
    found = {}
    for blocks, model in models(split, "sasrec"):
        batch, targets = histories(split, model.config.max_len, TOGETHER)
        found |= named(blocks, beside_peers(model, batch, targets))
    for blocks, model in models(split, "bert4rec"):
        batch, targets = histories(split, model.config.max_len, TOGETHER)
        found |= named(blocks, beside_plain_batching(model, batch, targets))
    return found


def named(blocks: int, found: dict[str, float]) -> dict[str, float]:
    """With the number of blocks."""
    return {f"{name} {blocks}": value for name, value in found.items()}


def beside_peers(model: Recommender, batch: Tensor, targets: Tensor) -> dict[str, float]:
    """Every library on one history, and ours on many at once."""
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


def beside_plain_batching(model: Recommender, batch: Tensor, targets: Tensor) -> dict[str, float]:
    """BERT4Rec's own way with coalitions, and a row of a batch for each of them."""
    tasks: dict[str, Callable[[], object]] = {
        "bert": partial(explain_batch, model, batch[:1], targets[:1], Shapley()),
        "bert plainly": partial(explain_batch, Plainly(model), batch[:1], targets[:1], Shapley()),
    }
    return in_turn(tasks)


def in_turn(tasks: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Milliseconds: ours more often, since it is over so fast."""
    taken: dict[str, list[float]] = {name: [] for name in tasks}
    for work in tasks.values():
        work()
    for _ in range(RUNS):
        for name, work in tasks.items():
            again = 1 if name in ("captum", "shap", "shapiq") else RUNS_OF_OURS
            taken[name] += [1e3 * seconds_of(work) for _ in range(again)]
    return {name: statistics.median(values) for name, values in taken.items()}


def curve(split: Split) -> list[dict[str, Any]]:
    """How far each library's values are from the truth, and how long they took."""
    points = []
    for blocks, model in models(split, "sasrec"):
        batch, targets = histories(split, model.config.max_len, HISTORIES_OF_CURVE)
        truth = explain_batch(model, batch, targets, TRUTH, seed=99)
        cases = [Peers(model, batch[[one]], targets[[one]]) for one in range(len(batch))]
        for name in ("captum", "shap", "shapiq", "whence"):
            for budget in BUDGETS_OF_OURS if name == "whence" else BUDGETS:
                found = [once(one, name, budget, seed) for seed, one in enumerate(cases)]
                errors = [
                    float(np.linalg.norm(values - true) / np.linalg.norm(true))
                    for (values, _), true in zip(found, truth.scores, strict=True)
                ]
                milliseconds = 1e3 * statistics.median(seconds for _, seconds in found)
                points.append(
                    {
                        "library": name,
                        "n_blocks": blocks,
                        "coalitions": budget,
                        "milliseconds": milliseconds,
                        "error": statistics.mean(errors),
                    }
                )
        assert truth.error is not None
        error = float(np.linalg.norm(truth.error) / np.linalg.norm(truth.scores))
        points.append({"library": "truth", "n_blocks": blocks, "error": error})
    return points


def once(peers: Peers, name: str, budget: int, seed: int) -> tuple[Floats, float]:
    """What a library says, and its seconds once it has warmed up."""
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
