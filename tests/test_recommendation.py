from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
import torch

import whence
from believing import believe
from command_line import whence as command
from whence.contract import ALL, PAD
from whence.csv_export import with_formulas
from whence.data import Interactions
from whence.data.histories import histories_without
from whence.errors import CapabilityError, InputError
from whence.explainers import EXPLAINERS, able
from whence.reasons.judgement import SURE
from whence.reasons.reason import CALLED, NONE_SURE
from whence.run import Run


def score_of(run: Run, history: list[int]) -> torch.Tensor:
    """The mean score of each item over the seeds, which recommend together."""
    found = [model.score(torch.tensor([history]), ALL)[0] for model in run.models.values()]
    return torch.stack(found).mean(dim=0)


def test_the_best_unseen_items_in_order(run: Run) -> None:
    data = run.interactions
    for user in (1, 2, 3):
        found = whence.recommend(run, user=user, k=5)
        history = data.history(data.find_user(user))
        scores = score_of(run, history[-12:].tolist())
        scores[torch.from_numpy(history.astype(np.int64))] = -torch.inf
        expected = scores.topk(5)
        assert [pick.item for pick in found.picks] == data.catalog.raw_ids(expected.indices.numpy())
        assert [pick.score for pick in found.picks] == pytest.approx(expected.values.tolist())
        assert [pick.rank for pick in found.picks] == [1, 2, 3, 4, 5]
        assert list(found.history) == data.catalog.labels(history[-12:])


def test_a_new_history_by_title_id_and_nearly(run: Run) -> None:
    title = run.catalog.labels([4])[0]
    by_title = whence.recommend(run, history=[title])
    assert by_title.to_json() == whence.recommend(run, history=[title.lower()]).to_json()
    assert by_title.to_json() == whence.recommend(run, history=[5]).to_json()
    assert title not in [pick.title for pick in by_title.picks]


def log_probability_of(run: Run, history: list[int]) -> torch.Tensor:
    """The mean log-probability of each item over the seeds."""
    batch = torch.tensor([history])
    found = [model.score(batch, ALL)[0].log_softmax(-1) for model in run.models.values()]
    return torch.stack(found).mean(dim=0)


