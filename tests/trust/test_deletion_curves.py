from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conftest import NO_MODEL, TRANSFORMERS, lively_sasrec, ragged_batch
from whence.arrays import Floats
from whence.contract import ALL, PAD, All, Explainable
from whence.errors import CapabilityError, InputError
from whence.explainers import compare_batch, explain_batch
from whence.explanation import Explanation
from whence.models.transformer import Transformer
from whence.trust import Curves, deletion_at, deletion_curves, normalised_area
from whence.trust.faithfulness.curves import CurveKind
from whence.trust.faithfulness.deletion import Order

ITEMS, LENGTH = 30, 6
KINDS: tuple[CurveKind, ...] = ("deletion", "insertion")


@pytest.fixture(params=list(TRANSFORMERS))
def model(request: pytest.FixtureRequest) -> Transformer:
    return TRANSFORMERS[request.param](items=ITEMS, length=LENGTH)


def explained(model: Explainable, batch: torch.Tensor, *methods: str) -> list[Explanation]:
    targets = torch.arange(len(batch))
    return list(compare_batch(model, batch, targets, methods).values())


@torch.no_grad()
def slow_divergence(model: Explainable, history: torch.Tensor, present: torch.Tensor) -> float:
    p, q = (
        model.score(history[None], ALL, present=there)[0].softmax(dim=0).tolist()
        for there in (None, present[None])
    )
    return float(sum((a - b) * math.log(a / b) for a, b in zip(p, q, strict=True)) / 2)


def slow_curve(
    model: Explainable, history: torch.Tensor, order: Sequence[int], kind: CurveKind
) -> list[float]:
    """One input at a time, as the paper says it."""
    deleted = kind == "deletion"
    present = torch.full(history.shape, deleted)
    curve = [slow_divergence(model, history, present)]
    for slot in order:
        present[slot] = not deleted
        curve.append(slow_divergence(model, history, present))
    return curve


def padded(curve: list[float], length: int) -> Floats:
    return np.array(curve + [np.nan] * (length - len(curve)))


@pytest.mark.parametrize("kind", KINDS)
def test_equals_a_plain_loop(model: Transformer, kind: CurveKind) -> None:
    batch = ragged_batch(5, LENGTH, ITEMS)
    (explanation,) = explained(model, batch, "leave-one-out")
    (found,) = deletion_curves(model, batch, [explanation], kind=kind).values()
    assert found.values.shape == (5, LENGTH + 1)
    for case in range(5):
        slow = slow_curve(model, batch[case], explanation.strongest(case), kind)
        np.testing.assert_allclose(found.values[case], padded(slow, LENGTH + 1), atol=1e-9)
        assert found.counts[case] == len(slow) - 1
    assert (found.kind, found.order, found.removal) == (kind, "leave-one-out", "attention-column")


@pytest.mark.parametrize("kind", KINDS)
def test_the_greedy_oracle_equals_a_plain_loop(model: Transformer, kind: CurveKind) -> None:
    batch = ragged_batch(4, LENGTH, ITEMS, seed=1)
    found = deletion_curves(model, batch, ["greedy oracle"], kind=kind)["greedy oracle"]
    for case in range(4):
        history = batch[case]
        left = (history != PAD).nonzero()[:, 0].tolist()
        order: list[int] = []
        while left:
            ends = {slot: slow_curve(model, history, [*order, slot], kind)[-1] for slot in left}
            order.append((max if kind == "deletion" else min)(ends, key=ends.__getitem__))
            left.remove(order[-1])
        slow = padded(slow_curve(model, history, order, kind), LENGTH + 1)
        np.testing.assert_allclose(found.values[case], slow, atol=1e-9)


