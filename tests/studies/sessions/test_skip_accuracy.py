"""Baselines and measures, compared with examples by hand, loops and expectations."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.errors import InputError
from whence_studies.sessions import (
    ABSENT,
    BASELINES,
    COLUMNS,
    SessionBatch,
    concat_scores,
    score_skips,
)
from whence_studies.sessions.schema import KNOWN_SPANS, LOG_FEATURES, SKIPPED
from whence_studies.sessions.skip_accuracy import ratio_interval

SLOTS = 10


def batch_of(sessions: list[tuple[str, str]], slots: int = SLOTS) -> SessionBatch:
    """Return a batch from the skips of both halves, written as 0 and 1."""
    count = len(sessions)
    known = np.full((count, slots, KNOWN_SPANS["music"].stop), float(ABSENT), dtype=np.float32)
    tracks = np.zeros((count, slots, 31), dtype=np.float32)
    labels = np.full((count, slots), ABSENT, dtype=np.int8)
    for place, (first, second) in enumerate(sessions):
        known[place, : len(first), LOG_FEATURES.index(SKIPPED)] = list(map(int, first))
        labels[place, : len(second)] = [2 * int(one) - 1 for one in second]
    there = known[..., LOG_FEATURES.index(SKIPPED)] != ABSENT
    return SessionBatch(known, there, tracks, labels != ABSENT, labels)


def predictions(texts: list[str], slots: int = SLOTS) -> np.ndarray:
    return np.array([[one == "1" for one in text.ljust(slots, "1")] for text in texts])


def average_slowly(predicted: str, truth: str) -> float:
    """Return the average accuracy with a loop along the session."""
    total, right = 0.0, 0
    for place, (guess, answer) in enumerate(zip(predicted, truth, strict=True), start=1):
        if guess == answer:
            right += 1
            total += right / place
    return total / len(truth)


def test_by_hand() -> None:
    batch = batch_of([("01", "110"), ("00", "01"), ("11", "1")])
    scores = score_skips(predictions(["101", "01", "0"]), batch)
    assert scores.right.tolist() == [1, 2, 0]
    assert scores.tracks.tolist() == [3, 2, 1]
    np.testing.assert_allclose(scores.average, [1 / 3, 1, 0])
    found = {name: one.value for name, one in scores.measures().items()}
    assert tuple(found) == COLUMNS
    assert list(found.values()) == pytest.approx([3 / 6, 2 / 3, 4 / 9])


def test_average_accuracy_of_a_longer_session() -> None:
    """Right at 1, 3 and 4 of 5: (1 + 2/3 + 3/4) / 5."""
    scores = score_skips(predictions(["10110"]), batch_of([("1", "11111")]))
    assert scores.average[0] == pytest.approx((1 + 2 / 3 + 3 / 4) / 5)


session = st.text("01", min_size=1, max_size=SLOTS)


@given(st.lists(st.tuples(session, session, session), min_size=1, max_size=8))
def test_scores_match_loops(sessions: list[tuple[str, str, str]]) -> None:
    guesses = [(guess * SLOTS)[: len(second)] for _, second, guess in sessions]
    batch = batch_of([(first, second) for first, second, _ in sessions])
    found = score_skips(predictions(guesses), batch).measures()
    truths = [second for _, second, _ in sessions]
    right = [
        [guess == answer for guess, answer in zip(one, truth, strict=True)]
        for one, truth in zip(guesses, truths, strict=True)
    ]
    values = [one.value for one in found.values()]
    assert values[0] == pytest.approx(np.mean([hit for one in right for hit in one]))
    assert values[1] == pytest.approx(np.mean([one[0] for one in right]))
    averages = [average_slowly(one, truth) for one, truth in zip(guesses, truths, strict=True)]
    assert values[2] == pytest.approx(np.mean(averages))
    for one in found.values():
        assert one.n == len(sessions)
        if one.n == 1:
            assert one.bounds == (None, None)
            continue
        assert one.interval[0] <= one.value + 1e-12
        assert one.interval[1] >= one.value - 1e-12
        assert 0 <= one.interval[0] <= one.interval[1] <= 1 + 1e-12


@pytest.mark.parametrize("tracks", [1, 5, 10])
def test_random_predictions_have_the_expected_accuracy(tracks: int) -> None:
    """The mean over all predictions is 1/4 + H(T)/4T: 0.3232 for the 10 of Table 3."""
    guesses = ["".join(one) for one in product("01", repeat=tracks)]
    batch = batch_of([("1", "1" * tracks)] * len(guesses))
    harmonic = sum(1 / place for place in range(1, tracks + 1))
    found = score_skips(predictions(guesses), batch).measures()["mean average accuracy"].value
    assert found == pytest.approx(1 / 4 + harmonic / (4 * tracks))
    if tracks == 10:
        assert round(100 * found, 1) == 32.3


def test_concatenated_scores_equal_one_batch() -> None:
    sessions = [("01", "110"), ("00", "01"), ("11", "1"), ("10", "0000")]
    guesses = ["101", "01", "0", "0110"]
    whole = score_skips(predictions(guesses), batch_of(sessions))
    parts = [
        score_skips(predictions(guesses[some]), batch_of(sessions[some]))
        for some in (slice(0, 1), slice(1, 4))
    ]
    assert concat_scores(parts).measures(seed=3) == whole.measures(seed=3)


def test_intervals_match_a_plain_bootstrap() -> None:
    rng = np.random.default_rng(0)
    wholes = rng.integers(5, 11, 300)
    parts = rng.binomial(wholes, rng.choice([0.3, 0.9], 300))
    drawn = rng.integers(0, 300, (4_000, 300))
    slowly = np.percentile(parts[drawn].sum(axis=1) / wholes[drawn].sum(axis=1), [2.5, 97.5])
    np.testing.assert_allclose(ratio_interval(parts, wholes), slowly, atol=0.005)
    tracks_alone = 2 * 1.96 * (0.6 * 0.4 / wholes.sum()) ** 0.5
    assert slowly[1] - slowly[0] > 1.5 * tracks_alone, "tracks of one session go together"
    assert ratio_interval(parts, wholes, seed=1) == ratio_interval(parts, wholes, seed=1)


@given(st.lists(st.tuples(session, session), min_size=1, max_size=8))
def test_baselines_by_hand(sessions: list[tuple[str, str]]) -> None:
    batch = batch_of(sessions)
    last, mean = (BASELINES[name](batch) for name in ("last", "mean"))
    assert last.shape == mean.shape == batch.labels.shape
    for place, (first, _) in enumerate(sessions):
        assert set(last[place].tolist()) == {first[-1] == "1"}
        assert set(mean[place].tolist()) == {first.count("1") / len(first) >= 0.5}


def test_invalid_predictions_are_rejected() -> None:
    batch = batch_of([("1", "1")])
    with pytest.raises(InputError, match=r"Predictions have the shape \[1, 3\], not \[1, 10\]"):
        score_skips(np.ones((1, 3), dtype=bool), batch)
    with pytest.raises(InputError, match="no session"):
        concat_scores([])
    with pytest.raises(InputError, match="no session"):
        score_skips(np.ones((0, SLOTS), dtype=bool), batch[:0]).measures()
