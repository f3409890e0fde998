from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from statistics import fmean, median

import numpy as np
import numpy.typing as npt
import pytest
import torch
from liking import ITEMS, Liking, candidates, items_of, plain_probabilities, plain_weights

from conftest import LIVELY, NO_MODEL, ragged_batch
from whence.contract import offers
from whence.errors import CapabilityError, InputError
from whence.measure import Measure, bootstrap_interval
from whence.randomness import Randomness
from whence.trust import ClassPermutation, EqualWidth, class_predictions
from whence.trust.permutation.attention_permutation import shuffled_sources
from whence.trust.permutation.class_permutation import class_permutation

CASES, COUNT, LENGTH, REPEATS = 7, 4, 6, 5


def shuffles(items: list[int], repeats: int, seed: int = 0) -> list[list[int]]:
    """Who has whose weight, of a history without padding."""
    row = torch.tensor([items]).expand(repeats, -1)
    stream = Randomness(seed).sequence("explain")
    found = shuffled_sources(
        row, torch.ones_like(row, dtype=torch.bool), torch.arange(repeats), stream
    )
    listed: list[list[int]] = found.tolist()
    return listed


def same(found: ClassPermutation, expected: ClassPermutation) -> None:
    for name in ("change", "median", "confidence", "most", "predicted", "true"):
        one, other = getattr(found, name), getattr(expected, name)
        np.testing.assert_allclose(one, other, atol=1e-9, err_msg=name)


@pytest.mark.parametrize(("classes", "repeats"), [(2, 5), (3, 6), (2, 1)])
def test_equals_a_plain_loop(classes: int, repeats: int) -> None:
    model, batch = Liking(classes), ragged_batch(CASES, LENGTH, ITEMS)
    targets, true = candidates(CASES, COUNT, classes)
    found = class_permutation(model, batch, targets, true, repeats=repeats)
    for case in range(CASES):
        items = items_of(batch[case])
        drawn = shuffles(items, repeats)  # one for all the candidates
        for candidate in range(COUNT):
            target = int(targets[case, candidate])
            weights = plain_weights(model, items, target)
            p = plain_probabilities(model, items, target, weights)
            said = p.index(max(p))
            changes = []
            for source in drawn:
                given = [weights[other] for other in source]
                q = plain_probabilities(model, items, target, given)
                changes.append(abs(q[said] - p[said]))
            at = case, candidate
            assert found.predicted[at] == said
            assert found.confidence[at] == pytest.approx(p[said])
            assert found.most[at] == pytest.approx(max(weights) / sum(weights))
            enough = len(items) > 1
            expected = [fmean(changes), median(changes)] if enough else [np.nan, np.nan]
            np.testing.assert_allclose([found.change[at], found.median[at]], expected, atol=1e-12)
    np.testing.assert_array_equal(found.true, true)
    assert found.classes == classes


def test_kinds_of_mistakes_by_confidence() -> None:
    """Liked and predicted otherwise, the reverse, and all; of three classes two are negative."""
    batch, (targets, true) = ragged_batch(60, LENGTH, ITEMS), candidates(60, COUNT, 3)
    found = class_permutation(Liking(3), batch, targets, true, repeats=3)
    drawn = found.by_confidence()
    assert list(drawn) == ["false negatives", "false positives", "all"]

    def is_of(kind: str, true: int, said: int) -> bool:
        mistaken = {"false negatives": true == 0 != said, "false positives": true != 0 == said}
        return mistaken.get(kind, True)

    for kind, line in drawn.items():
        np.testing.assert_allclose(line.edges, np.arange(3, 11) / 10)
        for place in range(7):
            values, users = [], set()
            for case, candidate in np.ndindex(60, COUNT):
                at = case, candidate
                tenth = min(int(found.confidence[at] * 10), 9)
                of_kind = is_of(kind, int(found.true[at]), int(found.predicted[at]))
                if of_kind and tenth == place + 3 and not np.isnan(found.change[at]):
                    values.append(found.change[at])
                    users.add(case)
            assert (line.count[place], line.users[place]) == (len(values), len(users))
            expected = fmean(values) if values else np.nan
            np.testing.assert_allclose(line.mean[place], expected)
        assert line.protocol.startswith("|Δ probability| of the predicted class by 3 shuffles")
        assert found.measure(kind).value == pytest.approx(
            np.nansum(line.mean * line.count) / line.count.sum()
        )
    assert "false positives" in found.measure("false positives").protocol
    with pytest.raises(
        InputError, match="no kind 'false positive': did you mean 'false positives'"
    ):
        found.measure("false positive")


