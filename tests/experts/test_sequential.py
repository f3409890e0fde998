"""Networks over two halves: what experts see, plain networks as references, and a known task."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from families import SESSIONS, families, of_expert
from hypothesis import given, settings
from torch import Tensor, nn

from whence.errors import InputError
from whence.experts import (
    Family,
    InterpretableGRU,
    InterpretableTransformer,
    OrdinaryGRU,
    OrdinaryTransformer,
    SequentialModel,
)
from whence.experts.linear import InputLinear, LinkedLinear
from whence.experts.sequential import GroupColumns
from whence.experts.targets import Classes

UPCOMING = {"position": [3], "general": [0], "music": [1, 2]}
CASES, KNOWN, STEPS = 3, 4, 2
some_models = settings(max_examples=8)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def transformer(family: Family, upcoming: GroupColumns) -> SequentialModel:
    generator = torch.Generator().manual_seed(0)
    return InterpretableTransformer(family, upcoming, 4, generator, n_layers=2, n_heads=2).double()


def gru(family: Family, upcoming: GroupColumns) -> SequentialModel:
    return InterpretableGRU(family, upcoming, 4, torch.Generator().manual_seed(0)).double()


both = pytest.mark.parametrize("build", [transformer, gru])
Build = Callable[[Family, GroupColumns], SequentialModel]


def hidden(columns: tuple[int, ...], width: int) -> list[int]:
    return [column for column in range(width) if column not in columns]


def check_hidden_columns(
    model: SequentialModel, build: Build, asked_groups: GroupColumns, width: int
) -> None:
    """Hidden columns are NaN; neither outputs nor gradients become NaN."""
    family = model.family
    known, upcoming = drawn(CASES, KNOWN, family.n_columns), drawn(CASES, STEPS, width, seed=1)
    outputs = model.expert_outputs(known, upcoming)
    outputs.square().sum().backward()
    for expert in range(len(family)):
        other = build(family, asked_groups)
        poisoned = known.clone(), upcoming.clone()
        poisoned[0][..., hidden(family.columns[expert], family.n_columns)] = torch.nan
        poisoned[1][..., hidden(family.columns_of(asked_groups)[expert], width)] = torch.nan
        again = other.expert_outputs(*poisoned)
        assert torch.equal(again[expert], outputs[expert])
        again.square().sum().backward()
        pairs = list(zip(of_expert(model, expert), of_expert(other, expert), strict=True))
        assert any(one.any() for one, _ in pairs)
        assert all(torch.equal(one, two) for one, two in pairs)


@both
def test_independence_of_hidden_columns_of_sessions(build: Build) -> None:
    """In the second half S1, S2 and S5 see the same."""
    check_hidden_columns(build(SESSIONS, UPCOMING), build, UPCOMING, 4)


@both
@some_models
@given(family=families())
def test_independence_of_hidden_columns_in_any_family(build: Build, family: Family) -> None:
    places = {group.name: group.columns for group in family.groups}
    check_hidden_columns(build(family, places), build, places, family.n_columns)


@both
def test_gradients_do_not_reach_other_experts(build: Build) -> None:
    known, upcoming = drawn(CASES, KNOWN, 7), drawn(CASES, STEPS, 4, seed=1)
    for expert in range(len(SESSIONS)):
        model = build(SESSIONS, UPCOMING)
        model.expert_outputs(known, upcoming)[expert].square().sum().backward()
        for other in range(len(SESSIONS)):
            trained = any(bool(gradient.any()) for gradient in of_expert(model, other))
            assert trained == (other == expert)


def product(layer: nn.Module, rows: Tensor) -> Tensor:
    """Apply the one expert's layer to rows `[B, n, w]` with PyTorch's own operations."""
    assert isinstance(layer, InputLinear | LinkedLinear)
    weight = layer.own[0] if isinstance(layer, LinkedLinear) else layer.weights[0][0]
    return F.linear(rows, weight, None if layer.bias is None else layer.bias[0, :, 0])


def attend(layer: nn.Module, rows: Tensor, remembered: Tensor, heads: int) -> Tensor:
    query: Tensor = product(layer.query, rows)  # type: ignore[arg-type]
    keys, values = product(layer.memory, remembered).chunk(2, dim=-1)  # type: ignore[arg-type]
    split = [one.unflatten(-1, (heads, -1)).transpose(1, 2) for one in (query, keys, values)]
    mixed = F.scaled_dot_product_attention(*split).transpose(1, 2).flatten(2)
    return product(layer.output, mixed)  # type: ignore[arg-type]


def attention_of(layer: nn.Module, rows: Tensor, remembered: Tensor, heads: int) -> Tensor:
    """Return the attention `[B, heads, q, n]`, with one-hot rows as values."""
    query: Tensor = product(layer.query, rows)  # type: ignore[arg-type]
    keys, _ = product(layer.memory, remembered).chunk(2, dim=-1)  # type: ignore[arg-type]
    queries, keys = (one.unflatten(-1, (heads, -1)).transpose(1, 2) for one in (query, keys))
    each = torch.eye(remembered.shape[1], dtype=rows.dtype).expand(len(rows), heads, -1, -1)
    return F.scaled_dot_product_attention(queries, keys, each)


def test_ordinary_transformer_matches_a_plain_one() -> None:
    """Written with PyTorch's own products, attention and normalization."""
    generator = torch.Generator().manual_seed(0)
    model = OrdinaryTransformer(SESSIONS, UPCOMING, 2, generator, n_layers=2, n_heads=4).double()
    known, upcoming = drawn(CASES, KNOWN, 7), drawn(CASES, STEPS, 4, seed=1)

    def norm(rows: Tensor) -> Tensor:
        return F.layer_norm(rows, (16,), eps=1e-6)

    def feed(layer: nn.Module, rows: Tensor) -> Tensor:
        first = F.leaky_relu(product(layer.first, rows), 0.3)  # type: ignore[arg-type]
        return norm(rows + product(layer.second, first))  # type: ignore[arg-type]

    encoded: Tensor = known
    for layer in model.encoder:
        seen = product(layer.own, encoded) + attend(layer.attention, encoded, encoded, 4)  # type: ignore[arg-type]
        encoded = feed(layer.feed, norm(seen))  # type: ignore[arg-type]
    rows, attention = upcoming[..., [3, 0, 1, 2]], []  # group by group
    for layer in model.decoder:
        seen = norm(product(layer.own, rows) + attend(layer.attention, rows, rows, 4))  # type: ignore[arg-type]
        attention.append(attention_of(layer.across, seen, encoded, 4))  # type: ignore[arg-type]
        seen = norm(seen + attend(layer.across, seen, encoded, 4))  # type: ignore[arg-type]
        rows = feed(layer.feed, seen)  # type: ignore[arg-type]
    expected = product(model.last, rows)
    torch.testing.assert_close(
        model.expert_outputs(known, upcoming)[0, 0].view(CASES, STEPS, 1), expected
    )
    logits = model.scores(known, upcoming)
    assert logits.shape == (CASES, STEPS, 2)
    torch.testing.assert_close(logits[..., 1:], 2 * expected)
    for found, own in zip(model.cross_attentions(known, upcoming), attention, strict=True):
        torch.testing.assert_close(found, own[:, None])


