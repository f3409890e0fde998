"""The columns of Tables 4.1 to 4.6, against SciPy and plain loops over points."""

from __future__ import annotations

import math
import re

import numpy as np
import pyarrow as pa
import pytest
import torch
from scipy import stats
from scipy.special import softmax

from conftest import TRANSFORMERS, interactions_of
from whence.arrays import Floats
from whence.contract import ALL, HasAttentions, HasEmbeddings
from whence.data import Split, last_two
from whence.data.catalog import Catalog
from whence.explainers import explain_batch
from whence.explainers.base import Explainer
from whence.explainers.shapley import Shapley
from whence.explainers.shapley_printed import PrintedShapley
from whence.models import Recommender
from whence.run import Run
from whence_studies.measurements.explainer_agreement import (
    HISTOGRAMS,
    LARGEST,
    MEASUREMENT,
    QUICK_COLUMNS,
    agreement,
    quick_agreement,
)
from whence_studies.measurements.measurement import MeasuredRun, SeedColumn
from whence_studies.measurements.point_sample import PointSample, draw_points

LENGTH, POINTS, ITEMS = 12, 15, 30
PRINTED = PrintedShapley(coalitions=1024)
HALF = Shapley(sampler="paired", coalitions=2048)

Importances = dict[str, Floats]


@pytest.fixture(scope="module")
def users() -> Split:
    """Histories of 2 to 15 items, some of them longer than the models read."""
    rng = np.random.default_rng(0)
    chosen = [rng.permutation(ITEMS)[: 4 + user % 14].tolist() for user in range(80)]
    return last_two(interactions_of(chosen))


def measured_run(users: Split, *models: Recommender) -> MeasuredRun:
    catalog = Catalog(pa.table({"item": list(range(ITEMS))}))
    run = Run("sasrec", {}, {}, {}, catalog, dict(enumerate(models)), metrics={})
    return MeasuredRun(run, users, "validation", False)


def measured(users: Split, *models: Recommender) -> dict[str, SeedColumn]:
    return agreement(measured_run(users, *models), PointSample(POINTS))


def importances(model: Recommender, seed: int, history: list[int], target: int) -> Importances:
    """By symbol, of one point with a seed's draws; from the model itself wherever that is short."""
    batch, wanted, n = torch.tensor([history]), torch.tensor([target]), len(history)
    assert isinstance(model, HasEmbeddings)
    embedded = model.embed(batch).detach().requires_grad_()
    score = model.score(batch, wanted[:, None], embedded=embedded).sum()
    (gradient,) = torch.autograd.grad(score, embedded)
    present = ~torch.eye(n + 1, n, dtype=torch.bool)  # without each, and the whole at last
    with torch.no_grad():
        logits = model.score(batch.expand(n + 1, -1), ALL, present=present).numpy()
        assert isinstance(model, HasAttentions)
        first, *_, last = (block[0, :, -1, :n].numpy() for block in model.attentions(batch, wanted))
    chances = softmax(logits, axis=1)

    def drawn(method: Explainer, draw: int) -> Floats:
        return np.asarray(explain_batch(model, batch, wanted, method, 2 * seed + draw).scores[0])

    halves = [drawn(HALF, draw) for draw in (0, 1)]
    heads = {f"α first {head}": weights for head, weights in enumerate(first, start=1)}
    return {
        "∇": gradient[0].norm(dim=-1).numpy(),
        "α first": first.mean(axis=0),
        "α last": last.mean(axis=0),
        "α": explain_batch(model, batch, wanted, "rollout").scores[0],
        "LOO": (logits[-1] - logits[:-1])[:, target],
        "LOO p": (chances[-1] - chances[:-1])[:, target],
        "φ": drawn(PRINTED, 0),
        "φ′": drawn(PRINTED, 1),
        "φ*₁": halves[0],
        "φ*₂": halves[1],
        "φ*": np.mean(halves, axis=0),
        **(heads if len(first) > 1 else {}),
    }


def mu(one: Floats, two: Floats, logarithmic: bool) -> float:
    """As section 3.4.2 prints it, of rankings without ties."""
    n = len(one)
    up, down = np.arange(1.0, n + 1), np.arange(n, 0.0, -1)

    def gain(x: Floats, y: Floats) -> float:
        return float(((n - x) / (np.log2(y + 2) if logarithmic else y + 1)).sum())

    def normalised(x: Floats, y: Floats) -> float:
        return 2 * (gain(x, y) - gain(up, down)) / (gain(up, up) - gain(up, down)) - 1

    x, y = stats.rankdata(-one), stats.rankdata(-two)
    return round(normalised(x, y) / 2 + normalised(y, x) / 2, 12)


def of_point(column: str, said: Importances) -> float:
    """What the name of a column asks for."""
    found = re.fullmatch(r"(ρ|τ|μ log|μ lin|J3)\((.*), (.*)\)", column)
    if found is None:
        weights = said[column.removeprefix("entropy of ")]
        return float(stats.entropy(weights / weights.sum(), base=2))
    what, *names = found.groups()
    one, two = (
        np.abs(said[name.strip("|")]) if name.startswith("|") else said[name] for name in names
    )
    match what:
        case "ρ":
            return float(stats.spearmanr(one, two).statistic)
        case "τ":
            return float(stats.kendalltau(one, two).statistic)
        case "J3":
            top, other = ({*np.argsort(-sizes)[:3].tolist()} for sizes in (one, two))
            return len(top & other) / len(top | other)
        case mean:
            return mu(one, two, logarithmic=mean == "μ log")


