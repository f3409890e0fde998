"""What an audit says of the sentences is what typed histories show."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import Tensor

import whence
from whence.contract import ALL, ATTENTION_COLUMN, PAD, All
from whence.models import Recommender
from whence.models.base import OwnReason
from whence.reasons.altered import candidates_of
from whence.reasons.judgement import Kind
from whence.reasons.of_run import reasoner_of
from whence.report.audit_page import write_audit
from whence.run import Run
from whence.trust.audit.auditor import audit
from whence.trust.audit.context import CONTROL, AuditContext
from whence.trust.audit.finding import Figure, Finding
from whence.trust.audit.result import Audit
from whence.trust.audit.stage import STAGES
from whence.trust.sentences.necessity import DRAWS, _draw, share_lost
from whence.trust.sentences.said import Said, histories_of
from whence.trust.sentences.sample import NAMED, RANDOM, Sample
from whence.trust.sentences.sentences_finding import KINDS
from whence.worlds import CausalConfig, make_causal_world

LOST, LEAVES = "probability lost", "leaves the first 10"


@pytest.fixture(scope="module")
def named() -> Run:
    """A run whose sentences name items: sequels in a world of films."""
    world = make_causal_world(CausalConfig(users=1500, items=200, seed=3))
    return whence.train(
        world.interactions, model="recent-ease", model_settings={"max_len": 20},
        show_progress=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def twice(named: Run) -> Run:
    """Two seeds with the same model."""
    return replace(named, models={0: named.first, 1: named.first})


def sample_of(run: Run, cases: int = 200, **more: str) -> Sample:
    return Sample(AuditContext(run, None, (CONTROL,), cases, **more))  # type: ignore[arg-type]


def found_in(run: Run, cases: int = 200, **more: str) -> Finding:
    return STAGES["sentences"].find(sample_of(run, cases, **more).context)


def figures(finding: Finding) -> dict[tuple[str, str], Figure]:
    return {(one.name, one.of): one for one in finding.figures}


@torch.no_grad()
def asked(run: Run, history: list[int], seen: list[int], target: int) -> tuple[float, int]:
    """The log-probability and the rank of a target, for a typed history."""
    slots = run.whole.config.max_len
    row = torch.tensor([([PAD] * slots + history)[-slots:]])
    scores = [model.score(row, ALL)[0].double() for model in run.recommenders()]
    said = float(np.mean([float(one.log_softmax(0)[target]) for one in scores]))
    mean = torch.stack(scores).mean(dim=0)
    mean[seen] = -torch.inf
    return said, 1 + int((mean > mean[target]).sum())


def share(before: float, after: float) -> float:
    """The share of the larger of two probabilities, given as logarithms, that is lost."""
    p, q = np.exp(before), np.exp(after)
    return float((p - q) / max(p, q))


def test_necessity_equals_that_of_typed_histories(named: Run) -> None:
    one = sample_of(named)
    assert one.necessity is not None
    lost, ranks, users = [], [], []
    for row in range(len(one.naming)):
        user, target = int(one.naming.user[row]), int(one.naming.target[row])
        history = one.cases.items[one.cases.starts[user] : one.cases.ends[user]].tolist()
        gone = [item for item in one.naming.named[row].tolist() if item != PAD]
        assert set(gone) <= set(history)
        left = [item for item in history if item not in gone]
        before, rank_before = asked(named, history, history, target)
        after, rank = asked(named, left, history, target)
        assert int(one.naming.rank[row]) == rank_before <= 10
        lost.append(share(before, after))
        ranks.append(rank)
        users.append(user)
    assert one.necessity.lost.tolist() == pytest.approx(lost, abs=1e-4)
    assert one.necessity.rank.tolist() == ranks
    assert one.necessity.matched.all()
    shown = figures(found_in(named))
    assert shown[LOST, NAMED].measure.value == pytest.approx(np.mean(lost), abs=1e-4)
    assert shown[LEAVES, NAMED].measure.value == np.mean([rank > 10 for rank in ranks])
    assert shown[LOST, NAMED].measure.n == shown[LOST, RANDOM].measure.n == len(lost)
    assert f"interval over {len(set(users))} users" in shown[LOST, NAMED].measure.protocol
    apart = shown[LOST, "named items, above random"].measure
    assert apart.value == pytest.approx(np.mean(lost) - shown[LOST, RANDOM].measure.value)
    assert apart.interval[0] > 0.3


def test_random_items_are_as_many_others_of_the_history() -> None:
    candidates = torch.tensor([[PAD, 3, 4, 5, 6], [PAD, PAD, PAD, 7, 8], [PAD, PAD, 9, 1, 2]])
    named = torch.tensor([[PAD, 4], [7, 8], [1, 9]])
    others, matched = _draw(candidates, named, torch.Generator().manual_seed(0))
    assert matched.tolist() == [True, False, False]
    assert others.shape == (3, DRAWS, 2)
    drawn = [[one for one in row if one != PAD] for row in others[0].tolist()]
    assert all(len(row) == 1 for row in drawn)
    assert {item for row in drawn for item in row} <= {3, 5, 6}
    assert (others[1:] == PAD).all()
    pairs, all_matched = _draw(candidates[:1], named[1:2], torch.Generator().manual_seed(0))
    assert all_matched.all()
    assert all(len({*row}) == 2 and PAD not in row for row in pairs[0].tolist())
    of_one, _ = _draw(candidates[:, -1:], named, torch.Generator().manual_seed(0))
    assert of_one.shape == (3, DRAWS, 2)  # a model that reads one item


def test_the_loss_at_random_is_that_of_every_item(named: Run) -> None:
    """The mean over many draws comes near the mean over all other items."""
    one = sample_of(named)
    assert one.necessity is not None
    expected = []
    for row in range(len(one.naming)):
        user, target = int(one.naming.user[row]), int(one.naming.target[row])
        history = one.cases.items[one.cases.starts[user] : one.cases.ends[user]].tolist()
        gone = {item for item in one.naming.named[row].tolist() if item != PAD}
        read = candidates_of(one.histories.longer[user][None], 20)[0].tolist()
        before, _ = asked(named, history, history, target)
        if len(gone) == 1:
            each = [item for item in read if item not in gone and item != PAD]
            lost = [
                share(before, asked(named, [i for i in history if i != item], history, target)[0])
                for item in each
            ]
            expected.append((row, np.mean(lost)))
    rows, wanted = zip(*expected, strict=True)
    assert float(one.necessity.lost_at_random[list(rows)].mean()) == pytest.approx(
        np.mean(wanted), abs=0.03
    )


def test_a_share_that_is_lost() -> None:
    nats = torch.tensor([0.0, np.log(2.0), -np.log(2.0), 800.0], dtype=torch.float64)
    assert share_lost(nats).tolist() == pytest.approx([0.0, 0.5, -0.5, 1.0])


def test_kinds_are_those_of_the_sentences_that_users_see(named: Run) -> None:
    one = sample_of(named, 8)
    kinds = {"item": Kind.ITEM, "set": Kind.SET, "taste": Kind.TASTE, "popularity": Kind.POPULARITY}
    for user in range(len(one.cases)):
        history = one.cases.items[one.cases.starts[user] : one.cases.ends[user]]
        picks = whence.recommend(named, history=named.catalog.raw_ids(history), k=10).picks
        rows = one.said[one.said.user == user]
        assert [named.catalog.raw_ids([int(item)])[0] for item in rows.target] == [
            pick.item for pick in picks
        ]
        assert rows.kind.tolist() == [kinds.get(pick.reason.kind, Kind.NONE) for pick in picks]
        for row, pick in zip(range(10), picks, strict=True):
            items = named.catalog.raw_ids([i for i in rows.named[row].tolist() if i != PAD])
            assert {*items} == {support.item for support in pick.reason.supports}


def test_shares_add_up(named: Run) -> None:
    finding = found_in(named)
    shares = [one for one in finding.figures if one.name == "share of the recommendations"]
    assert [one.of for one in shares] == [name for name, _ in KINDS.values()]
    assert sum(one.measure.value for one in shares) == pytest.approx(1.0)
    one = sample_of(named)
    sure = one.said.confidence[one.said.kind != Kind.NONE].double().mean()
    stated = figures(finding)["stated confidence", "reasons that are said"].measure
    assert stated.value == pytest.approx(float(sure))
    assert stated.value >= 0.9


def test_a_rule_without_random_numbers_is_the_same_for_every_seed(named: Run) -> None:
    finding = found_in(named)
    assert finding.answer == "yes"
    assert finding.summary.endswith("Every seed gives the same model, so it names the same items.")
    assert not any("--seeds" in note for note in finding.notes)


def test_equal_halves_name_the_same(twice: Run) -> None:
    finding = found_in(twice)
    same = figures(finding)["same items named", "two halves of the seeds"]
    assert same.measure.value == 1.0
    halves = sample_of(twice).halves
    assert halves is not None
    assert same.measure.n == int(halves.first.names.sum()) > 0
    assert same.reading.startswith("If seed 0 or seed 1 would name items")
    assert finding.answer == "yes"


def test_halves_that_differ_agree_less(named: Run, world: whence.worlds.World) -> None:
    """Agreement is counted where either half names something."""
    other = whence.train(
        make_causal_world(CausalConfig(users=1500, items=200, seed=4)).interactions,
        model="recent-ease", model_settings={"max_len": 20}, show_progress=False,
    )  # fmt: skip
    run = replace(named, models={0: named.first, 1: other.first, 2: other.first})
    one = sample_of(run)
    assert one.halves is not None
    assert one.halves.seeds == ((0,), (1, 2))
    first, second = one.halves.first, one.halves.second
    either = [
        ({*a} == {*b}, user)
        for a, b, user in zip(
            first.named.tolist(), second.named.tolist(), first.user.tolist(), strict=True
        )
        if {*a, *b} != {PAD}
    ]
    assert one.same_named is not None
    assert one.same_named[0].tolist() == [same for same, _ in either]
    assert one.same_named[1].tolist() == [user for _, user in either]
    assert either
    assert np.mean(one.same_named[0]) < 0.7
    finding = found_in(run)
    assert finding.answer != "yes"


def test_one_seed_says_how_to_learn_more(run: Run) -> None:
    first = replace(run, models={0: run.first})
    finding = found_in(first, 25)
    assert finding.answer == "partly"
    assert any("train with --seeds 5 to find out" in note for note in finding.notes)
    assert ("same items named", "two halves of the seeds") not in figures(finding)
    both = found_in(run, 25)
    assert not any("--seeds" in note for note in both.notes)


class Deaf(Recommender):
    """The same scores for every history; its config is that of a model of histories."""

    removal = "dropped"

    @dataclass(frozen=True)
    class Config:
        max_len: int = 20
        dropout: float = 0.0

    def __init__(self, items: int) -> None:
        super().__init__()
        self.config = self.Config()
        self.likes = torch.randn(items, generator=torch.Generator().manual_seed(0))

    def parts(self, batch: Tensor) -> Tensor:
        return batch != PAD

    def score(
        self,
        batch: Tensor,
        targets: Tensor | All,
        *,
        present: Tensor | None = None,
        embedded: Tensor | None = None,
        attention: Sequence[Tensor | None] | None = None,
    ) -> Tensor:
        scores = self.likes.expand(len(batch), -1)
        return scores if isinstance(targets, All) else scores.gather(1, targets)


class Ruled(Deaf):
    """It says its rule itself."""

    def own_reasons(self, batch: Tensor, targets: Tensor) -> list[OwnReason]:
        return [OwnReason("popular")] * len(batch)


def test_what_ignores_its_history_has_nothing_to_name(named: Run) -> None:
    deaf = replace(named, models={0: Deaf(len(named.catalog))})
    one = sample_of(deaf)
    assert not one.said.names.any()
    finding = found_in(deaf)
    assert finding.answer == "partly"
    assert "only 0 of 2,000 sentences name an item, which is too few" in finding.summary
    assert (LOST, NAMED) not in figures(finding)
    assert len(finding.charts) == 1


def test_names_that_are_not_needed_are_no_better_than_random(
    named: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sentences that name any item of the history, of a model that ignores it."""
    deaf = replace(named, models={0: Deaf(len(named.catalog))})

    def naming_anything(one: Sample) -> Said:
        said: Said = Sample.said.func(one)  # type: ignore[attr-defined]
        newest = one.histories.longer[said.user, -1]
        both = torch.stack((torch.full_like(newest, PAD), newest), dim=1)
        return replace(said, kind=torch.full_like(said.kind, int(Kind.ITEM)), named=both)

    monkeypatch.setattr(
        "whence.trust.sentences.sentences_finding.Sample",
        type("Naming", (Sample,), {"said": property(naming_anything)}),
    )
    finding = found_in(deaf)
    assert finding.answer == "no"
    assert finding.summary.endswith("The difference is not clear.")
    assert figures(finding)[LOST, NAMED].measure.value == pytest.approx(0.0, abs=1e-6)


