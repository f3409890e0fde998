from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss, log_loss
from torchmetrics.functional.classification import (
    binary_calibration_error,
    multiclass_calibration_error,
)

from whence.arrays import Floats
from whence.errors import InputError
from whence.measure import Measure
from whence.trust import (
    EqualMass,
    EqualWidth,
    JainBins,
    Predictions,
    adaptive_calibration_error,
    brier_score,
    calibration_measures,
    expected_calibration_error,
    jain_calibration_error,
    maximum_calibration_error,
    negative_log_likelihood,
    predictions_of,
    reliability,
)


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whence.trust.resampling.RESAMPLES", 200)


def drawn(
    cases: int, classes: int, seed: int, by: float = 1.0
) -> tuple[Floats, npt.NDArray[np.int64]]:
    """Probabilities, and classes drawn by powers of them; by them if the power is 1."""
    rng = np.random.default_rng(seed)
    probabilities = rng.dirichlet(np.full(classes, 0.5), cases)
    true_shares = probabilities**by / (probabilities**by).sum(axis=1, keepdims=True)
    true = (rng.random((cases, 1)) > true_shares.cumsum(axis=1)[:, :-1]).sum(axis=1)
    return probabilities, true


@given(st.integers(1, 60), st.integers(2, 5), st.integers(1, 20), st.integers(0, 99))
def test_equals_torchmetrics(cases: int, classes: int, count: int, seed: int) -> None:
    probabilities, true = drawn(cases, classes, seed)
    found = reliability(predictions_of(probabilities, true), EqualWidth(count))
    given_to = torch.tensor(probabilities), torch.tensor(true), classes, count
    assert found.error() == pytest.approx(
        float(multiclass_calibration_error(*given_to, norm="l1")), abs=1e-6
    )
    assert found.worst() == pytest.approx(
        float(multiclass_calibration_error(*given_to, norm="max")), abs=1e-6
    )


def test_equals_torchmetrics_of_confidences_alone() -> None:
    predictions = predictions_of(*drawn(500, 3, 0))
    sure, right = torch.tensor(predictions.confidence), torch.tensor(predictions.correct).int()
    assert expected_calibration_error(predictions).value == pytest.approx(
        float(binary_calibration_error(sure, right, norm="l1")), abs=1e-6
    )
    assert maximum_calibration_error(predictions).value == pytest.approx(
        float(binary_calibration_error(sure, right, norm="max")), abs=1e-6
    )


def test_certainty_is_no_bin_of_its_own() -> None:
    """One is certain and wrong, one almost and right; torchmetrics 1.9 would have 0.51."""
    probabilities = np.array([[1.0, 0.0], [0.98, 0.02]])
    true = np.array([1, 0])
    found = expected_calibration_error(predictions_of(probabilities, true), EqualWidth(10))
    assert found.value == pytest.approx(0.99 - 0.5)


def test_an_edge_is_in_the_upper_bin() -> None:
    """As by hand: .5 right, .6 wrong, and then .75 right, .9 wrong; torchmetrics has it too."""
    first = np.array([0.5, 0.6, 0.75, 0.9])
    probabilities, true = np.stack((first, 1 - first), axis=1), np.array([0, 1, 0, 1])
    predictions = predictions_of(probabilities, true)
    assert predictions.correct.tolist() == [True, False, True, False], "of equals the first class"
    found = expected_calibration_error(predictions, EqualWidth(4)).value
    assert found == pytest.approx((abs(1 - 1.1) + abs(1 - 1.65)) / 4)
    assert maximum_calibration_error(predictions, EqualWidth(4)).value == pytest.approx(0.65 / 2)
    sure, right = torch.tensor(first), torch.tensor(predictions.correct).int()
    assert found == pytest.approx(float(binary_calibration_error(sure, right, 4, norm="l1")))


