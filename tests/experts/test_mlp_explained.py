"""Explanations, training and refusals of perceptrons with experts."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import torch
from families import SESSIONS, TOY
from torch import Tensor

from whence.contract import ALL
from whence.errors import InputError
from whence.experts.mlp import InterpretableMLP, OrdinaryMLP
from whence.experts.selection import RECIPES, Confidence, Selection, accuracy, attribution_accuracy
from whence.experts.tabular import TabularModel
from whence.experts.targets import Binary, Classes, Real, Target, check_labels
from whence.experts.training import fit, shuffled
from whence.explainers import compare_batch, explain_batch
from whence.explanation import Labels
from whence.randomness import Randomness
from whence_studies.toy_data import TOYS

TARGETS: list[Target] = [Binary(), Classes(3), Real()]


def interpretable(target: Target | None = None, seed: int = 0) -> InterpretableMLP:
    generator = Randomness(seed).torch("init")
    return InterpretableMLP(SESSIONS, (4, 3), generator, target=target or Binary()).double()


def ordinary(target: Target | None = None, seed: int = 0) -> OrdinaryMLP:
    generator = Randomness(seed).torch("init")
    return OrdinaryMLP(SESSIONS, (4, 3), generator, target=target or Binary()).double()


def rows_of(count: int = 5) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(count, SESSIONS.n_columns, generator=generator, dtype=torch.float64)


def test_other_explainers_attribute_to_groups() -> None:
    """Shapley values over groups sum to the joint effect of the groups."""
    rows = rows_of(3)
    targets = torch.ones(3, dtype=torch.long)
    methods = ["shapley", "leave-one-out", "gradient-input"]
    for model in (interpretable(), ordinary()):
        found = compare_batch(model, rows, targets, methods)
        shapley = found["shapley"]
        gained = shapley.full_score - shapley.empty_score
        assert shapley.scores.shape == (3, 5)
        assert shapley.scores.sum(axis=1) == pytest.approx(gained, abs=1e-6)


@pytest.mark.parametrize("build", [interpretable, ordinary])
def test_explanations_name_the_groups(
    build: Callable[[], TabularModel], capsys: pytest.CaptureFixture[str]
) -> None:
    """Each group has its own importance; the target has only a number."""
    found = explain_batch(build(), rows_of(2), torch.tensor([0, 1]), "leave-one-out")
    for case, error in enumerate(json.loads(found.to_json())["cases"]):
        assert error["target"] == {"index": case}
        importance = {part["label"]: part["score"] for part in error["parts"]}
        assert importance == dict(zip(SESSIONS.group_names, found.scores[case], strict=True))
    found[1].show()
    printed = capsys.readouterr().out
    assert "target 1" in printed
    assert "slot" not in printed
    assert all(name in printed for name in SESSIONS.group_names)


def test_explicit_names_override_group_names(capsys: pytest.CaptureFixture[str]) -> None:
    names = tuple(f"column {number}" for number in range(5))
    found = explain_batch(
        interpretable(),
        rows_of(1),
        torch.tensor([1]),
        "leave-one-out",
        labels=Labels((names,), ("played",)),
    )
    (error,) = json.loads(found.to_json())["cases"]
    assert error["target"] == {"index": 1, "label": "played"}
    assert tuple(part["label"] for part in error["parts"]) == names
    found.show()
    printed = capsys.readouterr().out
    assert "played (leave-one-out)" in printed
    assert "position" not in printed


def test_equal_total_width() -> None:
    """The ordinary network is as wide as all experts together."""
    assert [layer.out_features for layer in ordinary().layers] == [32, 24, 1]
    features = interpretable().first(rows_of(1))
    assert features.shape[:2].numel() == 32


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_learns_toy_a(name: str) -> None:
    """A few steps give the right classes and the sufficient experts."""
    toy = TOYS["a"]
    target = Binary("sigmoid", 0.5) if name == "movielens" else Binary()
    model = InterpretableMLP(
        toy.family,
        toy.hidden_dims,
        Randomness(0).torch("init"),
        target=target,
        recipe=RECIPES[name],
    )
    fit(model, toy.batches(200, 128, seed=0), learning_rate=0.02)
    points = toy.draw(1024, Randomness(0).torch("evaluation"))
    with torch.no_grad():
        assert accuracy(model.scores(points.rows), points.labels).value > 0.97
        found = attribution_accuracy(model.attribute(points.rows), points.experts)
    assert found.value > 0.85


def test_xor_selects_the_expert_of_both() -> None:
    toy = TOYS["d"]
    model = InterpretableMLP(toy.family, (16, 16), Randomness(1).torch("init"))
    fit(model, toy.batches(300, 128, seed=1), learning_rate=0.02)
    points = toy.draw(1024, Randomness(0).torch("evaluation"))
    with torch.no_grad():
        selected = model.attribute(points.rows, Selection(Confidence("absolute")))
    assert attribution_accuracy(selected, points.experts).value > 0.85
    outer = selected[points.experts == toy.family.index("S6")].argmax(dim=1)
    assert (outer == toy.family.index("S6")).double().mean() > 0.9


@pytest.mark.parametrize(
    ("target", "labels"),
    [
        (Classes(3), lambda rows: (rows[:, 0] > -0.5).long() + (rows[:, 0] > 0.5)),
        (Real(), lambda rows: rows[:, 0] * 1.0),
    ],
)
def test_classes_and_real_targets(target: Target, labels) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    """What x1 alone decides is attributed to the expert of x1."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(2_000, 2, generator=generator)
    model = InterpretableMLP(TOY, (8, 8), generator, target=target)
    fit(model, shuffled(rows, labels(rows), 100, 15, generator), learning_rate=0.01)
    with torch.no_grad():
        selected, scores = model.attribute(rows), model.scores(rows)
    assert attribution_accuracy(selected, torch.zeros(2_000, dtype=torch.long)).value > 0.9
    if isinstance(target, Classes):
        assert accuracy(scores, labels(rows)).value > 0.95
    else:
        assert float((scores[:, 0] - labels(rows)).square().mean()) < 0.05