def test_cross_attention_depends_on_own_groups_only() -> None:
    """And the weights of each head sum to 1."""
    model = transformer(SESSIONS, UPCOMING)
    assert isinstance(model, InterpretableTransformer)
    known, upcoming = drawn(CASES, KNOWN, 7), drawn(CASES, STEPS, 4, seed=1)
    attention = model.cross_attentions(known, upcoming)
    for one in attention:
        assert one.shape == (CASES, len(SESSIONS), 2, STEPS, KNOWN)
        torch.testing.assert_close(one.sum(dim=-1), torch.ones_like(one[..., 0]))
        assert not torch.allclose(one[:, 0], one[:, -1])
    for expert in range(len(SESSIONS)):
        poisoned = known.clone(), upcoming.clone()
        poisoned[0][..., hidden(SESSIONS.columns[expert], 7)] = torch.nan
        poisoned[1][..., hidden(SESSIONS.columns_of(UPCOMING)[expert], 4)] = torch.nan
        for one, again in zip(attention, model.cross_attentions(*poisoned), strict=True):
            assert torch.equal(one[:, expert], again[:, expert])


def test_ordinary_gru_equals_pytorchs() -> None:
    model = OrdinaryGRU(SESSIONS, UPCOMING, 2, torch.Generator().manual_seed(0)).double()
    known, upcoming = drawn(CASES, KNOWN, 7), drawn(CASES, STEPS, 4, seed=1)
    state = None
    for unit, rows in ((model.encoder, known), (model.decoder, upcoming[..., [3, 0, 1, 2]])):
        assert isinstance(unit.reader, InputLinear)
        assert unit.recurrent.bias is not None
        peer = nn.GRU(rows.shape[-1], 16, batch_first=True).double()
        weights = {
            "weight_ih_l0": unit.reader.weights[0][0],
            "weight_hh_l0": unit.recurrent.own[0],
            "bias_ih_l0": unit.reader.bias[0, :, 0],  # type: ignore[index]
            "bias_hh_l0": unit.recurrent.bias[0, :, 0],
        }
        peer.load_state_dict(weights)
        states, state = peer(rows, state)
    found = model.expert_outputs(known, upcoming)[0, 0].view(CASES, STEPS, 1)
    torch.testing.assert_close(found, product(model.last, states))


