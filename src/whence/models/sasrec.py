"""SASRec (Kang & McAuley 2018) as Baumhauer (2021) prints it.

Every row of the transformer sees itself and the rows before it. The row of the newest item answers.
Training asks, after every item, for the item that came next. The loss of both papers is `bce`.
"""

from __future__ import annotations

from dataclasses import dataclass

from whence.models.registry import MODELS, ModelSpec, items_only
from whence.models.transformer import Transformer, TransformerConfig


@dataclass(frozen=True)
class SASRecConfig(TransformerConfig):
    """The settings of every transformer."""


class SASRec(Transformer):
    """The causal network."""

    causal = True


MODELS.add(
    "sasrec",
    ModelSpec(
        SASRecConfig,
        items_only(SASRec),
        follows_data=True,
        summary="Transformer that reads a history from left to right.",
    ),
    place=10,
)
