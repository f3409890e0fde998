"""True reasons, against the world's own answers, question by question."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from conftest import interactions_of
from whence.data import Split
from whence.errors import InputError
from whence.explainers import EXPLAINERS, explain_batch
from whence.run import Run
from whence.trust import precision_at_cause, sign_at_cause
from whence.worlds import World
from whence_studies.measurements.measurement import MeasuredRun
from whence_studies.measurements.true_causes import MEASUREMENT, TruthOptions, truth

Followed = Callable[..., Run]


def test_columns_agree_with_the_world(followed: Followed, split: Split, world: World) -> None:
    run = followed()
    found = truth(MeasuredRun(run, split, "validation", False), TruthOptions(25))
    assert sorted(found) == sorted(MEASUREMENT.all_columns)
    for reason in ("caused", "prevented", "taste"):
        questions = world.questions(reason, 8, 25)
        batch = torch.from_numpy(questions.cases.histories(8))
        targets = torch.from_numpy(questions.cases.targets)
        for name in ("gradient-norm", "leave-one-out", "lime", "random"):
            column = found[f"precision of {name}, {reason}"]
            assert column.n == len(batch)
            for seed, model in run.models.items():
                said = explain_batch(model, batch, targets, name, seed)
                hits, right = [], []
                for scores, parts, true in zip(
                    said.scores, said.parts, questions.truth, strict=True
                ):
                    side = -1 if said.signed and reason == "prevented" else 1
                    strengths = np.where(parts, side * scores, -np.inf)
                    hits.append(true[strengths.argmax()])
                    right.append(np.mean(side * scores[true] > 0))
                assert column.per_seed[seed] == pytest.approx(np.mean(hits))
                assert column.per_seed[seed] == precision_at_cause(said, questions).value
                sign = f"sign of {name}, {reason}"
                assert (sign in found) == said.signed
                if said.signed:
                    assert found[sign].per_seed[seed] == pytest.approx(np.mean(right))
                    assert found[sign].per_seed[seed] == sign_at_cause(said, questions).value


def test_only_signed_explainers_have_sign_columns() -> None:
    asked = [name for name in EXPLAINERS if f"precision of {name}, taste" in MEASUREMENT.columns]
    signed = [name for name in asked if f"sign of {name}, taste" in MEASUREMENT.columns]
    assert signed == [name for name in asked if EXPLAINERS[name].signed]
    assert "shapley" in signed
    assert "rollout" not in signed
    cells = {column for one in MEASUREMENT.maps.values() for column in one.columns}
    assert cells == set(MEASUREMENT.columns)


def test_data_without_known_reasons_raise(followed: Followed, split: Split) -> None:
    real = replace(followed(), loaded=interactions_of([[0, 1, 2, 3]] * 3))
    with pytest.raises(InputError, match="known only for synthetic worlds"):
        truth(MeasuredRun(real, split, "validation", False), TruthOptions(5))
    with pytest.raises(InputError, match="questions must be at least 1, not 0"):
        TruthOptions(0)
