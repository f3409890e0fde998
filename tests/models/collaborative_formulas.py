"""The formulas of collaborative models, written out slowly, and small models to compare."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
import torch

from conftest import lively
from whence.arrays import Floats
from whence.data.interactions import Counts
from whence.models import Recommender, build_model
from whence.randomness import Randomness

Config: TypeAlias = Any
ITEMS, USERS, WIDTH = 12, 7, 6
NCF = ("gmf", "mlp", "neumf")


def model_of(name: str, **settings: Config) -> Recommender:
    """In float64, with weights and statistics of batches that are far from those of a new one."""
    generator = Randomness(1).torch("init")
    sizes = {"max_len": 8, "dim": WIDTH} | (
        {"hidden_dims": (6, 4)} if name not in ("gmf", "fism") else {}
    )
    model = build_model(name, sizes | settings, Counts(ITEMS, USERS), generator)
    lively(model, generator)
    for key, values in model.named_buffers():
        if "running" in key:
            values.copy_(torch.rand(values.shape, generator=generator, dtype=torch.float64) + 0.3)
    return model


def weights_of(model: Recommender) -> dict[str, Floats]:
    return {name: values.numpy() for name, values in model.state_dict().items()}


def relu(values: Floats) -> Floats:
    return np.maximum(values, 0)


def ncf_logit(name: str, w: dict[str, Floats], user: int, item: int) -> float:
    p, q = w["user"][1 + user], w["item"][1 + item]
    linear = WIDTH if name == "neumf" else len(p) if name == "gmf" else 0
    factors = p[:linear] * q[:linear]
    if name != "gmf":
        rows = np.concatenate((p[linear:], q[linear:]))
        for layer in range(sum(key.startswith("layers") for key in w) // 2):
            rows = relu(w[f"layers.{layer}.weight"] @ rows + w[f"layers.{layer}.bias"])
        factors = np.concatenate((factors, rows))
    return float(w["last.weight"][0] @ factors + w["last.bias"][0])


def attention_of(w: dict[str, Floats], history: list[int], target: int, beta: float) -> Floats:
    q = w["target"][1 + target]
    e = np.array(
        [
            math.exp(w["look_out"] @ relu(w["look"] @ (w["history"][1 + j] * q) + w["look_bias"]))
            for j in history
        ]
    )
    return np.asarray(e / e.sum() ** beta)


def user_vector(
    name: str, config: Config, w: dict[str, Floats], history: list[int], target: int
) -> Floats:
    if not history:
        return np.zeros(WIDTH)
    p = w["history"][[1 + j for j in history]]
    if name == "deepicf-a":
        return np.asarray(attention_of(w, history, target, config.beta) @ p)
    return np.asarray(len(history) ** -config.alpha * p.sum(axis=0))


VERSIONS: list[tuple[str, dict[str, Any]]] = [
    ("fism", {}),
    ("fism", {"alpha": 0.7}),
    ("deepicf", {}),
    ("deepicf", {"alpha": 1.0, "n_classes": 2}),
    ("deepicf-a", {}),
    ("deepicf-a", {"beta": 1.0}),
    ("deepicf-a", {"beta": 0.5, "n_classes": 2, "attention_dim": 3}),
    ("deepicf-a", {"n_classes": 3}),
]