@pytest.mark.parametrize("divergence", ["symmetrised KL", "Jensen-Shannon"])
def test_ends_are_shared_and_nothing_beats_the_oracles_first_step(
    model: Transformer, divergence: str
) -> None:
    batch = ragged_batch(20, LENGTH, ITEMS)
    orders: list[Order] = [*explained(model, batch, "rollout", "leave-one-out", "gradient-norm")]
    orders += ["random order", "greedy oracle"]
    found = deletion_curves(model, batch, orders, divergence=divergence)
    best = found["greedy oracle"]
    last = np.take_along_axis(best.values, best.counts[:, None], axis=1)
    for curves in found.values():
        assert (curves.values[:, 0] == 0).all()
        assert (curves.values[:, 1] <= best.values[:, 1] + 1e-12).all()
        np.testing.assert_array_equal(
            np.take_along_axis(curves.values, curves.counts[:, None], axis=1), last
        )
    back = deletion_curves(model, batch, orders, divergence=divergence, kind="insertion")
    for curves in back.values():
        np.testing.assert_allclose(curves.values[:, 0], last[:, 0])
        assert (back["greedy oracle"].values[:, 1] <= curves.values[:, 1] + 1e-12).all(), (
            "what brings it nearest"
        )
        assert curves.area_measure().direction == "lower is better"


class Additive(Explainable):
    """Every item present adds its worth to the logit of the only target that has one."""

    removal = "not added"

    def __init__(self, worth: Sequence[float]) -> None:
        self.worth = torch.tensor(worth, dtype=torch.float64)
        self.shown: list[torch.Tensor] = []
        self.sizes: list[int] = []

    def parts(self, batch: torch.Tensor) -> torch.Tensor:
        return batch != PAD

    def score(
        self,
        batch: torch.Tensor,
        targets: torch.Tensor | All,
        *,
        present: torch.Tensor | None = None,
        embedded: torch.Tensor | None = None,
        attention: Sequence[torch.Tensor | None] | None = None,
    ) -> torch.Tensor:
        self.sizes.append(len(batch))
        there = self.parts(batch)
        if present is not None:
            self.shown.append(present | there)
            there = there & present
        total = (self.worth[batch.clamp(min=0)] * there).sum(dim=1)
        scores = torch.stack((total, *[torch.zeros_like(total)] * 3), dim=1)
        return scores if isinstance(targets, All) else scores.gather(1, targets)


WORTH = [0.2, 1.5, 0.4, 0.9, 0.1]
HISTORIES = torch.tensor([[0, 1, 2, 3, 4], [PAD, PAD, 3, 1, 0], [4, 3, 2, 1, 0]])


def test_the_true_order_of_an_additive_model_is_known() -> None:
    model = Additive(WORTH)
    explanation = explain_batch(model, HISTORIES, torch.tensor([0, 0, 0]), "leave-one-out")
    truth = replace(explanation, method="truth", scores=model.worth[HISTORIES].numpy())
    worst = replace(truth, method="worst", scores=-1 / model.worth[HISTORIES].numpy())
    found = deletion_curves(
        model, HISTORIES, [truth, worst, explanation, "random order", "greedy oracle"]
    )
    for name in ("leave-one-out", "greedy oracle"):
        np.testing.assert_allclose(found[name].values, found["truth"].values, atol=1e-12)
    areas = {name: curves.area() for name, curves in found.items()}
    assert (areas["worst"] < areas["truth"]).all()
    assert (areas["worst"] <= areas["random order"]).all()
    chance, oracle = found["random order"], found["greedy oracle"]
    assert normalised_area(found["truth"], chance, oracle).value == pytest.approx(1)
    assert normalised_area(chance, chance, oracle).value == 0
    assert normalised_area(found["worst"], chance, oracle).value < 0
    # 3.1 and 0 as logits beside three zeros, by hand
    p, q = math.exp(3.1) / (math.exp(3.1) + 3), 1 / 4
    both = ((p - q) * math.log(p / q) + (q - p) * math.log((1 - p) / (1 - q))) / 2
    assert found["truth"].values[0, -1] == pytest.approx(both)


@pytest.mark.parametrize("kind", KINDS)
def test_padding_is_never_deleted(kind: CurveKind) -> None:
    model = Additive(WORTH)
    orders: list[Order] = ["random order", "greedy oracle"]
    deletion_curves(model, HISTORIES, orders, kind=kind)
    assert len(model.shown) > 3
    assert all(shown.all() for shown in model.shown)


