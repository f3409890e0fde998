"""Models of sequences in two halves: of the second, one answer is asked at every step.

The groups of a family are those of the first half's rows, `[B, m, columns]`; rows of the second,
`[B, n, columns]`, hold some of them, in places of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torch import Tensor, nn

from whence.errors import InputError
from whence.experts.family import Family
from whence.experts.objective import DEFAULT, Recipe, expected_loss, those_learning
from whence.experts.selection import Selection
from whence.experts.targets import Binary, Target, refuse_others

Places = Mapping[str, Iterable[int]]
"""The columns of every group that rows of the second half hold."""
TWO_CLASSES = Binary()


class SequentialModel(nn.Module):
    """What networks over two halves share; an ordinary one has one expert, always selected."""

    learning: Tensor | None
    """`[H]`: which experts learn, where not all do."""

    def __init__(
        self, family: Family, target: Target = TWO_CLASSES, recipe: Recipe = DEFAULT
    ) -> None:
        super().__init__()
        self.family, self.target, self.recipe = family, target, recipe
        self.register_buffer("learning", None, persistent=False)  # all of them

    def answers(self, known: Tensor, asked: Tensor, stop: bool = True) -> Tensor:
        """`[H, outputs, B·n]`: what every expert says of the steps asked, case after case."""
        refuse_other_halves(known, asked)
        if not asked.shape[:2].numel():
            return asked.new_zeros(len(self.family), self.target.outputs, 0)
        return self._answers(known, asked, stop)

    def _answers(self, known: Tensor, asked: Tensor, stop: bool) -> Tensor:
        """By every expert, from its own groups of both halves."""
        raise NotImplementedError

    def loss(
        self,
        known: Tensor,
        asked: Tensor,
        truth: Tensor,
        there: Tensor,
        weights: Tensor | None = None,
    ) -> Tensor:
        """Of one step of generalised EM, over the steps `[B, n]` that are there.

        With `weights` `[B, n]` some of them count for less than others.
        """
        _refuse_unpaired(asked, truth, there)
        refuse_others(self.target, truth, there)
        counted = there if weights is None else there * weights
        return expected_loss(
            self.recipe,
            self.family,
            self.target,
            self.answers(known, asked),
            truth.flatten(),
            counted.flatten(),
            self.learning,
        )

    def teach_only(self, experts: Iterable[int]) -> None:
        """Let these experts learn, and the others stay as they are."""
        device = next(self.parameters()).device
        self.learning = those_learning(self.family, experts, device)

    def scores(self, known: Tensor, asked: Tensor) -> Tensor:
        """`[B, n, t]` of every target, of answers mixed by who is selected (equation 1)."""
        answers = self.answers(known, asked, stop=False)
        mixed = self.target.mixture(answers, self._selected(answers, self.recipe.inference))
        return mixed.view(*asked.shape[:2], mixed.shape[1])

    def attribute(self, known: Tensor, asked: Tensor, selection: Selection | None = None) -> Tensor:
        """`[B, n, H]`: α, how far each expert is selected, by the recipe's selection or another."""
        answers = self.answers(known, asked, stop=False)
        selected = self._selected(answers, selection or self.recipe.inference)
        return selected.T.reshape(*asked.shape[:2], len(self.family))

    def _selected(self, answers: Tensor, selection: Selection) -> Tensor:
        return selection(self.family, self.target.distance(answers), self.target.reach)


def refuse_other_halves(known: Tensor, asked: Tensor) -> None:
    """Raise unless both are of the same cases, of which something is known."""
    for half in (known, asked):
        if half.ndim != 3:
            raise InputError(
                f"Halves are needed as [cases, steps, columns], not as {list(half.shape)}; those "
                "of a single case are half[None]."
            )
    if len(known) != len(asked):
        raise InputError(
            f"There are {len(known)} first halves and {len(asked)} second ones; give both of "
            "every case."
        )
    if not known.shape[1]:
        raise InputError("The first halves have no step; what comes after is read from one.")


def _refuse_unpaired(asked: Tensor, truth: Tensor, there: Tensor) -> None:
    """Raise unless steps are asked, and every one has one truth, and is there or not."""
    if not asked.shape[:2].numel():
        raise InputError("There are no steps to learn from; give one at least.")
    for what, given in (("truths", truth), ("flags that say what is there", there)):
        if given.shape != asked.shape[:2]:
            steps, count = (" × ".join(map(str, one)) for one in (asked.shape[:2], given.shape))
            raise InputError(f"There are {steps} steps asked and {count} {what}; give one to each.")