def test_the_figures_of_a_reason_are_those_of_the_model(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recomputed from the model alone: the history typed again without the item, or it alone."""
    believe(monkeypatch, "item")
    every = torch.arange(len(run.catalog))
    usual = torch.stack([log_probability_of(run, [item]) for item in every.tolist()]).mean(dim=0)
    claimed = 0
    for user in range(1, 20):
        found = whence.recommend(run, user=user, k=3)
        items = run.interactions.history(run.interactions.find_user(user)).tolist()
        full = log_probability_of(run, items[-12:])
        for pick in found.picks:
            target = run.catalog.find(str(pick.item))
            named = [one.item for one in pick.reason.supports]
            claimed += len(named)
            lost, alone = {}, {}
            for support in pick.reason.considered:
                left_out = run.catalog.find(str(support.item))
                shorter = [item for item in items if item != left_out][-12:]
                lost[support.item] = (full - log_probability_of(run, shorter))[target].item()
                alone[support.item] = (log_probability_of(run, [left_out]) - usual)[target].item()
                share = -np.expm1(-lost[support.item])
                assert support.probability_lost == pytest.approx(share, abs=1e-4)
                times = np.exp(alone[support.item])
                assert support.times_alone == pytest.approx(times, rel=1e-3)
                without = score_of(run, shorter)
                without[items] = -torch.inf
                assert support.rank_without == 1 + int((without > without[target]).sum())
                assert support.rank_before == pick.rank == pick.reason.rank
            strongest = max(lost, key=lambda item: lost[item])
            said = lost[strongest] > 0 and alone[strongest] > 0
            assert named == ([strongest] if said else [])
            if named:
                assert (
                    pick.reason.sentence == f"because you watched {pick.reason.supports[0].label}"
                )
    assert claimed > 20


@pytest.mark.parametrize("sure", [0.5, SURE, 0.96])
def test_nothing_is_said_below_the_threshold(
    run: Run, monkeypatch: pytest.MonkeyPatch, sure: float
) -> None:
    for kind in ("item", "set", "taste", "popularity"):
        believe(monkeypatch, kind)
        kinds = set()
        for user in range(1, 12):
            for pick in whence.recommend(run, user=user, k=3, sure=sure).picks:
                one = pick.reason
                kinds.add(one.kind)
                assert one.threshold == sure
                assert one.checks[-1].name == "confidence"
                assert one.confidence == pytest.approx(0.95)
                assert one.checks[-1].passed is (sure < 0.951)
                needed = all(check.passed for check in one.checks if check.required)
                assert (one.kind == "none") is not needed
                if one.kind == "none":
                    assert one.sentence == f"fits your history as a whole; {NONE_SURE}"
                    assert one.supports == ()
        assert kinds <= {kind, "none"}
        assert (kind in kinds) is (sure < 0.95), kind


def test_by_default_nothing_is_said_with_less_than_ninety_percent(run: Run) -> None:
    """Whatever the calibrator that comes with Whence believes."""
    kinds = set()
    for user in range(1, 30):
        for pick in whence.recommend(run, user=user, k=10).picks:
            found = pick.reason
            assert found.calibrator == "default"
            assert found.models == 2
            assert found.confidence is not None
            kinds.add(found.kind)
            if found.kind != "none":
                assert found.kind in CALLED
                assert found.confidence >= 0.9 - 1e-6
    assert "none" in kinds


def test_an_item_seen_twice_is_left_out_twice_and_named_once(run: Run) -> None:
    found = whence.recommend(run, history=[5, 9, 5, 7, 5], k=20)
    for pick in found.picks:
        items = [support.item for support in pick.reason.supports]
        assert len(items) == len(set(items))
    shorter = histories_without(np.array([4, 8, 4, 6], dtype=np.int32), np.array([4, 6]), 3)
    assert shorter.tolist() == [[PAD, 8, 6], [4, 8, 4]]


@pytest.mark.parametrize("kind", ["item", "set", "taste"])
def test_nothing_is_said_of_a_model_that_ignores_the_history(
    run: Run, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """However much the calibrator believes in it: the checks do not pass."""

    class Indifferent(type(run.first)):  # type: ignore[misc]
        def score(self, batch: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
            return torch.linspace(1, 0, len(run.catalog)).expand(len(batch), -1)

    model = Indifferent(run.first.config, len(run.catalog), torch.Generator())
    believe(monkeypatch, kind, 1.0)
    indifferent = replace(run, models={0: model})
    for pick in whence.recommend(indifferent, history=[3, 4, 9], k=3).picks:
        assert pick.reason.kind == "none"
        assert pick.reason.supports == ()
        assert not all(one.passed for one in pick.reason.checks if one.required)
    believe(monkeypatch, "popularity", 1.0)
    (pick,) = whence.recommend(indifferent, history=[3, 4, 9], k=1).picks
    assert pick.reason.rank == 1, "reasons ask the model itself, not the transformer it extends"
    assert pick.reason.sentence == "popular with everyone; your history adds little"


def test_a_user_who_has_seen_everything_gets_nothing(run: Run) -> None:
    everything = list(range(1, run.interactions.item_count + 1))
    assert whence.recommend(run, history=everything).picks == ()
    with pytest.raises(InputError, match="has seen every item"):
        whence.explain(run, history=everything)
    assert len(whence.explain(run, history=everything, item=3)) == 1


def test_an_item_is_never_its_own_reason(run: Run) -> None:
    for item in (5, 9, 7):
        found = whence.reason(run, history=[5, 9, 7], item=item)
        assert found.in_history
        assert item not in [support.item for support in found.supports]
        assert item in [support.item for support in found.considered], "its figures are kept"
        assert found.sentence.startswith("already in your history; ")
    assert not whence.reason(run, history=[5, 9, 7], item=8).in_history


def test_results_load_again_and_print(
    run: Run, of_users: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for found in (whence.recommend(run, user=2, k=3), whence.recommend(of_users, user=2, k=3)):
        path = found.save(tmp_path / "picks.json")
        assert whence.Recommendations.load(path) == found
        first = found.picks[0]
        assert whence.Reason.from_json(first.reason.to_json()) == first.reason
        found.show()
        assert first.title in capsys.readouterr().out
        assert first.title.split()[0] in found._repr_html_()
        assert repr(found).startswith("Recommendations('user 2', 3 items: ")
        assert first.reason.sentence in repr(first.reason)
    with pytest.raises(InputError, match="not the JSON of Recommendations"):
        whence.Recommendations.from_json("{}")
    with pytest.raises(InputError, match="cannot be read"):
        whence.Recommendations.load(tmp_path / "absent.json")


def test_an_explainer_is_a_name_or_an_object(run: Run) -> None:
    by_name = whence.explain(run, user=2, method="shapley")
    by_object = whence.explain(run, user=2, method=EXPLAINERS["shapley"])
    assert by_name.method == by_object.method == "shapley"
    np.testing.assert_array_equal(by_name.scores, by_object.scores)


def test_the_reason_is_that_of_the_recommendation(run: Run) -> None:
    """The single reason says in addition what the recommendation cannot do without."""
    picks = whence.recommend(run, user=2, k=10).picks
    best = whence.reason(run, user=2)
    for k in (1, 4, 10):
        first = whence.recommend(run, user=2, k=k).picks[0].reason
        assert replace(best, smallest=None) == first
    for pick in picks:
        alone = whence.reason(run, user=2, item=pick.item)
        assert (alone.kind, alone.sentence, alone.rank) == (
            pick.reason.kind,
            pick.reason.sentence,
            pick.rank,
        )
        assert alone.confidence == pytest.approx(pick.reason.confidence, abs=1e-4)
        assert [one.says for one in alone.checks] == [one.says for one in pick.reason.checks]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_all_users_into_a_file(
    run: Run, tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whence.memory.SCORES_AT_ONCE", 64 * run.interactions.item_count)
    path = tmp_path / f"all.{suffix}"
    rows = whence.recommend_all(run, path, k=4, reasons=False, show_progress=False)
    table = pa_csv.read_csv(path) if suffix == "csv" else pq.read_table(path)
    assert table.num_rows == rows == 4 * run.interactions.user_count
    assert table.column_names == ["user", "rank", "item", "title", "score"]
    user_three = table.filter(np.array(table["user"]) == 3)
    expected = whence.recommend(run, user=3, k=4)
    assert user_three["item"].to_pylist() == [pick.item for pick in expected.picks]
    assert user_three["title"].to_pylist() == [pick.title for pick in expected.picks]
    assert user_three["rank"].to_pylist() == [1, 2, 3, 4]
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_texts_in_a_csv_file_are_no_formulas(run: Run, tmp_path: Path) -> None:
    data = run.interactions
    titles = [f"=HYPERLINK({number})" for number in range(data.item_count)]
    names = [f"@user{number}" for number in range(data.user_count)]
    place = data.catalog.table.column_names.index("title")
    catalog = replace(
        data.catalog, table=data.catalog.table.set_column(place, "title", pa.array(titles))
    )
    users = data.users.set_column(data.users.column_names.index("user"), "user", pa.array(names))
    hostile = replace(run, catalog=catalog, loaded=replace(data, catalog=catalog, users=users))
    whence.recommend_all(hostile, tmp_path / "all.csv", k=2, show_progress=False)
    whence.recommend_all(hostile, tmp_path / "all.parquet", k=2, show_progress=False)
    with (tmp_path / "all.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert all(row["title"].startswith("'=HYPER") for row in rows)
    assert all(row["user"].startswith("'@user") for row in rows)
    assert all(row["item"].isdecimal() for row in rows)
    exact = pq.read_table(tmp_path / "all.parquet")
    assert with_formulas(pa_csv.read_csv(tmp_path / "all.csv"))["title"].equals(exact["title"])
    assert exact["user"][0].as_py() == "@user0"


def test_asking_for_more_than_there_is(run: Run, tmp_path: Path) -> None:
    unseen = run.interactions.item_count - len(set(run.interactions.history(0).tolist()))
    assert len(whence.recommend(run, user=1, k=10_000).picks) == unseen
    rows = whence.recommend_all(
        run, tmp_path / "all.csv", k=10_000, reasons=False, show_progress=False
    )
    assert rows < run.interactions.item_count * run.interactions.user_count


def test_explain_explains_the_best_by_default(run: Run) -> None:
    best = whence.recommend(run, user=2, k=1).picks[0]
    found = whence.explain(run, user=2, method="leave-one-out")
    assert found.labels is not None
    assert found.labels.target == (best.title,)
    assert run.catalog.raw_ids(found.target) == [best.item]


def test_compare_asks_all_about_one_item(run: Run) -> None:
    title = run.catalog.labels([9])[0]
    found = whence.compare(run, history=[1, 2, 3], item=title)
    assert set(found) == set(able(run.first, EXPLAINERS))
    assert all(answer.target_name(0) == title for answer in found.values())
    names = {answer.part_name(0, 11) for answer in found.values()}
    assert names == {run.catalog.labels([2])[0]}
    case = found["random"].as_dict()["cases"][0]
    assert case["target"] == {"index": 9, "label": title, "item": 10}
    assert [part["item"] for part in case["parts"]] == [1, 2, 3]


def test_the_newest_items_of_a_long_history_are_explained(run: Run) -> None:
    """As many as the model reads, each slot a part, also for an item seen twice."""
    found = whence.explain(run, history=[*range(1, 15), 14], item=20, method="shapley")
    case = found.as_dict()["cases"][0]
    assert [part["item"] for part in case["parts"]] == [*range(4, 15), 14]


def test_a_small_memory_explains_the_same(run: Run) -> None:
    one, other = (
        whence.explain(run, user=1, method="shapley", memory=memory).scores
        for memory in (2**29, 2**18)
    )
    np.testing.assert_allclose(one, other, atol=1e-5)


def test_explainers_that_sample_have_a_seed(run: Run) -> None:
    one, same, other = (
        whence.explain(run, user=1, method="random", seed=seed).scores.tolist()
        for seed in (0, 0, 1)
    )
    assert one == same != other


def test_another_seed_is_another_model(run: Run) -> None:
    found = [whence.recommend(run, user=1, model_seed=seed).to_json() for seed in (None, 0, 1)]
    assert len(set(found)) == 3
    for seed in (0, 1):
        alone = replace(run, models={seed: run.models[seed]})
        assert whence.recommend(alone, user=1).to_json() == found[1 + seed]
    with pytest.raises(InputError, match="no model of seed 7. Choose from: 0, 1"):
        whence.recommend(run, user=1, model_seed=7)
    with pytest.raises(InputError, match="This needs a run, not 'runs/first'. Open its folder"):
        whence.recommend("runs/first", user=1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ({}, "either a user"),
        ({"user": 1, "history": [2]}, "either a user"),
        ({"history": []}, "the history is empty"),
        ({"history": "Toy Story"}, "a list of ids or titles"),
        ({"user": "nobody"}, "No user has the id 'nobody'"),
        ({"history": ["zzzz"]}, "No item matches 'zzzz'"),
        ({"user": 1, "k": 0}, "recommendations must be at least 1"),
    ],
)
def test_questions_that_cannot_be_answered(
    run: Run, question: dict[str, object], sentence: str
) -> None:
    with pytest.raises(InputError, match=f"(?i){sentence}"):
        whence.recommend(run, **question)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def of_users(run: Run) -> Run:
    """A model that knows users only by id."""
    return whence.train(run.interactions, model="gmf", training={"steps": 20}, show_progress=False)


def test_a_model_that_reads_no_history_names_no_item(of_users: Run) -> None:
    found = whence.recommend(of_users, user=2, k=3)
    assert [pick.reason.rank for pick in found.picks] == [1, 2, 3]
    for pick in found.picks:
        assert pick.reason.sentence.startswith("fits your taste as the model learned it")
        assert pick.reason.as_dict()["checks"] == []
        assert pick.reason.as_dict()["removal"] == "not possible"
    assert whence.reason(of_users, user=2) == found.picks[0].reason
    with pytest.raises(CapabilityError, match="reads no history, so an explanation has no"):
        whence.explain(of_users, user=2)
    with pytest.raises(InputError, match="Ask for a user of the data"):
        whence.recommend(of_users, history=[1, 2])


def test_by_default_methods_are_those_the_model_supports(run: Run) -> None:
    fism = whence.train(
        run.interactions,
        model="fism",
        model_settings={"max_len": 8},
        training={"steps": 2},
        show_progress=False,
    )
    assert whence.explain(run, user=2).method == "shapley"
    assert whence.explain(fism, user=2).method == "shapley"
    assert set(able(run.first, EXPLAINERS)) - set(whence.compare(fism, user=2)) == {
        name for name, one in EXPLAINERS.items() if "attentions" in one.needs
    }


def test_every_explainer_that_can_explains_a_blend(blend: Run) -> None:
    """Attention is that of the first seed, with empty slots for what it does not read."""
    found = whence.compare(blend, user=1)
    assert set(found) == set(able(blend.first, EXPLAINERS))
    slots = {one.scores.shape for one in found.values()}
    assert slots == {(1, 50)}
    for name, one in found.items():
        attends = "attentions" in EXPLAINERS[name].needs or "embed" in EXPLAINERS[name].needs
        assert one.model_seed == (0 if attends or name == "neighbours" else None), name
        assert one.labels == found["shapley"].labels
        if one.model_seed == 0:
            target = blend.catalog.raw_ids(one.target)[0]
            alone = whence.explain(blend, user=1, item=target, method=name, model_seed=0)
            np.testing.assert_allclose(one.scores[:, -12:], alone.scores)
            assert not one.parts[:, :-12].any()
        assert whence.Explanation.from_json(one.to_json()).to_json() == one.to_json()


def test_the_command_explains_a_blend(blend: Run, tmp_path: Path) -> None:
    folder = blend.save(tmp_path / "run").folder
    done = command("explain", folder, "--user", 1, "--method", "all")
    assert done.returncode == 0, done.stderr
    assert "of the model of seed 0 alone" in done.stdout
    assert "Shapley" in done.stdout or "shapley" in done.stdout
    alone = command("explain", folder, "--user", 1, "--method", "shapley")
    assert "alone" not in alone.stdout


def test_a_simple_model_says_its_own_sentence(interactions: Interactions) -> None:
    run = whence.train(interactions, model="last-item", show_progress=False)
    data = run.interactions
    user = data.users["user"][3].as_py()
    newest = run.catalog.labels(data.history(3)[-1:])[0]
    followed = whence.reason(run, user=user)
    assert followed.sentence in (
        f"people who {run.verb} {newest} often {run.verb} this next",
        f"somebody who {run.verb} {newest} {run.verb} this next",
    )
    assert whence.recommend(run, user=user).picks[0].reason.sentence == followed.sentence


def test_additive_models_have_exact_reasons(interactions: Interactions) -> None:
    run = whence.train(interactions, model="ease", show_progress=False)
    found = whence.explain(run, user=1, method="contributions")
    assert found.scores.sum() == pytest.approx(found.full_score[0] - found.empty_score[0])
    removed = whence.explain(run, user=1, method="leave-one-out")
    np.testing.assert_allclose(found.scores, removed.scores, atol=1e-6)


@pytest.mark.parametrize("name", ["ease", "recent-ease", "item-to-item"])
def test_additive_models_name_what_adds_to_the_score(
    name: str, interactions: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their sums are scaled to logits; otherwise hardly any probability would change."""
    believe(monkeypatch, "item")
    run = whence.train(interactions, model=name, show_progress=False)
    named = 0
    for user in range(1, 21):
        reason = whence.recommend(run, user=user, k=1).picks[0].reason
        found = whence.explain(run, user=user, method="contributions")
        added = {found.part_name(0, slot): found.scores[0, slot] for slot in range(50)}
        named += bool(reason.supports)
        assert all(one.probability_lost > 0.05 for one in reason.supports)
        # What adds as much to other items changes no probability.
        assert all(added[support.label] > 0 for support in reason.supports)
    assert named >= 15
