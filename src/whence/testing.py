"""Checks that every explainer must pass. Call `check_explainer` in a test of your own explainer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn

from whence.contract import PAD, Explainable
from whence.explainers import Explainer, compare_batch, explain_batch, find_explainer
from whence.explainers.random import Random
from whence.explanation import Explanation

ModelCases = tuple[Explainable, Tensor, Tensor]
"""A model, a batch `[B, n]` and a target `[B]` for each case."""


def check_explainer(explainer: str | Explainer, cases: ModelCases | None = None) -> None:
    """Raise an `AssertionError` unless the explainer passes every check, on small cases."""
    for check in EXPLAINER_CHECKS:
        check(explainer, small_cases() if cases is None else cases)


def small_cases() -> ModelCases:
    """Return an untrained SASRec in float64 and five histories of 1 to 8 items."""
    from whence.models.sasrec import SASRec, SASRecConfig
    from whence.randomness import Randomness

    generator = Randomness(0).torch("init")
    config = SASRecConfig(max_len=8, dim=8, n_heads=2)
    model = SASRec(config, item_count=30, generator=generator).double().eval()
    with torch.no_grad():
        for weights in model.parameters():  # large enough for every part to matter
            weights.add_(torch.randn(weights.shape, generator=generator).double(), alpha=0.5)
    sizes = torch.tensor([8, 5, 1, 3, 7])
    items = torch.randint(0, 30, (5, 8), generator=generator)
    return model, items.where(torch.arange(8) >= 8 - sizes[:, None], PAD), torch.arange(5) * 3


def check_parts(explainer: str | Explainer, cases: ModelCases) -> None:
    """Only parts get scores; they are finite, and not all 0."""
    model, batch, _ = cases
    found = explain_batch(*cases, explainer)
    assert np.array_equal(found.parts, model.parts(batch).cpu().numpy())
    assert (found.scores[~found.parts] == 0).all()
    assert np.isfinite(found.scores).all()
    assert np.abs(found.scores[found.parts]).max() > 0


def check_cost(explainer: str | Explainer, cases: ModelCases) -> None:
    """The model scores as many inputs as the explainer declares."""
    model, batch, targets = cases
    cost, limit = _object(explainer).cost, "at most "
    parts = model.parts(batch).sum(dim=1).cpu().numpy()
    expected = np.zeros_like(parts)
    for term in cost.removeprefix(limit).split(" + "):
        if term == "n":
            expected += parts
        elif term == "b":
            expected += len(model.attentions(batch, targets))  # type: ignore[attr-defined]
        else:
            expected += int(term.replace(",", ""))
    scored = explain_batch(*cases, explainer).evaluations
    assert (scored <= expected).all()
    assert cost.startswith(limit) or (scored == expected).all()


def check_batches(explainer: str | Explainer, cases: ModelCases) -> None:
    """A case has the same scores alone and in a batch."""
    model, batch, targets = cases
    together = explain_batch(model, batch, targets, explainer)
    for case in range(len(batch)):
        alone = explain_batch(model, batch[[case]], targets[[case]], explainer)
        np.testing.assert_allclose(together.scores[[case]], alone.scores, rtol=1e-7, atol=1e-12)
        assert together[case].evaluations == alone.evaluations


def check_seed(explainer: str | Explainer, cases: ModelCases) -> None:
    """The same seed gives the same bytes, whatever was computed before."""
    one, two = (explain_batch(*cases, explainer, seed=4) for _ in range(2))
    assert one.scores.tobytes() == two.scores.tobytes()
    assert one.to_json() == two.to_json()
    compared = compare_batch(*cases, [Random(), explainer], seed=4)
    assert compared[one.method].to_json() == one.to_json()


def check_model_unchanged(explainer: str | Explainer, cases: ModelCases) -> None:
    """Neither weights nor gradients of the model change."""
    model = cases[0]
    if not isinstance(model, nn.Module):
        return
    before = {name: value.clone() for name, value in model.state_dict().items()}
    explain_batch(*cases, explainer)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def check_declaration(explainer: str | Explainer, cases: ModelCases) -> None:
    """Signs, standard errors and sums are as declared."""
    one, found = _object(explainer), explain_batch(*cases, explainer)
    assert one.summary.endswith(".")
    assert found.signed == one.signed
    assert found.signed or (found.scores >= 0).all(), "an unsigned score is at least 0"
    assert (found.error is not None) == one.samples
    if found.error is not None:
        assert (found.error >= 0).all()
        assert (found.error[~found.parts] == 0).all()
    if one.adds_up:
        whole = found.full_score - found.empty_score
        np.testing.assert_allclose(found.scores.sum(axis=1), whole, rtol=1e-12, atol=1e-12)


def check_result(explainer: str | Explainer, cases: ModelCases) -> None:
    """The explanation states both scores and the removal, and loads again."""
    model, batch, targets = cases
    found = explain_batch(*cases, explainer)
    with torch.no_grad():
        full = model.score(batch, targets[:, None])[:, 0]
        nothing = torch.zeros_like(model.parts(batch))
        empty = model.score(batch, targets[:, None], present=nothing)[:, 0]
    np.testing.assert_allclose(found.full_score, full.cpu())
    np.testing.assert_allclose(found.empty_score, empty.cpu())
    assert found.removal == model.removal
    assert Explanation.from_json(found.to_json()).to_json() == found.to_json()


EXPLAINER_CHECKS: Final[tuple[Callable[[str | Explainer, ModelCases], None], ...]] = (
    check_parts,
    check_cost,
    check_batches,
    check_seed,
    check_model_unchanged,
    check_declaration,
    check_result,
)


def _object(explainer: str | Explainer) -> Explainer:
    return find_explainer(explainer)[1] if isinstance(explainer, str) else explainer