def weights_of(model: nn.Module) -> int:
    return sum(one.numel() for one in model.parameters())


def test_parameter_count() -> None:
    """Counted by hand for the published family: 73 and 31 features, 8 experts and 15 links.

    Readers read 4 F with one bias; attention across, what joins heads, and the fed layers are own.
    """
    groups = {"position": 2, "context": 13, "interaction": 29, "general": 3, "music": 26}
    seen_known, seen_asked, blocks, width = 274, 106, 8 + 15, 16
    columns = iter(range(73))
    family = Family.of(
        {name: [next(columns) for _ in range(size)] for name, size in groups.items()},
        {subset.name: subset.groups for subset in SESSIONS.subsets},
    )
    upcoming = {"position": range(2), "general": range(2, 5), "music": range(5, 31)}
    assert sum(map(len, family.columns)) == seen_known
    assert sum(map(len, family.columns_of(upcoming))) == seen_asked
    square, biases = width * width, 8 * width
    own = 8 * square + 2 * (8 * square + biases) + biases  # joined heads, two fed, the reader's
    across = 8 * 4 * square
    read = 4 * width * (seen_known + seen_asked) + 4 * 4 * blocks * square
    last = blocks * width + 8
    model = InterpretableTransformer(family, upcoming, width, torch.Generator())
    assert weights_of(model) == read + 6 * own + 3 * across + last
    plain = OrdinaryTransformer(family, upcoming, width, torch.Generator())
    assert weights_of(plain) > weights_of(model)
    assert plain.last.own.shape == (1, 1, 8 * width)


def check_rejected_inside_mask(model: SequentialModel, wrong: float, why: str) -> None:
    """Check that a wrong label is rejected inside the mask and ignored outside."""
    known, upcoming = drawn(CASES, KNOWN, 7), drawn(CASES, STEPS, 4, seed=1)
    labels = torch.tensor([[1, wrong], [0, 1], [0, 0]])
    mask = torch.ones(CASES, STEPS, dtype=torch.bool)
    with pytest.raises(InputError, match=f"^The label {wrong:g} is invalid: {why}"):
        model.loss(known, upcoming, labels, mask)
    mask[0, 1] = False
    assert model.loss(known, upcoming, labels, mask).isfinite()


@pytest.mark.parametrize("network", [InterpretableTransformer, OrdinaryTransformer])
@pytest.mark.parametrize("wrong", [3, -1])
def test_invalid_class_labels_are_rejected(
    network: type[InterpretableTransformer | OrdinaryTransformer], wrong: int
) -> None:
    generator = torch.Generator().manual_seed(0)
    model = network(SESSIONS, UPCOMING, 4, generator, n_heads=2, target=Classes(3)).double()
    check_rejected_inside_mask(model, wrong, "the labels of 3 classes")


@both
@pytest.mark.parametrize("wrong", [torch.nan, 7.0])
def test_invalid_labels_are_rejected(build: Build, wrong: float) -> None:
    check_rejected_inside_mask(build(SESSIONS, UPCOMING), wrong, "the labels of two classes")


@both
def test_labels_and_mask_must_match_the_steps(build: Build) -> None:
    model = build(SESSIONS, UPCOMING)
    known, upcoming = drawn(1, KNOWN, 7), drawn(1, STEPS, 4, seed=1)
    mask = torch.ones(1, STEPS, dtype=torch.bool)
    with pytest.raises(InputError, match=r"^There are 1 × 2 upcoming steps and 1 × 1 labels. Pass"):
        model.loss(known, upcoming, torch.ones(1, 1), mask)
    with pytest.raises(InputError, match=r"^There are 1 × 2 upcoming steps and 1 × 1 mask values"):
        model.loss(known, upcoming, torch.ones(1, STEPS), mask[:, :1])


@both
def test_mask_and_weights(build: Build) -> None:
    """Masked steps change no loss, and a step of weight 2 counts as two."""
    model = build(SESSIONS, UPCOMING)
    known, upcoming = drawn(CASES, KNOWN, 7), drawn(CASES, STEPS, 4, seed=1)
    labels = torch.tensor([[1, 0], [1, 1], [0, 0]])
    mask = torch.tensor([[True, False], [True, True], [True, True]])
    loss = model.loss(known, upcoming, labels, mask)
    other = labels.clone()
    other[0, 1] = 1
    assert torch.equal(model.loss(known, upcoming, other, mask), loss)
    weights = torch.tensor([2.0, 1.0, 1.0])[:, None].expand(CASES, STEPS)
    twice = [0, 0, 1, 2]
    torch.testing.assert_close(
        model.loss(known, upcoming, labels, mask, weights),
        model.loss(known[twice], upcoming[twice], labels[twice], mask[twice]),
        atol=1e-6,
        rtol=1e-6,
    )


