"""Every model keeps the contract."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conftest import LIVELY, READING, ragged_batch
from together import EVERY, TOGETHER
from whence import contract
from whence.capabilities import require
from whence.contract import (
    ALL,
    PAD,
    All,
    Explainable,
    HasAttentions,
    HasContributions,
    HasEmbeddings,
    HasItemVectors,
    attends_by_target,
    offers,
)
from whence.data import Split
from whence.errors import CapabilityError, InputError
from whence.explainers import EXPLAINERS, able, compare_batch
from whence.models import MODELS
from whence.models.base import CaseReader, has_reasons, no_history, require_reasons
from whence.models.deepicf import AttentiveDeepICF

LENGTH, ITEMS = 8, 30


def test_the_contract_needs_nothing_but_torch() -> None:
    """Reading data needs `PAD` from it, and even PyTorch is imported only by a function."""
    tree = ast.parse(Path(contract.__file__).read_text(encoding="utf-8"))
    packages = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module] if isinstance(node, ast.ImportFrom) else names(node))
        if name
    }
    assert packages - sys.stdlib_module_names == {"torch"}
    code = "import sys, whence.contract; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def names(node: ast.Import) -> list[str]:
    return [alias.name for alias in node.names]


def test_every_model_is_tested_here() -> None:
    assert set(LIVELY) == set(MODELS)


@pytest.fixture(params=EVERY)
def model(request: pytest.FixtureRequest, split: Split) -> CaseReader:
    return EVERY[request.param](items=split.interactions.item_count)


@pytest.fixture
def batch(split: Split) -> torch.Tensor:
    return ragged_batch(6, LENGTH, split.interactions.item_count)


def test_padding_is_never_a_part(model: Explainable, batch: torch.Tensor) -> None:
    assert torch.equal(model.parts(batch), batch != PAD)


def test_a_batch_equals_its_loop(model: Explainable, batch: torch.Tensor) -> None:
    together = model.score(batch, ALL)
    alone = torch.cat([model.score(batch[[row]], ALL) for row in range(len(batch))])
    torch.testing.assert_close(together, alone)


def test_targets_are_columns_of_all(model: Explainable, batch: torch.Tensor) -> None:
    targets = torch.tensor([[3, 1, 3]]).repeat(len(batch), 1)
    expected = model.score(batch, ALL).gather(1, targets)
    torch.testing.assert_close(model.score(batch, targets), expected)


def test_everything_present_changes_nothing(model: Explainable, batch: torch.Tensor) -> None:
    present = torch.ones_like(batch, dtype=torch.bool)
    full = model.score(batch, ALL)
    torch.testing.assert_close(model.score(batch, ALL, present=present), full)


def test_presence_of_padding_changes_nothing(model: Explainable, batch: torch.Tensor) -> None:
    some = torch.arange(LENGTH).expand_as(batch) % 3 != 0
    one = model.score(batch, ALL, present=some | (batch == PAD))
    other = model.score(batch, ALL, present=some & (batch != PAD))
    torch.testing.assert_close(one, other)


def test_more_padding_changes_nothing(model: Explainable, batch: torch.Tensor) -> None:
    short = batch[:, -4:]
    padded = torch.full_like(batch, PAD)
    padded[:, -4:] = short
    torch.testing.assert_close(model.score(short, ALL), model.score(padded, ALL))


def test_coalitions_are_scores_with_parts_removed(model: Explainable, batch: torch.Tensor) -> None:
    generator = torch.Generator().manual_seed(0)
    coalitions = torch.rand((len(batch), 5, LENGTH), generator=generator) < 0.5
    targets = torch.arange(len(batch))
    found = model.score_coalitions(batch, targets, coalitions)
    for case in range(len(batch)):
        for c in range(5):
            row, target = batch[[case]], targets[[case], None]
            alone = model.score(row, target, present=coalitions[[case], c])
            torch.testing.assert_close(found[case, c], alone[0, 0])


def test_removal_is_named(model: Explainable) -> None:
    assert model.removal != Explainable.removal


def able_models(capability: str) -> list[str]:
    """The names of the models that offer it."""
    return [name for name in EVERY if offers(EVERY[name](), capability)]


@pytest.mark.parametrize("name", able_models("embed"))
def test_own_embeddings_change_nothing(name: str) -> None:
    model, batch = EVERY[name](items=ITEMS), ragged_batch(6, LENGTH, ITEMS)
    assert isinstance(model, HasEmbeddings)
    again = model.score(batch, ALL, embedded=model.embed(batch))
    torch.testing.assert_close(again, model.score(batch, ALL))


@pytest.mark.parametrize("name", able_models("contributions"))
@given(history=st.lists(st.integers(0, 5), min_size=1, max_size=LENGTH), target=st.integers(0, 9))
def test_contributions_are_the_terms_of_a_score(name: str, history: list[int], target: int) -> None:
    """So often repeated items too."""
    model, batch = EVERY[name](items=ITEMS), torch.tensor([[PAD, *history][-LENGTH:]])
    assert isinstance(model, HasContributions)
    terms, whole = model.contributions(batch, torch.tensor([target])), torch.tensor([[target]])
    assert (terms[batch == PAD] == 0).all()
    empty = model.score(batch, whole, present=torch.zeros_like(batch, dtype=torch.bool))
    torch.testing.assert_close(empty[:, 0] + terms.sum(dim=1), model.score(batch, whole)[:, 0])
    for slot, item in enumerate(batch[0].tolist()):
        if (batch == item).sum() == 1 and item != PAD:
            present = torch.arange(batch.shape[1]) != slot
            without = model.score(batch, whole, present=present[None])
            lost = model.score(batch, whole) - without
            torch.testing.assert_close(terms[0, slot], lost[0, 0])


@pytest.mark.parametrize("name", able_models("attentions"))
def test_own_attention_changes_nothing(name: str) -> None:
    model, batch = EVERY[name](items=ITEMS), ragged_batch(6, LENGTH, ITEMS)
    targets = torch.arange(len(batch))
    assert isinstance(model, HasAttentions)
    own = model.attentions(batch, targets)
    again = model.score(batch, targets[:, None], attention=own)
    torch.testing.assert_close(again, model.score(batch, targets[:, None]))


@pytest.mark.parametrize("name", able_models("item_vectors"))
def test_vectors_are_those_of_embeddings(name: str) -> None:
    model, batch = EVERY[name](items=ITEMS), ragged_batch(6, LENGTH, ITEMS)
    assert isinstance(model, HasItemVectors)
    vectors = model.item_vectors()
    assert len(vectors) == model.score(batch, ALL).shape[1]
    if not offers(model, "user_vectors"):
        assert isinstance(model, HasEmbeddings)
        parts = model.parts(batch)
        assert torch.equal(model.embed(batch)[parts], vectors[batch[parts]])


@pytest.mark.parametrize("name", able_models("attentions"))
def test_attention_is_a_distribution_over_parts_and_own_slots(name: str) -> None:
    model, batch = EVERY[name](items=ITEMS), ragged_batch(6, LENGTH, ITEMS)
    assert isinstance(model, HasAttentions)
    parts = model.parts(batch)
    for weights in model.attentions(batch, torch.arange(len(batch))):
        answering = weights[:, :, -1]
        assert (answering >= 0).all()
        assert (answering[..., :LENGTH] * ~parts[:, None] == 0).all()
        if not isinstance(model, AttentiveDeepICF):  # whose weights sum to more for long histories
            torch.testing.assert_close(answering.sum(-1), torch.ones_like(answering[..., 0]))


@pytest.mark.parametrize("name", able_models("attentions"))
def test_attention_depends_on_the_target_if_its_signature_requires_one(name: str) -> None:
    model, batch = EVERY[name](items=ITEMS), ragged_batch(6, LENGTH, ITEMS)
    assert isinstance(model, HasAttentions)
    one, other = (model.attentions(batch, torch.full((6,), target)) for target in (1, 2))
    same = all(torch.equal(*pair) for pair in zip(one, other, strict=True))
    assert same == (not attends_by_target(model))


@pytest.mark.parametrize("name", list(EVERY))
@given(order=st.permutations(range(6)))
def test_order_in_the_batch_does_not_matter(name: str, order: list[int]) -> None:
    model, batch = EVERY[name](items=ITEMS), ragged_batch(6, LENGTH, ITEMS)
    shuffled = model.score(batch[order], ALL)
    torch.testing.assert_close(shuffled, model.score(batch, ALL)[order])


@pytest.mark.parametrize("name", list(EVERY))
@given(history=st.lists(st.integers(0, ITEMS - 1), min_size=1, max_size=LENGTH), pads=st.data())
def test_any_amount_of_padding_gives_the_same(
    name: str, history: list[int], pads: st.DataObject
) -> None:
    model = EVERY[name](items=ITEMS)
    extra = pads.draw(st.integers(0, LENGTH - len(history)))
    bare, padded = torch.tensor([history]), torch.tensor([[PAD] * extra + history])
    torch.testing.assert_close(model.score(padded, ALL), model.score(bare, ALL))
    if isinstance(model, HasAttentions):
        target = torch.tensor([3])
        both = (model.attentions(one, target) for one in (padded, bare))
        for one, other in zip(*both, strict=True):
            torch.testing.assert_close(one[:, :, -other.shape[2] :, extra:], other)
            assert (one[..., :extra] == 0).all()


class OnlyParts:
    def parts(self, batch: torch.Tensor) -> torch.Tensor:
        return batch >= 0


class OnlyDerived(Explainable):
    def parts(self, batch: torch.Tensor) -> torch.Tensor:
        return batch >= 0


@pytest.mark.parametrize("name", MODELS)
def test_reasons_are_items_or_groups(name: str) -> None:
    """Users by id are neither."""
    model = LIVELY[name]()
    assert offers(model, "part_names") == (name in {"content-ncf", "intrp-ncf"})
    assert has_reasons(model) == (name not in {"gmf", "mlp", "neumf"})


def test_why_there_are_no_items_to_name() -> None:
    assert no_history(LIVELY["intrp-ncf"](), "a map") == (
        "InterpretableNCF predicts from groups of features and reads no history, so a map has no "
        "items to name. Train a model that reads histories to get items as reasons."
    )
    require_reasons(LIVELY["intrp-ncf"](), "a map")
    with pytest.raises(CapabilityError, match="^GMF knows users only by id and reads no"):
        require_reasons(LIVELY["gmf"](), "a map")


@pytest.mark.parametrize("kind", [OnlyParts, OnlyDerived])
def test_a_missing_capability_raises_one_sentence(kind: type) -> None:
    model = kind()
    with pytest.raises(
        CapabilityError,
        match=rf"^{kind.__name__} has no 'attentions', which rollout needs. It offers: parts.$",
    ):
        require(model, ("parts", "attentions"), who="rollout")
    assert not offers(model, "score_coalitions")


@pytest.mark.parametrize("name", [*READING, *TOGETHER])
def test_a_history_too_long_raises_one_sentence(name: str) -> None:
    with pytest.raises(InputError, match="reads at most 8 items, not 9"):
        EVERY[name](items=ITEMS).score(torch.zeros(1, 9, dtype=torch.int64), ALL)


WORDS = ("a", "dull", "bright", "film", "song", "very")


class TextClassifier:
    """Whether a text is praise: its parts are words, its targets classes; it derives from nothing.

    Absent words take no part in the attention that pools their embeddings.
    """

    removal = "dropped"

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        self.table = torch.randn(len(WORDS), 4, generator=generator, dtype=torch.float64)
        self.query = torch.randn(4, generator=generator, dtype=torch.float64)
        self.out = torch.randn(4, 2, generator=generator, dtype=torch.float64)

    def parts(self, batch: torch.Tensor) -> torch.Tensor:
        return batch != PAD

    def part_names(self, batch: torch.Tensor) -> list[list[str]]:
        return [[WORDS[word] if word != PAD else "" for word in row] for row in batch.tolist()]

    def embed(self, batch: torch.Tensor) -> torch.Tensor:
        return self.table[batch.clamp(min=0)]

    def attentions(
        self, batch: torch.Tensor, targets: torch.Tensor | None = None
    ) -> list[torch.Tensor]:
        return [self._weights(self.embed(batch), self.parts(batch))[:, None, None]]

    def _weights(self, words: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        return (words @ self.query).masked_fill(~seen, -1e9).softmax(dim=-1) * seen

    def score(
        self,
        batch: torch.Tensor,
        targets: torch.Tensor | All,
        *,
        present: torch.Tensor | None = None,
        embedded: torch.Tensor | None = None,
        attention: Sequence[torch.Tensor | None] | None = None,
    ) -> torch.Tensor:
        seen = self.parts(batch) if present is None else self.parts(batch) & present
        words = self.embed(batch) if embedded is None else embedded
        given = None if attention is None else attention[0]
        weights = self._weights(words, seen) if given is None else given[:, 0, 0]
        scores = (weights[:, None] @ words)[:, 0] @ self.out
        return scores if isinstance(targets, All) else scores.gather(1, targets)


class DerivedTextClassifier(TextClassifier, Explainable):
    """The same, with the default of the contract."""


APPLICABLE = [name for name in EXPLAINERS if name not in {"experts", "contributions", "neighbours"}]
"""A text classifier has no experts, no terms and no vectors of its targets."""


@pytest.mark.parametrize("kind", [TextClassifier, DerivedTextClassifier])
def test_every_explainer_applies_to_a_text_classifier(kind: type) -> None:
    model: Explainable = kind()
    assert able(model, EXPLAINERS) == [name for name in EXPLAINERS if name in APPLICABLE]
    texts = torch.tensor([[0, 2, 3], [PAD, 1, 4], [5, 2, 4]])
    targets = torch.tensor([0, 1, 1])
    found = compare_batch(model, texts, targets, APPLICABLE)
    assert list(found) == APPLICABLE
    full = model.score(texts, targets[:, None])[:, 0]
    for explanation in found.values():
        assert explanation.removal == "dropped"
        assert explanation.full_score.tolist() == full.tolist()
        assert explanation.labels is not None
        assert explanation.labels.parts[1] == ("", "dull", "song")
        assert explanation.scores[1, 0] == 0
        assert explanation.scores[0].any()


def test_derived_or_not_the_numbers_are_the_same() -> None:
    texts, targets = torch.tensor([[0, 2, 3], [PAD, 1, 4]]), torch.tensor([0, 1])
    kinds: tuple[type, ...] = (TextClassifier, DerivedTextClassifier)
    one, other = (
        compare_batch(kind(), texts, targets, ["shapley", "lime", "leave-one-out"])
        for kind in kinds
    )
    for name, explanation in one.items():
        assert (explanation.scores == other[name].scores).all()
