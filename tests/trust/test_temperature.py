from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import optimize, special
from torch import Tensor

from whence.arrays import Floats, Ints
from whence.errors import InputError
from whence.trust import (
    fit_temperature,
    logits_of,
    predictions_from_logits,
    predictions_of,
    temperature_scaling,
)
from whence.trust.predictions import Logits


def drawn(
    cases: int, classes: int, seed: int, temperature: float = 1.0, scale: float = 2.0
) -> tuple[Floats, Ints]:
    """Logits that are right about chance if they are divided by the temperature."""
    rng = np.random.default_rng(seed)
    logits = scale * rng.normal(size=(cases, classes))
    true = (logits / temperature + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return logits, true


def loss(logits: Floats, true: Ints, log_temperature: float) -> float:
    """The mean of −ln p, by scipy."""
    log_p = special.log_softmax(logits / np.exp(log_temperature), axis=1)
    return float(-log_p[np.arange(len(true)), true].mean())


@given(
    st.integers(60, 200),
    st.integers(2, 6),
    st.integers(0, 99),
    st.sampled_from([0.3, 1.0, 4.0]),
    st.sampled_from([1e-3, 1.0, 300.0]),
)
def test_is_what_scipy_finds(
    cases: int, classes: int, seed: int, temperature: float, unit: float
) -> None:
    """In whatever unit the logits are."""
    logits, true = drawn(cases, classes, seed, temperature)
    assume((logits.argmax(axis=1) != true).any())  # else the surer the better, and none is best
    expected = optimize.minimize_scalar(
        lambda at: loss(logits, true, at), bounds=(-6, 6), method="bounded", options={"xatol": 1e-9}
    )
    found = fit_temperature(logits_of(unit * logits, true))
    assert np.log(found / unit) == pytest.approx(expected.x, abs=1e-5)


def test_few_passes_are_needed() -> None:
    passes = 0

    def counted(logits: Logits) -> Logits:
        def go_through() -> Iterator[tuple[Tensor, Tensor]]:
            nonlocal passes
            passes += 1
            yield from logits()

        return go_through

    for temperature in (0.2, 1.0, 5.0):
        passes = 0
        found = fit_temperature(counted(logits_of(*drawn(4000, 20, 0, temperature))))
        assert found == pytest.approx(temperature, rel=0.05)
        assert passes <= 8


def test_a_steep_slope_between_flat_ones() -> None:
    """One item a little above 100,000 others, which comes in 7 of 10 cases: its p is to be .7."""
    others = 100_000
    logits = np.full((10, others + 1), -1.0)
    logits[:, 0] = 0
    true = np.array([0] * 7 + [1, 2, 3])
    expected = 1 / np.log(others * 0.7 / 0.3)
    assert fit_temperature(logits_of(logits, true)) == pytest.approx(expected, rel=1e-6)


def test_pieces_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    logits, true = drawn(50, 5, 0)
    whole = fit_temperature(logits_of(logits, true))
    predicted = predictions_from_logits(logits_of(logits, true), whole)
    monkeypatch.setattr("whence.memory.SCORES_AT_ONCE", 3 * 5)
    pieces = logits_of(torch.tensor(logits), torch.tensor(true))
    assert len(list(pieces())) == 17
    assert fit_temperature(pieces) == pytest.approx(whole, rel=1e-9)
    again = predictions_from_logits(pieces, whole)
    np.testing.assert_array_equal(again.squares, predicted.squares)


@given(st.integers(0, 99), st.floats(0.01, 100), st.sampled_from([np.float32, np.float64]))
def test_never_changes_what_is_predicted(seed: int, temperature: float, kind: type) -> None:
    logits, true = drawn(30, 4, seed)
    logits = logits.astype(kind)
    logits[:, 3] = np.nextafter(logits[:, 2], kind(np.inf))  # as near as can be
    pieces = logits_of(logits, true)
    one, other = (predictions_from_logits(pieces, at) for at in (1.0, temperature))
    np.testing.assert_array_equal(one.correct, other.correct)
    np.testing.assert_array_equal(one.correct, logits.argmax(axis=1) == true)
    surer = (one.confidence - other.confidence) * (temperature - 1)
    assert (surer >= -1e-6).all(), "the higher the less sure"


def test_one_changes_nothing() -> None:
    logits, true = drawn(30, 4, 0)
    found = predictions_from_logits(logits_of(logits, true))
    expected = predictions_of(special.softmax(logits, axis=1), true)
    for name in ("confidence", "correct", "true", "log_likelihood", "squares"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-12)
    assert "temperature" not in found.protocol
    assert "temperature 2" in predictions_from_logits(logits_of(logits, true), 2.0).protocol


def test_almost_none_makes_certain() -> None:
    logits, true = drawn(30, 4, 0)
    found = predictions_from_logits(logits_of(logits.astype(np.float32), true), 1e-39)
    np.testing.assert_array_equal(found.confidence, 1)
    np.testing.assert_array_equal(found.squares, np.where(found.correct, 0, 2))


def test_says_what_it_changes_on_another_part() -> None:
    """A model three times too sure of itself."""
    validation, test = (logits_of(*drawn(1500, 5, seed, 3.0, 4.0)) for seed in (0, 1))
    found = temperature_scaling(validation, test)
    assert found.temperature == pytest.approx(3.0, rel=0.1)
    measures = found.measures()
    for before, after in measures.values():
        assert after.interval[1] < before.interval[0]
    assert measures["expected calibration error"][1].interval[0] == 0
    assert measures["negative log-likelihood"][0].value == pytest.approx(
        loss(*drawn(1500, 5, 1, 3.0, 4.0), 0.0)
    )
    np.testing.assert_array_equal(found.before.correct, found.after.correct)


def test_a_class_that_cannot_be_takes_no_part() -> None:
    logits, true = drawn(200, 4, 0)
    wider = np.column_stack((logits, np.full(200, -np.inf)))
    pieces = logits_of(wider, true)
    assert fit_temperature(pieces) == pytest.approx(fit_temperature(logits_of(logits, true)))
    predictions = predictions_from_logits(pieces, 2.0)
    expected = predictions_from_logits(logits_of(logits, true), 2.0)
    np.testing.assert_allclose(predictions.squares, expected.squares)
    true[3] = 4
    with pytest.raises(InputError, match="logit −∞"):
        fit_temperature(logits_of(wider, true))


def test_where_no_temperature_is_best() -> None:
    logits, true = drawn(40, 4, 0)
    with pytest.raises(InputError, match="right in all of 40 cases"):
        fit_temperature(logits_of(logits, logits.argmax(axis=1)))
    with pytest.raises(InputError, match="less confidence is always better"):
        fit_temperature(logits_of(logits, logits.argmin(axis=1)))
    with pytest.raises(InputError, match="right in all of 40 cases"):
        fit_temperature(logits_of(np.zeros((40, 4)), true))


def test_what_cannot_be_used_is_refused() -> None:
    logits, true = drawn(4, 3, 0)
    for temperature in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(InputError, match="finite number above 0"):
            predictions_from_logits(logits_of(logits, true), temperature)
    for wrong in (np.nan, np.inf):
        broken = logits.copy()
        broken[1, 1] = wrong
        for use in (fit_temperature, predictions_from_logits):
            with pytest.raises(InputError, match="Logits must be numbers"):
                use(logits_of(broken, true))
    with pytest.raises(InputError, match="at least one case"):
        fit_temperature(logits_of(logits[:0], true[:0]))
    with pytest.raises(InputError, match="numbered 0 to 2; there is no 7"):
        fit_temperature(logits_of(logits, np.array([0, 1, 7, 2])))
