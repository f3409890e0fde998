"""Models of sequences in two halves, which predict one label for every step of the second.

The family's groups are columns of the known first half, `[B, m, columns]`. Rows of the upcoming
second half, `[B, n, columns]`, hold some of the groups, in a layout of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torch import Tensor, nn

from whence.errors import InputError
from whence.experts.family import Family
from whence.experts.selection import DEFAULT, Recipe, Selection, expected_loss, expert_mask
from whence.experts.targets import Binary, Target, check_labels

GroupColumns = Mapping[str, Iterable[int]]
"""The columns of every group that rows of the second half hold."""
TWO_CLASSES = Binary()


class SequentialModel(nn.Module):
    """Base of networks over two halves; an ordinary one has a single expert."""

    trainable: Tensor | None
    """`[H]`: which experts are trained; None means all."""

    def __init__(
        self, family: Family, target: Target = TWO_CLASSES, recipe: Recipe = DEFAULT
    ) -> None:
        super().__init__()
        self.family, self.target, self.recipe = family, target, recipe
        self.register_buffer("trainable", None, persistent=False)  # None: all experts

    def expert_outputs(self, known: Tensor, upcoming: Tensor, detach: bool = True) -> Tensor:
        """Return every expert's outputs for the upcoming steps, `[H, outputs, B·n]`."""
        check_halves(known, upcoming)
        if not upcoming.shape[:2].numel():
            return upcoming.new_zeros(len(self.family), self.target.n_outputs, 0)
        return self._expert_outputs(known, upcoming, detach)

    def _expert_outputs(self, known: Tensor, upcoming: Tensor, detach: bool) -> Tensor:
        """Compute them from each expert's own groups of both halves."""
        raise NotImplementedError

    def loss(
        self,
        known: Tensor,
        upcoming: Tensor,
        labels: Tensor,
        mask: Tensor,
        weights: Tensor | None = None,
    ) -> Tensor:
        """Return the loss of one step of generalised EM over the steps in `mask` `[B, n]`.

        `weights` `[B, n]` lets some steps count for less than others.
        """
        _check_paired(upcoming, labels, mask)
        check_labels(self.target, labels, mask)
        counted = mask if weights is None else mask * weights
        return expected_loss(
            self.recipe,
            self.family,
            self.target,
            self.expert_outputs(known, upcoming),
            labels.flatten(),
            counted.flatten(),
            self.trainable,
        )

    def train_only(self, experts: Iterable[int]) -> None:
        """Train these experts and freeze the others."""
        device = next(self.parameters()).device
        self.trainable = expert_mask(self.family, experts, device)

    def scores(self, known: Tensor, upcoming: Tensor) -> Tensor:
        """Return the score of every target, `[B, n, t]`, mixed by selection (equation 1)."""
        outputs = self.expert_outputs(known, upcoming, detach=False)
        mixed = self.target.mix(outputs, self._selected(outputs, self.recipe.inference))
        return mixed.view(*upcoming.shape[:2], mixed.shape[1])

    def attribute(
        self, known: Tensor, upcoming: Tensor, selection: Selection | None = None
    ) -> Tensor:
        """Return each expert's selection α, `[B, n, H]`, by the recipe or another `selection`."""
        outputs = self.expert_outputs(known, upcoming, detach=False)
        selected = self._selected(outputs, selection or self.recipe.inference)
        return selected.T.reshape(*upcoming.shape[:2], len(self.family))

    def _selected(self, outputs: Tensor, selection: Selection) -> Tensor:
        return selection(self.family, self.target.distance(outputs), self.target.max_distance)


def check_halves(known: Tensor, upcoming: Tensor) -> None:
    """Raise unless both halves belong to the same cases and the first has steps."""
    for half in (known, upcoming):
        if half.ndim != 3:
            raise InputError(
                f"Both halves must have the shape [cases, steps, columns], not {list(half.shape)}. "
                "Pass a single case as half[None]."
            )
    if len(known) != len(upcoming):
        raise InputError(
            f"There are {len(known)} first halves and {len(upcoming)} second ones. Pass both for "
            "every case."
        )
    if not known.shape[1]:
        raise InputError("The first halves have no steps. Pass at least one known step per case.")


def _check_paired(upcoming: Tensor, labels: Tensor, mask: Tensor) -> None:
    """Raise unless every upcoming step has one label and one mask value."""
    if not upcoming.shape[:2].numel():
        raise InputError("There are no steps to train on. Pass at least one.")
    for what, given in (("labels", labels), ("mask values", mask)):
        if given.shape != upcoming.shape[:2]:
            steps, count = (" × ".join(map(str, one)) for one in (upcoming.shape[:2], given.shape))
            raise InputError(
                f"There are {steps} upcoming steps and {count} {what}. Pass one for each step."
            )
