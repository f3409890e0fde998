"""The reasons of runs: which models and which calibrator speak, and what data allow to say."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save

import whence
from believing import believe, calibrator_of
from command_line import whence as command
from whence.contract import ALL, PAD
from whence.data import Interactions
from whence.errors import InputError, RunError
from whence.reasons.calibrator import Calibrator
from whence.reasons.of_run import DEFAULT, OWN, Options, default_calibrator, reasoner_of
from whence.reasons.telling import RECENT_EVENTS
from whence.run import Run


def items_of(run: Run, user: int) -> list[int]:
    found: list[int] = run.interactions.history(run.interactions.find_user(user)).tolist()
    return found


def test_a_reasoner_is_made_once(run: Run) -> None:
    assert reasoner_of(run) is reasoner_of(run)
    whence.recommend(run, user=1, k=1)
    others = [reasoner_of(run, 0), reasoner_of(run, None, "attention-column")]
    assert all(one is not reasoner_of(run) for one in others)
    assert [len(one.models) for one in others] == [1, 2]
    assert reasoner_of(replace(run)) is not reasoner_of(run), "it may have other data"


@pytest.mark.parametrize("name", ["run", "blend"])
def test_the_mean_of_the_recommenders_is_the_whole(
    name: str, request: pytest.FixtureRequest
) -> None:
    found: Run = request.getfixturevalue(name)
    length = found.whole.config.max_len
    batch = torch.tensor([[PAD] * (length - 4) + [4, 8, 4, 6], [PAD] * (length - 1) + [3]])
    each = [one.score(batch, ALL) for one in found.recommenders()]
    assert len(each) == 2
    # A log-probability is a score up to a number that is the same for all items.
    mean = torch.stack(each).mean(dim=0).log_softmax(dim=1)
    whole = found.whole.score(batch, ALL).log_softmax(dim=1)
    torch.testing.assert_close(mean, whole, atol=1e-5, rtol=1e-5)
    (only,) = found.recommenders(1)
    assert only is found.models[1]


def test_a_blend_is_asked_with_every_seed(blend: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    believe(monkeypatch, "item")
    items = items_of(blend, 3)
    for pick in whence.recommend(blend, user=3, k=3).picks:
        assert pick.reason.models == 2
        assert pick.reason.rank == pick.rank
        target = blend.catalog.find(str(pick.item))
        for support in pick.reason.considered[:5]:
            left = [one for one in items if one != blend.catalog.find(str(support.item))]
            scores = [one.score(torch.tensor([left[-50:]]), ALL)[0] for one in blend.recommenders()]
            mean = torch.stack(scores).mean(dim=0)
            mean[items] = -torch.inf
            assert support.rank_without == 1 + int((mean > mean[target]).sum())


def test_with_one_seed_less_is_known(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    believe(monkeypatch, "item")
    several, one = (whence.reason(run, user=4, model_seed=seed) for seed in (None, 0))
    assert (several.models, one.models) == (2, 1)
    assert all(support.agreement is None for support in one.considered)
    assert all(support.agreement in (0, 0.5, 1) for support in several.considered)
    (unknown,) = (check for check in one.checks if check.name == "agreement")
    assert (unknown.passed, unknown.value) == (None, None)
    assert unknown.says.startswith("unknown: only one model was asked")
    (known,) = (check for check in several.checks if check.name == "agreement")
    assert known.says.endswith("of 2 models it matters most")
    assert known.value in (0, 0.5, 1)


def test_a_calibrator_of_the_run_is_saved_and_used_again(run: Run, tmp_path: Path) -> None:
    assert whence.reason(run, user=2).calibrator == DEFAULT
    own = calibrator_of("item").to_bytes()
    saved = replace(run, calibrator=own).save(tmp_path / "own")
    opened = whence.open_run(tmp_path / "own").with_data(run.interactions)
    assert opened.calibrator == own
    assert whence.open_run(opened.save(tmp_path / "again").folder or "").calibrator == own
    said = 0
    for user in range(1, 12):
        found = whence.reason(opened, user=user)
        assert found == whence.reason(saved, user=user)
        assert found.calibrator == OWN
        strongest = max(found.considered, key=lambda one: one.probability_lost)
        if found.kind == "item":
            said += 1
            assert found.supports == (strongest,)
            assert found.confidence == pytest.approx(1, abs=0.05)
    assert said > 5
    general = replace(run, calibrator=calibrator_of("popularity").to_bytes())
    assert whence.reason(general, user=2).likeliest == "popularity"


def broken() -> dict[str, bytes]:
    """Return files that are no calibrators."""
    found = default_calibrator()
    weights, content = dict(found.state_dict()), found.to_bytes()
    names = json.dumps(found.names)
    return {
        "empty": b"",
        "no tensors": b"nothing at all",
        "cut": content[:-100],
        "no features": save(weights),
        "features of another form": save(weights, {"features": "5"}),
        "features that are no JSON": save(weights, {"features": "["}),
        "other sizes": save(weights, {"features": json.dumps([["a", "b"]] * 3)}),
        "deep JSON": save(weights, {"features": "[" * 100_000}),
        "a tensor less": save(
            {name: one for name, one in weights.items() if name != "items_mean"},
            {"features": names},
        ),
    }


@pytest.mark.parametrize("name", list(broken()))
def test_a_file_that_is_no_calibrator_is_one_sentence(run: Run, tmp_path: Path, name: str) -> None:
    folder = replace(run, calibrator=broken()[name]).save(tmp_path / "run").folder
    opened = whence.open_run(tmp_path / "run")
    with pytest.raises(RunError, match="calibrator.safetensors of this run holds no calibrator"):
        whence.recommend(opened, history=[3, 5])
    done = command("recommend", folder, "-i", "3", "-i", "5")
    assert done.returncode == 3
    assert "Train the run again." in done.stderr
    assert "Traceback" not in done.stderr


def test_a_calibrator_that_was_changed_is_refused_when_opening(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    replace(run, calibrator=default_calibrator().to_bytes()).save(folder)
    path = folder / "calibrator.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(RunError, match="has changed since it was written"):
        whence.open_run(folder)


def test_a_calibrator_of_other_figures_is_refused(run: Run) -> None:
    names = default_calibrator().names
    other = Calibrator(names._replace(items=names.items[::-1]), torch.Generator())
    with pytest.raises(RunError, match="was learned with other figures than this version"):
        whence.reason(replace(run, calibrator=other.to_bytes()), user=2)


def test_weights_that_are_no_numbers_claim_nothing(run: Run) -> None:
    found = calibrator_of("item")
    with torch.no_grad():
        found.get_parameter("general.4.bias").fill_(torch.nan)
    strange = replace(run, calibrator=found.to_bytes())
    for pick in whence.recommend(strange, user=2, k=3).picks:
        assert pick.reason.kind == "none"
        assert whence.Reason.from_json(pick.reason.to_json()) == pick.reason


def rated(run: Run, rate: Callable[[int], float]) -> Run:
    """Return the run with a rating of each event, by its item."""
    data = run.interactions
    ratings = np.array([rate(item) for item in data.items.tolist()], dtype=np.float32)
    return replace(run, loaded=replace(data, ratings=ratings))


def test_an_item_rated_low_is_never_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every fourth item is rated 2 of 5, which is low."""
    plain = {}
    for kind in ("item", "set"):
        believe(monkeypatch, kind)
        plain[kind] = {user: whence.recommend(run, user=user, k=3).picks for user in range(1, 30)}
    others = rated(run, lambda item: 2.0 if item % 4 == 0 else 5.0)
    although = 0
    for kind, of_users in plain.items():
        believe(monkeypatch, kind)
        for user, picks in of_users.items():
            for before, after in zip(
                picks, whence.recommend(others, user=user, k=3).picks, strict=True
            ):
                named = [others.catalog.find(str(one.item)) for one in before.reason.supports]
                assert all(one.rating == 5 for one in after.reason.supports)
                assert all(one.rating == 2 for one in after.reason.although)
                if any(item % 4 == 0 for item in named):
                    assert after.reason.kind == "none"
                    if kind == "item":
                        although += 1
                        (low,) = after.reason.although
                        assert others.catalog.find(str(low.item)) == named[0]
                        assert f"although you rated {low.label} only 2" in after.reason.sentence
                else:
                    assert after.reason.supports == tuple(
                        replace(one, rating=5.0) for one in before.reason.supports
                    )
    assert although > 3


