"""One meaning of "without": explanations and reasons of a run, with items hidden or dropped."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import whence
from command_line import whence as command
from whence.contract import ALL, PAD
from whence.errors import CapabilityError, InputError
from whence.reasons.reason import Reason
from whence.run import Run


def test_a_reason_by_another_removal_is_that_of_the_hidden_item(run: Run) -> None:
    question = {"history": [5, 9, 5, 7], "item": 11}
    left_out = whence.reason(run, **question)  # type: ignore[arg-type]
    hidden = whence.reason(run, **question, removal="attention-column")  # type: ignore[arg-type]
    assert (left_out.removal, hidden.removal) == ("dropped", "attention-column")
    for one in (left_out, hidden):
        assert one.as_dict()["removal"] == one.removal
        assert Reason.from_dict(one.as_dict()) == one
    batch = torch.tensor([[PAD] * 8 + [4, 8, 4, 6]])
    for support in hidden.considered:
        present = batch != int(support.item) - 1
        scores = [
            [model.score(batch, ALL, present=some)[0] for model in run.models.values()]
            for some in (torch.ones_like(present), present)
        ]
        before, after = (
            torch.stack([one.log_softmax(-1)[10] for one in each]).mean() for each in scores
        )
        lost = 1 - (after - before).exp().item()
        assert support.probability_lost == pytest.approx(lost, abs=1e-4)
        mean = torch.stack(scores[1]).mean(dim=0)
        mean[[4, 8, 6]] = -torch.inf
        assert support.rank_without == 1 + int((mean > mean[10]).sum())
    each = [[support.probability_lost for support in one.considered] for one in (left_out, hidden)]
    assert each[0] != each[1]
    with pytest.raises(InputError, match="by 'hidden'. Choose from: attention-column, dropped"):
        whence.reason(run, history=[5, 9], removal="hidden")


def test_a_blend_drops_items_from_what_all_its_models_read(blend: Run) -> None:
    """Older items move into the slots of the network, which reads fewer than the simple model."""
    user = next(name for name in range(1, 60) if len(history_of(blend, name)) > 14)
    items = history_of(blend, user)[-50:]
    found = whence.compare(blend, user=user, methods=["leave-one-out", "fading"], removal="dropped")
    assert {one.removal for one in found.values()} == {"dropped"}
    (one, fading), target = found.values(), found["fading"].target
    assert (one.model_seed, fading.model_seed) == (None, 0)
    whole = blend.whole.score(torch.tensor([items]), torch.from_numpy(target)[None]).item()
    for place in range(len(items)):
        rest = torch.tensor([[*items[:place], *items[place + 1 :]]])
        lost = whole - blend.whole.score(rest, torch.from_numpy(target)[None]).item()
        assert one.scores[0, 50 - len(items) + place] == pytest.approx(lost, abs=1e-4)


def test_a_blend_by_its_own_removal(blend: Run) -> None:
    """Every method keeps that of the model it explains."""
    own = blend.whole.removal
    assert own == "attention-column + zeroed"
    methods = ["leave-one-out", "fading"]
    default, named = (
        whence.compare(blend, user=1, methods=methods, removal=one) for one in (None, own)
    )
    assert [one.to_json() for one in default.values()] == [one.to_json() for one in named.values()]
    assert [one.removal for one in named.values()] == [own, "attention-column"]
    with pytest.raises(InputError, match="Choose from: attention-column \\+ zeroed, dropped"):
        whence.explain(blend, user=1, removal="attention-column")


def history_of(run: Run, user: int) -> list[int]:
    items: list[int] = run.interactions.history(run.interactions.find_user(user)).tolist()
    return items


def test_the_command_drops_items_from_a_blend(blend: Run, tmp_path: Path) -> None:
    folder = blend.save(tmp_path / "run").folder
    done = command("explain", folder, "--user", 1, "--removal", "dropped")
    assert "The methods leave an item out, as if it had never been there (dropped)." in " ".join(
        done.stdout.split()
    )


def test_a_model_without_history_has_no_item_to_remove(run: Run) -> None:
    training = {"steps": 2}
    gmf = whence.train(run.interactions, model="gmf", training=training, show_progress=False)
    found = whence.reason(gmf, user=2)
    assert Reason.from_dict(found.as_dict()) == found
    with pytest.raises(CapabilityError, match="so a reason by 'zeroed' has no items to name"):
        whence.reason(gmf, user=2, removal="zeroed")