def by_hand(users: Split, model: Recommender, seed: int) -> dict[str, Floats]:
    """`[points]` by column, as far as a column is one value a point."""
    cases = draw_points(users, "validation", PointSample(POINTS))
    said = [
        importances(
            model, seed, users.interactions.items[start:end][-LENGTH:].tolist(), int(target)
        )
        for start, end, target in zip(cases.starts, cases.ends, cases.targets, strict=True)
    ]
    columns = [name for name in MEASUREMENT.columns if not name.startswith(("sd of", "log₁₀"))]
    known = [name for name in columns if "α first 2" in said[0] or not _of_heads(name)]
    return {name: np.array([of_point(name, one) for one in said]) for name in known}


def _of_heads(column: str) -> bool:
    return "α first 1" in column or "α first 2" in column


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("name", list(TRANSFORMERS))
def test_every_column_equals_loops_over_points(users: Split, name: str, heads: int) -> None:
    models = [
        TRANSFORMERS[name](heads=heads, length=LENGTH, items=ITEMS, seed=seed) for seed in (0, 1)
    ]
    found = measured(users, *models)
    declared = {one for one in MEASUREMENT.all_columns if heads > 1 or not _of_heads(one)}
    assert set(found) == declared
    assert len(declared) == len(MEASUREMENT.all_columns) - (0 if heads > 1 else 6)
    for seed, model in enumerate(models):
        expected = by_hand(users, model, seed)
        ours = {column: one.per_seed[seed] for column, one in found.items()}
        for column, values in expected.items():
            assert ours[column] == pytest.approx(values.mean(), abs=1e-9), column
            assert ours[f"sd of {column}"] == pytest.approx(values.std(ddof=1), abs=1e-9), column
        for phi in ("φ", "φ*"):
            low, high = (expected[f"{one}(|{phi}|, α first)"] for one in ("μ log", "μ lin"))
            test = stats.wilcoxon(
                low, high, alternative="less", correction=False, method="asymptotic"
            )
            column = f"log₁₀ p of μ log < μ lin (|{phi}|, α first)"
            assert ours[column] == pytest.approx(math.log10(test.pvalue))
            assert found[column].n == np.count_nonzero(low != high)
        for column in HISTOGRAMS:
            shares = [ours[f"{column} from {tenth / 10:.1f}"] for tenth in range(-10, 10)]
            assert sum(shares) == pytest.approx(1)
            upto, edges = np.cumsum(shares)[:-1], np.arange(-9, 10)[:, None] / 10
            # Rank correlations often lie on a border, where rounding decides.
            for below, rounding in ((np.less_equal, 1e-9), (np.greater_equal, -1e-9)):
                counted = (expected[column] < edges + rounding).mean(axis=1)
                assert below(upto, counted + 1e-12 * np.sign(rounding)).all()
    assert found["ρ(∇, α)"].n == POINTS
    assert found["ρ(∇, α)"].protocol.startswith("15 validation events, last-two split by")


@pytest.mark.parametrize("name", list(TRANSFORMERS))
def test_the_quick_columns_are_the_same_without_the_printed_estimate(
    users: Split, name: str
) -> None:
    """The largest entropy is that of equal weights on the items that the model reads."""
    model = TRANSFORMERS[name](heads=1, length=LENGTH, items=ITEMS)
    quick = quick_agreement(measured_run(users, model), PointSample(POINTS))
    assert tuple(quick) == QUICK_COLUMNS
    assert not any("|φ|" in column or "φ′" in column for column in quick)
    every = measured(users, model)
    for column, found in quick.items():
        if column != LARGEST:
            assert found.per_seed == pytest.approx(every[column].per_seed), column
            assert found.n == every[column].n
    cases = draw_points(users, "validation", PointSample(POINTS))
    lengths = np.minimum(cases.ends - cases.starts, LENGTH)
    uniform = [stats.entropy(np.ones(length), base=2) for length in lengths]
    assert quick[LARGEST].per_seed == pytest.approx([np.mean(uniform)])
    assert quick["entropy of α first"].per_seed[0] < quick[LARGEST].per_seed[0]


def test_sampled_estimates_differ_between_draws(users: Split) -> None:
    found = measured(users, TRANSFORMERS["sasrec"](length=LENGTH, items=ITEMS))
    noisy, steady = (found[f"ρ({pair})"].per_seed[0] for pair in ("|φ|, |φ′|", "|φ*₁|, |φ*₂|"))
    assert noisy < steady < 1
    assert measured(users, TRANSFORMERS["sasrec"](length=LENGTH, items=ITEMS)) == found


def test_equal_models_of_two_seeds_differ_by_their_draws_only(users: Split) -> None:
    """So an interval over seeds includes the noise of the estimators."""
    model = TRANSFORMERS["sasrec"](length=LENGTH, items=ITEMS)
    found = measured(users, model, model)
    for column in ("ρ(∇, α)", "ρ(LOO, φ)", "ρ(|φ|, α first)", "ρ(|φ*|, α first)"):
        first, second = found[column].per_seed
        assert (first != second) == ("φ" in column), column
