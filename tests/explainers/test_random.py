from __future__ import annotations

import numpy as np
import torch

from conftest import lively_sasrec, ragged_batch
from whence.explainers import explain_batch


def test_seeds_targets_and_histories_differ() -> None:
    model, batch = lively_sasrec(), ragged_batch(1, 8, 30)
    drawn = {
        explain_batch(model, history, torch.tensor([target]), "random", seed=seed).scores.tobytes()
        for seed in (0, 1)
        for target in (2, 3)
        for history in (batch, (batch + 1) % 30)
    }
    assert len(drawn) == 8


def test_every_slot_is_strongest_equally_often() -> None:
    model, batch = lively_sasrec(), ragged_batch(4000, 8, 30).clamp(min=0)
    found = explain_batch(model, batch, torch.zeros(4000, dtype=torch.int64), "random")
    share = np.bincount(found.scores.argmax(axis=1), minlength=8) / 4000
    np.testing.assert_allclose(share, 1 / 8, atol=0.025)
