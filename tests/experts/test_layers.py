from __future__ import annotations

import pytest
import torch
from families import TOY, EveryLayer, families, full_matrix, of_expert
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from whence.experts.family import Family
from whence.experts.fused import _unfused_layers
from whence.experts.linear import InputLinear, LinkedLinear, perceptron

CASES, STEPS = 2, 3
GENERATOR = torch.Generator()
some_layers = settings(max_examples=15)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def hidden(family: Family, expert: int) -> list[int]:
    """Return the columns that an expert may not see."""
    return [column for column in range(family.n_columns) if column not in family.columns[expert]]


@some_layers
@given(family=families())
def test_expert_output_is_independent_of_hidden_columns(family: Family) -> None:
    """Hidden columns are NaN; neither outputs nor gradients become NaN."""
    network = EveryLayer(family, STEPS)
    inputs = drawn(CASES * STEPS, family.n_columns)
    out = network(inputs)
    out.square().sum().backward()
    for expert in range(len(family)):
        learned = [gradient.clone() for gradient in of_expert(network, expert)]
        assert any(gradient.any() for gradient in learned)
        poisoned = inputs.clone()
        poisoned[:, hidden(family, expert)] = torch.nan
        other = EveryLayer(family, STEPS)
        again = other(poisoned)
        assert torch.equal(again[expert], out[expert])
        again.square().sum().backward()
        for one, two in zip(learned, of_expert(other, expert), strict=True):
            assert torch.equal(one, two)


@some_layers
@given(family=families())
def test_gradients_do_not_reach_other_experts(family: Family) -> None:
    for expert in range(len(family)):
        network = EveryLayer(family, STEPS)
        network(drawn(CASES * STEPS, family.n_columns))[expert].square().sum().backward()
        for other in range(len(family)):
            trained = any(bool(gradient.any()) for gradient in of_expert(network, other))
            assert trained == (other == expert)


@some_layers
@given(family=families())
def test_linked_layer_equals_masked_matrix(family: Family) -> None:
    """Forward, and backward with and without detached links."""
    layer = LinkedLinear(family, 3, 2, GENERATOR.manual_seed(1)).double()
    assert layer.bias is not None
    nn.init.uniform_(layer.bias, -1, 1)
    features = drawn(len(family), 3, 5).requires_grad_()
    wanted = drawn(len(family), 2, 5, seed=1)
    for detach in (True, False):
        full = full_matrix(layer).detach().requires_grad_()
        blocks = full.reshape(len(family), 2, len(family), 3)
        rows = []
        for expert in range(len(family)):
            own = [
                features[other] if other == expert or not detach else features[other].detach()
                for other in range(len(family))
            ]
            rows.append(sum(blocks[expert, :, other] @ own[other] for other in range(len(family))))
        expected = torch.stack(rows) + layer.bias.detach()  # type: ignore[arg-type]
        to_features, to_full = torch.autograd.grad((expected * wanted).sum(), (features, full))
        found = layer(features, detach)
        torch.testing.assert_close(found, expected)
        layer.zero_grad()
        features.grad = None
        (found * wanted).sum().backward()
        torch.testing.assert_close(features.grad, to_features)
        kept = full.detach() != 0
        gradients = LinkedLinear(family, 3, 2, GENERATOR).double()
        for mine, theirs in zip(gradients.parameters(), layer.parameters(), strict=True):
            mine.data = theirs.grad  # type: ignore[assignment]
        torch.testing.assert_close(full_matrix(gradients)[kept], to_full[kept])
        torch.testing.assert_close(gradients.bias[..., 0], wanted.sum(2))  # type: ignore[index]


