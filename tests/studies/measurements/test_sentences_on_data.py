"""What sentences say on data: shares that sum to one, and two halves of the seeds."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import whence
from whence.data import Interactions
from whence.data.splits import split_by
from whence.errors import InputError
from whence.reasons.calibrator import Beliefs, Calibrator
from whence.reasons.features import Features
from whence.run import Run
from whence.trust.sentences.sample import NAMED
from whence_studies.measurements.measurement import MeasuredRun
from whence_studies.measurements.sentences import (
    LOST,
    MEASUREMENT,
    SAME,
    SHARES,
    SUPPOSED,
    SentencesOptions,
    sentences,
)


@pytest.fixture(scope="module")
def four(interactions: Interactions) -> Run:
    return whence.train(
        interactions,
        model="sasrec",
        model_settings={"max_len": 12, "dim": 16},
        training={"steps": 300},
        seeds=4,
        show_progress=False,
    )


def subject(run: Run) -> MeasuredRun:
    split = split_by(run.training["split"], run.interactions)
    return MeasuredRun(run, split, "test", show_progress=False)


def test_shares_sum_to_one_and_every_column_is_declared(four: Run) -> None:
    found = sentences(subject(four), SentencesOptions(users=30))
    assert set(found) <= set(MEASUREMENT.columns)
    assert sum(found[name].per_seed[0] for name in SHARES.values()) == pytest.approx(1)
    for column in found.values():
        assert column.per_seed == column.per_seed[:1] * 4
        assert column.interval is not None
    if SAME in found:  # what is said is the most probable
        assert 0 <= found[SAME].per_seed[0] <= found[SUPPOSED].per_seed[0] <= 1
    assert set(LOST.values()) <= set(found) or not any(
        found[SHARES[kind]].per_seed[0] for kind in list(SHARES)[:2]
    )


def test_equal_halves_name_the_same(four: Run) -> None:
    first = next(iter(four.models.values()))
    equal = replace(four, models=dict.fromkeys(four.models, first))
    found = sentences(subject(equal), SentencesOptions(users=30))
    assert SAME not in found or found[SAME].per_seed[0] == found[SUPPOSED].per_seed[0] == 1


def test_one_seed_has_no_halves(four: Run) -> None:
    alone = replace(four, models={0: four.models[0]})
    with pytest.raises(InputError, match="Set seeds to at least 2"):
        sentences(subject(alone), SentencesOptions())


def test_the_other_half_tests_what_is_lost(four: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of models that do not read the history, nothing named is ever lost."""

    class Indifferent(type(four.first)):  # type: ignore[misc]
        def score(self, batch: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
            return torch.linspace(1, 0, len(four.catalog)).expand(len(batch), -1)

    def believe(_: Calibrator, features: Features) -> Beliefs:
        items = torch.zeros_like(features.known_items, dtype=torch.float32)
        items[..., -1] = 1.0
        rest = torch.zeros(*items.shape[:2], features.known_sets.shape[2] + 3)
        return Beliefs(items, *rest.split((features.known_sets.shape[2], 3), dim=2))

    monkeypatch.setattr(Calibrator, "believe", believe)
    deaf = Indifferent(four.first.config, len(four.catalog), torch.Generator())
    half = {seed: model if seed < 2 else deaf for seed, model in four.models.items()}
    found = sentences(subject(replace(four, models=half)), SentencesOptions(users=30))
    assert found[LOST[NAMED]].per_seed[0] == pytest.approx(0, abs=1e-6)
    other = sentences(subject(four), SentencesOptions(users=30))
    assert other[LOST[NAMED]].per_seed[0] > 0
