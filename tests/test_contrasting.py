"""Why not, and why rather: the questions to a run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import whence
from whence.errors import CapabilityError, InputError
from whence.run import Run


def test_questions_to_a_run(run: Run) -> None:
    best = whence.recommend(run, user=3, k=1).picks[0]
    found = whence.why_not(run, user=3, item=best.title)
    assert found.sentence == "already recommended (rank 1)"
    assert (found.models, found.verb) == (2, run.verb)
    assert whence.why_not(run, user=3, item=best.item, model_seed=1).models == 1
    history = list(map(str, run.interactions.history(run.interactions.find_user(3))))
    raw = run.catalog.raw_ids([int(one) for one in history])
    assert whence.why_not(run, history=[str(one) for one in raw], item=best.title) == found
    known = whence.why_not(run, user=3, item=raw[-1])
    assert known.sentence == "already in your history"
    odds = whence.rather(run, user=3, item=best.title, other=raw[0])
    assert odds.other_in_history
    assert odds.rank == 1
    assert whence.rather(run, user=3, item=raw[0], other=best.item).log_odds == pytest.approx(
        -odds.log_odds
    )


def test_ranks_are_those_of_the_recommendations(run: Run) -> None:
    picks = whence.recommend(run, user=5, k=20).picks
    for pick in (picks[0], picks[11], picks[19]):
        found = whence.why_not(run, user=5, item=pick.item)
        assert found.rank == pick.rank
        assert found.sentence.startswith("already" if pick.rank <= 10 else "not recommended")
    assert whence.why_not(run, user=5, item=picks[11].item, k=12).sentence.startswith("already")


def test_simple_models_take_part_with_every_seed(blend: Run) -> None:
    """The mean over the seeds, each with the simple models, is the whole."""
    picks = whence.recommend(blend, user=4, k=2).picks
    found = whence.rather(blend, user=4, item=picks[0].item, other=picks[1].item)
    assert found.models == 2
    assert found.log_odds == pytest.approx(picks[0].score - picks[1].score, abs=1e-4)


@pytest.mark.parametrize("ask", [whence.why_not, whence.rather])
def test_questions_that_cannot_be_answered(ask: Callable[..., object], run: Run) -> None:
    other = {"other": 5} if ask is whence.rather else {}
    with pytest.raises(InputError, match="No item"):
        ask(run, user=3, item="zzz", **other)
    with pytest.raises(InputError, match="either a user of the data"):
        ask(run, item=4, **other)
    with pytest.raises(InputError, match="no model of seed 9"):
        ask(run, user=3, item=4, model_seed=9, **other)
    with pytest.raises(InputError, match="needs a run"):
        ask("runs/first", user=3, item=4, **other)


def test_a_list_has_at_least_one_item(run: Run) -> None:
    with pytest.raises(InputError, match="must be at least 1, not 0"):
        whence.why_not(run, user=3, item=4, k=0)


def test_a_model_that_reads_no_history(followed: Callable[..., Run]) -> None:
    with pytest.raises(CapabilityError, match="Train a model that reads histories"):
        whence.why_not(followed("gmf"), user=3, item=4)
    with pytest.raises(CapabilityError, match="Train a model that reads histories"):
        whence.rather(followed("gmf"), user=3, item=4, other=5)
