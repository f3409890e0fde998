"""Input layers, attention, recurrent layers and embeddings of experts, against slow references."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from families import SESSIONS, TOY, EveryLayer, families
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from whence.errors import InputError
from whence.experts.embedding import EmbeddingTable, GroupEmbedding
from whence.experts.family import Family
from whence.experts.gru import ExpertGRU
from whence.experts.linear import InputLinear, LinkedLinear
from whence.experts.transformer import ExpertAttention, ExpertNorm

CASES, STEPS = 2, 3
GENERATOR = torch.Generator()


def drawn(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


@given(family=families())
def test_input_layer_equals_a_loop_over_experts(family: Family) -> None:
    layer = InputLinear(family, 2, GENERATOR.manual_seed(1)).double()
    inputs = drawn(5, family.n_columns)
    found = layer(inputs)
    weights = [one for weight in layer.weights for one in weight]
    for expert, (weight, columns) in enumerate(zip(weights, family.columns, strict=True)):
        torch.testing.assert_close(found[expert], weight @ inputs[:, columns].T)


@given(family=families(), trained_by=st.sampled_from(["all", "smallest"]))
def test_which_experts_train_the_inputs(family: Family, trained_by: str) -> None:
    layer = InputLinear(family, 2, GENERATOR.manual_seed(1), trained_by=trained_by).double()  # type: ignore[arg-type]
    for expert in range(len(family)):
        inputs = drawn(5, family.n_columns).requires_grad_()
        layer(inputs)[expert].sum().backward()
        assert inputs.grad is not None
        below = {column for other in family.contained[expert] for column in family.columns[other]}
        trains = set(family.columns[expert]) - (below if trained_by == "smallest" else set())
        assert set(inputs.grad.any(dim=0).nonzero()[:, 0].tolist()) == trains
        (whole,) = torch.autograd.grad(layer(inputs, detach=False)[expert].sum(), inputs)
        assert set(whole.any(dim=0).nonzero()[:, 0].tolist()) == set(family.columns[expert])


def test_parameter_count() -> None:
    """The published network for MovieLens-1M has 147,028 weights without embeddings."""
    family = Family.of(
        {"content": range(32), "user": range(32, 96), "item": range(96, 160)},
        {
            "S1": ["content"],
            "S2": ["content", "user"],
            "S3": ["content", "item"],
            "S4": ["content", "user", "item"],
        },
    )
    layers: list[nn.Module] = [InputLinear(family, 128, GENERATOR)]
    for inputs, outputs in ((128, 64), (64, 32), (32, 16), (16, 1)):
        layers.append(LinkedLinear(family, inputs, outputs, GENERATOR))
    assert sum(one.numel() for layer in layers for one in layer.parameters()) == 147_028


def test_layers_without_links() -> None:
    layer = LinkedLinear(TOY, 3, 2, GENERATOR.manual_seed(0), linked=False, bias=False)
    features = torch.ones(3, 3, 1)
    torch.testing.assert_close(layer(features)[..., 0], layer.own.sum(2))


def test_norm_equals_layer_norm_of_each_expert() -> None:
    features = drawn(3, 4, 5)
    expected = F.layer_norm(features.mT, (4,), eps=1e-6).mT
    torch.testing.assert_close(ExpertNorm(TOY, 4)(features), expected)
    learned = ExpertNorm(TOY, 4, learned=True).double()
    assert learned.gain is not None
    nn.init.constant_(learned.gain[1], 3.0)
    torch.testing.assert_close(learned(features)[1], 3 * expected[1])


@pytest.mark.parametrize("masked", [False, True])
def test_attention_equals_a_loop_over_experts_and_heads(masked: bool) -> None:
    generator = GENERATOR.manual_seed(2)
    query = LinkedLinear(SESSIONS, 4, 4, generator, bias=False)
    memory = LinkedLinear(SESSIONS, 4, 8, generator, bias=False)
    layer = ExpertAttention(SESSIONS, query, memory, 4, 2, generator).double()
    rows, kept = drawn(8, 4, CASES * STEPS), drawn(8, 4, CASES * 5, seed=1)
    visible = drawn(CASES, STEPS, 5, seed=2) > -0.5
    visible[..., 0] = True
    found = layer(rows, kept, STEPS, visible if masked else None)
    queries, (keys, values) = query(rows), memory(kept).chunk(2, dim=1)
    for expert in range(8):
        for case in range(CASES):
            mixed = []
            for head in (slice(0, 2), slice(2, 4)):
                q = queries[expert, head, case * STEPS : (case + 1) * STEPS]
                k, v = (one[expert, head, case * 5 : (case + 1) * 5] for one in (keys, values))
                logits = q.T @ k / 2**0.5
                if masked:
                    logits[~visible[case]] = -torch.inf
                mixed.append(v @ logits.softmax(dim=1).T)
            expected = layer.output.own[expert] @ torch.cat(mixed)
            got = found[expert, :, case * STEPS : (case + 1) * STEPS]
            torch.testing.assert_close(got, expected)


def test_gru_of_one_expert_equals_pytorchs() -> None:
    family = Family.of({"x": [0, 1]}, {"S": ["x"]})
    generator = GENERATOR.manual_seed(3)
    layer = ExpertGRU(family, InputLinear(family, 9, generator), 3, generator).double()
    peer = nn.GRU(2, 3).double()
    reader, recurrent = layer.reader, layer.recurrent
    assert isinstance(reader, InputLinear)
    assert recurrent.bias is not None
    nn.init.uniform_(recurrent.bias, -1, 1)
    weights = {
        "weight_ih_l0": reader.weights[0][0],
        "weight_hh_l0": recurrent.own[0],
        "bias_ih_l0": torch.zeros(9),
        "bias_hh_l0": recurrent.bias[0, :, 0],
    }
    peer.load_state_dict(weights)
    inputs = drawn(STEPS, CASES, 2)
    expected, _ = peer(inputs)
    found = layer(inputs.flatten(0, 1), STEPS)[0].T.view(STEPS, CASES, 3)
    torch.testing.assert_close(found, expected)


def test_embeddings_are_ordered_by_group() -> None:
    family = Family.of({"user": [1], "ages": [0, 2]}, {"S1": ["ages"], "S2": ["user", "ages"]})
    layer = GroupEmbedding(
        family, {"user": EmbeddingTable(5, 3), "ages": EmbeddingTable(4, 2)}, GENERATOR
    )
    numbers = torch.tensor([[3, 4, 0], [1, 0, 1]])
    found = layer(numbers)
    user, ages = layer.tables
    for row, (first, middle, last) in enumerate(numbers.tolist()):
        expected = torch.cat((user[0, middle], ages[0, first], ages[1, last]))
        assert torch.equal(found[row], expected)
    assert layer.embedded.columns == ((3, 4, 5, 6), (0, 1, 2, 3, 4, 5, 6))


@pytest.mark.parametrize(
    ("numbers", "sentence"),
    [
        (
            [[3, 4, 0], [1, 5, 1]],
            "The group 'user' holds 5, but its embedding table has only the rows 0 to 4.",
        ),
        (
            [[3, 4, -1]],
            "The group 'ages' holds -1, but its embedding table has only the rows 0 to 3.",
        ),
        ([[3, 4]], "The family names columns 0 to 2, but the rows have only 2."),
        ([[3.0, 4.0, 0.0]], "Ids to embed must be integers. Convert them with numbers.long()."),
    ],
)
def test_invalid_ids_are_rejected(numbers: list[list[float]], sentence: str) -> None:
    family = Family.of({"user": [1], "ages": [0, 2]}, {"S1": ["ages"], "S2": ["user", "ages"]})
    layer = GroupEmbedding(
        family, {"user": EmbeddingTable(5, 3), "ages": EmbeddingTable(4, 2)}, GENERATOR
    )
    with pytest.raises(InputError) as error:
        layer(torch.tensor(numbers))
    assert str(error.value) == sentence
    assert layer(torch.zeros(0, 3, dtype=torch.long)).shape == (0, 7)


@pytest.mark.parametrize("detach", [True, False])
@given(family=families())
def test_empty_batch(detach: bool, family: Family) -> None:
    """Forward and backward, for any bucketing of experts."""
    first = InputLinear(family, 3, GENERATOR)
    layer = LinkedLinear(family, 3, 2, GENERATOR)
    inputs = torch.zeros(0, family.n_columns, requires_grad=True)
    found = layer(first(inputs, detach), detach)
    assert found.shape == (len(family), 2, 0)
    found.sum().backward()
    assert inputs.grad is not None
    assert inputs.grad.shape == (0, family.n_columns)
    assert not any(one.grad.any() for one in layer.parameters() if one.grad is not None)


def test_vmap_over_seeds() -> None:
    """A stack of networks through `vmap` equals each network alone, gradients included."""
    networks = [EveryLayer(SESSIONS, STEPS, seed) for seed in (0, 1)]
    inputs = drawn(CASES * STEPS, SESSIONS.n_columns)
    weights = [dict(network.named_parameters()) for network in networks]
    stacked = {name: torch.stack([one[name].detach() for one in weights]) for name in weights[0]}

    def loss(parameters: dict[str, Tensor]) -> Tensor:
        out: Tensor = torch.func.functional_call(networks[0], parameters, (inputs,))
        return out.square().sum()

    found = torch.func.vmap(torch.func.grad(loss))(stacked)
    for place, network in enumerate(networks):
        network(inputs).square().sum().backward()
        for name, parameter in network.named_parameters():
            torch.testing.assert_close(found[name][place], parameter.grad)


def test_invalid_arguments_are_rejected() -> None:
    reader = LinkedLinear(TOY, 4, 4, GENERATOR)
    with pytest.raises(InputError, match=r"^A dim of 4 cannot be split among 3 heads"):
        ExpertAttention(TOY, reader, reader, 4, 3, GENERATOR)
    with pytest.raises(InputError, match=r"^There is no group 'x3' to embed"):
        GroupEmbedding(TOY, {"x3": EmbeddingTable(1, 1)}, GENERATOR)
    with pytest.raises(InputError, match=r"^The group 'x2' has no embedding table"):
        GroupEmbedding(TOY, {"x1": EmbeddingTable(1, 1)}, GENERATOR)
