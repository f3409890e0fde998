"""Collaborative filtering with content, of several classes and of ratings."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch import Tensor

from conftest import LIVELY
from whence.contract import ALL, offers
from whence.data import Interactions
from whence.data.catalog import Catalog
from whence.models.content_ncf import ContentNCF, InterpretableNCF
from whence.models.rated_ncf import InterpretableRatedNCF
from whence.models.tasks import DISLIKED, LIKED, NO_QUESTION, NOTHING, ChoiceBatch
from whence.randomness import no_dropout

CLASSES = torch.tensor([LIKED, NOTHING, DISLIKED, NO_QUESTION])
KINDS: list[dict[str, Any]] = [{"n_classes": 2}, {"n_classes": 3}, {"predict_ratings": True}]


def lively_of(name: str, **settings: Any) -> ContentNCF:  # noqa: ANN401
    model = LIVELY[name](**settings)
    assert isinstance(model, ContentNCF)
    return model


def experts_of(**settings: Any) -> InterpretableNCF:  # noqa: ANN401
    model = lively_of("intrp-ncf", **settings)
    assert isinstance(model, InterpretableNCF)
    return model


def questions(outcomes: Tensor, ratings: Tensor | None = None) -> ChoiceBatch:
    numbers = torch.arange(len(outcomes))
    return ChoiceBatch(1 + numbers, 4 + numbers, outcomes, ratings)


def left_over(distance: Tensor, reach: float) -> Tensor:
    """Return the weights of training by hand: Π (1 − g) over the experts inside each."""
    left = 1 - distance**4 / (1 + distance**3) * (1 + reach**3) / reach**4
    ones = torch.ones_like(left[0])
    return torch.stack((ones, left[0], left[0], left[0] * left[1] * left[2]))


def test_the_loss_of_three_classes_by_hand() -> None:
    """(0.15, 0.7, 0.15) means to know nothing; certainty about a rare class is farthest from it."""
    model, batch = experts_of(n_classes=3), questions(CLASSES)
    p = model.answers(model._described(batch))[..., :3].softmax(dim=1)
    centre = torch.tensor([0.15, 0.7, 0.15], dtype=torch.float64)
    distance = ((p - centre[:, None]) ** 2).sum(dim=1).div(2).sqrt()
    reach = math.sqrt((0.85**2 + 0.7**2 + 0.15**2) / 2)
    alpha = left_over(distance, reach)
    losses = torch.stack([-p[:, said, case].log() for case, said in enumerate((0, 1, 2))], dim=1)
    expected = (alpha * losses).sum() / (alpha.sum() + 1e-6)
    torch.testing.assert_close(model.loss(batch, no_dropout), expected)


def test_the_loss_of_ratings_by_hand() -> None:
    """Ratings 5 and 1 with mean 3 and deviation 2: a normal density with the expert's variance."""
    model = experts_of(predict_ratings=True)
    model.get_buffer("rating_mean").fill_(3)
    model.get_buffer("rating_spread").fill_(2)
    batch = questions(torch.tensor([LIKED, LIKED, NO_QUESTION]), torch.tensor([5.0, 1.0, 0.0]))
    answers = model.answers(model._described(batch))[..., :2]
    left_open = 1e-4 + (1 - 1e-4) * answers[:, 1].sigmoid()
    alpha = left_over((1 - left_open).sqrt(), 1.0)
    away = torch.tensor([1.0, -1.0]) - answers[:, 0]
    losses = away**2 / left_open / 2 + left_open.sqrt().log()
    expected = (alpha * losses).sum() / (alpha.sum() + 1e-6)
    torch.testing.assert_close(model.loss(batch, no_dropout), expected)


def test_the_ordinary_network_has_the_same_targets() -> None:
    """Without weights: the mean of the cross-entropy, and of the normal log-density."""
    model, batch = lively_of("content-ncf", n_classes=3), questions(CLASSES)
    answers = model.answers(model._described(batch))[0].T[:3]
    expected = torch.nn.functional.cross_entropy(answers, CLASSES[:3])
    torch.testing.assert_close(model.loss(batch, no_dropout), expected)
    rated = lively_of("content-ncf", predict_ratings=True)
    batch = questions(CLASSES[[0, 0, 3]], torch.tensor([0.5, -2.0, 0.0]))
    mean, left_open = rated.answers(rated._described(batch))[0, :, :2]
    variance = 1e-4 + (1 - 1e-4) * left_open.sigmoid()
    truth = torch.tensor([0.5, -2.0], dtype=torch.float64)
    expected = torch.nn.functional.gaussian_nll_loss(mean, truth, variance, eps=0)
    torch.testing.assert_close(rated.loss(batch, no_dropout), expected)