def test_what_is_low(run: Run) -> None:
    def low_of(most: float, low_rating: float | None = None) -> float:
        options = Options(low_rating=low_rating)
        return options.low_of(rated(run, lambda item: most if item else 1.0))

    assert [low_of(most) for most in (5, 10, 100)] == [2, 4, 40]
    assert low_of(101) == -np.inf, "counts of plays are no ratings"
    assert low_of(5, low_rating=3) == 3
    assert Options().low_of(run) == -np.inf
    assert Options().low_of(rated(run, lambda _: 0.0)) == -np.inf
    assert Options().low_of(rated(run, lambda _: 1.0)) == 0.4


def test_the_newest_rating_counts(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    believe(monkeypatch, "item")
    data = run.interactions
    items = np.array([5, 9, 5, 7] * 3, dtype=np.int32)
    for newest, low in ((1.0, True), (5.0, False)):
        ratings = np.array([3.0] * 10 + [newest, 3.0], dtype=np.float32)
        one = replace(
            data,
            items=items,
            ratings=ratings,
            times=None,
            offsets=np.array([0, *[len(items)] * data.user_count]),
        )
        found = whence.reason(replace(run, loaded=one), user=data.users["user"][0].as_py(), item=3)
        five = next(support for support in found.considered if support.item == 6)
        assert five.rating == newest
        assert (five in found.supports) <= (not low)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"sure": 0.4}, "sure is a probability from 0.5 to 1, not 0.4"),
        ({"sure": 1.1}, "sure is a probability"),
        ({"sure": float("nan")}, "sure is a probability"),
        ({"low_rating": float("inf")}, "low_rating is a rating, not inf"),
        ({"low_rating": 2.0}, "This history has no ratings, so none can be low"),
    ],
)
def test_options_that_cannot_be_used(run: Run, given: dict[str, float], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        whence.recommend(run, user=1, **given)  # type: ignore[arg-type]


def test_a_taste_is_counted_among_the_newest_events(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    believe(monkeypatch, "taste")
    genres = [set((text or "").split("|")) for text in run.catalog.table["genres"].to_pylist()]
    said = 0
    for user in range(1, 40):
        found = whence.reason(run, user=user)
        if found.kind != "taste":
            continue
        said += 1
        assert found.taste is not None
        items = items_of(run, user)[-RECENT_EVENTS:]
        count = sum(found.taste.name in genres[item] for item in items)
        assert (found.taste.count, found.taste.of) == (count, len(items))
        assert count >= 2
        assert found.sentence == (
            f"because of your taste for {found.taste.name}: {count} of the last {len(items)} you "
            "watched"
        )
        assert found.taste.probability_lost > max(found.taste.lost_without_others, 0)
        assert found.supports == ()
    assert said > 3


def without_genres(run: Run) -> Run:
    table = run.catalog.table.drop_columns(["genres"])
    catalog = replace(run.catalog, table=table)
    return replace(run, catalog=catalog, loaded=replace(run.interactions, catalog=catalog))


def test_items_without_attributes_are_grouped_by_the_model(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sentence names two items of the group, none of them rated low."""
    believe(monkeypatch, "taste")
    plain = without_genres(run)
    groups = reasoner_of(plain).groups
    assert groups is not None
    assert groups.names == ()
    others = rated(plain, lambda item: 2.0 if item % 3 == 0 else 5.0)
    said = 0
    for asked in (plain, others):
        for user in range(1, 40):
            found = whence.reason(asked, user=user)
            if found.kind != "taste" or found.taste is None:
                continue
            said += 1
            items = items_of(run, user)[-RECENT_EVENTS:]
            labels = run.catalog.labels(range(len(run.catalog)))
            named = found.taste.name.removeprefix("items like ").split(" and ")
            places = [labels.index(one) for one in named]
            assert 1 <= len(places) <= 2
            assert set(places) <= set(items)
            group = next(row for row in groups.member if all(row[places]))
            assert found.taste.count == int(group[items].sum())
            if asked is others:
                assert all(place % 3 for place in places), "no low item is named"
    assert said > 5


LIMITS = {
    "one item": [5],
    "one item again and again": [5] * 30,
    "an item and itself": [5, 5, 9],
    "nearly all items": [*range(1, 119)],
}


@pytest.mark.parametrize("history", LIMITS.values(), ids=LIMITS)
@pytest.mark.parametrize("kind", ["item", "set", "taste", "popularity"])
def test_short_and_odd_histories(
    run: Run, monkeypatch: pytest.MonkeyPatch, history: list[int], kind: str
) -> None:
    for asked in (run, without_genres(run)):
        believe(monkeypatch, kind)
        picks = whence.recommend(asked, history=history, k=4).picks
        assert picks
        for pick in picks:
            found = pick.reason
            assert found.kind in (kind, "none")
            assert whence.Reason.from_json(found.to_json()) == found
            different = {one.item for one in found.considered}
            assert different == set(history[-12:])
            assert len(found.considered) == len(different)
            if len(different) < 2:
                assert found.kind not in ("set", "taste"), "they need several items"
            assert {one.item for one in found.supports} <= different
        assert whence.reason(asked, history=history, item=7).sentence


def test_the_only_recommendation_is_specific_to_nothing(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    believe(monkeypatch, "item")
    (pick,) = whence.recommend(run, history=[*range(1, 120)], k=5).picks
    assert all(one.specific is None for one in pick.reason.considered)
    (check,) = (one for one in pick.reason.checks if one.name == "specificity")
    assert (check.passed, check.says) == (
        *(None, "there is no other recommendation to compare with"),
    )


def test_items_that_are_all_alike_give_no_reason(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """All items have the same vector, so the history decides nothing."""
    believe(monkeypatch, "item")
    weights = run.first.state_dict()
    (name,) = (name for name in weights if len(weights[name]) in (120, 121))
    alike = {**weights, name: weights[name][:1].expand_as(weights[name]).clone()}
    model = type(run.first)(run.first.config, 120, torch.Generator())
    model.load_state_dict(alike)
    same = replace(run, models={0: model.eval()})
    for pick in whence.recommend(same, history=[3, 5, 9], k=3).picks:
        assert pick.reason.kind == "none"
        assert pick.reason.sentence == "fits your history as a whole; no single reason is sure"


def test_the_smallest_set_is_that_of_the_model(run: Run) -> None:
    """Recomputed from the model alone."""
    sizes = []
    for user in range(1, 25):
        found = whence.reason(run, user=user, k=1)
        items = items_of(run, user)
        target = run.catalog.find(str(whence.recommend(run, user=user, k=1).picks[0].item))

        def rank(left_out: set[int], items: list[int] = items, target: int = target) -> int:
            left = [one for one in items if one not in left_out][-12:]
            row = torch.tensor([[PAD] * (12 - len(left)) + left])
            scores = [one.score(row, ALL)[0] for one in run.models.values()]
            mean = torch.stack(scores).mean(dim=0)
            mean[items] = -torch.inf
            return 1 + int((mean > mean[target]).sum())

        one = found.smallest
        if one is None:
            continue
        named = {run.catalog.find(str(item)) for item in one.items}
        sizes.append(len(named))
        assert one.rank_without == rank(named) > one.list_size == 1
        if len(named) > 1:
            assert all(rank({item}) == 1 for item in set(items[-12:])), "no smaller set does"
        assert one.proved is (len(named) < 3)
        assert one.sentence.startswith("without ")
        assert found.smallest is not None
    assert {1, 2} <= set(sizes)


def test_a_rule_is_the_reason_and_nothing_else_is_claimed(interactions: Interactions) -> None:
    run = whence.train(interactions, model="popularity", show_progress=False)
    found = whence.reason(run, user=3)
    assert found.kind == found.likeliest == "rule"
    assert (found.confidence, found.threshold, found.checks) == (None, None, ())
    assert (found.supports, found.although, found.smallest, found.taste) == ((), (), None, None)
    assert found.sure == ""
    assert found.rank == 1
    assert whence.Reason.from_json(found.to_json()) == found