@both
def test_sufficient_expert_is_selected(build: Build) -> None:
    """S1 for what the known context decides, S4 for what the track's music decides."""
    model = build(SESSIONS, UPCOMING).float()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    generator = torch.Generator().manual_seed(1)

    def batch() -> tuple[Tensor, Tensor, Tensor, Tensor]:
        known = torch.randn(64, KNOWN, 7, generator=generator)
        upcoming = torch.randn(64, STEPS, 4, generator=generator)
        musical = torch.rand(64, STEPS, generator=generator) < 0.5
        mood = 3 * torch.randn(64, 1, generator=generator).sign()
        known[..., 1] = torch.where(musical.any(dim=1, keepdim=True), 0.0, mood)
        upcoming[..., 1] = torch.where(musical, 3 * upcoming[..., 1].sign(), 0.0)
        labels = torch.where(musical, upcoming[..., 1] > 0, known[:, -1:, 1] > 0)
        return known, upcoming, labels, musical | ~musical.any(dim=1, keepdim=True)

    for _ in range(80):
        known, upcoming, labels, mask = batch()
        loss = model.loss(known, upcoming, labels, mask)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    known, upcoming, labels, mask = batch()
    with torch.no_grad():
        right = (model.scores(known, upcoming).argmax(dim=-1) == labels)[mask]
        named = model.attribute(known, upcoming)[mask].argmax(dim=-1)
    assert right.double().mean() > 0.95
    musical = (upcoming[..., 1] != 0)[mask]
    assert (named[musical] == SESSIONS.index("S4")).double().mean() > 0.9
    assert (named[~musical] == SESSIONS.index("S1")).double().mean() > 0.9


@both
@pytest.mark.parametrize(("cases", "steps"), [(0, STEPS), (CASES, 0)])
def test_no_steps(build: Build, cases: int, steps: int) -> None:
    """Neither to predict nor to train on."""
    model = build(SESSIONS, UPCOMING)
    known, upcoming = drawn(cases, KNOWN, 7), drawn(cases, steps, 4)
    assert model.scores(known, upcoming).shape == (cases, steps, 2)
    assert model.attribute(known, upcoming).shape == (cases, steps, 8)
    none = torch.zeros(cases, steps)
    with pytest.raises(InputError, match=r"^There are no steps to train on. Pass at"):
        model.loss(known, upcoming, none, none.bool())
    if isinstance(model, InterpretableTransformer):
        with pytest.raises(InputError, match=r"^There is no upcoming step to attend from"):
            model.cross_attentions(known, upcoming)


@both
@pytest.mark.parametrize(
    ("known", "upcoming", "sentence"),
    [
        ((3, KNOWN, 7), (2, STEPS, 4), "There are 3 first halves and 2 second ones. Pass both"),
        ((1, KNOWN, 7), (2, STEPS, 4), "There are 1 first halves and 2 second ones. Pass both"),
        (
            (KNOWN, 7),
            (STEPS, 4),
            "Both halves must have the shape [cases, steps,",
        ),
        (
            (3, KNOWN, 7),
            (3, 4),
            "Both halves must have the shape [cases, steps,",
        ),
        ((3, 0, 7), (3, STEPS, 4), "The first halves have no steps. Pass at least one"),
    ],
)
def test_mismatched_halves_are_rejected(
    build: Build, known: tuple[int, ...], upcoming: tuple[int, ...], sentence: str
) -> None:
    model, halves = build(SESSIONS, UPCOMING), (drawn(*known), drawn(*upcoming))
    asks: list[Callable[[Tensor, Tensor], object]] = [model.scores, model.attribute]
    if isinstance(model, InterpretableTransformer):
        asks.append(model.cross_attentions)
    for ask in asks:
        with pytest.raises(InputError) as error:
            ask(*halves)
        assert str(error.value).startswith(sentence)


@both
def test_unknown_upcoming_groups_are_rejected(build: Build) -> None:
    with pytest.raises(InputError, match=r"^There is no group 'musik': did you mean 'music'\?"):
        build(SESSIONS, {**UPCOMING, "musik": [4]})


@both
@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"general": [3]}, "The column 3 is in 'position' and again in 'general'. A column"),
        ({"music": [1, -1]}, "The group 'music' has the column -1. Columns count from 0."),
    ],
)
def test_invalid_upcoming_columns_are_rejected(
    build: Build, wrong: GroupColumns, sentence: str
) -> None:
    """Otherwise an expert could read another group's columns."""
    with pytest.raises(InputError) as error:
        build(SESSIONS, {**UPCOMING, **wrong})
    assert str(error.value).startswith(sentence)


def test_expert_without_upcoming_columns_is_rejected() -> None:
    with pytest.raises(InputError, match=r"^The expert 'S1' sees no column of these rows"):
        gru(SESSIONS, {"general": [0], "music": [1]})
