from __future__ import annotations

import math
from typing import get_args

import pytest
import torch
from families import SESSIONS, TOY, families
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from whence.errors import InputError
from whence.experts.family import Family
from whence.experts.selection import (
    DEFAULT,
    RECIPES,
    Confidence,
    Recipe,
    Selection,
    Shape,
    expected_loss,
    reduce_loss,
)
from whence.experts.targets import Binary, Classes, Real, Target

ALL_TARGETS = [
    Binary(),
    Binary("sigmoid", 0.3),
    Classes(2),
    Classes(4),
    Classes(3, (0.15, 0.7, 0.15)),
    Real(1.0, 2.0),
]


def answers_of(target: Target, experts: int, rows: int = 6, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    shape = (experts, target.n_outputs, rows)
    return 2 * torch.randn(shape, generator=generator, dtype=torch.float64)


def truth_of(target: Target, rows: int = 6) -> Tensor:
    generator = torch.Generator().manual_seed(7)
    if isinstance(target, Real):
        return torch.randn(rows, generator=generator, dtype=torch.float64)
    classes = target.count if isinstance(target, Classes) else 2
    return torch.randint(0, classes, (rows,), generator=generator)


def test_confidences_match_the_paper() -> None:
    f = torch.linspace(0, 1, 11, dtype=torch.float64)
    torch.testing.assert_close(Confidence("absolute")(f), f)
    torch.testing.assert_close(Confidence("square")(f), f**2)
    torch.testing.assert_close(Confidence("power", 4)(f), 2 * f**4 / (1 + f**3))
    torch.testing.assert_close(Confidence("power", 3)(f), 2 * f**3 / (1 + f**2))


def test_confidence_with_centre() -> None:
    """|p − 0.3|⁴/(1 + |p − 0.3|³) × (0.7³ + 1)/0.7⁴: 1 at p = 1, 0 at 0.3, 0.044 at 0."""
    target = Binary("sigmoid", 0.3)
    p = torch.tensor([0.0, 0.3, 0.6, 1.0], dtype=torch.float64)
    outputs = torch.logit(p, eps=1e-15)[None, None]
    found = Confidence("power")(target.distance(outputs), target.max_distance)[0]
    u = (p - 0.3).abs()
    expected = u**4 / (1 + u**3) * (0.7**3 + 1) / 0.7**4
    torch.testing.assert_close(found, expected)
    assert found[[0, 1, 3]].tolist() == pytest.approx([0.044, 0.0, 1.0], abs=5e-4)


@given(family=families(), own=st.booleans(), seed=st.integers(0, 99))
def test_selection_by_hand(family: Family, own: bool, seed: int) -> None:
    """The product over contained experts, with loops."""
    generator = torch.Generator().manual_seed(seed)
    distance = torch.rand(len(family), 4, generator=generator, dtype=torch.float64)
    distance[:, 0] = 1.0
    found = Selection(Confidence("square"), own)(family, distance)
    confidence = (distance**2).tolist()
    seen = [set(subset.groups) for subset in family.subsets]
    for expert in range(len(family)):
        for case in range(4):
            expected = confidence[expert][case] if own else 1.0
            for other in range(len(family)):
                if seen[other] < seen[expert]:
                    expected *= 1 - confidence[other][case]
            assert float(found[expert, case]) == pytest.approx(expected, abs=1e-12)
    assert (found >= 0).all()
    assert (found <= 1).all()


def test_confident_simple_expert_suppresses_larger_ones() -> None:
    """F = (0.8, 0.5, 1): α = (0.8, 0.5, 1 · 0.2 · 0.5)."""
    distance = torch.tensor([[0.8], [0.5], [1.0]], dtype=torch.float64)
    found = Selection(Confidence("absolute"))(TOY, distance)
    assert found[:, 0].tolist() == pytest.approx([0.8, 0.5, 0.1])


@given(seed=st.integers(0, 99))
def test_two_classes_equal_the_binary_target(seed: int) -> None:
    """Distance, loss, mixture and Σ α of logits (0, 2a) are those of tanh(a)."""
    binary, two = Binary(), Classes(2)
    outputs = answers_of(binary, 3, seed=seed)
    both = torch.cat((torch.zeros_like(outputs), 2 * outputs), dim=1)
    labels = truth_of(binary)
    torch.testing.assert_close(two.distance(both), binary.distance(outputs))
    torch.testing.assert_close(two.loss(both, labels), binary.loss(outputs, labels))
    weights = Selection()(TOY, binary.distance(outputs))
    torch.testing.assert_close(two.mix(both, weights), binary.mix(outputs, weights))


@pytest.mark.parametrize("shape", get_args(Shape))
@pytest.mark.parametrize("centre", [0.3, 0.5, 0.9])
@given(own=st.booleans(), seed=st.integers(0, 99))
def test_two_classes_with_centre_equal_the_binary_target(
    shape: Shape, centre: float, own: bool, seed: int
) -> None:
    """Equal probabilities select the same experts, for every confidence."""
    binary, two = Binary("sigmoid", centre), Classes(2, (centre, 1 - centre))
    outputs = answers_of(binary, 3, seed=seed)
    both = torch.cat((outputs, torch.zeros_like(outputs)), dim=1)
    selection = Selection(Confidence(shape), own)
    expected = selection(TOY, binary.distance(outputs), binary.max_distance)
    torch.testing.assert_close(selection(TOY, two.distance(both), two.max_distance), expected)


def test_the_distance_of_several_classes_by_hand() -> None:
    """Uniform: √((K Σ p² − 1)/(K − 1)); the maximum is at the farthest corner."""
    outputs = answers_of(Classes(4), 2)
    p = outputs.softmax(dim=1)
    torch.testing.assert_close(
        Classes(4).distance(outputs), ((4 * p.square().sum(dim=1) - 1) / 3).sqrt()
    )
    about = Classes(3, (0.2, 0.7, 0.1))
    corners = torch.log(torch.eye(3, dtype=torch.float64) + 1e-15)[None]
    assert about.max_distance == pytest.approx(float(about.distance(corners).max()))


@pytest.mark.parametrize("target", ALL_TARGETS)
def test_distances_are_at_most_max_distance(target: Target) -> None:
    distance = target.distance(answers_of(target, 3, 500))
    assert (distance >= 0).all()
    assert (distance <= target.max_distance).all()
    assert target.distance(torch.zeros(1, target.n_outputs, 1)).isfinite().all()


def test_losses_match_pytorch() -> None:
    rows = torch.nn.functional
    outputs, labels = answers_of(Binary(), 1), truth_of(Binary())
    chance = (outputs[0, 0].tanh() + 1) / 2
    expected = rows.binary_cross_entropy(chance, labels.double(), reduction="none")
    torch.testing.assert_close(Binary().loss(outputs, labels)[0], expected)
    outputs, labels = answers_of(Classes(4), 1), truth_of(Classes(4))
    expected = rows.cross_entropy(outputs[0].T, labels, reduction="none")
    torch.testing.assert_close(Classes(4).loss(outputs, labels)[0], expected)
    outputs, labels = answers_of(Real(), 1), truth_of(Real())
    open_share = 1e-4 + (1 - 1e-4) * outputs[0, 1].sigmoid()
    expected = rows.gaussian_nll_loss(outputs[0, 0], labels, open_share, reduction="none", eps=0)
    torch.testing.assert_close(Real().loss(outputs, labels)[0], expected)
    scaled = Real(5.0, 3.0).loss(outputs, 5 + 3 * labels)[0]
    torch.testing.assert_close(scaled, expected)


def test_clamped_and_shifted_logarithms() -> None:
    """log of p clamped to [10⁻⁶, 1 − 10⁻⁶], and log(p + 10⁻⁶)."""
    outputs = torch.tensor([[[-20.0, -1.0, 0.5, 20.0]]], dtype=torch.float64)
    p = (outputs[0, 0].tanh() + 1) / 2
    yes = torch.ones(4)
    squeezed = Binary(logarithm="clamped").loss(outputs, yes)[0]
    torch.testing.assert_close(squeezed, -p.clamp(1e-6, 1 - 1e-6).log())
    shifted = Binary(logarithm="shifted").loss(outputs, yes)[0]
    torch.testing.assert_close(shifted, -(p + 1e-6).log())


def by_loops(
    recipe: Recipe, family: Family, target: Target, outputs: Tensor, labels: Tensor, valid: Tensor
) -> float:
    """The sums of the published programs, with loops."""
    selected = recipe.training(family, target.distance(outputs), target.max_distance)
    weights: list[list[float]] = selected.tolist()
    losses: list[list[float]] = target.loss(outputs, labels).tolist()
    experts = range(len(family))
    cases = [case for case in range(outputs.shape[2]) if valid[case]]
    if recipe.normalization in ("case", "expert"):
        small = 1e-6 if recipe.normalization == "case" else 1e-9
        for case in cases:
            total = sum(weights[i][case] for i in experts) + small
            for i in experts:
                weights[i][case] /= total
    if recipe.normalization == "expert":
        return sum(
            sum(weights[i][case] * losses[i][case] for case in cases)
            / (sum(weights[i][case] for case in cases) + 1e-9)
            for i in experts
        )
    total_loss = sum(weights[i][case] * losses[i][case] for i in experts for case in cases)
    if recipe.normalization == "batch":
        return total_loss / (sum(weights[i][case] for i in experts for case in cases) + 1e-6)
    return total_loss / len(cases)


@pytest.mark.parametrize("target", ALL_TARGETS)
@pytest.mark.parametrize("name", RECIPES)
def test_recipes_match_loops(name: str, target: Target) -> None:
    recipe = RECIPES[name]
    outputs, labels = answers_of(target, len(SESSIONS)), truth_of(target)
    valid = torch.tensor([True, True, False, True, True, False])
    for known in (torch.ones(6, dtype=torch.bool), valid):
        expected = by_loops(recipe, SESSIONS, target, outputs, labels, known)
        marked = labels.masked_fill(~known, -2)
        found = expected_loss(
            recipe, SESSIONS, target, outputs, marked, None if known.all() else known
        )
        assert float(found) == pytest.approx(expected)


def test_reduce_loss_by_hand() -> None:
    """Two experts, two cases: α = (1, ½; 0, ½), L = (1, 2; 3, 4)."""
    weights = torch.tensor([[1.0, 0.5], [0.0, 0.5]], dtype=torch.float64)
    losses = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64)
    assert float(reduce_loss("none", weights, losses)) == pytest.approx((1 + 3) / 2)
    assert float(reduce_loss("case", 2 * weights, losses)) == pytest.approx((1 + 3) / 2, abs=1e-5)
    assert float(reduce_loss("batch", weights, losses)) == pytest.approx((1 + 1 + 2) / 2, abs=1e-5)
    assert float(reduce_loss("expert", weights, losses)) == pytest.approx(2 / 1.5 + 4, abs=1e-5)


