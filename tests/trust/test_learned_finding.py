"""What it learned: neighbours by the model's vectors, and what they share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import whence
from conftest import interactions_of
from whence.contract import HasItemVectors, HasUserVectors
from whence.data import Catalog, Interactions
from whence.errors import InputError
from whence.maps import SameGroup, pca
from whence.maps.groups import AGE_BANDS
from whence.measure import Measure
from whence.report.audit_charts import draw
from whence.report.charts import to_svg
from whence.run import Run
from whence.trust import learned_finding as learned_module
from whence.trust.audit.context import AuditContext
from whence.trust.audit.finding import Finding
from whence.trust.audit.stage import STAGES

ITEMS, USERS = 30, 24
AGES = (20, 30, 60)


def events(**features: Any) -> Interactions:  # noqa: ANN401
    """Everybody meets six items; half of these are horror, and users are of three ages."""
    rng = np.random.default_rng(1)
    data = interactions_of([rng.permutation(ITEMS)[:6].tolist() for _ in range(USERS)])
    films, users = data.catalog.table, data.users
    assert (len(films), len(users)) == (ITEMS, USERS)
    if "genres" in features:
        films = films.append_column("genres", [features["genres"]])
    if "ages" in features:
        users = users.append_column("age", [features["ages"]])
    return replace(data, catalog=Catalog(films), users=users)


GENRES = ["Horror" if number % 2 else "Drama" for number in range(ITEMS)]
OF_AGES = [AGES[number % 3] for number in range(USERS)]


def trained(data: Interactions, model: str = "gmf") -> Run:
    return whence.train(
        data,
        model=model,
        model_settings={"max_len": 4, "dim": 4},
        training={"steps": 2},
        show_progress=False,
    )


def found_of(run: Run) -> Finding:
    return STAGES["learned"].find(AuditContext(run, 0, (), 20))


def shares(values: list[Any], vectors: torch.Tensor) -> tuple[float, float]:
    """Of the ten nearest and of all others, those of the same; by a loop."""
    near, anywhere = [], []
    for one, value in enumerate(values):
        distances = (vectors - vectors[one]).norm(dim=1).tolist()
        others = sorted(set(range(len(values))) - {one}, key=lambda other: distances[other])
        same = [values[other] == value for other in others]
        near.append(np.mean(same[:10]))
        anywhere.append(np.mean(same))
    return float(np.mean(near)), float(np.mean(anywhere))


def test_neighbours_of_items_and_of_users_beside_chance() -> None:
    run = trained(events(genres=GENRES, ages=OF_AGES))
    finding = found_of(run)
    figures = {(one.of, one.name): one for one in finding.figures}
    assert isinstance(run.first, HasItemVectors)
    assert isinstance(run.first, HasUserVectors)
    sides = {
        ("items", "genre"): shares(GENRES, run.first.item_vectors().detach()),
        ("users", "age"): shares(OF_AGES, run.first.user_vectors().detach()),
    }
    for (whose, what), (near, chance) in sides.items():
        share = figures[whose, f"neighbours of the same {what}"].measure
        less_chance = figures[whose, f"neighbours of the same {what}, above random"].measure
        assert share.value == pytest.approx(near)
        assert less_chance.value == pytest.approx(near - chance)
        assert less_chance.interval[0] < less_chance.value < less_chance.interval[1]
    rows = {row["name"]: row["value"] for row in finding.charts[0].rows}
    assert rows["genre, any items"] == pytest.approx(sides["items", "genre"][1])
    assert rows["age, nearest users"] == pytest.approx(sides["users", "age"][0])
    assert [{row[0] for row in table.rows} for table in finding.tables] == [
        {"Drama", "Horror"},
        {"18–24", "25–34", "56 and over"},
    ]
    assert len(finding.notes) == 1, "nothing is lacking"


def test_the_map_is_of_both_in_colours_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    run = trained(events(genres=GENRES, ages=OF_AGES))
    _, chart = found_of(run).charts
    assert chart.kind == "points"
    drawn: dict[str, dict[str, Any]] = {}
    for row in chart.rows:
        drawn.setdefault(row["panel"].partition(":")[0], {})[row["name"]] = row
    assert [len(rows) for rows in drawn.values()] == [ITEMS, USERS]
    films = drawn["items by genre"]
    names = run.catalog.labels(range(ITEMS))
    assert [films[name]["of"] for name in names] == GENRES
    assert {row["of"] for row in drawn["users by age"].values()} <= {*AGE_BANDS, "others"}
    points = np.array([[films[name]["x"], films[name]["y"]] for name in names])
    assert isinstance(run.first, HasItemVectors)
    plane = pca(run.first.item_vectors().detach()).points
    np.testing.assert_allclose(points, plane / np.abs(plane).max(), atol=6e-4)
    assert to_svg(draw(chart, None), "a map").startswith("<svg")
    monkeypatch.setattr(learned_module, "POINTS", 9)
    assert len(found_of(run).charts[1].rows) == 18


def test_genres_that_lie_apart_are_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    run = trained(events(genres=GENRES), "fism")
    rng = np.random.default_rng(0)
    places = np.array([[one == "Horror"] for one in GENRES]) + 0.01 * rng.random((ITEMS, 2))
    monkeypatch.setattr(type(run.first), "item_vectors", lambda _: torch.from_numpy(places))
    finding = found_of(run)
    assert finding.answer == "yes"
    assert finding.summary == (
        "100 % of the 10 nearest items have a genre in common (random: 48 %). On a scale from "
        "random neighbours (0 %) to all alike (100 %), that is 100 % for items."
    )
    assert finding.tables[0].rows == (("Drama", "100 %", "48 %"), ("Horror", "100 %", "48 %"))
    assert finding.notes[1] == "Not measured for users: FISM has no 'user_vectors'."


def test_a_few_make_nothing_clear() -> None:
    some: list[Any] = [*OF_AGES[:12], *[None] * (USERS - 12)]
    finding = found_of(trained(events(ages=some)))
    assert finding.answer == "partly"
    assert finding.summary.endswith(
        "12 cases are too few to call a difference clear; at least 20 are needed."
    )


@pytest.mark.parametrize(
    ("features", "model", "why"),
    [
        (
            {},
            "gmf",
            "for items, these data have no genres; for users, these data have no ages",
        ),
        (
            {"genres": ["Drama"] * ITEMS, "ages": list(range(USERS))},
            "fism",
            "for items, all have a genre in common; for users, FISM has no 'user_vectors'",
        ),
        (
            {"genres": list(map(str, range(ITEMS))), "ages": [30] * 5 + [None] * (USERS - 5)},
            "gmf",
            "for items, no two have a genre in common; for users, vectors of shape [5, 4] have "
            "no 10 neighbours each",
        ),
    ],
)
def test_why_nothing_is_measured_is_one_sentence(
    features: dict[str, Any], model: str, why: str
) -> None:
    run = trained(events(**features), model)
    told = whence.audit(run, stages=["learned"], show_progress=False).obstacles
    assert told == {"learned": f"Neighbours cannot be compared: {why}."}
    with pytest.raises(InputError, match="Neighbours cannot be compared"):
        found_of(run)


def alike(excess: float, low: float, chance: float = 0.5, n: int = 50) -> SameGroup:
    share = Measure(chance + excess, (0.0, 1.0), n, "made up", "neither", (0.0, 1.0))
    above = Measure(excess, (low, 2 * excess - low), n, "made up", "neither", (-1.0, 1.0))
    return SameGroup(share, chance, above, {})


FAR, NEAR, UNCLEAR = alike(0.2, 0.1), alike(0.1, 0.05), alike(0.2, -0.1)


@pytest.mark.parametrize(
    ("found", "answer", "said"),
    [
        ({"genre": FAR}, "yes", "that is 40 % for items."),
        ({"genre": FAR, "age": FAR}, "yes", "that is 40 % for items and 40 % for users."),
        ({"genre": NEAR}, "partly", "that is 20 % for items."),
        ({"genre": FAR, "age": NEAR}, "partly", "that is 40 % for items and 20 % for users."),
        (
            {"genre": FAR, "age": UNCLEAR},
            "partly",
            "and 40 % for users; for users it is not clearly more than random.",
        ),
        ({"genre": UNCLEAR}, "no", "for items it is not clearly more than random."),
    ],
)
def test_the_answer_goes_by_what_is_clear_and_far(
    found: dict[str, SameGroup], answer: str, said: str
) -> None:
    told = learned_module._answer(found)
    assert told[0] == answer
    assert told[1].endswith(said)