def test_same_seed_same_bits() -> None:
    toy = TOYS["b"]

    def trained(seed: int) -> Tensor:
        model = InterpretableMLP(toy.family, (4,), Randomness(seed).torch("init"))
        fit(model, toy.batches(5, 16, seed))
        return model.layers[0].own.detach()  # type: ignore[operator]

    assert torch.equal(trained(0), trained(0))
    assert not torch.equal(trained(0), trained(1))


def test_ordinary_network_learns() -> None:
    toy = TOYS["b"]
    model = OrdinaryMLP(toy.family, (8, 8), Randomness(0).torch("init"))
    losses = fit(model, toy.batches(300, 128, seed=0), learning_rate=0.01)
    assert losses[-1] < losses[0] / 4
    points = toy.draw(1024, Randomness(0).torch("evaluation"))
    assert accuracy(model.scores(points.rows), points.labels).value > 0.97


def test_toys_match_the_paper() -> None:
    """Centres, classes, equal shares, and a standard deviation of a quarter."""
    printed = {(-1, 0): 0, (1, 0): 1, (0, 1): 1, (0, -1): 0}
    printed |= {(-2, -2): 0, (2, -2): 1, (-2, 2): 1, (2, 2): 0}
    toy = TOYS["b"]
    assert {cluster.centre: cluster.label for cluster in toy.clusters} == printed
    assert len(TOYS["a"].clusters) == 4
    points = toy.draw(80_000, torch.Generator().manual_seed(0))
    for place, cluster in enumerate(toy.clusters):
        some = points.rows[place * 10_000 : (place + 1) * 10_000]
        assert some.mean(dim=0).tolist() == pytest.approx(cluster.centre, abs=0.02)
        assert some.std(dim=0).tolist() == pytest.approx([0.25, 0.25], abs=0.01)
    deep = TOYS["d"].draw(8, torch.Generator())
    assert not deep.rows[:4, 2:].any()
    assert not deep.rows[4:, :2].any()
    assert [cluster.centre[2:] for cluster in TOYS["d"].clusters[4:]] == [
        (-1, -1),
        (1, -1),
        (-1, 1),
        (1, 1),
    ]
    with pytest.raises(InputError, match=r"^9 points cannot be split equally among 8"):
        toy.draw(9, torch.Generator())