def equal_mass_by_hand(sure: Floats, right: npt.NDArray[np.bool_], count: int) -> float:
    """By loops: cut the sorted cases, then move a cut back to the first of equal confidence."""
    order = np.argsort(sure, kind="stable")
    sure, right = sure[order], right[order]
    cuts = [0]
    for k in range(1, count):
        cut = k * len(sure) // count
        while cut > 0 and sure[cut - 1] == sure[cut]:
            cut -= 1
        cuts.append(cut)
    total = 0.0
    for low, high in zip(cuts, [*cuts[1:], len(sure)], strict=True):
        total += abs(right[low:high].sum() - sure[low:high].sum())
    return total / len(sure)


@given(st.integers(1, 80), st.integers(1, 12), st.integers(1, 2), st.integers(0, 99))
def test_adaptive_error_by_hand(cases: int, count: int, digits: int, seed: int) -> None:
    """Rounded, so that many are equally sure."""
    first = np.round(np.random.default_rng(seed).uniform(0.5, 1, cases), digits)
    true = (np.random.default_rng(seed + 1).random(cases) > first).astype(np.int64)
    predictions = predictions_of(np.stack((first, 1 - first), axis=1), true)
    assert adaptive_calibration_error(predictions, count).value == pytest.approx(
        equal_mass_by_hand(predictions.confidence, predictions.correct, count), abs=1e-12
    )


def test_a_resample_is_binned_as_its_own_cases_would_be() -> None:
    """The interval's ends, from 200 resamples that are taken apart and measured one by one."""
    rng = np.random.default_rng(0)
    first = np.round(rng.uniform(0.5, 1, 90), 2)
    true = (rng.random(90) > first - 0.2).astype(np.int64)
    predictions = predictions_of(np.stack((first, 1 - first), axis=1), true)
    order = np.lexsort((predictions.correct, predictions.confidence))
    draws = np.random.default_rng(np.random.SeedSequence(3)).integers(0, 90, (200, 90))
    for bins in (EqualWidth(6), EqualMass(6), JainBins()):
        slow = [reliability(predictions[order][some], bins).error() for some in draws]
        found = expected_calibration_error(predictions, bins, seed=3)
        assert found.interval[1] == pytest.approx(np.percentile(slow, 97.5), abs=1e-12)
        assert found.interval[0] == pytest.approx(
            2 * found.value - np.percentile(slow, 97.5), abs=1e-12
        )


@pytest.mark.parametrize("by", [1.0, 0.5], ids=["calibrated", "too sure"])
def test_the_interval_holds_the_truth(by: float) -> None:
    """Nearly always, where 95 % of resamples would hardly ever hold a calibrated model's 0."""
    many = reliability(predictions_of(*drawn(200_000, 3, 99, by))).error()
    assert (many < 0.005) == (by == 1)
    truth = 0.0 if by == 1 else many
    measures = [
        expected_calibration_error(predictions_of(*drawn(300, 3, seed, by))) for seed in range(30)
    ]
    assert sum(low <= truth <= high for low, high in (one.interval for one in measures)) >= 26
    if by == 1:
        said = float(measures[0].protocol.split("would have ")[1].split(" by")[0])
        assert said == pytest.approx(np.mean([one.value for one in measures]), rel=0.15)


predictions_drawn = st.builds(
    lambda cases, classes, seed, by: predictions_of(*drawn(cases, classes, seed, by)),
    st.integers(1, 50),
    st.integers(2, 4),
    st.integers(0, 99),
    st.sampled_from([0.3, 1.0, 3.0]),
)


