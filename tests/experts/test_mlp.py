from __future__ import annotations

import pytest
import torch
from families import SESSIONS
from torch import Tensor

from whence.contract import ALL
from whence.errors import InputError
from whence.experts.mlp import InterpretableMLP, OrdinaryMLP
from whence.experts.tabular import TabularModel
from whence.experts.targets import Binary, Classes, Real, Target
from whence.randomness import Randomness

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


def test_prediction_is_the_weighted_mean() -> None:
    """Equation 1, from the single experts."""
    model, rows = interpretable(), rows_of()
    values = model.expert_outputs(rows)[:, 0].tanh()
    weights = model.attribute(rows).T
    mean = (weights * values).sum(0) / (weights.sum(0) + 1e-9)
    torch.testing.assert_close(model.score(rows, ALL)[:, 1], torch.logit((mean + 1) / 2))


def test_attribution_depends_on_visible_columns_only() -> None:
    model, rows = interpretable(), rows_of()
    before = model.attribute(rows)
    other = rows.clone()
    other[:, [3, 4, 5, 6]] = torch.nan  # all but position and context, which S1 sees
    after = model.attribute(other)
    assert torch.equal(after[:, 0], before[:, 0])
    assert after[:, 1:].isnan().all()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("build", [interpretable, ordinary])
def test_groups_are_parts(build: type, target: Target) -> None:
    """Embeddings passed back change nothing; an absent group takes its columns' means."""
    model: TabularModel = build(target)
    rows = rows_of()
    whole = model.score(rows, ALL)
    assert whole.shape == (5, {1: 2, 3: 3, 2: 1}[target.n_outputs])
    torch.testing.assert_close(model.score(rows, ALL, embedded=model.embed(rows)), whole)
    assert model.embed(rows).shape == (5, 5, 2)
    present = model.parts(rows)
    present[:, 1] = False
    absent = rows.clone()
    absent[:, [1, 2]] = 0.0
    torch.testing.assert_close(model.score(rows, ALL, present=present), model.score(absent, ALL))
    one = torch.zeros(5, 1, dtype=torch.long)
    torch.testing.assert_close(model.score(rows, one), whole[:, :1])


def test_absent_groups_take_their_means() -> None:
    means = torch.arange(7.0)
    model = InterpretableMLP(SESSIONS, (4,), torch.Generator(), means=means)
    rows = torch.randn(3, 7)
    nothing = torch.zeros(3, 5, dtype=torch.bool)
    expected = model.score(means.expand(3, 7), ALL)
    torch.testing.assert_close(model.score(rows, ALL, present=nothing), expected)
    with pytest.raises(InputError, match=r"^Means are needed for 7 columns, not 2"):
        InterpretableMLP(SESSIONS, (4,), torch.Generator(), means=torch.zeros(2))


def test_explainers_get_the_full_gradient() -> None:
    """Through links and selection, which training detaches."""
    model, rows = interpretable(), rows_of(1)
    embedded = model.embed(rows).requires_grad_()
    (found,) = torch.autograd.grad(model.score(rows, ALL, embedded=embedded)[0, 1], embedded)
    step = 1e-6
    for part, place in ((0, 0), (1, 1), (4, 0)):
        moved = embedded.detach().clone()
        moved[0, part, place] += step
        with torch.no_grad():
            change = model.score(rows, ALL, embedded=moved) - model.score(rows, ALL)
        assert float(found[0, part, place]) == pytest.approx(float(change[0, 1]) / step, rel=1e-3)