def test_the_interval_of_the_mean_is_over_users() -> None:
    """Whose targets change alike here: so many targets tell no more than so many users."""

    def by_hand(of_user: npt.NDArray[np.float64]) -> Measure:
        change = np.repeat(of_user[:, None], 200, axis=1)
        liked = np.zeros(change.shape, dtype=np.int64)
        sure = np.full(change.shape, 0.8)
        return ClassPermutation(change, change, sure, liked, liked, sure, 2, "by hand").measure()

    of_user = np.random.default_rng(0).random(12)
    found = by_hand(of_user)
    assert found.value == pytest.approx(of_user.mean())
    assert found.interval == pytest.approx(bootstrap_interval(of_user), abs=0.03)
    assert found.n == 12 * 200
    assert by_hand(of_user[:1]).interval == (0.0, 1.0), "one user says nothing of others"


def test_median_change_by_the_largest_share() -> None:
    batch, (targets, true) = ragged_batch(80, LENGTH, ITEMS), candidates(80, COUNT)
    found = class_permutation(Liking(), batch, targets, true, repeats=4)
    assert (found.most <= 1).all()
    drawn = found.by_attention(EqualWidth(4))
    for kind, said in (("predicted liked", 0), ("predicted otherwise", 1)):
        rows = (found.predicted == said) & (found.most >= 0.75) & ~np.isnan(found.median)
        assert drawn[kind].count[3] == rows.sum() > 0
        assert drawn[kind].mean[3] == pytest.approx(found.median[rows].mean())
    one, other = found.by_attention().values()
    np.testing.assert_array_equal(one.edges, other.edges)
    assert one.count.sum() + other.count.sum() == (~np.isnan(found.median)).sum()
    assert len(one.count) > 5


def test_even_attention_can_be_shuffled_at_will() -> None:
    """And where all parts are the same item."""
    batch, (targets, true) = ragged_batch(CASES, LENGTH, ITEMS), candidates(CASES, COUNT)
    model = Liking()
    with torch.no_grad():
        model.history[:, 1:] = 0
        model.target[:, 0] = 0  # so that every z is 0, and every weight the same
    found = class_permutation(model, batch, targets, true, repeats=3)
    assert np.nanmax(found.change) < 1e-12
    lively = class_permutation(Liking(), batch, targets, true, repeats=3)
    assert np.nanmin(lively.change) > 0
    repeated = torch.full_like(batch, 3)
    assert class_permutation(Liking(), repeated, targets, true, repeats=3).measure().value < 1e-12


@pytest.mark.parametrize("memory", [1, 30_000, 400_000])
def test_little_memory_and_more_padding_change_nothing(memory: int) -> None:
    batch, (targets, true) = ragged_batch(CASES, LENGTH, ITEMS), candidates(CASES, COUNT)
    whole = class_permutation(Liking(), batch, targets, true, repeats=REPEATS)
    wider = torch.nn.functional.pad(batch, (3, 0), value=-1)
    for given in (batch, wider):
        same(
            class_permutation(Liking(), given, targets, true, repeats=REPEATS, memory=memory), whole
        )
    for case in range(CASES):
        one = slice(case, case + 1)
        found = class_permutation(
            Liking(), batch[one], targets[one], true[one], repeats=REPEATS, memory=memory
        )
        for name in ("change", "median", "most"):
            np.testing.assert_allclose(getattr(found, name), getattr(whole, name)[one], atol=1e-9)


