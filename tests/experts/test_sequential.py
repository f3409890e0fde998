"""Networks over two halves: the promise, the plain networks they are made of, and what they learn.

Of a hand-made task for sequences it is known which expert must be named.
"""

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
from whence.experts.sequential import Places
from whence.experts.targets import Classes

ASKED = {"position": [3], "general": [0], "music": [1, 2]}
CASES, KNOWN, STEPS = 3, 4, 2
some_models = settings(max_examples=8)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def transformer(family: Family, asked: Places) -> SequentialModel:
    generator = torch.Generator().manual_seed(0)
    return InterpretableTransformer(family, asked, 4, generator, layers=2, heads=2).double()


def gru(family: Family, asked: Places) -> SequentialModel:
    return InterpretableGRU(family, asked, 4, torch.Generator().manual_seed(0)).double()


both = pytest.mark.parametrize("build", [transformer, gru])
Build = Callable[[Family, Places], SequentialModel]


def hidden(columns: tuple[int, ...], width: int) -> list[int]:
    return [column for column in range(width) if column not in columns]


def check_promise(model: SequentialModel, build: Build, asked_groups: Places, width: int) -> None:
    """What an expert may not see is no number, and nothing of it changes; nor do its gradients."""
    family = model.family
    known, asked = drawn(CASES, KNOWN, family.width), drawn(CASES, STEPS, width, seed=1)
    answers = model.answers(known, asked)
    answers.square().sum().backward()
    for expert in range(len(family)):
        other = build(family, asked_groups)
        poisoned = known.clone(), asked.clone()
        poisoned[0][..., hidden(family.columns[expert], family.width)] = torch.nan
        poisoned[1][..., hidden(family.columns_of(asked_groups)[expert], width)] = torch.nan
        again = other.answers(*poisoned)
        assert torch.equal(again[expert], answers[expert])
        again.square().sum().backward()
        pairs = list(zip(of_expert(model, expert), of_expert(other, expert), strict=True))
        assert any(one.any() for one, _ in pairs)
        assert all(torch.equal(one, two) for one, two in pairs)


@both
def test_no_expert_depends_on_what_it_may_not_see_of_sessions(build: Build) -> None:
    """Of the second half the experts S1, S2 and S5 see the same."""
    check_promise(build(SESSIONS, ASKED), build, ASKED, 4)


@both
@some_models
@given(family=families())
def test_no_expert_of_any_family_does(build: Build, family: Family) -> None:
    places = {group.name: group.columns for group in family.groups}
    check_promise(build(family, places), build, places, family.width)


@both
def test_an_expert_teaches_no_other(build: Build) -> None:
    known, asked = drawn(CASES, KNOWN, 7), drawn(CASES, STEPS, 4, seed=1)
    for expert in range(len(SESSIONS)):
        model = build(SESSIONS, ASKED)
        model.answers(known, asked)[expert].square().sum().backward()
        for other in range(len(SESSIONS)):
            taught = any(bool(gradient.any()) for gradient in of_expert(model, other))
            assert taught == (other == expert)


def product(layer: nn.Module, rows: Tensor) -> Tensor:
    """What the one expert's layer makes of rows `[B, n, w]`, in PyTorch's own way."""
    assert isinstance(layer, InputLinear | LinkedLinear)
    weight = layer.own[0] if isinstance(layer, LinkedLinear) else layer.weights[0][0]
    return F.linear(rows, weight, None if layer.bias is None else layer.bias[0, :, 0])


def attend(layer: nn.Module, rows: Tensor, remembered: Tensor, heads: int) -> Tensor:
    query: Tensor = product(layer.query, rows)  # type: ignore[arg-type]
    keys, values = product(layer.memory, remembered).chunk(2, dim=-1)  # type: ignore[arg-type]
    split = [one.unflatten(-1, (heads, -1)).transpose(1, 2) for one in (query, keys, values)]
    mixed = F.scaled_dot_product_attention(*split).transpose(1, 2).flatten(2)
    return product(layer.output, mixed)  # type: ignore[arg-type]


