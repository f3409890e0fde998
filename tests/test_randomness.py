from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from whence.errors import InputError
from whence.randomness import (
    STREAMS,
    CounterRandom,
    Dropout,
    Randomness,
    no_dropout,
    uniform_by_content,
)


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
    with pytest.raises(InputError, match="seed is a whole number from 0"):
        Randomness(-1)


def dropout(rate: float, seed: int = 0, ahead: int = 1) -> Dropout:
    return Dropout(rate, CounterRandom([Randomness(seed).key("dropout")]), ahead)


def test_dropout_keeps_the_share_and_the_mean() -> None:
    drop = dropout(0.2)
    dropped = drop(torch.ones(1000, 1001))
    assert (dropped == 0).double().mean().item() == pytest.approx(0.2, abs=0.002)
    assert dropped.double().mean().item() == pytest.approx(1.0, abs=0.003)
    assert dropped.unique().tolist() == pytest.approx([0.0, 1.25], abs=1e-4)


def test_dropout_is_independent_between_neighbours() -> None:
    """The four values decided by one 64-bit draw must not know of each other."""
    kept = (dropout(0.5)(torch.ones(100_000, 4)) > 0).double()
    correlation = torch.corrcoef(kept.T)
    assert (correlation - torch.eye(4)).abs().max() < 0.02


def test_dropout_repeats_with_its_seed_and_ignores_the_global_state() -> None:
    values = torch.rand(50, 3)
    first = dropout(0.3, seed=5)(values)
    torch.manual_seed(99)
    assert torch.equal(first, dropout(0.3, seed=5)(values))
    assert not torch.equal(first, dropout(0.3, seed=6)(values))


def test_dropout_differs_from_call_to_call_and_from_step_to_step() -> None:
    values = torch.ones(200, 8)
    drop = dropout(0.5)
    calls = [drop(values), drop(values)]
    drop.start_step(torch.tensor(1))
    calls += [drop(values), drop(values)]
    for one, other in itertools.combinations(calls, 2):
        assert torch.corrcoef(torch.stack((one.flatten(), other.flatten())))[0, 1].abs() < 0.1


@pytest.mark.parametrize("ahead", [1, 2, 5])
def test_what_is_drawn_ahead_changes_nothing(ahead: int) -> None:
    shapes = [(6, 3), (6, 3), (4, 2), (6, 3)]
    alone, early = dropout(0.5), dropout(0.5, ahead=ahead)
    for shape in shapes:
        assert torch.equal(alone(torch.ones(shape)), early(torch.ones(shape)))


@given(
    key=st.integers(-(2**63), 2**63 - 1),
    step=st.integers(0, 2**20),
    call=st.integers(0, 255),
    place=st.integers(0, 500),
)
def test_chance_is_splitmix64(key: int, step: int, call: int, place: int) -> None:
    """In Python's whole numbers, which have no end."""
    state = key + 0x9E3779B97F4A7C15 * (step * 2**40 + call * 2**32 + place)
    state %= 2**64
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB % 2**64
    state ^= state >> 31
    calls = range(call, call + 1)
    found = CounterRandom([7, key]).bits(torch.tensor(step), calls, place + 1)[0, 1, place]
    assert int(found) % 2**64 == state


def test_more_places_change_no_number_and_leave_what_a_recording_reads_where_it_is() -> None:
    chance, calls = CounterRandom([5, 6]), range(2)
    few = chance.bits(torch.tensor(3), calls, 4)
    read = chance.starts[calls]
    before = read.clone()
    many = chance.bits(torch.tensor(3), calls, 40)
    assert torch.equal(many[:, :, :4], few)
    assert any(one is read for one in chance.replaced), "its memory is not free for others"
    assert torch.equal(read, before)


def test_numbers_below_a_limit_are_even() -> None:
    whole = CounterRandom([1]).integers(torch.tensor(3), range(1), 60_000)
    assert whole.min() >= 0
    drawn = whole.flatten() % 6
    counts = torch.bincount(drawn)
    assert len(counts) == 6
    assert (counts - 10_000).abs().max() < 500


def test_no_dropout_is_the_identity() -> None:
    values = torch.rand(5)
    assert no_dropout(values) is values
    assert dropout(0.0)(values) is values


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