@some_layers
@given(family=families(), detach=st.booleans())
def test_second_derivatives_match_unfused_layers(family: Family, detach: bool) -> None:
    """For a linked layer on an input layer with trained rows."""
    first = InputLinear(family, 3, GENERATOR.manual_seed(1)).double()
    layer = LinkedLinear(family, 3, 2, GENERATOR).double()
    weights = [*first.parameters(), *layer.parameters()]

    def second(inputs: Tensor) -> Tensor:
        found = layer(first(inputs, detach).tanh(), detach).square().sum()
        gradients = torch.autograd.grad(found, [inputs, *weights], create_graph=True)
        total = torch.stack([one.square().sum() for one in gradients]).sum()
        return torch.cat([one.flatten() for one in torch.autograd.grad(total, [inputs, *weights])])

    inputs = drawn(5, family.n_columns).requires_grad_()
    found = second(inputs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("whence.experts.linear.fused_layers", _unfused_layers)
        torch.testing.assert_close(found, second(inputs))
    if not detach:
        assert torch.autograd.gradgradcheck(
            lambda rows: layer(first(rows, detach).tanh(), detach), inputs
        )


@some_layers
@given(family=families(), detach=st.booleans(), linked=st.booleans(), twice=st.booleans())
def test_perceptron_equals_its_layers_in_sequence(
    family: Family, detach: bool, linked: bool, twice: bool
) -> None:
    """Outputs, gradients, and gradients of gradients."""
    generator = GENERATOR.manual_seed(1)
    first = InputLinear(family, 4, generator).double()
    others = nn.ModuleList(
        LinkedLinear(family, *sizes, generator, linked=linked) for sizes in ((4, 3), (3, 2))
    ).double()
    learned = [
        drawn(5, family.n_columns).requires_grad_(),
        *first.parameters(),
        *others.parameters(),
    ]
    for bias in learned[1:]:
        if bias.shape[-1] == 1:
            nn.init.uniform_(bias, -1, 1)

    def gradients(outputs: Tensor) -> list[Tensor]:
        found = torch.autograd.grad(outputs.square().sum(), learned, create_graph=twice)
        if not twice:
            return list(found)
        total = torch.stack([one.square().sum() for one in found]).sum()
        return list(torch.autograd.grad(total, learned))

    outputs = perceptron(first, others, learned[0], detach)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("whence.experts.linear.fused_layers", _unfused_layers)
        one_by_one = first(learned[0], detach)
        for layer in others:
            one_by_one = layer(one_by_one.relu(), detach)
    torch.testing.assert_close(outputs, one_by_one)
    torch.testing.assert_close(gradients(outputs), gradients(one_by_one))


def three_layers() -> tuple[Tensor, InputLinear, nn.ModuleList]:
    generator = GENERATOR.manual_seed(1)
    first = InputLinear(TOY, 4, generator)
    others = nn.ModuleList(LinkedLinear(TOY, *sizes, generator) for sizes in ((4, 3), (3, 2)))
    return torch.ones(2, TOY.n_columns, requires_grad=True), first, others


def test_frozen_parameters_do_not_change_other_gradients() -> None:
    """The rows and each parameter in turn are the only trained tensor."""
    rows, first, others = three_layers()
    learned = [rows, *first.parameters(), *others.parameters()]
    perceptron(first, others, rows, True).square().sum().backward()
    expected = [one.grad for one in learned]
    for number, only in enumerate(learned):
        for one in learned:
            one.grad = None
            one.requires_grad_(one is only)
        perceptron(first, others, rows, True).square().sum().backward()
        torch.testing.assert_close(only.grad, expected[number])
        assert sum(one.grad is not None for one in learned) == 1


def test_gradients_survive_activation_checkpointing() -> None:
    rows, first, others = three_layers()

    def loss(rows: Tensor) -> Tensor:
        return perceptron(first, others, rows, True).square().sum()

    again = checkpoint(loss, rows, use_reentrant=False)
    learned = [rows, *first.parameters(), *others.parameters()]
    found, expected = (torch.autograd.grad(one, learned) for one in (again, loss(rows)))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("twice", [False, True])
def test_hooks_are_called_once(twice: bool) -> None:
    """Also with create_graph."""
    rows, first, others = three_layers()
    calls: list[Tensor] = []
    learned = [rows, *first.parameters(), *others.parameters()]
    for one in learned:
        one.register_hook(calls.append)
    outputs = perceptron(first, others, rows, True).sum()
    torch.autograd.grad(outputs, learned, create_graph=twice)
    assert len(calls) == len(learned)


def test_in_place_weight_changes_are_detected() -> None:
    first = InputLinear(TOY, 4, GENERATOR.manual_seed(1))
    others = nn.ModuleList([LinkedLinear(TOY, 4, 1, GENERATOR)])
    outputs = perceptron(first, others, torch.ones(2, TOY.n_columns), True)
    nn.init.zeros_(others[0].own)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        outputs.sum().backward()
