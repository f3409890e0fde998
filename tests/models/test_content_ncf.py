"""Collaborative filtering with content: published sizes, and what each expert sees."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

import whence
from conftest import LIVELY
from whence.contract import ALL, PAD, All, Selections
from whence.data import Interactions, Split, last_two
from whence.data.catalog import Catalog
from whence.data.histories import Cases
from whence.data.interactions import Counts
from whence.errors import InputError
from whence.models import build_model
from whence.models.base import CaseReader
from whence.models.content_features import (
    ContentSizes,
    content_sizes,
    describe_content,
    item_features,
    require_sizes,
    user_features,
)
from whence.models.content_ncf import ContentNCF, InterpretableNCF
from whence.models.tasks import LIKED, NO_QUESTION, NOTHING, ChoiceBatch
from whence.randomness import Randomness, no_dropout
from whence.reasons.evidence import Evidence, evidence_by_seeds, find_evidence
from whence.run import Run, open_run

ITEMS = 30
SMALL = {"dim": 4, "hidden_dims": (6, 4)}


def model_of(seed: int = 0) -> InterpretableNCF:
    model = LIVELY["intrp-ncf"](items=ITEMS, seed=seed)
    assert isinstance(model, InterpretableNCF)
    return model


def case_of(users: list[int]) -> torch.Tensor:
    some = np.array(users)
    return model_of().read(Cases(np.zeros(0, np.int32), some, some, some, some), 5)


@pytest.mark.parametrize(
    ("name", "settings", "printed"),
    [
        ("content-ncf", {"use_ids": False}, 189_975),
        ("content-ncf", {}, 890_583),
        ("intrp-ncf", {}, 782_634),
    ],
)
def test_as_many_parameters_as_published(
    name: str, settings: dict[str, bool], printed: int
) -> None:
    """Table 1, with all 3,883 films of MovieLens-1M."""
    model = build_model(name, settings, Counts(3_883, 6_040), torch.Generator())
    assert isinstance(model, ContentNCF)
    assert model.parameter_count == printed


@pytest.fixture
def films() -> Interactions:
    events = Interactions.from_columns(
        pa.chunked_array([["a", "a", "b", "c"]]), pa.chunked_array([[1, 2, 2, 3]])
    )
    table = pa.table(
        {
            "item": [1, 2, 3],
            "title": ["One (1990)", "Two (2000)", "Three"],
            "genres": ["Drama|War", None, "(no genres listed)"],
        }
    )
    users = pa.table({"user": ["a", "b", "c"], "age": [25, 1, None], "gender": ["M", "F", "M"]})
    return replace(events, catalog=Catalog(table), users=users)


def test_features_by_hand(films: Interactions) -> None:
    """Gender, age and an unknown occupation; standardized years and genres."""
    of_users, of_items = user_features(films), item_features(films, 2)
    assert of_users.tolist() == [[1, 1, 0], [0, 0, 0], [1, 0, 0]]
    assert of_items.tolist() == [[-1, 1, 1], [1, 0, 0], [0, 0, 0]]
    words = describe_content(of_users, of_items)
    assert words == "its genres and year and your gender and age"


def test_too_many_values_raise_one_sentence(films: Interactions) -> None:
    assert content_sizes(films) == {"n_genders": 2, "n_ages": 2, "n_occupations": 0, "n_genres": 2}
    require_sizes(films, ContentSizes(n_ages=2, n_genres=2))
    with pytest.raises(InputError, match=r"^The data have 2 genres, .* --set n_genres=2\.$"):
        require_sizes(films, ContentSizes(n_genres=1))
    model = build_model(
        "content-ncf", {**SMALL, "n_ages": 1, "n_genres": 0}, films.counts, torch.Generator()
    )
    said = (
        r"^The data have 2 ages and 2 genres, more than this model\. "
        r"Train it with --set n_ages=2,n_genres=2\.$"
    )
    with pytest.raises(InputError, match=said):
        model.fit_features(last_two(films))


def test_data_without_features_are_no_error(films: Interactions) -> None:
    bare = replace(
        films, catalog=Catalog(pa.table({"item": [1, 2, 3]})), users=films.users.select(["user"])
    )
    of_users, of_items = user_features(bare), item_features(bare, 18)
    assert not of_users.any()
    assert not of_items.any()
    assert describe_content(of_users, of_items) == "what all have in common"


def test_experts_see_no_more_than_their_evidence() -> None:
    """α of S1 does not change with who and which; of S2 not with which, of S3 not with who."""
    targets = torch.tensor([3, 4, 5])
    batch = case_of([1, 2, 7])
    before = model_of().selections(batch, targets).weights
    for table, fixed in (("user", [0, 2]), ("item", [0, 1])):
        model = model_of()
        with torch.no_grad():
            getattr(model, table)[1:].normal_(generator=torch.Generator().manual_seed(1))
        after = model.selections(batch, targets).weights
        others = [one for one in range(4) if one not in fixed]
        assert torch.equal(after[:, fixed], before[:, fixed])
        assert (after[:, others] != before[:, others]).all()


def test_what_experts_see_by_slot() -> None:
    sees = model_of().selections(torch.tensor([[PAD, 3, 4, 5]]), torch.tensor([0])).sees[0]
    assert sees.tolist() == [
        [False, True, False, False],
        [False, True, True, False],
        [False, True, False, True],
        [False, True, True, True],
    ]


def test_the_score_is_the_experts_mixture() -> None:
    """By the formulas of the published program, on rows put together by hand."""
    model, user, item = model_of(), 4, 9
    with torch.no_grad():
        of_user = [
            table[number]
            for table, number in zip(
                model.columns, model.get_buffer("user_content")[user], strict=True
            )
        ]
        of_item = model.features(model.get_buffer("item_content")[item]).tanh()
        row = torch.cat((*of_user, of_item, model.user[1 + user], model.item[1 + item]))
        p = model.answers(row[None])[:, 0, 0].sigmoid()
        away = (p - 0.3).abs()
        c = away**4 / (1 + away**3) * (0.7**3 + 1) / 0.7**4
        s1, s2, s3, s4 = c
        alpha = torch.stack((s1, s2 * (1 - s1), s3 * (1 - s1), s4 * (1 - s1) * (1 - s2) * (1 - s3)))
        mixed = (alpha * p).sum() / (alpha.sum() + 1e-9)
        found = model.score(case_of([user]), torch.tensor([[item]])).sigmoid()
        selected = model.selections(case_of([user]), torch.tensor([item])).weights
    torch.testing.assert_close(found[0, 0], mixed)
    torch.testing.assert_close(selected[0], alpha)


def test_the_loss_is_weighted_over_the_batch() -> None:
    """Without an expert's own factor, and Σ αL / Σ α over all questions that are asked."""
    model = model_of()
    batch = ChoiceBatch(
        torch.tensor([1, 2, 3]),
        torch.tensor([4, 5, 6]),
        torch.tensor([LIKED, NOTHING, NO_QUESTION]),
    )
    rows = model._described(batch)
    p = model.answers(rows)[:, 0, :2].sigmoid()
    away = (p - 0.3).abs()
    left = 1 - away**4 / (1 + away**3) * (0.7**3 + 1) / 0.7**4
    alpha = torch.stack((torch.ones(2), left[0], left[0], left[0] * left[1] * left[2]))
    losses = torch.stack((-(p[:, 0] + 1e-6).log(), -(1 - p[:, 1] + 1e-6).log()), dim=1)
    expected = (alpha * losses).sum() / (alpha.sum() + 1e-6)
    torch.testing.assert_close(model.loss(batch, no_dropout), expected)