@given(predictions_drawn, st.integers(1, 20))
def test_what_holds_of_all_errors(predictions: Predictions, count: int) -> None:
    expected = expected_calibration_error(predictions, EqualWidth(count))
    maximum = maximum_calibration_error(predictions, EqualWidth(count))
    adaptive = adaptive_calibration_error(predictions, count)
    for found in (expected, maximum, adaptive, jain_calibration_error(predictions)):
        assert 0 <= found.value <= 1
        if len(predictions) > 1:
            assert 0 <= found.interval[0] <= found.value <= found.interval[1] <= 1
        assert found.n == len(predictions)
    assert maximum.value >= expected.value - 1e-12
    together = abs(predictions.correct.mean() - predictions.confidence.mean())
    for bins in (EqualWidth(1), EqualMass(1)):
        one_bin = reliability(predictions, bins)
        assert one_bin.error() == pytest.approx(together)
        assert one_bin.worst() == pytest.approx(together)
        assert expected.value >= together - 1e-12, "bins can only find more"
    assert expected.value == pytest.approx(reliability(predictions, EqualWidth(count)).error())


def test_the_order_of_the_cases_does_not_matter() -> None:
    predictions = predictions_of(*drawn(100, 3, 0))
    turned = predictions[np.random.default_rng(0).permutation(100)]
    for name in ("expected", "maximum", "adaptive"):
        key = f"{name} calibration error"
        assert calibration_measures(predictions)[key] == calibration_measures(turned)[key]
    for measure in (brier_score, negative_log_likelihood):
        assert measure(predictions).value == pytest.approx(measure(turned).value)


def test_scores_of_all_classes() -> None:
    probabilities = np.array([[0.7, 0.2, 0.1], [0.3, 0.3, 0.4], [1.0, 0.0, 0.0]])
    predictions = predictions_of(probabilities, np.array([0, 1, 0]))
    squares = (0.09 + 0.04 + 0.01) + (0.09 + 0.49 + 0.16) + 0
    assert brier_score(predictions).value == pytest.approx(squares / 3)
    logs = -np.log([0.7, 0.3, 1.0]).mean()
    assert negative_log_likelihood(predictions).value == pytest.approx(logs)
    wrong = predictions_of(np.array([[1.0, 0.0]]), np.array([1]))
    assert brier_score(wrong).value == 2
    with pytest.raises(InputError, match="probability of 0 in 1 of 1 cases"):
        negative_log_likelihood(wrong)


@given(st.integers(1, 60), st.integers(2, 5), st.integers(0, 99))
def test_scores_equal_those_of_libraries(cases: int, classes: int, seed: int) -> None:
    """Logarithms of scikit-learn, squares of PyTorch; of two classes twice scikit-learn's."""
    probabilities, true = drawn(cases, classes, seed)
    predictions = predictions_of(probabilities, true)
    every = list(range(classes))
    assert negative_log_likelihood(predictions).value == pytest.approx(
        log_loss(true, probabilities, labels=every), rel=1e-6
    )
    p, y = torch.tensor(probabilities), F.one_hot(torch.tensor(true), classes).double()
    brier = brier_score(predictions).value
    assert brier == pytest.approx(float(F.mse_loss(p, y, reduction="sum")) / cases)
    if classes == 2:
        of_one = brier_score_loss(true, probabilities[:, 1], pos_label=1)
        assert brier == pytest.approx(2 * of_one)


def test_same_seed_same_interval() -> None:
    predictions = predictions_of(*drawn(100, 3, 0))

    def of(seed: int) -> Measure:
        return expected_calibration_error(predictions, seed=seed)

    assert of(1) == of(1)
    assert of(1).interval != of(2).interval


def test_slices_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    predictions = predictions_of(*drawn(100, 3, 0, by=0.4))
    whole = adaptive_calibration_error(predictions)
    monkeypatch.setattr("whence.trust.resampling.DRAWS_AT_ONCE", 700)
    assert adaptive_calibration_error(predictions) == whole


def test_no_cases_have_no_calibration() -> None:
    none = predictions_of(*drawn(5, 3, 0))[:0]
    for measure in (expected_calibration_error, brier_score, negative_log_likelihood):
        with pytest.raises(InputError, match="at least one case"):
            measure(none)