def look(layer: nn.Module, rows: Tensor, remembered: Tensor, heads: int) -> Tensor:
    """`[B, heads, q, n]`: attention to each of the rows, which hands back a row of its own."""
    query: Tensor = product(layer.query, rows)  # type: ignore[arg-type]
    keys, _ = product(layer.memory, remembered).chunk(2, dim=-1)  # type: ignore[arg-type]
    queries, keys = (one.unflatten(-1, (heads, -1)).transpose(1, 2) for one in (query, keys))
    each = torch.eye(remembered.shape[1], dtype=rows.dtype).expand(len(rows), heads, -1, -1)
    return F.scaled_dot_product_attention(queries, keys, each)


def test_the_ordinary_transformer_is_the_plain_one() -> None:
    """Written out with PyTorch's own products, attention and normalisation."""
    generator = torch.Generator().manual_seed(0)
    model = OrdinaryTransformer(SESSIONS, ASKED, 2, generator, layers=2, heads=4).double()
    known, asked = drawn(CASES, KNOWN, 7), drawn(CASES, STEPS, 4, seed=1)

    def norm(rows: Tensor) -> Tensor:
        return F.layer_norm(rows, (16,), eps=1e-6)

    def feed(layer: nn.Module, rows: Tensor) -> Tensor:
        first = F.leaky_relu(product(layer.first, rows), 0.3)  # type: ignore[arg-type]
        return norm(rows + product(layer.second, first))  # type: ignore[arg-type]

    encoded: Tensor = known
    for layer in model.encoder:
        seen = product(layer.own, encoded) + attend(layer.attention, encoded, encoded, 4)  # type: ignore[arg-type]
        encoded = feed(layer.feed, norm(seen))  # type: ignore[arg-type]
    rows, looks = asked[..., [3, 0, 1, 2]], []  # group by group
    for layer in model.decoder:
        seen = norm(product(layer.own, rows) + attend(layer.attention, rows, rows, 4))  # type: ignore[arg-type]
        looks.append(look(layer.across, seen, encoded, 4))  # type: ignore[arg-type]
        seen = norm(seen + attend(layer.across, seen, encoded, 4))  # type: ignore[arg-type]
        rows = feed(layer.feed, seen)  # type: ignore[arg-type]
    expected = product(model.last, rows)
    torch.testing.assert_close(model.answers(known, asked)[0, 0].view(CASES, STEPS, 1), expected)
    logits = model.scores(known, asked)
    assert logits.shape == (CASES, STEPS, 2)
    torch.testing.assert_close(logits[..., 1:], 2 * expected)
    for found, own in zip(model.looks(known, asked), looks, strict=True):
        torch.testing.assert_close(found, own[:, None])


def test_an_expert_looks_where_its_own_groups_lead_it() -> None:
    """Whatever the others see; and all that each head looks at is 1."""
    model = transformer(SESSIONS, ASKED)
    assert isinstance(model, InterpretableTransformer)
    known, asked = drawn(CASES, KNOWN, 7), drawn(CASES, STEPS, 4, seed=1)
    looks = model.looks(known, asked)
    for one in looks:
        assert one.shape == (CASES, len(SESSIONS), 2, STEPS, KNOWN)
        torch.testing.assert_close(one.sum(dim=-1), torch.ones_like(one[..., 0]))
        assert not torch.allclose(one[:, 0], one[:, -1])
    for expert in range(len(SESSIONS)):
        poisoned = known.clone(), asked.clone()
        poisoned[0][..., hidden(SESSIONS.columns[expert], 7)] = torch.nan
        poisoned[1][..., hidden(SESSIONS.columns_of(ASKED)[expert], 4)] = torch.nan
        for one, again in zip(looks, model.looks(*poisoned), strict=True):
            assert torch.equal(one[:, expert], again[:, expert])


def test_the_ordinary_gru_is_pytorchs() -> None:
    model = OrdinaryGRU(SESSIONS, ASKED, 2, torch.Generator().manual_seed(0)).double()
    known, asked = drawn(CASES, KNOWN, 7), drawn(CASES, STEPS, 4, seed=1)
    state = None
    for unit, rows in ((model.encoder, known), (model.decoder, asked[..., [3, 0, 1, 2]])):
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
    found = model.answers(known, asked)[0, 0].view(CASES, STEPS, 1)
    torch.testing.assert_close(found, product(model.last, states))


def weights_of(model: nn.Module) -> int:
    return sum(one.numel() for one in model.parameters())