def test_attribution_accuracy_by_hand() -> None:
    """A hit, a miss, and a tie with one right."""
    selected = torch.tensor([[0.9, 0.1], [0.9, 0.1], [0.5, 0.5]])
    found = attribution_accuracy(selected, torch.tensor([0, 1, 1]))
    assert found.value == pytest.approx(0.5)
    with pytest.raises(InputError, match=r"^There are selections for 3 cases, but 2"):
        attribution_accuracy(selected, torch.tensor([0, 1]))
    with pytest.raises(InputError, match=r"^There are scores for 3 cases, but 2 labels"):
        accuracy(selected, torch.tensor([0, 1]))


def test_shuffled_yields_every_row_once() -> None:
    rows = torch.arange(10.0)[:, None]
    batches = list(shuffled(rows, torch.arange(10), 4, 2, torch.Generator()))
    assert [len(labels) for _, labels in batches] == [4, 4, 2, 4, 4, 2]
    assert sorted(torch.cat([labels for _, labels in batches[:3]]).tolist()) == list(range(10))
    assert all(torch.equal(one[:, 0], labels.float()) for one, labels in batches)
    with pytest.raises(InputError, match=r"^There are 10 rows and 3 labels"):
        next(shuffled(rows, torch.arange(3), 4, 1, torch.Generator()))
    with pytest.raises(InputError, match=r"^A batch must have at least one row, not 0"):
        next(shuffled(rows, torch.arange(10), 0, 1, torch.Generator()))
    with pytest.raises(InputError, match=r"^Rows contain NaN or inf"):
        next(shuffled(rows / 0, torch.arange(10), 4, 1, torch.Generator()))
    with pytest.raises(InputError, match=r"^Labels contain NaN or inf"):
        next(shuffled(rows, torch.full((10,), torch.nan), 4, 1, torch.Generator()))


@pytest.mark.parametrize("build", [interpretable, ordinary])
def test_columns_of_no_group_are_ignored(build: type) -> None:
    model, rows = build(), rows_of()
    wider = torch.cat((rows, rows), dim=1).requires_grad_()
    torch.testing.assert_close(model.loss(wider, torch.ones(5)), model.loss(rows, torch.ones(5)))
    torch.testing.assert_close(model.score(wider, ALL), model.score(rows, ALL))


@pytest.mark.parametrize("build", [interpretable, ordinary])
@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (rows_of()[:, :2], "The family names columns 0 to 6, but the rows have only 2."),
        (
            rows_of()[0],
            "Rows must have the shape [rows, columns], not [7]. Pass a single row as row[None]",
        ),
        (
            torch.ones(5, 7, dtype=torch.long),
            "Rows must hold floating-point numbers, not torch.int64. Convert",
        ),
    ],
)
def test_invalid_rows_are_rejected(build: type, rows: Tensor, sentence: str) -> None:
    model: TabularModel = build()
    for ask in (
        lambda: model.loss(rows, torch.ones(5)),
        lambda: model.scores(rows),
        lambda: model.score(rows, ALL),
        lambda: model.embed(rows),
        lambda: fit(model, [(rows, torch.ones(len(rows)))]),
    ):
        with pytest.raises(InputError) as error:
            ask()
        assert str(error.value).startswith(sentence)


