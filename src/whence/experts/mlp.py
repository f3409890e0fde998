"""The interpretable multi-layer perceptron, and the ordinary one of the same width beside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from whence.contract import Selections
from whence.dense import dense
from whence.errors import InputError
from whence.experts.family import Family
from whence.experts.linear import InputLinear, LinkedLinear, first_columns, perceptron
from whence.experts.objective import DEFAULT, Recipe, expected_loss, those_learning
from whence.experts.selection import Selection
from whence.experts.tabular import TabularModel
from whence.experts.targets import Binary, Target
from whence.ranking import device_of

TWO_CLASSES = Binary()


class InterpretableMLP(TabularModel):
    """Experts of so many features in every hidden layer, with ReLU between layers."""

    learning: Tensor | None
    """`[H]`: which experts learn, where not all do."""

    def __init__(
        self,
        family: Family,
        widths: Sequence[int],
        generator: torch.Generator,
        *,
        target: Target = TWO_CLASSES,
        recipe: Recipe = DEFAULT,
        links: bool = True,
        means: Tensor | None = None,
    ) -> None:
        super().__init__(family, target, means)
        if not widths or min(widths) < 1:
            raise InputError(
                "Experts need a hidden layer at least, and a feature in each, such as "
                f"widths=(8, 8), not {tuple(widths)}."
            )
        self.recipe = recipe
        self.register_buffer("learning", None, persistent=False)  # all of them
        self.first = InputLinear(family, widths[0], generator)
        self.layers = nn.ModuleList(
            LinkedLinear(family, inputs, outputs, generator, links=links)
            for inputs, outputs in pairwise((*widths, target.outputs))
        )

    def answers(self, rows: Tensor, stop: bool = True) -> Tensor:
        """`[H, outputs, B]`: what every expert says."""
        return perceptron(self.first, self.layers, rows, stop)

    def loss(self, rows: Tensor, truth: Tensor) -> Tensor:
        """Of one step of generalised EM, of the experts that are learning."""
        answers = self.answers(rows)
        self._refuse_other_truths(rows, truth)
        return expected_loss(
            self.recipe, self.family, self.target, answers, truth, learning=self.learning
        )

    def teach_only(self, experts: Iterable[int]) -> None:
        """Let these experts learn, and the others stay as they are."""
        self.learning = those_learning(self.family, experts, device_of(self))

    def attribute(self, rows: Tensor, selection: Selection | None = None) -> Tensor:
        """`[B, H]`: α, how far each expert is selected, by the recipe's selection or another."""
        return self._selected(self.answers(rows, stop=False), selection or self.recipe.inference).T

    def selections(self, batch: Tensor, targets: Tensor) -> Selections:
        """The same for every target: experts answer for all of them at once."""
        sees = torch.tensor(self.family.sees, device=batch.device)
        return Selections(self.attribute(batch), sees.expand(len(batch), -1, -1))

    def scores(self, rows: Tensor) -> Tensor:
        """Of the experts' answers, mixed by who is selected (equation 1)."""
        answers = self.answers(rows, stop=False)
        return self.target.mixture(answers, self._selected(answers, self.recipe.inference))

    def _selected(self, answers: Tensor, selection: Selection) -> Tensor:
        return selection(self.family, self.target.distance(answers), self.target.reach)


class OrdinaryMLP(TabularModel):
    """One network that sees everything, as wide as all experts of the other together."""

    def __init__(
        self,
        family: Family,
        widths: Sequence[int],
        generator: torch.Generator,
        *,
        target: Target = TWO_CLASSES,
        means: Tensor | None = None,
    ) -> None:
        super().__init__(family, target, means)
        sizes = (family.width, *(len(family) * width for width in widths), target.outputs)
        self.layers = nn.ModuleList(dense(*pair, generator) for pair in pairwise(sizes))

    def answers(self, rows: Tensor) -> Tensor:
        """`[1, outputs, B]`: the one answer."""
        features = first_columns(rows, self.family.width)
        for number, layer in enumerate(self.layers):
            features = layer(features.relu_() if number else features)
        return features.T[None]

    def loss(self, rows: Tensor, truth: Tensor) -> Tensor:
        """The mean over the rows."""
        answers = self.answers(rows)
        self._refuse_other_truths(rows, truth)
        return self.target.loss(answers, truth).mean()

    def scores(self, rows: Tensor) -> Tensor:
        """Of the one answer."""
        answers = self.answers(rows)
        return self.target.mixture(answers, answers.new_ones(1, len(rows)))