@pytest.mark.parametrize("settings", KINDS)
def test_an_expert_has_no_gradient_for_columns_it_does_not_see(settings: dict[str, Any]) -> None:
    """Nor for an expert inside it, or for that expert's vectors."""
    model = experts_of(**settings, embeddings_trained_by="smallest")
    rows = model._described(questions(CLASSES)).detach().requires_grad_()
    widths = [range(*pair) for pair in ((0, 32), (32, 40), (40, 48))]
    for expert, sees in enumerate(([0], [0, 1], [0, 2], [0, 1, 2])):
        (whole,) = torch.autograd.grad(model.answers(rows, detach=False)[expert].sum(), rows)
        (trained_here,) = torch.autograd.grad(model.answers(rows)[expert].sum(), rows)
        for kind, columns in enumerate(widths):
            assert bool(whole[:, columns].any()) == (kind in sees)
            smallest = kind in sees and expert == (0, 1, 2)[kind]
            assert bool(trained_here[:, columns].any()) == smallest
        assert model.first.bias is not None
        (own,) = torch.autograd.grad(model.answers(rows)[expert].sum(), model.first.bias)
        assert own[expert].any()
        assert not own[[other for other in range(4) if other != expert]].any()


@pytest.mark.parametrize("name", ["content-ncf", "intrp-ncf"])
@pytest.mark.parametrize("classes", [1, 2, 3])
def test_the_score_is_the_logit_of_liked(name: str, classes: int) -> None:
    model = lively_of(name, n_classes=classes)
    batch, targets = torch.arange(30).view(10, 3), torch.arange(20).view(10, 2)
    p = model.classes(batch, targets).softmax(dim=2)
    assert p.shape == (10, 2, max(2, classes))
    torch.testing.assert_close(p[..., 0], model.score(batch, targets).sigmoid())


def test_classes_are_mixed_by_the_weights_of_experts() -> None:
    model = experts_of(n_classes=3)
    batch, item = torch.tensor([[12, 13, 14]]), torch.tensor([9])
    row = model._described(ChoiceBatch(torch.tensor([4]), item, item))
    p = model.answers(row, detach=False)[..., 0].softmax(dim=1)
    alpha = model.selections(batch, item).weights[0]
    mixed = (alpha[:, None] * p).sum(dim=0) / alpha.sum()
    torch.testing.assert_close(model.classes(batch, item[None]).softmax(dim=2)[0, 0], mixed)


def test_the_score_of_ratings_is_a_rating() -> None:
    """The experts' means, mixed, in the units of the data; and it has no classes."""
    model = experts_of(predict_ratings=True)
    assert isinstance(model, InterpretableRatedNCF)
    model.get_buffer("rating_mean").fill_(3)
    model.get_buffer("rating_spread").fill_(2)
    batch, item = torch.tensor([[12, 13, 14]]), torch.tensor([9])
    row = model._described(ChoiceBatch(torch.tensor([4]), item, item))
    means = model.answers(row, detach=False)[:, 0, 0]
    alpha = model.selections(batch, item).weights[0]
    expected = 3 + 2 * (alpha * means).sum() / alpha.sum()
    torch.testing.assert_close(model.score(batch, item[None])[0, 0], expected)
    torch.testing.assert_close(model.score(batch, ALL)[0, 9], expected)
    halves = model.probabilities(torch.tensor([1.0, 3.0, 5.0])).tolist()
    assert halves == pytest.approx([0.158655, 0.5, 0.841345], abs=1e-6)
    assert not offers(model, "classes")
    assert offers(experts_of(), "classes")


@cache
def rated(of: str = "genre", users: int = 60, items: int = 24) -> Interactions:
    """Ratings decided by the genre of the item alone, or by the user alone."""
    rng = np.random.default_rng(3)
    chosen = [rng.permutation(items)[:14] for _ in range(users)]
    user, item = np.repeat(np.arange(users), 14), np.concatenate(chosen)
    high = (item if of == "genre" else user) % 2 == 0
    rating = np.where(high, 4.5, 1.5) + rng.choice([-0.5, 0.0, 0.5], len(item))
    events = Interactions.from_columns(
        pa.chunked_array([user]), pa.chunked_array([item]), rating=rating.astype(np.float32)
    )
    raw = events.catalog.table["item"].to_pylist()
    genres = ["Drama" if one % 2 == 0 else "War" for one in raw]
    return replace(events, catalog=Catalog(pa.table({"item": raw, "genres": genres})))