def test_memory_is_bounded() -> None:
    """By far less than all weights of all shuffles would take up, on NumPy's side too."""
    batch, (targets, true) = ragged_batch(60, 20, ITEMS), candidates(60, 10)
    seen = []

    class Watched(Liking):
        def classes(
            self,
            batch: torch.Tensor,
            targets: torch.Tensor,
            *,
            attention: Sequence[torch.Tensor | None] | None = None,
        ) -> torch.Tensor:
            seen.append(batch.numel())
            return super().classes(batch, targets, attention=attention)

    tracemalloc.start()
    class_permutation(Watched(), batch, targets, true, repeats=50, memory=2**22)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert max(seen) * 4096 <= 2**22
    assert peak < 2**22 < 60 * 10 * 50 * 20 * 8


def test_the_seed_decides_the_shuffles() -> None:
    batch, (targets, true) = ragged_batch(CASES, LENGTH, ITEMS), candidates(CASES, COUNT)
    one, again, other = (
        class_permutation(Liking(), batch, targets, true, repeats=2, seed=seed).change
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other, equal_nan=True)


def test_no_history_has_two_parts() -> None:
    batch = torch.tensor([[-1, 4], [-1, -1]])
    targets, true = candidates(2, 3)
    found = class_permutation(Liking(), batch, targets, true, repeats=2)
    assert np.isnan(found.change).all()
    assert np.isfinite(found.confidence).all()
    assert found.by_confidence()["all"].count.sum() == 0
    with pytest.raises(InputError, match="None of the 6 targets of the kind 'all' can be measured"):
        found.measure()


def test_what_cannot_be_shuffled_is_refused() -> None:
    batch, (targets, true) = ragged_batch(CASES, LENGTH, ITEMS), candidates(CASES, COUNT)
    with pytest.raises(InputError, match="repeats must be at least 1, not 0"):
        class_permutation(Liking(), batch, targets, true, repeats=0)
    with pytest.raises(
        InputError, match=r"must be \[7, t\] with at least one target per history, not \[3, 4\]"
    ):
        class_permutation(Liking(), batch, targets[:3], true[:3])
    with pytest.raises(InputError, match="True classes must be whole numbers"):
        class_permutation(Liking(), batch, targets, true[:, :1])
    with pytest.raises(InputError, match="numbered 0 to 1; there is no 2"):
        class_permutation(Liking(), batch, targets, true + 1)
    with pytest.raises(CapabilityError, match="has no 'parts', which attention permutation"):
        class_permutation(NO_MODEL, batch, targets, true)


@pytest.mark.parametrize("name", list(LIVELY))
def test_every_model_of_classes(name: str) -> None:
    model = LIVELY[name](items=ITEMS, length=LENGTH)
    batch, (targets, true) = ragged_batch(CASES, LENGTH, ITEMS), candidates(CASES, COUNT)
    if not (offers(model, "classes") and offers(model, "attentions")):
        with pytest.raises(CapabilityError, match="which attention permutation needs"):
            class_permutation(model, batch, targets, true)
        return
    found = class_permutation(model, batch, targets, true, repeats=REPEATS)
    predicted = class_predictions(model, batch, targets, true)
    np.testing.assert_allclose(found.confidence.ravel(), predicted.confidence, rtol=1e-6)
    np.testing.assert_array_equal((found.predicted == found.true).ravel(), predicted.correct)
    same(
        class_permutation(model, batch, targets, true, repeats=REPEATS, memory=30_000),
        found,
    )


@pytest.mark.needs("cuda")
def test_on_a_gpu() -> None:
    batch, (targets, true) = ragged_batch(CASES, LENGTH, ITEMS), candidates(CASES, COUNT)
    here = class_permutation(Liking(), batch, targets, true, repeats=REPEATS)
    moved = [one.cuda() for one in (batch, targets, true)]
    there, again = (class_permutation(Liking().cuda(), *moved, repeats=REPEATS) for _ in range(2))
    same(there, here)
    np.testing.assert_array_equal(there.change, again.change)
