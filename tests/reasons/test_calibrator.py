"""A calibrator learns the true probabilities of reasons, and keeps them in a file."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from whence.errors import InputError
from whence.reasons.calibrator import Calibrator, Examples, cross_entropy, fit
from whence.reasons.features import FeatureNames, Features
from whence.reasons.lessons import lesson_on
from whence.training import train
from whence.worlds import draw_config, make_causal_world

ITEMS, PAIRS = 4, 2


def examples(seed: int, users: int = 400) -> Examples:
    """Made of one number each: the truth is the softmax of twice these numbers."""
    generator = torch.Generator().manual_seed(seed)
    features = Features(
        torch.randn(users, 2, ITEMS, 1, generator=generator),
        torch.randn(users, 2, PAIRS, 1, generator=generator),
        torch.randn(users, 2, 1, generator=generator),
        torch.rand(users, 2, ITEMS, generator=generator) < 0.8,
        torch.rand(users, 2, PAIRS, generator=generator) < 0.5,
        FeatureNames(("one",), ("one",), ("one",)),
    )
    logits = torch.cat(
        (
            (2 * features.items[..., 0]).masked_fill(~features.known_items, -torch.inf),
            (2 * features.sets[..., 0]).masked_fill(~features.known_sets, -torch.inf),
            features.general * torch.tensor([1.0, -1.0, 0.0]),
        ),
        dim=-1,
    )
    return Examples(features, logits.softmax(dim=-1))


def test_it_learns_the_probabilities_of_examples_it_has_not_seen() -> None:
    found, new = fit([examples(0), examples(1, users=50)], steps=600), examples(2)
    beliefs = found.believe(new.features).joined()
    torch.testing.assert_close(beliefs.sum(dim=-1), torch.ones(400, 2))
    assert float((beliefs - new.truth).abs().mean()) < 0.015
    assert not beliefs[..., :ITEMS][~new.features.known_items].any()


def test_the_same_seed_gives_the_same_weights() -> None:
    one, again, other = (fit([examples(0)], steps=20, seed=seed).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(one[name], again[name]) for name in one)
    assert any(not torch.equal(one[name], other[name]) for name in one)


def test_it_is_read_as_it_was_written() -> None:
    found, new = fit([examples(0)], steps=20), examples(3)
    again = Calibrator.from_bytes(found.to_bytes(), "a file")
    assert again.to_bytes() == found.to_bytes()
    assert torch.equal(found.believe(new.features).joined(), again.believe(new.features).joined())


def test_another_file_is_refused() -> None:
    with pytest.raises(InputError, match="a file holds no calibrator"):
        Calibrator.from_bytes(b"nothing at all", "a file")


def test_learning_continues_from_a_start_and_leaves_it_as_it_was() -> None:
    start, new = fit([examples(0)], steps=300), examples(1)
    written = start.to_bytes()
    same = fit([examples(0)], start=start, steps=0)
    assert same.to_bytes() == written, "with the standardization of the start, too"
    further = fit([new], start=start, steps=20, learning_rate=1e-3)
    afresh = fit([new], steps=20, learning_rate=1e-3)
    loss = [
        float(cross_entropy(new.truth, one(new.features)).detach()) for one in (further, afresh)
    ]
    assert loss[0] < loss[1]
    assert start.to_bytes() == written
    assert further.to_bytes() != written


def test_it_keeps_how_common_each_kind_was_in_worlds_that_count_the_same() -> None:
    few, many = examples(0, users=3), examples(1, users=70)
    shares = []
    for world in (few, many):
        each = world.truth.flatten(0, 1).tolist()
        kinds = [(sum(one[:ITEMS]), sum(one[ITEMS:-3]), one[-3], one[-2]) for one in each]
        shares.append(torch.tensor(kinds, dtype=torch.float64).mean(dim=0))
    found = fit([few, many], steps=1).kind_shares
    torch.testing.assert_close(found, ((shares[0] + shares[1]) / 2).float())


def test_a_start_that_learned_other_figures_is_refused() -> None:
    new = examples(0)
    other = replace(new.features, names=FeatureNames(("two",), ("one",), ("one",)))
    with pytest.raises(InputError, match="other figures"):
        fit([replace(new, features=other)], start=fit([new], steps=1), steps=1)


def test_the_cross_entropy_is_that_of_a_loop() -> None:
    new = examples(5, users=6)
    found = fit([examples(0)], steps=20)(new.features).detach()
    total = [
        sum(-p * q for p, q in zip(truth, said, strict=True) if p > 0)
        for truth, said in zip(
            new.truth.flatten(0, 1).tolist(), found.flatten(0, 1).tolist(), strict=True
        )
    ]
    assert float(cross_entropy(new.truth, found)) == pytest.approx(sum(total) / len(total), 1e-5)


def test_nothing_to_learn_from_is_refused() -> None:
    with pytest.raises(InputError, match="at least one world"):
        fit([])


def test_the_truth_of_a_world_sums_to_one_and_names_its_causes() -> None:
    config = draw_config("films", 4, users=120, items=80, events=15, groups=4, memory=10)
    world = make_causal_world(config)
    run = train(
        world.interactions,
        model="sasrec",
        model_settings={"max_len": 20, "dim": 16},
        training={"steps": 30},
        seeds=2,
        show_progress=False,
    )
    lesson = lesson_on(world, [*run.models.values()], users=60, k=5)
    found = lesson.examples()
    assert lesson.targets.shape == (60, 5)
    torch.testing.assert_close(found.truth.sum(dim=-1), torch.ones(60, 5))
    assert (found.truth >= 0).all()
    assert not found.truth[..., :20][~found.features.known_items].any()
    assert (found.truth[..., :20] > 0.5).any(), "some recommendations have a cause"