def test_weights_are_as_many_as_blocks() -> None:
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
    asked = {"position": range(2), "general": range(2, 5), "music": range(5, 31)}
    assert sum(map(len, family.columns)) == seen_known
    assert sum(map(len, family.columns_of(asked))) == seen_asked
    square, biases = width * width, 8 * width
    own = 8 * square + 2 * (8 * square + biases) + biases  # joined heads, two fed, the reader's
    across = 8 * 4 * square
    read = 4 * width * (seen_known + seen_asked) + 4 * 4 * blocks * square
    last = blocks * width + 8
    model = InterpretableTransformer(family, asked, width, torch.Generator())
    assert weights_of(model) == read + 6 * own + 3 * across + last
    plain = OrdinaryTransformer(family, asked, width, torch.Generator())
    assert weights_of(plain) > weights_of(model)
    assert plain.last.own.shape == (1, 1, 8 * width)


def is_refused_where_there_is_a_step(model: SequentialModel, wrong: float, why: str) -> None:
    """What stands elsewhere is not looked at."""
    known, asked = drawn(CASES, KNOWN, 7), drawn(CASES, STEPS, 4, seed=1)
    truth = torch.tensor([[1, wrong], [0, 1], [0, 0]])
    there = torch.ones(CASES, STEPS, dtype=torch.bool)
    with pytest.raises(InputError, match=f"^There is {wrong:g} among the truths; {why}"):
        model.loss(known, asked, truth, there)
    there[0, 1] = False
    assert model.loss(known, asked, truth, there).isfinite()


@pytest.mark.parametrize("network", [InterpretableTransformer, OrdinaryTransformer])
@pytest.mark.parametrize("wrong", [3, -1])
def test_classes_out_of_range_are_one_sentence(
    network: type[InterpretableTransformer | OrdinaryTransformer], wrong: int
) -> None:
    generator = torch.Generator().manual_seed(0)
    model = network(SESSIONS, ASKED, 4, generator, heads=2, target=Classes(3)).double()
    is_refused_where_there_is_a_step(model, wrong, "3 classes have")


@both
@pytest.mark.parametrize("wrong", [torch.nan, 7.0])
def test_truths_that_cannot_be(build: Build, wrong: float) -> None:
    is_refused_where_there_is_a_step(build(SESSIONS, ASKED), wrong, "two classes have")


@both
def test_truths_that_answer_to_no_step(build: Build) -> None:
    model = build(SESSIONS, ASKED)
    known, asked = drawn(1, KNOWN, 7), drawn(1, STEPS, 4, seed=1)
    there = torch.ones(1, STEPS, dtype=torch.bool)
    with pytest.raises(InputError, match=r"^There are 1 × 2 steps asked and 1 × 1 truths; give"):
        model.loss(known, asked, torch.ones(1, 1), there)
    with pytest.raises(InputError, match=r"^There are 1 × 2 steps asked and 1 × 1 flags that say"):
        model.loss(known, asked, torch.ones(1, STEPS), there[:, :1])


@both
def test_absent_steps_and_weights(build: Build) -> None:
    """What is not there changes no loss, and a step of weight 2 counts as two steps."""
    model = build(SESSIONS, ASKED)
    known, asked = drawn(CASES, KNOWN, 7), drawn(CASES, STEPS, 4, seed=1)
    truth = torch.tensor([[1, 0], [1, 1], [0, 0]])
    there = torch.tensor([[True, False], [True, True], [True, True]])
    loss = model.loss(known, asked, truth, there)
    other = truth.clone()
    other[0, 1] = 1
    assert torch.equal(model.loss(known, asked, other, there), loss)
    weights = torch.tensor([2.0, 1.0, 1.0])[:, None].expand(CASES, STEPS)
    twice = [0, 0, 1, 2]
    torch.testing.assert_close(
        model.loss(known, asked, truth, there, weights),
        model.loss(known[twice], asked[twice], truth[twice], there[twice]),
        atol=1e-6,
        rtol=1e-6,
    )