def test_a_rule_of_its_own_is_not_tested(named: Run) -> None:
    ruled = replace(named, models={0: Ruled(len(named.catalog))}, folder=None)
    found = audit(ruled, stages=["sentences"], cases=25, show_progress=False)
    assert found.obstacles == {
        "sentences": "The reason of every recommendation by Ruled is the rule of the model itself, "
        "so there is nothing to test."
    }


def test_few_users_make_nothing_clear(twice: Run) -> None:
    finding = found_in(twice, 12)
    assert finding.answer == "partly"
    assert finding.summary.endswith(
        "12 users are too few to call a difference clear; at least 20 are needed."
    )


def test_the_removal_that_is_asked_for_is_said(run: Run) -> None:
    own = audit(run, stages=["sentences"], cases=25, show_progress=False)
    assert own.settings["removal"] == "attention-column"
    assert own.settings["sentence_removal"] == "dropped"
    assert "--removal" not in own.command
    hidden = audit(
        run, stages=["sentences"], cases=25, removal=ATTENTION_COLUMN, show_progress=False
    )
    assert hidden.settings["sentence_removal"] == ATTENTION_COLUMN
    assert hidden.command.endswith("--removal attention-column")
    (left_out, *_), (masked, *_) = (one.findings["sentences"].notes for one in (own, hidden))
    assert left_out.startswith("Items are removed by 'dropped', as in the checks of the sentences")
    assert masked.startswith("Items are removed by 'attention-column', as you asked; ")
    for one, removal in ((own, "dropped"), (hidden, ATTENTION_COLUMN)):
        for figure in one.findings["sentences"].figures:
            assert f"removal {removal};" in figure.measure.protocol