def test_equals_go_in_slot_order() -> None:
    model = Additive(WORTH)
    (explanation,) = explained(model, HISTORIES, "leave-one-out")
    ties = replace(explanation, scores=np.where(explanation.parts, -1.0, 0.0))
    (found,) = deletion_curves(model, HISTORIES, [ties]).values()
    for case in range(3):
        order = (HISTORIES[case] != PAD).nonzero()[:, 0].tolist()
        slow = slow_curve(model, HISTORIES[case], order, "deletion")
        np.testing.assert_allclose(found.values[case], padded(slow, 6), atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_equals_its_loop(model: Transformer, kind: CurveKind) -> None:
    batch = ragged_batch(6, LENGTH, ITEMS)
    (explanation,) = explained(model, batch, "rollout")
    orders: list[Order] = [explanation, "random order", "greedy oracle"]
    together = deletion_curves(model, batch, orders, kind=kind)
    for case in range(6):
        alone = deletion_curves(
            model, batch[case, None], [explanation[case], *orders[1:]], kind=kind
        )
        for name, curves in alone.items():
            (one,) = curves.values.tolist()
            np.testing.assert_allclose(
                together[name].values[case], padded(one, LENGTH + 1), atol=1e-9
            )


def test_little_memory_gives_the_same(model: Transformer) -> None:
    batch = ragged_batch(9, LENGTH, ITEMS)
    orders: list[Order] = [*explained(model, batch, "rollout"), "random order", "greedy oracle"]
    much = deletion_curves(model, batch, orders)
    for memory in (1, 4 * 32 * ITEMS, 100_000):
        for name, curves in deletion_curves(model, batch, orders, memory=memory).items():
            np.testing.assert_allclose(curves.values, much[name].values, atol=1e-9)
            for top, changed in curves.changed.items():
                np.testing.assert_array_equal(changed, much[name].changed[top])


def test_memory_bounds_what_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    model, histories = Additive(WORTH), HISTORIES.repeat(20, 1)
    orders: list[Order] = ["random order", "greedy oracle"]
    deletion_curves(model, histories, orders, memory=7 * 4096 * 5)
    assert max(model.sizes) == 7
    monkeypatch.setattr("whence.memory.SCORES_AT_ONCE", 12)
    model.sizes.clear()
    deletion_curves(model, histories, orders)
    assert max(model.sizes) == 3


def test_chance_is_decided_by_the_seed() -> None:
    model, batch = lively_sasrec(), ragged_batch(10, 8, ITEMS)
    one, same, other = (
        deletion_curves(model, batch, ["random order"], seed=seed)["random order"].values
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other, equal_nan=True)


def by_hand(
    rows: list[list[float]], kind: CurveKind = "deletion", order: str = "by hand"
) -> Curves:
    longest = max(map(len, rows))
    values = np.stack([padded(row, longest) for row in rows])
    counts = np.array([len(row) - 1 for row in rows])
    return Curves(values, counts, kind, "symmetrised KL", order)


def test_areas_and_shapes_by_hand() -> None:
    """Straight, convex, concave, of one part, of none, and one where nothing moves."""
    curves = by_hand([[0, 1, 2, 3, 4], [0, 0, 0, 0, 4], [0, 4, 4, 4, 4], [0, 3], [0], [0, 0, 0]])
    np.testing.assert_allclose(curves.area(), [2, 0.5, 3.5, 1.5, np.nan, 0])
    np.testing.assert_allclose(curves.shape(), [0, 0.375, -0.375, np.nan, np.nan, np.nan])
    np.testing.assert_allclose(curves.mean(), [0, 8 / 5, 6 / 4, 7 / 3, 4])
    assert curves.area_measure().value == pytest.approx(1.5)
    assert (curves.area_measure().n, curves.shape_measure().n) == (5, 3)
    back = by_hand([[4, 3, 2, 1, 0], [4, 0, 0, 0, 0], [4, 4, 4, 4, 0]], "insertion")
    np.testing.assert_allclose(back.shape(), [0, 0.375, -0.375])


@given(
    values=st.lists(st.floats(0, 9), min_size=1, max_size=9),
    scale=st.floats(0.1, 9),
)
def test_areas_are_numpys_trapezoids(values: list[float], scale: float) -> None:
    row = [0.0, *values]
    curves, scaled = by_hand([row]), by_hand([[scale * value for value in row]])
    share = np.linspace(0, 1, len(row))
    assert curves.area()[0] == pytest.approx(np.trapezoid(row, share))
    if len(row) > 2 and row[-1] > 1e-6:
        chord = share * row[-1]
        expected = np.trapezoid(chord - np.array(row), share) / row[-1]
        assert curves.shape()[0] == pytest.approx(expected, abs=1e-9)
        assert scaled.shape()[0] == pytest.approx(expected, abs=1e-6), "whatever the unit"
        assert curves.shape()[0] <= 0.5


def test_heights_at_shares_of_the_parts() -> None:
    """Of four parts and of one: a quarter of one is none, a half of it is one."""
    curves = by_hand([[0, 1, 2, 3, 4], [0, 10], [0]])
    np.testing.assert_allclose(
        deletion_at(curves, [0, 0.25, 0.5, 0.6, 1]), [0, 0.5, 6, 6, 7], atol=1e-12
    )
    assert deletion_at(curves).shape == (11,)
    with pytest.raises(InputError, match="between 0 and 1"):
        deletion_at(curves, [1.5])


def test_the_normalised_area_and_its_interval() -> None:
    """The interval is that of the ratio, resampled by hand."""
    rng = np.random.default_rng(0)
    chance, room, gain = rng.random(300), rng.random(300) + 0.5, rng.random(300)
    areas = (chance + gain * room, chance, chance + room)
    curves, random, oracle = (by_hand([[0, 2 * one] for one in area]) for area in areas)
    found = normalised_area(curves, random, oracle)
    assert found.value == pytest.approx((gain * room).mean() / room.mean())
    draws = rng.integers(0, 300, (2_000, 300))
    ratios = (gain * room)[draws].mean(axis=1) / room[draws].mean(axis=1)
    np.testing.assert_allclose(found.interval, np.percentile(ratios, [2.5, 97.5]), atol=0.01)
    with pytest.raises(InputError, match="no better than a random order"):
        normalised_area(curves, random, random)


def test_what_cannot_be_deleted_is_refused() -> None:
    model, batch = lively_sasrec(), ragged_batch(4, 8, ITEMS)
    (explanation,) = explained(model, batch, "rollout")
    with pytest.raises(InputError, match="Two orders are called 'rollout'"):
        deletion_curves(model, batch, [explanation, explanation])
    with pytest.raises(InputError, match="explanation by rollout is of other cases"):
        deletion_curves(model, batch[:3], [explanation])
    with pytest.raises(InputError, match="NaN for some parts"):
        deletion_curves(model, batch, [replace(explanation, scores=explanation.scores * np.nan)])
    with pytest.raises(InputError, match="not 'rollout'"):
        deletion_curves(model, batch, ["rollout"])  # type: ignore[list-item]
    with pytest.raises(InputError, match="kind cannot be 'delete': did you mean 'deletion'"):
        deletion_curves(model, batch, [explanation], kind="delete")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"not of shape \[0, 8\]"):
        deletion_curves(model, batch[:0], ["random order"])
    with pytest.raises(CapabilityError, match="has no 'parts', which deletion needs"):
        deletion_curves(NO_MODEL, batch, ["random order"])
    with pytest.raises(InputError, match="enough parts"):
        by_hand([[0.0]]).area_measure()


def test_a_case_without_parts_stays_where_it_is(model: Transformer) -> None:
    batch = ragged_batch(3, LENGTH, ITEMS)
    batch[1] = PAD
    for kind in KINDS:
        found = deletion_curves(model, batch, ["random order", "greedy oracle"], kind=kind)
        for curves in found.values():
            assert curves.values[1, 0] == pytest.approx(0, abs=1e-12)
            assert np.isnan(curves.values[1, 1:]).all()
            assert np.isnan(curves.area()[1])
            assert curves.area_measure().n == 2


@pytest.mark.needs("cuda")
def test_on_a_gpu(model: Transformer) -> None:
    batch = ragged_batch(20, LENGTH, ITEMS)
    orders: list[Order] = [*explained(model, batch, "rollout"), "random order", "greedy oracle"]
    here = deletion_curves(model, batch, orders)
    there = deletion_curves(model.cuda(), batch.cuda(), orders)
    for name, curves in here.items():
        np.testing.assert_allclose(there[name].values, curves.values, atol=1e-6)
