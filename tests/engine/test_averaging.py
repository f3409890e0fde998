"""Averages of weights: by hand, against the definitions in plain Python, alone and in a stack."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from whence.engine.averaging import (
    AVERAGING_RULES,
    Averaging,
    AveragingRule,
)


def walk(
    rule: AveragingRule, steps: int, epoch: int, start: int = 0
) -> tuple[list[float], list[float]]:
    """One weight that begins at 0 and goes up by 1 a step: it and its average after each step."""
    weight = torch.zeros(1, dtype=torch.float64)
    averaging = Averaging([weight], rule, epoch, start)
    weights, averages = [], []
    for _ in range(steps):
        averaging.before_step()
        weight += 1
        averaging.after_step()
        weights.append(weight.item())
        averages.append(averaging.average[0].item())
    return weights, averages


def test_aswa_by_hand() -> None:
    """Before step 3 the weight is 2, and counts twice; before step 4 it is 3: (2·2 + 3)/3 = 7/3.

    There the epoch ends and the weight becomes 7/3. Before step 5 it is that: (7 + 7/3)/4 = 7/3;
    before step 6 it is 10/3: (4·7/3 + 10/3)/5 = 38/15; before step 7, 13/3: (5·38/15 + 13/3)/6.
    """
    weights, averages = walk("aswa", steps=7, epoch=4)
    third, fifth = Fraction(7, 3), Fraction(38, 15)
    assert weights == pytest.approx([1, 2, 3, third, third + 1, third + 2, third + 3])
    last = (5 * fifth + Fraction(13, 3)) / 6
    assert averages[2:] == pytest.approx([2, third, third, fifth, last])


def test_aswa_as_printed_by_hand() -> None:
    """W_swa begins at W_0 = 0 and is divided by i + 1: 0, (0+0+1)/3, (0+0+1+2)/4; then W ← it."""
    weights, averages = walk("aswa-printed", steps=5, epoch=3)
    assert weights == pytest.approx([1, 2, 0.75, 1.75, 2.75])
    # Before step 4: .75 + (.75 − .75)/5; before step 5: .75 + (1.75 − .75)/6.
    assert averages == pytest.approx([0, 1 / 3, 0.75, 0.75, 0.75 + 1 / 6])


def test_naswa_by_hand() -> None:
    """It begins at 2, before step 3. Then distances: 1 > 0 counts, (2+3)/2 = 2.5 and list [1];
    4 − 2.5 = 1.5 > 1 counts, 2.5 + 1.5/3 = 3 and list [1.5]; the epoch ends at 5 steps: weight 3,
    empty list. Before step 6 the distance is 0: nothing. Before step 7 it is 1 > 0: 3 + 1/4.
    """
    weights, averages = walk("naswa", steps=7, epoch=5)
    assert weights == pytest.approx([1, 2, 3, 4, 3, 4, 5])
    assert averages[2:] == pytest.approx([2, 2.5, 3, 3, 3.25])


def test_naswa_skips_weights_that_moved_little() -> None:
    """Distances 1 (counts), then .4 below the mean of [1], then .7 above the mean of [1, .4]? No:
    the mean is .7, and .7 is not above it; then .8 is above the mean of [1, .4, .7].
    """
    weight = torch.zeros(1, dtype=torch.float64)
    averaging = Averaging([weight], "naswa", 100)
    average = 0.0
    counted = []
    for step in range(7):
        if step == 3:
            weight.fill_(average + 1)
        elif step > 3:
            weight.fill_(average + {4: 0.4, 5: 0.7, 6: 0.8}[step])
        averaging.before_step()
        counted.append(int(averaging.count))
        average = averaging.average[0].item()
        averaging.after_step()
    assert counted == [0, 0, 1, 2, 2, 2, 3]


def test_swa_by_hand() -> None:
    """From step 2 on, every 2 steps: (2 + 4 + 6)/3 at the end; the weights never notice."""
    weights, averages = walk("swa", steps=6, epoch=2, start=2)
    assert weights == [1, 2, 3, 4, 5, 6]
    assert averages[1:] == pytest.approx([2, 2, 3, 3, 4])


class ByDefinition:
    """The rules in plain Python, over lists of numbers."""

    def __init__(self, weights: list[list[float]], rule: str, epoch: int) -> None:
        self.rule, self.epoch = rule, epoch
        self.average = [list(one) for one in weights]
        self.count, self.steps = 0, 0
        self.norms: list[float] = []

    def before(self, weights: list[list[float]]) -> None:
        printed = self.rule.endswith("printed")
        if not printed and self.steps < 2:
            return
        if not printed and self.steps == 2:
            self.average = [list(one) for one in weights]
            self.count = 2 if self.rule == "aswa" else 1
            return
        if self.rule.startswith("naswa") and not self.is_far(weights, printed):
            return
        below = self.steps + 2 if printed else self.count + 1
        for mean, new in zip(self.average, weights, strict=True):
            mean[:] = [m + (w - m) / below for m, w in zip(mean, new, strict=True)]
        self.count += 1

    def is_far(self, weights: list[list[float]], printed: bool) -> bool:
        apart = [
            [w - m for m, w in zip(mean, new, strict=True)]
            for mean, new in zip(self.average, weights, strict=True)
        ]
        if printed:
            norm = sum(abs(one) for tensor in apart for one in tensor)
        else:
            norm = float(np.mean([sum(one**2 for one in tensor) ** 0.5 for tensor in apart]))
        far = norm > (sum(self.norms) / len(self.norms) if self.norms else 0)
        if far:
            self.norms = [norm]
        elif printed or norm > 0:
            self.norms.append(norm)
        return far

    def ends_an_epoch(self) -> bool:
        self.steps += 1
        if self.steps % self.epoch or (not self.rule.endswith("printed") and self.steps < 3):
            return False
        if self.rule == "naswa":
            self.norms = []
        return True


@given(
    st.sampled_from([rule for rule in AVERAGING_RULES if rule != "swa"]),
    st.integers(1, 9),
    st.integers(0, 2**32),
)
def test_every_rule_is_its_definition(rule: AveragingRule, epoch: int, seed: int) -> None:
    chance = torch.Generator().manual_seed(seed)
    weights = [torch.randn(size, generator=chance, dtype=torch.float64) for size in (3, 1, 5)]
    moves = [[torch.randn(w.shape, generator=chance).double() for w in weights] for _ in range(25)]
    averaging = Averaging(weights, rule, epoch)
    plain = [one.tolist() for one in weights]
    expected = ByDefinition(plain, rule, epoch)
    for move in moves:
        averaging.before_step()
        expected.before(plain)
        for number, step in enumerate(move):
            weights[number] += step
            plain[number] = [w + s for w, s in zip(plain[number], step.tolist(), strict=True)]
        averaging.after_step()
        if expected.ends_an_epoch():
            plain = [list(one) for one in expected.average]
        for found, known in ((weights, plain), (averaging.average, expected.average)):
            for one, other in zip(found, known, strict=True):
                assert one.tolist() == pytest.approx(other, rel=1e-9, abs=1e-12)
