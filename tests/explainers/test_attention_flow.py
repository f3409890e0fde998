from __future__ import annotations

from collections.abc import Sequence

import networkx as nx
import numpy as np
import pytest
import torch

from conftest import lively_sasrec, ragged_batch
from whence.arrays import Floats
from whence.contract import PAD, All, Explainable
from whence.explainers import explain_batch


class GivenAttention(Explainable):
    """Only given attention, the same for every case."""

    removal = "none"

    def __init__(self, weights: list[torch.Tensor]) -> None:
        self.weights = weights

    def parts(self, batch: torch.Tensor) -> torch.Tensor:
        return batch != PAD

    def score(
        self,
        batch: torch.Tensor,
        targets: torch.Tensor | All,
        *,
        present: torch.Tensor | None = None,
        embedded: torch.Tensor | None = None,
        attention: Sequence[torch.Tensor | None] | None = None,
    ) -> torch.Tensor:
        return torch.zeros(len(batch), 1 if isinstance(targets, All) else targets.shape[1])

    def attentions(
        self, batch: torch.Tensor, targets: torch.Tensor | None = None
    ) -> list[torch.Tensor]:
        return [block.expand(len(batch), -1, -1, -1) for block in self.weights]


def drawn(blocks: int, slots: int, causal: bool, seed: int, pools: bool = False) -> GivenAttention:
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(blocks, 1, 2, slots, slots, generator=generator).double()
    if causal:
        logits.masked_fill_(torch.ones(slots, slots).triu(1).bool(), -torch.inf)
    weights = list(logits.softmax(dim=-1))
    if pools:
        weights[-1] = weights[-1][:, :, -1:]
    return GivenAttention(weights)


def flows(model: GivenAttention, slots: int) -> Floats:
    batch = torch.arange(slots)[None]
    scores: Floats = explain_batch(model, batch, torch.tensor([0]), "attention-flow").scores[0]
    return scores


def by_networkx(model: GivenAttention, slot: int) -> float:
    """The graph written out, block by block."""
    graph = nx.DiGraph()
    for block, weights in enumerate(model.weights):
        mean = weights[0].mean(dim=0)
        if mean.shape[0] == mean.shape[1]:
            mean = (mean + torch.eye(len(mean))) / 2
        for row, widths in enumerate(mean.tolist()):
            for column, width in enumerate(widths):
                graph.add_edge((block + 1, row), (block, column), capacity=width)
    top = (len(model.weights), model.weights[-1].shape[-2] - 1)
    return float(nx.maximum_flow_value(graph, top, (0, slot)))


@pytest.mark.parametrize("blocks", [1, 2, 3, 4])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("pools", [True, False])
def test_equals_networkx(blocks: int, causal: bool, pools: bool) -> None:
    for seed in range(3):
        model = drawn(blocks, 6, causal, seed, pools)
        expected = [by_networkx(model, slot) for slot in range(6)]
        np.testing.assert_allclose(flows(model, 6), expected, atol=1e-6)


@pytest.mark.parametrize("blocks", [1, 2, 3])
def test_a_slot_of_the_model_passes_flow_and_has_no_score(blocks: int) -> None:
    """As in BERT4Rec: five items, and a sixth slot that answers."""
    model = drawn(blocks, 6, causal=False, seed=1)
    expected = [by_networkx(model, slot) for slot in range(5)]
    np.testing.assert_allclose(flows(model, 5), expected, atol=1e-6)


def test_worked_by_hand() -> None:
    """Two slots, two blocks: the capacities are [1 0; .25 .75] below and [1 0; .1 .9] above.

    To slot 0 run min(.1, 1) through row 0 and min(.9, .25) through row 1; to slot 1 only .75.
    """
    first = torch.tensor([[[[1.0, 0.0], [0.5, 0.5]]]])
    second = torch.tensor([[[[1.0, 0.0], [0.2, 0.8]]]])
    np.testing.assert_allclose(flows(GivenAttention([first, second]), 2), [0.35, 0.75])


def test_three_blocks_in_a_batch_with_padding_equal_their_loop() -> None:
    model, batch = lively_sasrec(blocks=3), ragged_batch(12, 8, 30)
    targets = torch.zeros(12, dtype=torch.int64)
    together = explain_batch(model, batch, targets, "attention-flow")
    sliced = explain_batch(model, batch, targets, "attention-flow", memory=64 * 8**3)
    np.testing.assert_allclose(sliced.scores, together.scores, atol=1e-8)
    for case in range(12):
        bare = batch[[case]][:, together.parts[case]]
        alone = explain_batch(model, bare, targets[:1], "attention-flow")
        np.testing.assert_allclose(
            alone.scores[0], together.scores[case, together.parts[case]], atol=1e-8
        )


def test_flow_is_at_least_rollout() -> None:
    """Rollout is one flow to all slots at once, so none of its parts exceeds the maximum."""
    model, batch = lively_sasrec(blocks=3), ragged_batch(12, 8, 30)
    targets = torch.zeros(12, dtype=torch.int64)
    most = explain_batch(model, batch, targets, "attention-flow").scores
    assert (most >= explain_batch(model, batch, targets, "rollout").scores - 1e-8).all()