def test_items_that_were_rated_low_are_not_named(named: Run) -> None:
    one = sample_of(named)
    assert len(one.naming)
    ratings = np.ones(len(named.interactions.items))
    low = histories_of(one.reasoner, named.whole, one.cases, ratings, 2.0)
    assert low.low is not None
    assert torch.equal(low.low, low.longer != PAD)
    found = reasoner_of(named).find(
        low.longer, torch.from_numpy(one.lists.items), low.seen, low=low.low
    )
    assert not (found.judgement.kind <= Kind.SET).any()


def test_examples_are_what_users_see(twice: Run) -> None:
    (table,) = found_in(twice).tables
    assert table.columns == ("confidence", "rank", "rank without the named items")
    assert len(table.rows) == 3
    for said, confidence, rank, without in table.rows:
        assert ": because you watched " in said
        assert confidence.endswith(" %")
        assert 1 <= int(rank) <= 10
        assert int(without.replace(",", "")) > int(rank)


def test_it_is_first_and_survives_being_written(twice: Run, tmp_path: object) -> None:
    assert next(iter(STAGES)) == "sentences"
    found = audit(
        twice, stages=["accuracy", "sentences"], cases=25, methods=["leave-one-out"],
        show_progress=False,
    )  # fmt: skip
    assert list(found.stages) == ["sentences", "accuracy"]
    again = Audit.from_dict(json.loads(found.to_json()))
    assert again.findings["sentences"] == found.findings["sentences"]
    page = write_audit(again, tmp_path / "audit.html").read_text()  # type: ignore[operator]
    first = page.index("Can the sentences be believed?")
    assert first < page.index("The explainer to use") < page.index("Is the model accurate?")
    assert page.index('<section class="stage" id="sentences"') < page.index(
        '<section class="stage" id="accuracy"'
    )
    assert page.count("<svg") == sum(len(one.charts) for one in found.findings.values())
