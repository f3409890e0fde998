from __future__ import annotations

import numpy as np
import pytest
import torch
from captum.attr import ShapleyValues, ShapleyValueSampling
from games import Played, Value, attention_like, gloves, history, shapley_by_orders

from conftest import lively_sasrec, ragged_batch
from whence.contract import PAD
from whence.errors import InputError
from whence.explainers import EXPLAINERS, able, explain_batch
from whence.explainers.sampling import Sampler, draw_design
from whence.explainers.shapley import Shapley
from whence.explanation import Explanation
from whence.memory import inputs_at_once

SAMPLERS: tuple[Sampler, ...] = ("paired", "permutation")
TARGET = torch.tensor([0])


def values_of(value: Value, players: int, explainer: Shapley, seed: int = 0) -> Explanation:
    return explain_batch(Played(value), history(players), TARGET, explainer, seed)


def test_gloves_worked_by_hand() -> None:
    """The right glove decides unless it comes first: ⅔; a left one only if right before left: ⅙."""
    for name in ("shapley", "shapley-permutation"):
        found = explain_batch(Played(gloves), history(3), TARGET, name)
        np.testing.assert_allclose(found.scores, [[1 / 6, 1 / 6, 2 / 3]], atol=1e-12)
        assert found.error is not None
        assert (found.error == 0).all(), "nothing was drawn"
        assert found.evaluations.tolist() == [6]


@pytest.mark.parametrize("players", range(1, 8))
def test_all_coalitions_give_the_definition(players: int) -> None:
    value = attention_like(players, seed=players)
    found = values_of(value, players, Shapley())
    np.testing.assert_allclose(found.scores[0], shapley_by_orders(value, players), atol=1e-12)


@pytest.mark.parametrize(
    ("settings", "asked"),
    [
        ("coalitions=62", 62),
        ("coalitions=61", 60),
        ("coalitions=100,exact_up_to=5", 100),
        ("coalitions=20,error=1e-9,most=62", 62),
        ("coalitions=20,error=1e-9,most=50", 50),
    ],
)
def test_all_coalitions_are_scored_only_within_the_budget(settings: str, asked: int) -> None:
    """Six players have 62 coalitions."""
    found = explain_batch(Played(attention_like(6)), history(6), TARGET, f"shapley:{settings}")
    assert found.evaluations.tolist() == [asked]
    assert found.error is not None
    assert (found.error.max() == 0) == (asked == 62)


def test_a_single_player_needs_no_coalition() -> None:
    found = explain_batch(Played(attention_like(1)), history(1), TARGET, "shapley:coalitions=1")
    assert found.evaluations.tolist() == [0]
    np.testing.assert_allclose(found.scores[:, 0], found.full_score - found.empty_score)


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("players", [2, 3, 6])
def test_samples_are_within_their_errors(sampler: Sampler, players: int) -> None:
    value = attention_like(players, seed=3)
    truth = shapley_by_orders(value, players)
    found = values_of(value, players, Shapley(sampler, coalitions=4000, exact_up_to=0))
    assert found.error is not None
    assert (np.abs(found.scores[0] - truth) <= 4 * found.error[0] + 1e-12).all()
    assert found.error.max() < 0.1


@pytest.mark.parametrize(
    ("sampler", "players", "count"),
    [("paired", 12, 300), ("permutation", 12, 440)],
)
def test_errors_have_the_right_size(sampler: Sampler, players: int, count: int) -> None:
    """Over seeds, the errors around the true values are as large as reported."""
    value = attention_like(players)
    truth = values_of(value, players, Shapley(coalitions=4096, exact_up_to=12)).scores
    explainer = Shapley(sampler, coalitions=count, exact_up_to=0)
    found = [values_of(value, players, explainer, seed) for seed in range(40)]
    missed = np.concatenate([one.scores for one in found]) - truth
    reported = np.concatenate([one.error for one in found if one.error is not None])
    ratio = np.sqrt((missed**2).mean()) / np.sqrt((reported**2).mean())
    assert 0.7 < ratio < 1.4
    assert (np.abs(missed) <= 4 * reported).mean() > 0.99


