"""The selection of experts as an explanation."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
import torch

from conftest import lively_sasrec, ragged_batch
from whence.contract import ALL, Explainable, Selections
from whence.errors import CapabilityError
from whence.experts import Family, InterpretableMLP
from whence.explainers import EXPLAINERS, able, compare_batch, explain_batch
from whence.explainers.base import make_request
from whence.explainers.expert_selection import ExpertSelection
from whence.randomness import Randomness
from whence.trust.agreement.rank_agreement import agreement
from whence.trust.faithfulness.deletion import deletion_curves
from whence.trust.stability.seed_pairs import attention_kl
from whence_studies.toy_data import TOYS

TOY = TOYS["d"]
METHODS = ["experts", "shapley", "leave-one-out", "gradient-input", "gradient-norm", "random"]


def model_of(seed: int = 0) -> InterpretableMLP:
    """Untrained, with large answers."""
    model = InterpretableMLP(TOY.family, (6, 6), Randomness(seed).torch("init")).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
    return model


def rows_of(count: int = 6, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, TOY.family.n_columns, generator=generator, dtype=torch.float64)


def by_orders(family: Family, alpha: list[float]) -> list[float]:
    """Shapley values, over all orders, of the α of experts whose inputs a coalition contains."""
    names = [group.name for group in family.groups]

    def worth(shown: set[str]) -> float:
        return sum(
            weight
            for weight, subset in zip(alpha, family.subsets, strict=True)
            if set(subset.groups) <= shown
        )

    orders = list(permutations(names))
    gains = dict.fromkeys(names, 0.0)
    for order in orders:
        for place, name in enumerate(order):
            gains[name] += worth({*order[: place + 1]}) - worth({*order[:place]})
    return [gains[name] / len(orders) / sum(alpha) for name in names]


def test_importances_are_shapley_values_of_the_selection() -> None:
    model, rows = model_of(), rows_of()
    found = explain_batch(model, rows, torch.ones(6, dtype=torch.long), "experts")
    with torch.no_grad():
        selected = model.attribute(rows).tolist()
    expected = [by_orders(TOY.family, alpha) for alpha in selected]
    np.testing.assert_allclose(found.scores, expected, atol=1e-7)
    np.testing.assert_allclose(found.scores.sum(axis=1), 1, atol=1e-6)
    assert not found.signed
    assert (found.evaluations == 1).all()


def test_no_selected_expert_gives_zeros() -> None:
    model = model_of()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    found = explain_batch(model, rows_of(), torch.ones(6, dtype=torch.long), "experts")
    assert (found.scores == 0).all()


def test_trust_measures_accept_expert_selections() -> None:
    rows, targets = rows_of(12), torch.ones(12, dtype=torch.long)
    found = compare_batch(model_of(), rows, targets, METHODS)
    assert all(one.scores.shape == (12, 4) for one in found.values())
    assert -1 <= agreement(found["experts"], found["shapley"]).value <= 1
    orders = [found["experts"], "random order", "greedy oracle"]
    curves = deletion_curves(model_of(), rows, orders)  # type: ignore[arg-type]
    area = {name: float(np.nanmean(one.area())) for name, one in curves.items()}
    assert area["greedy oracle"] > area["random order"]
    sizes = [explain_batch(model_of(seed), rows, targets, "experts").scores for seed in range(3)]
    apart = attention_kl(np.stack(sizes), found["experts"].parts)
    assert apart.measure().value > 0
    same = attention_kl(np.stack(sizes[:1] * 3), found["experts"].parts)
    assert same.measure().value == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_random_scores_of_real_numbers(kind: torch.dtype) -> None:
    """Equal rows get equal scores; another row, target or seed gets others."""
    model, rows = model_of().to(kind), rows_of(50).to(kind)
    targets = torch.ones(50, dtype=torch.long)
    found = explain_batch(model, rows, targets, "random").scores
    alone = explain_batch(model, rows[7:8], targets[:1], "random").scores
    np.testing.assert_array_equal(alone[0], found[7])
    assert len(np.unique(found)) == found.size
    changed: list[Callable[[], np.ndarray]] = [
        lambda: explain_batch(model, rows, targets, "random", seed=1).scores,
        lambda: explain_batch(model, rows, 0 * targets, "random").scores,
        lambda: explain_batch(model, rows + 1e-3, targets, "random").scores,
    ]
    assert all((other() != found).all() for other in changed)


def test_only_models_with_experts_support_it() -> None:
    model = lively_sasrec()
    with pytest.raises(CapabilityError, match="SASRec has no 'selections', which experts needs"):
        explain_batch(model, ragged_batch(2, 8, 30), torch.tensor([1, 2]), "experts")
    others = [name for name in EXPLAINERS if name not in {"experts", "contributions"}]
    assert able(model, EXPLAINERS) == others
    own = able(model_of(), EXPLAINERS)
    assert own[0] == "experts"
    assert "rollout" not in own
    assert {"shapley", "gradient-input", "random"} <= set(own)


def test_only_parts_of_the_case_share_the_weight() -> None:
    """Padding scores 0, and an expert that sees no part is left out."""

    class Halved(Explainable):
        removal = "zeroed"

        def parts(self, batch: torch.Tensor) -> torch.Tensor:
            return batch >= 0

        def score(self, batch: torch.Tensor, targets: object, **_: object) -> torch.Tensor:
            return torch.ones(len(batch), 1 if targets is not ALL else 3)

        def selections(self, batch: torch.Tensor, targets: torch.Tensor) -> Selections:
            sees = torch.tensor([[True, False], [True, True]]).expand(len(batch), 2, 2)
            weights = torch.tensor([[0.2, 0.6]]).expand(len(batch), 2)
            return Selections(weights, sees & self.parts(batch)[:, None])

    batch = torch.tensor([[1, 1], [-1, 1]])
    found = ExpertSelection()(make_request(Halved(), batch, torch.tensor([0, 0])))
    expected = torch.tensor([[0.5 / 0.8, 0.3 / 0.8], [0.0, 0.6 / 0.8]])
    torch.testing.assert_close(found.scores, expected)
