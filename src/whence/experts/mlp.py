"""The interpretable multi-layer perceptron, and the ordinary one of the same total width."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from whence.contract import Selections
from whence.devices import device_of
from whence.errors import InputError
from whence.experts.family import Family
from whence.experts.linear import InputLinear, LinkedLinear, dense, first_columns, perceptron
from whence.experts.selection import DEFAULT, Recipe, Selection, expected_loss, expert_mask
from whence.experts.tabular import TabularModel
from whence.experts.targets import Binary, Target

TWO_CLASSES = Binary()


class InterpretableMLP(TabularModel):
    """Experts with `hidden_dims` features each and ReLU between layers."""

    trainable: Tensor | None
    """`[H]`: which experts are trained; None means all."""

    def __init__(
        self,
        family: Family,
        hidden_dims: Sequence[int],
        generator: torch.Generator,
        *,
        target: Target = TWO_CLASSES,
        recipe: Recipe = DEFAULT,
        linked: bool = True,
        means: Tensor | None = None,
    ) -> None:
        super().__init__(family, target, means)
        if not hidden_dims or min(hidden_dims) < 1:
            raise InputError(
                "Experts need at least one hidden layer with at least one feature, such as "
                f"hidden_dims=(8, 8), not {tuple(hidden_dims)}."
            )
        self.recipe = recipe
        self.register_buffer("trainable", None, persistent=False)  # None: all experts
        self.first = InputLinear(family, hidden_dims[0], generator)
        self.layers = nn.ModuleList(
            LinkedLinear(family, inputs, outputs, generator, linked=linked)
            for inputs, outputs in pairwise((*hidden_dims, target.n_outputs))
        )

    def expert_outputs(self, rows: Tensor, detach: bool = True) -> Tensor:
        """Return every expert's raw outputs, `[H, outputs, B]`."""
        return perceptron(self.first, self.layers, rows, detach)

    def loss(self, rows: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of one step of generalised EM, over the trainable experts."""
        outputs = self.expert_outputs(rows)
        self._check_labels(rows, labels)
        return expected_loss(
            self.recipe, self.family, self.target, outputs, labels, trainable=self.trainable
        )

    def train_only(self, experts: Iterable[int]) -> None:
        """Train these experts and freeze the others."""
        self.trainable = expert_mask(self.family, experts, device_of(self))

    def attribute(self, rows: Tensor, selection: Selection | None = None) -> Tensor:
        """Return each expert's selection α, `[B, H]`, by the recipe or another `selection`."""
        return self._selected(
            self.expert_outputs(rows, detach=False), selection or self.recipe.inference
        ).T

    def selections(self, batch: Tensor, targets: Tensor) -> Selections:
        """Return the selections, the same for every target: experts predict all of them at once."""
        sees = torch.tensor(self.family.sees, device=batch.device)
        return Selections(self.attribute(batch), sees.expand(len(batch), -1, -1))

    def scores(self, rows: Tensor) -> Tensor:
        """Return the experts' outputs mixed by their selection (equation 1)."""
        outputs = self.expert_outputs(rows, detach=False)
        return self.target.mix(outputs, self._selected(outputs, self.recipe.inference))

    def _selected(self, outputs: Tensor, selection: Selection) -> Tensor:
        return selection(self.family, self.target.distance(outputs), self.target.max_distance)


class OrdinaryMLP(TabularModel):
    """One network that sees everything, as wide as all experts of the other together."""

    def __init__(
        self,
        family: Family,
        hidden_dims: Sequence[int],
        generator: torch.Generator,
        *,
        target: Target = TWO_CLASSES,
        means: Tensor | None = None,
    ) -> None:
        super().__init__(family, target, means)
        sizes = (family.n_columns, *(len(family) * dim for dim in hidden_dims), target.n_outputs)
        self.layers = nn.ModuleList(dense(*pair, generator) for pair in pairwise(sizes))

    def expert_outputs(self, rows: Tensor) -> Tensor:
        """Return the outputs as those of one expert, `[1, outputs, B]`."""
        features = first_columns(rows, self.family.n_columns)
        for number, layer in enumerate(self.layers):
            features = layer(features.relu_() if number else features)
        return features.T[None]

    def loss(self, rows: Tensor, labels: Tensor) -> Tensor:
        """Return the mean loss over the rows."""
        outputs = self.expert_outputs(rows)
        self._check_labels(rows, labels)
        return self.target.loss(outputs, labels).mean()

    def scores(self, rows: Tensor) -> Tensor:
        """Return the scores of every target."""
        outputs = self.expert_outputs(rows)
        return self.target.mix(outputs, outputs.new_ones(1, len(rows)))