@pytest.mark.parametrize("sampler", ["paired", "exact"])
def test_equals_plain_least_squares_on_the_same_coalitions(sampler: Sampler) -> None:
    """The sum rule as an equation with a huge weight, as in other libraries."""
    value, players = attention_like(11), 11
    design = draw_design(players, 2**11, sampler, seed=5)
    present = design.coalitions.double().numpy()
    root = design.weights.sqrt().numpy()
    ends = value(torch.tensor([[False] * players, [True] * players])).numpy()
    gained = value(design.coalitions).numpy() - ends[0]
    heavy = 1e6
    rows = np.concatenate((root[:, None] * present, heavy * np.ones((1, players))))
    right = np.concatenate((root * gained, [heavy * (ends[1] - ends[0])]))
    expected = np.linalg.lstsq(rows, right)[0]
    settings = Shapley(sampler, coalitions=2**11, exact_up_to=0)
    found = values_of(value, players, settings, seed=5).scores[0]
    assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()


def test_captum_agrees() -> None:
    """By captum's definition, and by its sampling; its KernelShap needs scikit-learn."""
    value, players = attention_like(5), 5
    inputs, nothing = torch.ones(1, players), torch.zeros(1, players)
    ours = values_of(value, players, Shapley()).scores

    def forward(present: torch.Tensor) -> torch.Tensor:
        return value(present > 0.5)

    torch.manual_seed(0)
    with torch.no_grad():
        exact = ShapleyValues(forward).attribute(inputs, baselines=nothing)
        sampled = ShapleyValueSampling(forward).attribute(
            inputs, baselines=nothing, n_samples=2000, perturbations_per_eval=5
        )
    np.testing.assert_allclose(ours, exact.numpy(), atol=1e-6)
    np.testing.assert_allclose(ours, sampled.numpy(), atol=0.1)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_longer_design_starts_with_the_shorter(sampler: Sampler) -> None:
    short, long = (draw_design(9, count, sampler, seed=1) for count in (100, 1000))
    assert len(short.coalitions) <= 100 < len(long.coalitions) <= 1000
    assert torch.equal(short.coalitions, long.coalitions[: len(short.coalitions)])
    other = draw_design(9, 100, sampler, seed=2)
    assert not torch.equal(short.coalitions, other.coalitions)


def test_pairs_are_complements_with_the_right_sizes() -> None:
    design = draw_design(6, 40_000, "paired", seed=0)
    one, other = design.coalitions[::2], design.coalitions[1::2]
    assert torch.equal(one, ~other)
    share = torch.bincount(design.coalitions.sum(dim=1), minlength=7) / 40_000
    law = np.array([0, 1 / 5, 1 / 8, 1 / 9, 1 / 8, 1 / 5, 0])
    np.testing.assert_allclose(share, law / law.sum(), atol=0.01)
    np.testing.assert_allclose(design.coalitions.double().mean(dim=0), 0.5, atol=1e-12)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_doubling_stops_at_the_wanted_error(sampler: Sampler) -> None:
    value, players = attention_like(12), 12
    wanted = Shapley(sampler, coalitions=100, exact_up_to=0, error=0.1)
    found = values_of(value, players, wanted)
    assert found.error is not None
    assert found.error.max() <= 0.1 * np.abs(found.scores).max()
    asked = int(found.evaluations[0])
    assert 100 < asked <= 65_536
    least = Shapley(sampler, coalitions=asked, exact_up_to=0)
    at_once = values_of(value, players, least).scores
    # Coalitions of batches of other sizes are rounded otherwise.
    np.testing.assert_allclose(found.scores, at_once, rtol=1e-12, atol=1e-15)


def test_no_coalition_is_scored_twice_and_at_most_the_budget() -> None:
    asked = 0

    def counted(present: torch.Tensor) -> torch.Tensor:
        nonlocal asked
        asked += len(present)
        return attention_like(12)(present)

    found = values_of(counted, 12, Shapley(coalitions=100, exact_up_to=0, error=1e-9, most=1000))
    assert found.evaluations.tolist() == [1000]
    assert asked == 1000 + 3, "the full and the empty one, and one look at how many targets"