@pytest.mark.parametrize("name", ["content-ncf", "intrp-ncf"])
def test_absent_evidence_is_an_average(name: str) -> None:
    """With who you are absent, the score is that of a user with the mean of all vectors."""
    model = LIVELY[name](items=ITEMS)
    assert isinstance(model, ContentNCF)
    batch = case_of([4])
    present = torch.tensor([[True, False, True]])
    found = model.score(batch, ALL, present=present)
    with torch.no_grad():
        model.user[1 + 4] = model.user[1:].mean(dim=0)
    torch.testing.assert_close(found, model.score(batch, ALL))


def test_an_unknown_user_raises_one_sentence() -> None:
    with pytest.raises(InputError, match="InterpretableNCF knows users only by id"):
        case_of([PAD])
    with pytest.raises(InputError, match="Leave use_ids at true"):
        build_model("intrp-ncf", {"use_ids": False}, Counts(3, 3), torch.Generator())


@pytest.fixture(scope="module")
def trained(
    interactions: Interactions, data_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Run:
    return whence.train(
        data_folder,
        model="intrp-ncf",
        model_settings=SMALL,
        training={"steps": 150, "batch_size": 64, "learning_rate": 0.01},
        out=tmp_path_factory.mktemp("intrp") / "run",
        show_progress=False,
    )


def test_a_run_knows_the_content_it_was_trained_with(trained: Run, split: Split) -> None:
    """Also opened again, without the data."""
    assert trained.folder is not None
    again = open_run(trained.folder)
    first = again.first
    assert torch.equal(first.get_buffer("item_content"), item_features(split.interactions, 18))
    batch = first.read(split.held["test"][:5], 1)
    assert torch.equal(first.score(batch, ALL), trained.first.score(batch, ALL))
    assert trained.metrics[0]["final_loss"] < 0.6


def test_a_recommendation_says_what_it_rests_on(trained: Run) -> None:
    found = whence.recommend(trained, user=3, k=3)
    for pick in found.picks:
        assert pick.reason.evidence is not None
        assert pick.reason.sentence.startswith("rests on ")
        assert "evidence" in pick.reason.as_dict()
    explanations = whence.compare(trained, user=3)
    assert {"experts", "shapley", "integrated-gradients"} <= set(explanations)
    names = [explanations["experts"].part_name(0, slot) for slot in range(3)]
    assert names == ["its genres", "your personal history", "who else chose it"]
    assert whence.reason(trained, user=3).rank == 1


def test_evidence_in_words() -> None:
    unseen = ("your personal history", "who else")
    sure = Evidence(("its genres and year",), unseen, 0.8, 0.01, (0.3,))
    assert sure.sentence == "rests on its genres and year, not on your personal history or who else"
    missed = replace(sure, probability_lost=0.2)
    said = "rests on its genres and year, and also on your personal history or who else"
    assert missed.sentence == replace(missed, probability_lost=-0.05).sentence == said
    assert "several kinds" in replace(sure, weight=0.4).sentence
    three = replace(sure, seen=("a", "b", "c"), unseen=(), lost_without=(0.2, -0.1, 0.06))
    assert three.sentence == "rests on a, b and c"


def test_evidence_names_what_is_seen_but_not_needed() -> None:
    """Also what would be gained without a part is a change."""
    one = Evidence(("a",), ("d",), 0.8, 0.01, (0.04,))
    unchanged = "the score hardly changes"
    assert one.sentence == f"rests on a (though without that {unchanged}), not on d"
    two = Evidence(("a", "b"), (), 0.8, 0.0, (-0.04, 0.04))
    assert two.sentence == f"rests on a and b (though without any one of these {unchanged})"
    part = Evidence(("a", "b", "c"), ("d",), 0.8, 0.01, (0.0, 0.3, 0.0))
    assert part.sentence == "rests on b, hardly on a or c, not on d"
    assert "hardly" not in replace(part, weight=0.4).sentence


class Linear(CaseReader):
    """Three parts that add to the logit of 1 / 2, and an expert that sees the first two."""

    def __init__(self, *slopes: float) -> None:
        self.slopes = torch.tensor(slopes)

    def parts(self, batch: torch.Tensor) -> torch.Tensor:
        return torch.ones(len(batch), 3, dtype=torch.bool)

    def part_names(self, batch: torch.Tensor) -> list[list[str]]:
        return [["a", "b", "c"] for _ in batch]

    def score(
        self,
        batch: torch.Tensor,
        targets: torch.Tensor | All,
        *,
        present: torch.Tensor | None = None,
        embedded: torch.Tensor | None = None,
        attention: Sequence[torch.Tensor | None] | None = None,
    ) -> torch.Tensor:
        assert present is not None
        return (present * self.slopes).sum(dim=1, keepdim=True)

    def selections(self, batch: torch.Tensor, targets: torch.Tensor) -> Selections:
        sees = torch.tensor([[True, True, False], [True, True, True]])
        return Selections(torch.tensor([[0.9, 0.1]]).expand(len(batch), -1), sees.expand(1, -1, -1))


@pytest.mark.parametrize(
    ("slopes", "sentence"),
    [
        ((1.0, 1.0, 0.0), "rests on a and b, not on c"),
        ((1.0, 0.0, 0.0), "rests on a, hardly on b, not on c"),
        ((0.0, -1.0, 1.0), "rests on b, hardly on a, and also on c"),
        (
            (0.0, 0.0, 1.0),
            "rests on a and b (though without any one of these the score hardly changes), and also "
            "on c",
        ),
    ],
)
def test_evidence_asks_the_model_without_each_part(
    slopes: tuple[float, float, float], sentence: str
) -> None:
    """The expert is the same throughout; what hiding each part costs is not."""
    (found,) = find_evidence(Linear(*slopes), torch.zeros(1, 3), torch.zeros(1, dtype=torch.int64))
    assert found.sentence == sentence
    whole = torch.tensor(sum(slopes)).sigmoid().item()
    without = [torch.tensor(sum(slopes) - one).sigmoid().item() for one in slopes]
    expected = [1 - one / whole for one in without]
    assert (*found.lost_without, found.probability_lost) == pytest.approx(expected, abs=1e-6)


def test_seeds_that_agree_are_counted() -> None:
    case = torch.zeros(1, 3), torch.zeros(1, dtype=torch.int64)
    models = [Linear(1.0, 1.0, 0.0), Linear(2.0, 1.0, 0.0), Linear(1.0, 0.0, 0.0)]
    (found,) = evidence_by_seeds(models, *case)
    assert found.sentence == "rests on a and b, not on c; 2 of 3 models agree"
    (other,) = evidence_by_seeds(models[::-1], *case)
    assert other.sentence.endswith("; 1 of 3 models agree")
    (alone,) = evidence_by_seeds(models[:1], *case)
    assert alone.sentence == "rests on a and b, not on c"


def test_a_run_counts_its_seeds(trained: Run) -> None:
    """By the model that is asked about, whichever seed it is of."""
    other = deepcopy(trained.first)
    both = replace(trained, models={0: trained.first, 1: other})

    def say(run: Run, seed: int) -> str:
        return whence.reason(run, user=3, item=5, model_seed=seed).sentence

    alone = say(trained, 0)
    assert say(both, 0) == say(both, 1) == f"{alone}; 2 of 2 models agree"
    with torch.no_grad():
        for weight in other.parameters():
            weight.zero_()
        other.get_parameter("layers.1.bias")[0] = 20.0  # whatever it reads, S1 is sure
    assert say(both, 1).startswith("rests on its genres (though without that")
    assert say(both, 1).endswith("; 1 of 2 models agree")
    assert say(both, 0) == f"{alone}; 1 of 2 models agree"


def test_evidence_agrees_with_the_model() -> None:
    """What is lost is the share of the probability that goes without what is not seen."""
    model, targets = model_of(), torch.arange(12)
    batch = case_of([*range(12)])
    found = find_evidence(model, batch, targets)
    names = model.part_names(batch)[0]
    for case, one in enumerate(found):
        present = torch.tensor([[name in one.seen for name in names]])
        asked = (batch[[case]], targets[[case], None])
        whole, alone = (
            model.score(*asked, present=some).sigmoid().item() for some in (None, present)
        )
        assert one.probability_lost == pytest.approx(1 - alone / whole)
        assert {*one.seen, *one.unseen} == {*names}
    assert len({one.seen for one in found}) > 1


def test_same_seed_same_weights() -> None:
    one, two, other = (
        build_model("intrp-ncf", SMALL, Counts(9, 9), Randomness(seed).torch("init")).state_dict()
        for seed in (0, 0, 1)
    )
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not torch.equal(one["user"], other["user"])