def test_selection_is_detached() -> None:
    """The gradient is that of the losses under constant weights."""
    outputs = answers_of(Binary(), 3).requires_grad_()
    labels = truth_of(Binary())
    expected_loss(DEFAULT, TOY, Binary(), outputs, labels).backward()
    weights = DEFAULT.training(TOY, Binary().distance(outputs)).detach()
    loss = (weights * Binary().loss(outputs, labels)).sum() / (weights.sum() + 1e-6)
    (expected,) = torch.autograd.grad(loss, outputs)
    torch.testing.assert_close(outputs.grad, expected)


def test_mix_by_hand() -> None:
    """F = (½, −1) with weights (3, 1) gives F = 1/8 and f = 9/16; no weight gives ignorance."""
    f = torch.tensor([[[0.5]], [[-1 + 1e-12]]], dtype=torch.float64)
    weights = torch.tensor([[3.0], [1.0]], dtype=torch.float64)
    found = Binary().mix(torch.atanh(f), weights)
    assert found[0].tolist() == pytest.approx([-math.log(9 / 7), math.log(9 / 7)])
    nobody = torch.zeros(2, 1, dtype=torch.float64)
    assert Binary().mix(torch.atanh(f), nobody)[0].tolist() == [0.0, 0.0]
    even = Classes(4).mix(torch.randn(2, 4, 1, dtype=torch.float64), nobody)
    assert even[0].tolist() == pytest.approx([math.log(1 / 3)] * 4)
    real = torch.tensor([[[1.0], [0.0]], [[-2.0], [0.0]]], dtype=torch.float64)
    assert float(Real(10.0, 2.0).mix(real, weights)) == pytest.approx(10 + 2 * 0.25)
    assert float(Real(10.0, 2.0).mix(real, nobody)) == 10.0


def test_invalid_arguments_are_rejected() -> None:
    with pytest.raises(InputError, match=r"^shape cannot be 'cube'"):
        Confidence("cube")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^The power of a confidence must be above 1, not 1"):
        Confidence("power", 1)
    with pytest.raises(InputError, match=r"^normalization cannot be 'row'"):
        Recipe(Selection(), Selection(), "row")  # type: ignore[arg-type]
    with pytest.raises(
        InputError, match=r"^The centre of a sigmoid target must lie between 0 and 1"
    ):
        Binary("sigmoid", 2)
    with pytest.raises(InputError, match=r"^A target needs at least two classes, not 1"):
        Classes(1)
    for centre in ((math.nan, 0.5), (0.5, math.nan), (0.5, 0.6), (0.0, 1.0), (1.0,)):
        with pytest.raises(InputError, match=r"^The centre of 2 classes must hold 2 probabilities"):
            Classes(2, centre)
    with pytest.raises(InputError, match=r"^The std of a target must be above 0, not 0"):
        Real(0.0, 0.0)