@both
def test_the_expert_that_suffices_is_named(build: Build) -> None:
    """What the first half's context decides is S1's, what the track's music does is S4's."""
    model = build(SESSIONS, ASKED).float()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    generator = torch.Generator().manual_seed(1)

    def batch() -> tuple[Tensor, Tensor, Tensor, Tensor]:
        known = torch.randn(64, KNOWN, 7, generator=generator)
        asked = torch.randn(64, STEPS, 4, generator=generator)
        musical = torch.rand(64, STEPS, generator=generator) < 0.5
        mood = 3 * torch.randn(64, 1, generator=generator).sign()
        known[..., 1] = torch.where(musical.any(dim=1, keepdim=True), 0.0, mood)
        asked[..., 1] = torch.where(musical, 3 * asked[..., 1].sign(), 0.0)
        truth = torch.where(musical, asked[..., 1] > 0, known[:, -1:, 1] > 0)
        return known, asked, truth, musical | ~musical.any(dim=1, keepdim=True)

    for _ in range(80):
        known, asked, truth, there = batch()
        loss = model.loss(known, asked, truth, there)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    known, asked, truth, there = batch()
    with torch.no_grad():
        right = (model.scores(known, asked).argmax(dim=-1) == truth)[there]
        named = model.attribute(known, asked)[there].argmax(dim=-1)
    assert right.double().mean() > 0.95
    musical = (asked[..., 1] != 0)[there]
    assert (named[musical] == SESSIONS.expert("S4")).double().mean() > 0.9
    assert (named[~musical] == SESSIONS.expert("S1")).double().mean() > 0.9


@both
@pytest.mark.parametrize(("cases", "steps"), [(0, STEPS), (CASES, 0)])
def test_of_no_steps_there_is_nothing_to_say(build: Build, cases: int, steps: int) -> None:
    """And nothing to learn or to look at."""
    model = build(SESSIONS, ASKED)
    known, asked = drawn(cases, KNOWN, 7), drawn(cases, steps, 4)
    assert model.scores(known, asked).shape == (cases, steps, 2)
    assert model.attribute(known, asked).shape == (cases, steps, 8)
    none = torch.zeros(cases, steps)
    with pytest.raises(InputError, match=r"^There are no steps to learn from; give one at"):
        model.loss(known, asked, none, none.bool())
    if isinstance(model, InterpretableTransformer):
        with pytest.raises(InputError, match=r"^There is no step asked that could look"):
            model.looks(known, asked)


@both
@pytest.mark.parametrize(
    ("known", "asked", "sentence"),
    [
        ((3, KNOWN, 7), (2, STEPS, 4), "There are 3 first halves and 2 second ones; give both of"),
        ((1, KNOWN, 7), (2, STEPS, 4), "There are 1 first halves and 2 second ones; give both of"),
        ((KNOWN, 7), (STEPS, 4), "Halves are needed as [cases, steps, columns], not as [4, 7];"),
        ((3, KNOWN, 7), (3, 4), "Halves are needed as [cases, steps, columns], not as [3, 4];"),
        ((3, 0, 7), (3, STEPS, 4), "The first halves have no step; what comes after is read"),
    ],
)
def test_halves_that_do_not_go_together(
    build: Build, known: tuple[int, ...], asked: tuple[int, ...], sentence: str
) -> None:
    model, halves = build(SESSIONS, ASKED), (drawn(*known), drawn(*asked))
    asks: list[Callable[[Tensor, Tensor], object]] = [model.scores, model.attribute]
    if isinstance(model, InterpretableTransformer):
        asks.append(model.looks)
    for ask in asks:
        with pytest.raises(InputError) as told:
            ask(*halves)
        assert str(told.value).startswith(sentence)


@both
def test_unknown_groups_of_the_second_half_are_refused(build: Build) -> None:
    with pytest.raises(InputError, match=r"^There is no group 'musik': did you mean 'music'\?"):
        build(SESSIONS, {**ASKED, "musik": [4]})


@both
@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"general": [3]}, "The column 3 is in 'position' and again in 'general'; a column"),
        ({"music": [1, -1]}, "The group 'music' has the column -1; columns count from 0."),
    ],
)
def test_columns_of_the_second_half_belong_to_one_group(
    build: Build, wrong: Places, sentence: str
) -> None:
    """Else an expert would read by its own group what belongs to another's."""
    with pytest.raises(InputError) as told:
        build(SESSIONS, {**ASKED, **wrong})
    assert str(told.value).startswith(sentence)


def test_an_expert_that_sees_nothing_of_the_second_half() -> None:
    with pytest.raises(InputError, match=r"^The expert 'S1' sees no column of these rows"):
        gru(SESSIONS, {"general": [0], "music": [1]})