@pytest.mark.parametrize("build", [interpretable, ordinary])
@pytest.mark.parametrize(
    ("target", "wrong", "sentence"),
    [
        (Binary(), torch.nan, "The label nan is invalid: the labels of two classes are 0 and 1"),
        (Binary(), 7, "The label 7 is invalid: the labels of two classes are 0 and 1."),
        (Binary("sigmoid", 0.3), -1, "The label -1 is invalid: the labels of two classes"),
        (Classes(3), torch.nan, "The label nan is invalid: the labels of 3 classes"),
        (Real(), torch.nan, "The label nan is invalid: impute it or drop its row."),
        (Real(), -torch.inf, "The label -inf is invalid: impute it or drop its row."),
    ],
)
def test_invalid_labels_are_rejected(
    build: type, target: Target, wrong: float, sentence: str
) -> None:
    """In the loss, and so in training with any batches."""
    model: TabularModel = build(target)
    labels = torch.tensor([0.0, 1.0, wrong, 0.0, 1.0])
    for ask in (
        lambda: model.loss(rows_of(), labels),
        lambda: fit(model, [(rows_of(), labels)]),
    ):
        with pytest.raises(InputError) as error:
            ask()
        assert str(error.value).startswith(sentence)
    yes_and_no = torch.tensor([True, False, True, True, False])
    assert torch.equal(
        model.loss(rows_of(), yes_and_no), model.loss(rows_of(), yes_and_no.double())
    )


@pytest.mark.parametrize("target", [Binary(), Real()])
def test_labels_are_checked_before_moving_to_the_device(target: Target) -> None:
    """Values on the device "meta" cannot be read, and reading from a GPU would synchronize."""
    model, labels = interpretable(target).to("meta"), torch.tensor([0.0, 1.0, torch.nan, 0.0, 1.0])
    check_labels(target, labels.to("meta"))
    with pytest.raises(InputError, match=r"^The label nan is invalid:"):
        fit(model, [(rows_of(), labels)])


def test_vmap_of_losses() -> None:
    """Each seed has its own labels, which cannot be read inside `vmap`."""
    model, rows = interpretable(), rows_of()
    labels = torch.tensor([[0.0, 1.0, 1.0, 0.0, 1.0], [1.0, 0.0, 0.0, 0.0, 1.0]])
    found = torch.func.vmap(lambda one: model.loss(rows, one))(labels)
    torch.testing.assert_close(found, torch.stack([model.loss(rows, one) for one in labels]))


@pytest.mark.parametrize("build", [interpretable, ordinary])
def test_labels_must_match_the_rows(build: type) -> None:
    model: TabularModel = build(Classes(3))
    for count, labels in {
        "4": torch.ones(4),
        "5 × 1": torch.ones(5, 1),
        "1": torch.ones(()),
    }.items():
        with pytest.raises(InputError, match=rf"^There are 5 rows and {count} labels. Pass one"):
            model.loss(rows_of(), labels)
    for wrong in (-1, 3, 0.5):
        labels = torch.tensor([0, 1, wrong, 2, 0])
        with pytest.raises(InputError) as error:
            model.loss(rows_of(), labels)
        assert str(error.value) == (
            f"The label {wrong} is invalid: the labels of 3 classes are 0 to 2."
        )
    assert model.loss(rows_of(), torch.tensor([0.0, 1, 2, 2, 0])).isfinite()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("build", [interpretable, ordinary])
def test_no_rows(build: type, target: Target) -> None:
    """Neither to predict nor to train on."""
    model: TabularModel = build(target)
    rows = rows_of(0)
    scores = model.score(rows, ALL, embedded=model.embed(rows), present=model.parts(rows))
    assert scores.shape == (0, model.scores(rows_of(1)).shape[1])
    if isinstance(model, InterpretableMLP):
        assert model.attribute(rows).shape == (0, 8)
    for learn in (
        lambda: model.loss(rows, torch.zeros(0)),
        lambda: next(shuffled(rows, torch.zeros(0), 4, 1, torch.Generator())),
    ):
        with pytest.raises(InputError, match=r"^There are no rows to train on. Pass at"):
            learn()


@pytest.mark.parametrize("widths", [(), (4, 0)])
def test_hidden_layers_are_required(widths: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"^Experts need at least one hidden layer"):
        InterpretableMLP(SESSIONS, widths, torch.Generator())
