from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch

from conftest import LIVELY, NO_MODEL, READING
from whence.data import Split
from whence.data.histories import Cases
from whence.errors import CapabilityError, InputError
from whence.run import Run
from whence.trust import (
    fit_temperature,
    next_item_calibration,
    next_item_logits,
    temperature_scaling,
)


@pytest.fixture
def cases(split: Split) -> Cases:
    return split.held["test"][:25]


@pytest.mark.parametrize("name", READING)
def test_equals_case_by_case(name: str, cases: Cases) -> None:
    model = LIVELY[name](items=120, length=9)
    found = next_item_calibration(model, cases, 9, temperature=3.0, bins=5)
    for case in range(25):
        history = torch.from_numpy(cases[case : case + 1].histories(9))
        scores = model.score(history, torch.arange(120)[None])[0]
        p = (scores.detach() / 3).softmax(dim=0).numpy()
        true = cases.targets[case]
        assert found.predictions.confidence[case] == pytest.approx(p.max())
        assert found.predictions.correct[case] == (p.argmax() == true)
        assert found.predictions.true[case] == true
        assert found.predictions.log_likelihood[case] == pytest.approx(np.log(p[true]))
        assert found.predictions.squares[case] == pytest.approx(
            ((p - np.eye(120)[true]) ** 2).sum()
        )
    if name != "popularity":  # which is equally sure in all cases
        assert found.reliability.count.tolist() == [5] * 5
        error = found.measures["adaptive calibration error"].value
        assert error == pytest.approx(found.reliability.error())
    measure = found.measures["negative log-likelihood"]
    assert measure.value == pytest.approx(-found.predictions.log_likelihood.mean())
    assert type(model).__name__ in measure.protocol
    assert "temperature 3, 25 cases of 120 classes" in measure.protocol


@pytest.mark.parametrize(
    ("limit", "value"), [("memory.SCORES_AT_ONCE", 3 * 120), ("contract.BYTES_PER_SLOT", 2**24)]
)
def test_few_scores_at_a_time(
    limit: str, value: int, cases: Cases, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = LIVELY["sasrec"](items=120, length=9)
    whole = next_item_calibration(model, cases, 9).predictions
    monkeypatch.setattr(f"whence.{limit}", value)
    pieces = next_item_logits(model, cases, 9)
    assert max(len(scores) for scores, _ in pieces()) == 3
    assert not any(scores.requires_grad for scores, _ in pieces())
    found = next_item_calibration(model, cases, 9).predictions
    np.testing.assert_allclose(found.log_likelihood, whole.log_likelihood)
    np.testing.assert_array_equal(found.correct, whole.correct)


def test_a_trained_model_gains_by_a_temperature(run: Run, split: Split) -> None:
    """Never on the part on which it is fitted does it lose."""
    validation = next_item_logits(run.first, split.held["validation"], 12)
    test = next_item_logits(run.first, split.held["test"], 12)
    found = temperature_scaling(validation, test)
    before, after = found.measures()["negative log-likelihood"]
    assert after.value < before.value
    assert found.temperature == pytest.approx(fit_temperature(validation))
    own = temperature_scaling(validation, validation).measures()["negative log-likelihood"]
    assert own[1].value <= own[0].value


def test_what_cannot_be_used_is_refused(cases: Cases) -> None:
    model = LIVELY["sasrec"](items=120, length=9)
    with pytest.raises(InputError, match="not 0 cases and max_len 9"):
        next_item_calibration(model, cases[:0], 9)
    with pytest.raises(InputError, match="not 25 cases and max_len 0"):
        next_item_calibration(model, cases, 0)
    with pytest.raises(InputError, match="numbered 0 to 119; there is no 120"):
        next_item_calibration(model, replace(cases, targets=np.full(25, 120)), 9)
    with pytest.raises(CapabilityError, match="'score', which the calibration of next items needs"):
        next_item_calibration(NO_MODEL, cases, 9)


@pytest.mark.needs("cuda")
def test_on_a_gpu(run: Run, cases: Cases) -> None:
    model = deepcopy(run.first)
    here = next_item_calibration(model, cases, 12).predictions
    temperature = fit_temperature(next_item_logits(model, cases, 12))
    model.cuda()
    there = next_item_calibration(model, cases, 12).predictions
    np.testing.assert_allclose(there.log_likelihood, here.log_likelihood, rtol=1e-5)
    np.testing.assert_array_equal(there.correct, here.correct)
    found = fit_temperature(next_item_logits(model, cases, 12))
    assert found == pytest.approx(temperature, rel=1e-4)
