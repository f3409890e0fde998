"""Attention, removed parts, initial weights and losses of collaborative models."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from collaborative_formulas import (
    ITEMS,
    NCF,
    USERS,
    VERSIONS,
    WIDTH,
    Config,
    attention_of,
    model_of,
    ncf_logit,
    relu,
    user_vector,
    weights_of,
)

from conftest import LIVELY, ragged_batch
from whence.arrays import Floats
from whence.contract import ALL, PAD, HasAttentions, HasClasses, offers
from whence.data.histories import Cases
from whence.data.interactions import Counts
from whence.errors import CapabilityError, InputError
from whence.models import build_model
from whence.models.tasks import DISLIKED, LIKED, NO_QUESTION, NOTHING, ChoiceBatch, UserBatch
from whence.randomness import Randomness, no_dropout

ITEM_BASED = ("fism", "deepicf", "deepicf-a")


@torch.no_grad()
@pytest.mark.parametrize("beta", [0.0, 0.5, 0.8, 1.0])
def test_attention_is_its_formula(beta: float) -> None:
    model = model_of("deepicf-a", beta=beta)
    w = weights_of(model)
    batch, targets = ragged_batch(5, 8, ITEMS), torch.tensor([0, 3, 11, 3, 7])
    assert isinstance(model, HasAttentions)
    (found,) = model.attentions(batch, targets)
    assert found.shape == (5, 1, 1, 8)
    for row, history in enumerate(batch.tolist()):
        there = [slot for slot, j in enumerate(history) if j != PAD]
        expected = attention_of(w, [history[slot] for slot in there], int(targets[row]), beta)
        np.testing.assert_allclose(found[row, 0, 0, there], expected)
        assert found[row, 0, 0].sum() == pytest.approx(expected.sum()), "nothing at padding"
        if beta == 1:
            assert expected.sum() == pytest.approx(1)


@torch.no_grad()
def test_attention_does_not_take_the_largest_away_first() -> None:
    """With β below 1 that would change the weights: their sum is (Σ e)^(1 − β)."""
    model = model_of("deepicf-a", beta=0.8)
    with torch.no_grad():
        model.look_bias.add_(5)  # type: ignore[operator]
    batch, targets = ragged_batch(3, 8, ITEMS), torch.tensor([0, 3, 11])
    w = weights_of(model)
    assert isinstance(model, HasAttentions)
    (found,) = model.attentions(batch, targets)
    expected = attention_of(w, batch[0].tolist(), 0, 0.8)
    assert expected.sum() > 100
    np.testing.assert_allclose(found[0, 0, 0], expected)


@pytest.mark.parametrize("classes", [1, 2, 3])
def test_given_attention_replaces_its_own(classes: int) -> None:
    model = model_of("deepicf-a", n_classes=classes)
    batch, targets = ragged_batch(4, 8, ITEMS), torch.tensor([0, 3, 11, 7])
    assert isinstance(model, HasAttentions)
    own = model.attentions(batch, targets)
    for other in (own, [own[0].flip(3)], [torch.zeros_like(own[0])]):
        assert isinstance(model, HasClasses)
        logits = model.classes(batch, targets[:, None], attention=other)[:, 0]
        score = model.score(batch, targets[:, None], attention=other)[:, 0]
        expected = logits[:, 0] - logits[:, 1:].logsumexp(dim=1)
        torch.testing.assert_close(score, expected)
    assert isinstance(model, HasClasses)
    torch.testing.assert_close(
        model.classes(batch, targets[:, None], attention=own),
        model.classes(batch, targets[:, None]),
    )


SIZES: dict[str, Callable[[int, int], int]] = {
    "gmf": lambda m, n: 8 * (m + n) + 8 + 1,
    "mlp": lambda m, n: 32 * (m + n) + (64 * 32 + 32) + (32 * 16 + 16) + (16 * 8 + 8) + 8 + 1,
    "neumf": lambda m, n: 40 * (m + n) + (64 * 32 + 32) + (32 * 16 + 16) + (16 * 8 + 8) + 16 + 1,
    "fism": lambda m, n: (2 * 16 + 1) * n,
    "deepicf": lambda m, n: (2 * 16 + 1) * n + DEEP,
    "deepicf-a": lambda m, n: (2 * 16 + 1) * n + DEEP + 16 * 16 + 16 + 16,
}
"""The number of weights by the numbers of users and items, with padding."""
DEEP = (16 * 64 + 3 * 64) + (64 * 32 + 3 * 32) + (32 * 16 + 3 * 16) + 16 + 1


@pytest.mark.parametrize("name", list(SIZES))
def test_the_published_sizes_have_the_published_number_of_weights(name: str) -> None:
    model = build_model(name, {}, Counts(ITEMS, USERS), torch.Generator())
    assert sum(one.numel() for one in model.parameters()) == SIZES[name](1 + USERS, 1 + ITEMS)


def test_neumf_takes_the_mean_of_both_logits() -> None:
    both = {"gmf": model_of("gmf"), "mlp": model_of("mlp")}
    neumf = model_of("neumf")
    neumf.init_from(both)
    users = torch.arange(USERS)[:, None]
    expected = (both["gmf"].score(users, ALL) + both["mlp"].score(users, ALL)) / 2
    torch.testing.assert_close(neumf.score(users, ALL), expected)


@pytest.mark.parametrize(
    ("gmf", "mlp"),
    [
        ({"dim": 4}, {}),
        ({}, {"hidden_dims": (8, 4)}),
        ({}, {"hidden_dims": (6,)}),  # whose tables and last layer have the right shapes
        ({"dim": WIDTH + 1}, {"hidden_dims": (4,), "dim": WIDTH - 1}),  # and here together
    ],
)
def test_neumf_refuses_other_sizes_than_its_own(gmf: dict[str, Any], mlp: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="Train all three with the same settings"):
        model_of("neumf").init_from({"gmf": model_of("gmf", **gmf), "mlp": model_of("mlp", **mlp)})


@pytest.mark.parametrize("name", ["deepicf", "deepicf-a"])
@pytest.mark.parametrize("classes", [1, 2])
def test_deepicf_takes_the_tables_and_the_bias_of_fism(name: str, classes: int) -> None:
    fism, model = model_of("fism"), model_of(name, n_classes=classes)
    layers = weights_of(model)["layers.0.weight"].copy()
    model.init_from({"fism": fism})
    theirs, own = weights_of(fism), weights_of(model)
    for table in ("history", "target"):
        np.testing.assert_array_equal(own[table], theirs[table])
    np.testing.assert_array_equal(own["bias"][:, :1], theirs["bias"])
    assert not own["bias"][:, 1:].any()
    np.testing.assert_array_equal(own["layers.0.weight"], layers)
    with pytest.raises(InputError, match="with the same dim on the same data"):
        model.init_from({"fism": model_of("fism", dim=4)})


def hand_made() -> tuple[UserBatch, list[tuple[list[int], int, int]]]:
    """Two users in tiles of 2, one of them with a history of 3, and all that they are asked."""
    first, second = [4, 1, 9], [2]
    asked = [
        (first, 4, LIKED),
        (first, 0, NOTHING),
        (first, 1, DISLIKED),
        (first, 7, NOTHING),
        (first, 9, LIKED),
        (second, 2, LIKED),
        (second, 9, NOTHING),
    ]
    batch = UserBatch(
        history=torch.tensor([[4, 1], [9, PAD], [2, PAD], [PAD, PAD]]),
        items=torch.tensor([[4, 0], [1, 7], [9, PAD], [2, 9]]),
        outcomes=torch.tensor(
            [[LIKED, NOTHING], [DISLIKED, NOTHING], [LIKED, NO_QUESTION], [LIKED, NOTHING]]
        ),
        history_tile=torch.tensor([0, 1, 0, 1, 0, 1, 2, 3]),
        question_tile=torch.tensor([0, 0, 1, 1, 2, 2, 3, 0]),
    )
    return batch, asked


def training_outputs(
    name: str, config: Config, w: dict[str, Floats], asked: list[tuple[list[int], int, int]]
) -> Floats:
    """`[N, C]`: without the target in its own history, normalised over the batch."""
    rows = np.array(
        [
            user_vector(name, config, w, [j for j in history if j != target], target)
            * w["target"][1 + target]
            for history, target, _ in asked
        ]
    )
    bias = w["bias"][[1 + target for _, target, _ in asked]]
    if name == "fism":
        return np.asarray(rows.sum(axis=1, keepdims=True) + bias)
    for layer in range(len(config.hidden_dims)):
        rows = rows @ w[f"layers.{layer}.weight"].T + w[f"layers.{layer}.bias"]
        rows = (rows - rows.mean(axis=0)) / np.sqrt(rows.var(axis=0) + 1e-3)
        rows = relu(rows * w[f"norms.{layer}.weight"] + w[f"norms.{layer}.bias"])
    return np.asarray(rows @ w["last.weight"].T + w["last.bias"] + bias)


def costs(outputs: Floats, outcomes: list[int]) -> list[float]:
    """Return the loss of each question, without class weights."""
    found = []
    for row, outcome in zip(outputs, outcomes, strict=True):
        if len(row) == 1:
            p = 1 / (1 + math.exp(-row[0]))
            found.append(-math.log(p if outcome == LIKED else 1 - p))
            continue
        p = np.exp(row) / np.exp(row).sum()
        if len(row) == 2:
            found.append(-math.log(p[outcome]))
        else:
            each = [p[c] if c == outcome else 1 - p[c] for c in range(3)]
            found.append(-sum(map(math.log, each)) / 3)
    return found


def penalty(name: str, config: Config, w: dict[str, Floats]) -> float:
    total = config.embedding_decay * ((w["history"] ** 2).sum() + (w["target"] ** 2).sum())
    if name == "deepicf-a":
        total += config.embedding_decay * (w["look"] ** 2).sum()
    if name != "fism":
        layers = [w[f"layers.{layer}.weight"] for layer in range(len(config.hidden_dims))]
        total += config.layer_decay * sum((one**2).sum() for one in layers)
    return float(total)


@pytest.mark.parametrize(
    ("name", "settings", "balanced"),
    [
        (name, settings, balanced)
        for name, settings in VERSIONS
        for balanced in ((False,) if name == "fism" else (False, True))
    ],
)
def test_the_loss_of_whole_users_is_its_formula(
    name: str, settings: dict[str, Any], balanced: bool
) -> None:
    decays = {"embedding_decay": 0.03} | (
        {"layer_decay": 0.2, "class_balanced": balanced} if name != "fism" else {}
    )
    model = model_of(name, **settings, **decays).train()
    w = {key: values.copy() for key, values in weights_of(model).items()}
    batch, asked = hand_made()
    classes = settings.get("n_classes", 1)
    if classes < 3:
        asked = [(history, target, min(outcome, 1)) for history, target, outcome in asked]
        batch = batch._replace(outcomes=batch.outcomes.clamp(max=NOTHING))
    outcomes = [outcome for *_, outcome in asked]
    each = costs(training_outputs(name, model.config, w, asked), outcomes)
    if balanced:
        kinds = max(2, classes)
        weight = [len(each) / (kinds * outcomes.count(outcome)) for outcome in outcomes]
        each = [one * other for one, other in zip(each, weight, strict=True)]
    expected = sum(each) / len(each) + penalty(name, model.config, w)
    assert float(model.loss(batch, no_dropout).detach()) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", ITEM_BASED)
def test_filling_and_the_order_of_pairs_change_no_loss_and_no_gradient(name: str) -> None:
    batch, _ = hand_made()
    if name != "deepicf-a":
        batch = batch._replace(outcomes=batch.outcomes.clamp(max=NOTHING))
    order = torch.tensor([5, 3, 0, 6, 2, 1, 4])
    more = batch._replace(
        items=torch.cat((batch.items, torch.full((2, 2), PAD))),
        outcomes=torch.cat((batch.outcomes, torch.full((2, 2), NO_QUESTION))),
        history_tile=torch.cat((batch.history_tile[order], torch.tensor([3, 3, 3]))),
        question_tile=torch.cat((batch.question_tile[order], torch.tensor([0, 0, 0]))),
    )
    found = []
    for one in (batch, more):
        model = model_of(name, **({"n_classes": 3} if name == "deepicf-a" else {})).train()
        loss = model.loss(one, no_dropout)
        loss.backward()
        found.append((loss.detach(), {key: p.grad for key, p in model.named_parameters()}))
        assert not model.history.grad[0].any(), "padding learns nothing"  # type: ignore[index]
    torch.testing.assert_close(found[0], found[1])


@pytest.mark.parametrize("name", ["deepicf", "deepicf-a"])
def test_a_new_network_distinguishes_items_in_half_precision(name: str) -> None:
    """Its vectors are small compared with the biases of its first layer."""
    settings = {"max_len": 8, "dim": WIDTH, "layer_decay": 0.0}
    batch = hand_made()[0]
    batch = batch._replace(outcomes=batch.outcomes.clamp(max=NOTHING))
    found = []
    for half in (False, True):
        model = build_model(name, settings, Counts(ITEMS, USERS), Randomness(1).torch("init"))
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            loss = model.train().loss(batch, no_dropout)
        (learned,) = torch.autograd.grad(loss, model.history)  # type: ignore[arg-type]
        found.append((loss.detach(), learned.flatten()))
    (full, learned), (halved, learned_by_half) = found
    torch.testing.assert_close(halved, full, rtol=1e-3, atol=0.0)
    assert torch.cosine_similarity(learned, learned_by_half, dim=0) > 0.99


@pytest.mark.parametrize("name", NCF)
def test_the_loss_of_single_questions_is_the_mean_log_loss(name: str) -> None:
    model = model_of(name)
    w = weights_of(model)
    asked = [(3, 7, LIKED), (3, 0, NOTHING), (6, 11, LIKED)]
    users, items, outcomes = (torch.tensor([*one, 0]) for one in zip(*asked, strict=True))
    outcomes[-1] = NO_QUESTION
    logits = np.array([[ncf_logit(name, w, user, item)] for user, item, _ in asked])
    expected = np.mean(costs(logits, [outcome for *_, outcome in asked]))
    found = model.loss(ChoiceBatch(users, items, outcomes), no_dropout)
    assert float(found.detach()) == pytest.approx(expected)


@pytest.mark.parametrize("name", [*NCF, "fism", "deepicf"])
def test_attention_given_to_a_model_without_any_raises_one_sentence(name: str) -> None:
    model = LIVELY[name]()
    batch, targets = torch.tensor([[1]]), torch.tensor([[0]])
    assert not offers(model, "attentions")
    assert isinstance(model, HasClasses)
    for ask in (model.score, model.classes):
        with pytest.raises(CapabilityError, match="has no 'attentions'"):
            ask(batch, targets, attention=[torch.ones(1, 1, 1, 1)])


@pytest.mark.parametrize("name", [*NCF, *ITEM_BASED])
def test_empty_targets_cases_and_coalitions_have_empty_scores(name: str) -> None:
    model = LIVELY[name]()
    batch = torch.tensor([[1], [2]])
    none = torch.zeros((2, 0), dtype=torch.int64)
    assert model.score(batch, none).shape == (2, 0)
    assert isinstance(model, HasClasses)
    assert model.classes(batch, none).shape == (2, 0, 2)
    assert model.score(batch[:0], ALL).shape == (0, 30)
    coalitions = torch.zeros((0, 1), dtype=torch.bool)
    assert model.score_coalitions(batch, torch.tensor([0, 0]), coalitions).shape == (2, 0)


@pytest.mark.parametrize("name", ITEM_BASED)
def test_an_empty_history_has_a_score(name: str) -> None:
    """The bias and the layers are all there is."""
    model = LIVELY[name]()
    empty = torch.full((2, 5), PAD)
    expected = model.score(torch.tensor([[3]]), ALL, present=torch.tensor([[False]]))
    torch.testing.assert_close(model.score(empty, ALL), expected.expand(2, -1))
    assert expected.isfinite().all()


@pytest.mark.parametrize("name", NCF)
def test_a_new_history_raises_one_sentence(name: str) -> None:
    model = LIVELY[name]()
    one = np.array([0])
    cases = Cases(np.array([1, 2], np.int32), np.array([PAD]), one, one + 2, one)
    with pytest.raises(InputError, match="knows users only by id"):
        model.read(cases, 8)


CHOOSING = ("gmf", "mlp", "neumf", "fism", "deepicf", "deepicf-a", "content-ncf", "intrp-ncf")
"""Models trained on the outcomes of single items."""


@pytest.mark.parametrize(
    ("name", "settings", "sentence"),
    [
        ("gmf", {"dim": 0}, "^max_len and dim must be at least 1"),
        *(
            (name, {"n_negatives": 0}, r"^n_negatives must be at least 1, not 0\.$")
            for name in CHOOSING
        ),
        ("mlp", {"hidden_dims": (7, 4)}, "and the first must be even"),
        ("mlp", {"hidden_dims": ()}, "and the first must be even"),
        ("fism", {"init_std": 0.0}, "init_std must be a number above 0"),
        ("deepicf", {"n_classes": 4}, "n_classes must be 1, 2 or 3, not 4"),
        ("deepicf", {"hidden_dims": ()}, "hidden_dims must have one or more sizes"),
        ("deepicf-a", {"beta": 1.5}, "beta from 0 to 1"),
        ("deepicf-a", {"attention_dim": 0}, "attention_dim must be at least 1"),
        ("deepicf-a", {"alpha": 0.5}, "AttentiveDeepICFConfig has no setting 'alpha'"),
    ],
)
def test_impossible_settings_raise_one_sentence(
    name: str, settings: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        build_model(name, settings, Counts(ITEMS, USERS), torch.Generator())
