"""The studies of the papers train what they always trained."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest

import whence
from conftest import interactions_of
from whence.models import model_spec
from whence.training import TrainingConfig
from whence_studies.cache import resolve_settings
from whence_studies.study import find_study, study_files

NEW = (
    "reasons-real",
    "sequential-default",
    "sequential-frontier",
    "sequential-quick",
    "sequential-recipes",
)
"""Studies of losses, which name one in every variant."""
LOSSES = {"sasrec": "bce", "bert4rec": "softmax"}
"""Those of Kang & McAuley (2018) and Sun et al. (2019)."""


@pytest.mark.parametrize("name", [one for one in study_files() if one not in NEW])
def test_the_losses_of_the_papers(name: str) -> None:
    study = find_study(name)
    for cell in () if study.tabulated else study.cells():
        loss = LOSSES.get(study.models[cell.model].name)
        if loss is not None:
            settings, training = resolve_settings(study, cell)
            sampled = cell.variant == "sampled negatives"
            assert settings["loss"] == ("bce" if sampled else loss)
            assert (training["warmup"], training["patience"]) == (0, 0)


@pytest.mark.parametrize("name", NEW)
def test_new_studies_name_their_losses(name: str) -> None:
    study = find_study(name)
    for cell in study.cells():
        if not model_spec(study.models[cell.model].name).closed_form:
            assert "loss" in study.settings_of(cell)[0], cell


WEIGHTS = {
    "sasrec": {
        "blocks.0.contract.weight": 5.47212,
        "blocks.0.expand.weight": 6.596847,
        "blocks.0.key.weight": 8.028495,
        "blocks.0.output.weight": 6.933522,
        "blocks.0.query.weight": 7.538142,
        "blocks.0.value.weight": 6.49264,
        "item": 4.323036,
        "position": 1.171038,
    },
    "bert4rec": {
        "blocks.0.contract.weight": 5.966567,
        "blocks.0.expand.weight": 6.94404,
        "blocks.0.key.weight": 7.844344,
        "blocks.0.output.weight": 5.639259,
        "blocks.0.query.weight": 8.478105,
        "blocks.0.value.weight": 6.087815,
        "item": 4.059719,
        "mask": 0.11856,
        "position": 1.400651,
    },
}
"""Sums of |w| after 20 steps, from the version before there were other losses.

On one machine the bits were equal. Another machine may round differently.
"""


@pytest.mark.parametrize("name", WEIGHTS)
def test_trained_weights_stay_the_same(name: str) -> None:
    rng = np.random.default_rng(0)
    histories = [rng.integers(0, 20, size=int(n)).tolist() for n in rng.integers(4, 12, 40)]
    config = model_spec(name).config(max_len=6, dim=4, n_blocks=1, loss=LOSSES[name])
    run = whence.train(
        interactions_of(histories),
        model=name,
        model_settings=asdict(config),
        training=asdict(TrainingConfig(steps=20, batch_size=16, learning_rate=0.01)),
        seeds=1,
        show_progress=False,
    )
    weights = run.first.state_dict()
    found = {key: float(weights[key].double().abs().sum()) for key in WEIGHTS[name]}
    assert found == pytest.approx(WEIGHTS[name], rel=1e-3)
