"""The standard deviation of new embeddings."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from whence.errors import InputError
from whence.models.bert4rec import BERT4Rec, BERT4RecConfig
from whence.models.sasrec import SASRec, SASRecConfig
from whence.models.transformer import Transformer
from whence.randomness import Randomness

Make = Callable[[float], Transformer]


def sasrec(std: float) -> Transformer:
    config = SASRecConfig(max_len=100, dim=64, init_std=std)
    return SASRec(config, 500, Randomness(0).torch("init"))


def bert4rec(std: float) -> Transformer:
    config = BERT4RecConfig(max_len=100, dim=64, init_std=std)
    return BERT4Rec(config, 500, Randomness(0).torch("init"))


@pytest.mark.parametrize("make", [sasrec, bert4rec])
@pytest.mark.parametrize("std", [0.02, 0.5])
def test_new_embeddings_have_that_standard_deviation(make: Make, std: float) -> None:
    model = make(std)
    for values, tolerance in ((model.item.data[1:], 0.02), (model.position.data, 0.05)):
        assert float(values.std()) == pytest.approx(std, rel=tolerance)
        assert abs(float(values.mean())) < 0.05 * std
    assert not model.item[0].any(), "padding"
    if isinstance(model, BERT4Rec):
        assert float(model.mask.data.std()) == pytest.approx(std, rel=0.3)


@pytest.mark.parametrize("make", [sasrec, bert4rec])
def test_it_scales_embeddings_and_nothing_else(make: Make) -> None:
    narrow, wide = make(0.02).state_dict(), make(0.2).state_dict()
    for name, values in narrow.items():
        factor = 1 if name.startswith("blocks.") else 10
        torch.testing.assert_close(wide[name], factor * values, msg=name)


@pytest.mark.parametrize("config", [SASRecConfig, BERT4RecConfig])
@pytest.mark.parametrize("wrong", [0.0, -0.1, math.inf, math.nan])
def test_an_impossible_init_std_is_refused(
    config: type[SASRecConfig] | type[BERT4RecConfig], wrong: float
) -> None:
    with pytest.raises(InputError, match=f"init_std must be a number above 0, not {wrong}\\."):
        config(init_std=wrong)
