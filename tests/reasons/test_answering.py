"""Scores of many histories are those of each alone, and equal histories are scored once."""

from __future__ import annotations

import pytest
import torch

from conftest import LIVELY, ragged_batch
from whence.contract import ALL, PAD
from whence.models import Recommender
from whence.models.ensemble import Ensemble, Member
from whence.models.transformer import Transformer
from whence.reasons import answering
from whence.reasons.answering import Different, Rows, scores_of

ITEMS, SLOTS = 30, 6
HISTORIES = torch.cat((ragged_batch(7, SLOTS, ITEMS), torch.full((1, SLOTS), PAD)))


def a_model(name: str) -> Recommender:
    if name == "blend":
        members = [LIVELY[one](items=ITEMS, length=SLOTS) for one in ("sasrec", "recent-ease")]
        return Ensemble([Member(one, 0.5) for one in members])
    return LIVELY[name](items=ITEMS, length=SLOTS)


@torch.no_grad()
@pytest.mark.parametrize("name", ["sasrec", "esasrec", "bert4rec", "fism", "recent-ease", "blend"])
def test_scores_are_those_of_each_history_alone(name: str) -> None:
    model = a_model(name)
    rows = Rows(HISTORIES)
    wanted = torch.cat([model.score(one[None], ALL) for one in HISTORIES])
    torch.testing.assert_close(scores_of(model, rows, rows.lengths()), wanted)
    full = HISTORIES[(HISTORIES != PAD).all(dim=1)]
    alone = torch.cat([model.score(one[None], ALL) for one in full])
    torch.testing.assert_close(scores_of(model, Rows(full), None), alone)
    hidden = Rows(HISTORIES, torch.arange(SLOTS).expand(len(HISTORIES), -1) % 2 > 0)
    wanted = model.score(HISTORIES, ALL, present=hidden.present)
    torch.testing.assert_close(scores_of(model, hidden, hidden.lengths()), wanted)


@torch.no_grad()
@pytest.mark.parametrize("name", ["sasrec", "esasrec", "bert4rec"])
def test_the_last_block_answers_alone(name: str) -> None:
    model = a_model(name)
    assert isinstance(model, Transformer)
    present = torch.arange(SLOTS).expand(len(HISTORIES), -1) % 3 > 0
    for given in (None, present):
        wanted = model.answers(HISTORIES, present=given)
        torch.testing.assert_close(model.answers_alone(HISTORIES, given), wanted)


@pytest.mark.parametrize("at_once", [1, 7, 1_000])
def test_equal_rows_of_a_user_are_scored_once(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(answering.SLOTS_AT_ONCE, "cpu", at_once)
    rows = HISTORIES[torch.tensor([0, 1, 0, 7, 7, 2, 1])]
    users = torch.tensor([0, 0, 0, 1, 1, 1, 1])
    found = Different.of(Rows(rows), users)
    assert len(found.users) == 5, "the second row is also that of another user"
    assert torch.equal(found.rows.histories[found.place], rows)
    assert torch.equal(found.users[found.place], users)
    assert found.lengths.tolist() == sorted(found.lengths.tolist())
    order, starts = found.asked
    for place in range(5):
        own = order[starts[place] : starts[place + 1]]
        assert (found.place[own] == place).all()
    seen = 0
    for some, part, lengths in found.slices(ITEMS):
        longest = part.histories.shape[1]
        assert torch.equal(found.rows.histories[some][:, -longest:], part.histories)
        assert (found.rows.histories[some][:, :-longest] == PAD).all()
        assert lengths is not None or (part.histories != PAD).all()
        assert part.histories.numel() <= at_once or len(part.histories) == 1
        seen += len(part.histories)
    assert seen == 5


def test_rows_that_are_hidden_in_other_places_differ() -> None:
    rows = HISTORIES[:1].expand(2, -1)
    present = torch.tensor([[True] * SLOTS, [False] + [True] * (SLOTS - 1)])
    assert len(Different.of(Rows(rows, present), torch.zeros(2, dtype=torch.int64)).users) == 2


def test_colliding_fingerprints_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering, "_fingerprints", lambda rows, users: 0 * users)
    users = torch.zeros(len(HISTORIES), dtype=torch.int64)
    found = Different.of(Rows(HISTORIES), users)
    assert torch.equal(found.rows.histories[found.place], HISTORIES)