def test_every_case_stops_by_itself() -> None:
    model, batch = lively_sasrec(), ragged_batch(40, 8, 30, seed=1)
    explainer = Shapley(coalitions=32, exact_up_to=0, error=0.1, most=512)
    together = explain_batch(model, batch, torch.arange(40) % 30, explainer)
    assert len(set(together.evaluations.tolist())) > 2
    for case in range(0, 40, 5):
        alone = explain_batch(model, batch[[case]], torch.tensor([case % 30]), explainer)
        assert alone.evaluations == together.evaluations[case]
        np.testing.assert_allclose(alone.scores, together.scores[[case]], rtol=1e-7, atol=1e-12)


def test_memory_changes_nothing() -> None:
    model, batch, targets = lively_sasrec(), ragged_batch(4, 8, 30), torch.arange(4)
    for name in able(model, EXPLAINERS):
        whole = explain_batch(model, batch, targets, name)
        little = explain_batch(model, batch, targets, name, memory=200_000)
        np.testing.assert_allclose(whole.scores, little.scores, atol=1e-12, err_msg=name)
        assert np.array_equal(whole.evaluations, little.evaluations)


@pytest.mark.parametrize("name", ["leave-one-out", "leave-one-out-probability", "shapley", "lime"])
def test_a_model_scores_no_more_than_fits_into_memory(name: str) -> None:
    """With the contract's default for scoring coalitions."""
    shown: list[int] = []
    value, slots = attention_like(8), 8

    def counted(present: torch.Tensor) -> torch.Tensor:
        shown.append(len(present))
        return value(present)

    batch, targets = history(slots, cases=9), torch.arange(9)
    for memory in (1, 200_000, 1_000_000):
        shown.clear()
        explain_batch(Played(counted), batch, targets, name, memory=memory)
        fitting = inputs_at_once(slots, memory)
        assert max(shown) <= fitting
        assert max(shown) > fitting / 2, "and not much less"


def test_slots_of_the_parts_do_not_matter() -> None:
    """Padding on the right or between changes nothing."""
    value = attention_like(3)
    spread = torch.tensor([[PAD, 4, 5, PAD, 6], [PAD, 4, 5, PAD, 6], [1, PAD, PAD, PAD, PAD]])

    def of_slots(present: torch.Tensor) -> torch.Tensor:
        return value(present[:, [1, 2, 4]])

    found = explain_batch(Played(of_slots), spread, torch.zeros(3, dtype=torch.int64), "shapley")
    expected = shapley_by_orders(value, 3)
    np.testing.assert_allclose(found.scores[:2][:, [1, 2, 4]], [expected] * 2, atol=1e-12)
    assert found.evaluations.tolist() == [6, 6, 0]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            "coalitions=20",
            "of 50 items need at least 100. Set coalitions=100",
        ),
        ("sampler=permutation,coalitions=100", "at least 196. Set"),
        ("sampler=exact", "at least 1,125,899,906,842,622. Set"),
        ("coalitions=0", "coalitions is 0; set it to 1 or more"),
        ("coalitions=-5", "coalitions is -5; set it to 1 or more"),
        ("most=0", "most is 0; set it to 1 or more"),
        ("error=0", "error is 0.0; set a share above 0"),
        ("error=-1", "error is -1.0; set a share above 0"),
        ("error=0.1,most=10", "most=10 is less than coalitions=1024"),
        ("exact_up_to=30", "exact_up_to is 30; set at most 16"),
        ("sampler=sobol", "sampler cannot be 'sobol': known: exact, paired, permutation"),
    ],
)
def test_impossible_budgets_are_errors(settings: str, sentence: str) -> None:
    model = Played(attention_like(50))
    with pytest.raises(InputError, match=sentence):
        explain_batch(model, history(50), TARGET, f"shapley:{settings}")


def test_coalitions_that_determine_nothing_are_an_error() -> None:
    """Three pairs of three players may be the same pair three times."""
    few = Shapley(coalitions=6, exact_up_to=0)
    told = 0
    for seed in range(30):
        try:
            values_of(gloves, 3, few, seed)
        except InputError as problem:
            assert "cannot tell 3 items apart" in str(problem)
            told += 1
    assert 0 < told < 30
