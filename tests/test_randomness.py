from __future__ import annotations

import numpy as np
import pytest
import torch

from whence.errors import InputError
from whence.randomness import STREAMS, Dropout, Randomness, keep, uniform_by_content


def test_streams_are_the_children_of_one_seed_sequence() -> None:
    children = np.random.SeedSequence(7).spawn(len(STREAMS))
    for name, child in zip(STREAMS, children, strict=True):
        assert Randomness(7).sequence(name).generate_state(4).tolist() == (
            child.generate_state(4).tolist()
        )


def test_streams_differ_and_repeat() -> None:
    draws = {name: Randomness(1).numpy(name).random(4).tolist() for name in STREAMS}
    assert len({tuple(values) for values in draws.values()}) == len(STREAMS)
    assert draws["init"] == Randomness(1).numpy("init").random(4).tolist()
    one, two = (torch.rand(4, generator=Randomness(1).torch("dropout")) for _ in range(2))
    assert torch.equal(one, two)


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(InputError, match="from 0 on"):
        Randomness(-1)


def test_dropout_keeps_the_share_and_the_mean() -> None:
    drop = Dropout(0.2, Randomness(0).torch("dropout"))
    dropped = drop(torch.ones(1000, 1001))
    assert (dropped == 0).double().mean().item() == pytest.approx(0.2, abs=0.002)
    assert dropped.double().mean().item() == pytest.approx(1.0, abs=0.003)
    assert dropped.unique().tolist() == pytest.approx([0.0, 1.25], abs=1e-4)


def test_dropout_is_independent_between_neighbours() -> None:
    """The four values decided by one 64-bit draw must not know of each other."""
    kept = (Dropout(0.5, Randomness(0).torch("dropout"))(torch.ones(100_000, 4)) > 0).double()
    correlation = torch.corrcoef(kept.T)
    assert (correlation - torch.eye(4)).abs().max() < 0.02


def test_dropout_repeats_with_its_generator_and_ignores_the_global_one() -> None:
    values = torch.rand(50, 3)
    first = Dropout(0.3, Randomness(5).torch("dropout"))(values)
    torch.manual_seed(99)
    assert torch.equal(first, Dropout(0.3, Randomness(5).torch("dropout"))(values))


def test_no_dropout_is_the_identity() -> None:
    values = torch.rand(5)
    assert keep(values) is values
    assert Dropout(0.0, torch.Generator())(values) is values


def test_uniform_by_content_sees_only_the_used_values_of_its_row() -> None:
    stream = Randomness(0).sequence("explain")
    rows = np.array([[0, 5, 6, 7], [9, 9, 5, 6]])
    used = np.array([[False, True, True, True], [False, False, True, True]])
    together = uniform_by_content(stream, rows, used)
    moved = uniform_by_content(stream, np.array([[5, 6, 7, 3]]), np.array([[True] * 3 + [False]]))
    assert together[0, 1:].tolist() == moved[0, :3].tolist()
    assert (together[~used] == 0).all()
    assert together[1, 2] != together[0, 1]


def test_uniform_by_content_is_uniform() -> None:
    rows = np.arange(20_000)[:, None].repeat(3, axis=1)
    drawn = uniform_by_content(Randomness(0).sequence("explain"), rows, rows >= 0)
    assert np.histogram(drawn, bins=10, range=(0, 1))[0].std() / 6000 < 0.03
    assert np.abs(np.corrcoef(drawn.T) - np.eye(3)).max() < 0.03
