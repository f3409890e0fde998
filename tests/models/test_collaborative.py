"""Collaborative models against their formulas, written as loops over users and targets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from collaborative_formulas import (
    ITEMS,
    NCF,
    VERSIONS,
    Config,
    model_of,
    ncf_logit,
    relu,
    user_vector,
    weights_of,
)

from conftest import ragged_batch
from whence.arrays import Floats
from whence.contract import ALL, PAD, HasClasses


def item_based_outputs(
    name: str, config: Config, w: dict[str, Floats], history: list[int], target: int
) -> Floats:
    """By the statistics that batch normalisation remembers."""
    q = w["target"][1 + target]
    product = user_vector(name, config, w, history, target) * q
    if name == "fism":
        return np.asarray(product.sum() + w["bias"][1 + target])
    rows = product
    for layer in range(len(config.hidden_dims)):
        rows = w[f"layers.{layer}.weight"] @ rows + w[f"layers.{layer}.bias"]
        mean, variance = (w[f"norms.{layer}.running_{one}"] for one in ("mean", "var"))
        rows = (rows - mean) / np.sqrt(variance + 1e-3)
        rows = relu(rows * w[f"norms.{layer}.weight"] + w[f"norms.{layer}.bias"])
    return np.asarray(w["last.weight"] @ rows + w["last.bias"] + w["bias"][1 + target])


def liked(outputs: Floats) -> float:
    """log p / (1 − p) of the probability of class 0."""
    if len(outputs) == 1:
        return float(outputs[0])
    return float(np.log(np.exp(outputs[0]) / np.exp(outputs[1:]).sum()))


@torch.no_grad()
@pytest.mark.parametrize("name", NCF)
def test_ncf_is_its_formula(name: str) -> None:
    model = model_of(name)
    w = weights_of(model)
    users = torch.tensor([[4], [0], [6]])
    expected = [[ncf_logit(name, w, int(u), item) for item in range(ITEMS)] for u in users]
    found = model.score(users, ALL)
    np.testing.assert_allclose(found, expected)
    targets = torch.tensor([[3, 3], [0, 11], [5, 1]])
    assert isinstance(model, HasClasses)
    classes = model.classes(users, targets)
    assert classes.shape == (3, 2, 2)
    np.testing.assert_allclose(classes[..., 0] - classes[..., 1], found.gather(1, targets))


@torch.no_grad()
@pytest.mark.parametrize("name", NCF)
def test_an_absent_user_has_the_vector_0(name: str) -> None:
    model = model_of(name)
    w = weights_of(model)
    w["user"][:] = 0
    found = model.score(torch.tensor([[4]]), ALL, present=torch.tensor([[False]]))
    np.testing.assert_allclose(found, [[ncf_logit(name, w, 4, item) for item in range(ITEMS)]])


@torch.no_grad()
@pytest.mark.parametrize(("name", "settings"), VERSIONS)
def test_item_based_models_are_their_formulas(name: str, settings: dict[str, Any]) -> None:
    model = model_of(name, **settings)
    w = weights_of(model)
    batch = ragged_batch(4, 8, ITEMS)
    batch[3] = PAD
    histories = [[int(j) for j in row if j != PAD] for row in batch]
    expected = np.array(
        [
            [item_based_outputs(name, model.config, w, history, item) for item in range(ITEMS)]
            for history in histories
        ]
    )
    np.testing.assert_allclose(
        model.score(batch, ALL), np.apply_along_axis(liked, 2, expected), atol=1e-9
    )
    targets = torch.arange(ITEMS).repeat(4, 1)
    if expected.shape[2] > 1:
        assert isinstance(model, HasClasses)
        np.testing.assert_allclose(model.classes(batch, targets), expected, atol=1e-9)
    else:
        assert isinstance(model, HasClasses)
        logits = model.classes(batch, targets)
        np.testing.assert_allclose(logits[..., 0] - logits[..., 1], expected[..., 0], atol=1e-9)
