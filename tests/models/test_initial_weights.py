"""How new weights are drawn, and transformers whose attention has biases."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from scipy import stats
from torch import nn

from conftest import TRANSFORMERS, ragged_batch
from whence.contract import ALL
from whence.errors import InputError
from whence.models.bert4rec import BERT4Rec, BERT4RecConfig
from whence.models.esasrec import ESASRec, ESASRecConfig
from whence.models.sasrec import SASRec, SASRecConfig
from whence.models.transformer import Transformer
from whence.randomness import Randomness

ITEMS = 500


def new_sasrec(**settings: Any) -> Transformer:  # noqa: ANN401
    return SASRec(SASRecConfig(**settings), ITEMS, Randomness(0).torch("init"))


def new_esasrec(**settings: Any) -> Transformer:  # noqa: ANN401
    return ESASRec(ESASRecConfig(**settings), ITEMS, Randomness(0).torch("init"))


def new_bert4rec(**settings: Any) -> Transformer:  # noqa: ANN401
    return BERT4Rec(BERT4RecConfig(**settings), ITEMS, Randomness(0).torch("init"))


Make = Callable[..., Transformer]
MAKERS: dict[str, Make] = {
    "sasrec": new_sasrec,
    "esasrec": new_esasrec,
    "bert4rec": new_bert4rec,
}
FORMER = {
    "sasrec": "bec208de37b4a0d8",
    "esasrec": "4b72be550a49c072",
    "bert4rec": "7c0b3d6d7cc2092a",
}
"""By model: the hash of its default weights before there was a choice."""


@pytest.fixture(params=list(MAKERS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def hash_of(model: nn.Module) -> str:
    """Return a hash of all weights, rounded so that it does not depend on the processor."""
    weights = hashlib.sha256()
    for key, value in model.state_dict().items():
        weights.update(key.encode())
        weights.update((value.double() * 2**20).round().long().numpy().tobytes())
    return weights.hexdigest()[:16]


def test_default_weights_are_those_of_former_versions(name: str) -> None:
    assert hash_of(MAKERS[name](max_len=10, dim=16, n_heads=2)) == FORMER[name]


def layers_of(model: Transformer) -> list[nn.Linear]:
    return [one for one in model.modules() if isinstance(one, nn.Linear)]


def test_layers_as_pytorch_draws_them(name: str) -> None:
    """The same distribution as that of a new `nn.Linear`, weights and biases."""
    torch.manual_seed(0)
    for layer in layers_of(MAKERS[name](linear_init="pytorch", attention_bias=True)):
        bound = 1 / math.sqrt(layer.in_features)
        reference = nn.Linear(layer.in_features, layer.out_features).state_dict()
        for kind, drawn in layer.state_dict().items():
            assert 0.9 * bound < float(drawn.abs().max()) <= bound
            same = stats.ks_2samp(drawn.flatten().numpy(), reference[kind].flatten().numpy())
            assert same.pvalue > 1e-4


def test_layers_after_glorot(name: str) -> None:
    for layer in layers_of(MAKERS[name](attention_bias=True)):
        bound = math.sqrt(6 / (layer.in_features + layer.out_features))
        assert 0.99 * bound < float(layer.weight.detach().abs().max()) <= bound
        assert layer.bias is None or not layer.bias.any()


def test_embeddings_after_glorot(name: str) -> None:
    """Each table by its own size; the mask of BERT4Rec belongs to the items."""
    model = MAKERS[name](embedding_init="xavier")
    tables = [(model.item.data[1:], ITEMS), (model.position.data, len(model.position))]
    if isinstance(model, BERT4Rec):
        tables.append((model.mask.data, ITEMS))
    for values, rows in tables:
        bound = math.sqrt(6 / (rows + 64))
        assert 0.9 * bound < float(values.abs().max()) <= bound
        uniform = stats.kstest(values.flatten().numpy() / bound, stats.uniform(-1, 2).cdf)
        assert uniform.pvalue > 1e-4
    assert not model.item[0].any(), "padding"


def test_one_choice_changes_nothing_else(name: str) -> None:
    plain = MAKERS[name]().state_dict()
    layers_drawn = MAKERS[name](linear_init="pytorch").state_dict()
    with_biases = MAKERS[name](attention_bias=True).state_dict()
    for key, value in plain.items():
        # The mask is drawn after the layers.
        assert torch.equal(layers_drawn[key], value) or key.startswith(("blocks.", "mask")), key
        assert torch.equal(with_biases[key], value), key
    added = set(with_biases) - set(plain)
    layers = ("query", "key", "value", "output")
    assert added == {f"blocks.{depth}.{layer}.bias" for depth in range(2) for layer in layers}


@pytest.mark.parametrize(
    ("setting", "wrong"), [("linear_init", "zeros"), ("embedding_init", "pytorch")]
)
def test_an_unknown_rule_is_refused(setting: str, wrong: str, name: str) -> None:
    with pytest.raises(InputError, match=f"{setting} cannot be '{wrong}'"):
        MAKERS[name](**{setting: wrong})


def biased(name: str, heads: int) -> Transformer:
    return TRANSFORMERS[name](heads=heads, attention_bias=True)


@pytest.mark.parametrize("heads", [1, 2])
def test_biases_on_every_way_to_the_answer(name: str, heads: int) -> None:
    """Also if nothing is seen."""
    model, batch = biased(name, heads), ragged_batch(6, 8, 30)
    present = torch.rand(batch.shape, generator=torch.Generator().manual_seed(0)) < 0.5
    present[0] = False
    for given in (None, present):
        wanted = model.encode(batch, present=given)[0][:, -1]
        torch.testing.assert_close(model.answers(batch, present=given), wanted)
        torch.testing.assert_close(model.answers_alone(batch, given), wanted)
    full = torch.arange(16).view(2, 8)
    torch.testing.assert_close(model.answers_unmasked(full, None), model.answers(full))
    weights = model.attentions(batch)
    torch.testing.assert_close(model.score(batch, ALL, attention=weights), model.score(batch, ALL))
