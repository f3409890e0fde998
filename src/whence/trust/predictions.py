"""Predictions: how confident a model was, and whether it was right.

Probabilities or logits `[B, C]` of `B` cases and `C` classes (or items) are reduced to a few
numbers per case, in slices. Calibration needs no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from whence.arrays import Bools, Floats, Ints
from whence.errors import InputError
from whence.memory import cases_at_once, row_slices

Numbers = npt.NDArray[Any] | Tensor
Users = npt.ArrayLike | Tensor
"""Whole numbers `[B]` in any container."""
Logits = Callable[[], Iterable[tuple[Tensor, Tensor]]]
"""Returns a new iterator at each call: logits `[b, C]` of some cases, and true classes `[b]`.

This makes several passes over a catalog of any size possible, with little of it in memory.
"""

ROUNDING: Final = 1e-3
"""The largest distance of a case's sum of probabilities from 1, as half precision requires."""


@dataclass(frozen=True, eq=False)
class Predictions:
    """The probabilities of `B` cases, reduced to what calibration needs."""

    confidence: Floats
    """`[B]`: the probability of the predicted class, the first of the most probable."""
    correct: Bools
    """`[B]`: whether that is the true class."""
    true: Ints
    """`[B]`: the true class."""
    log_likelihood: Floats
    """`[B]`: ln p of the true class; −∞ if its probability is 0."""
    squares: Floats
    """`[B]`: Σ (p − y)² over the classes, y being 1 for the true one and 0 for the others."""
    classes: int
    protocol: str
    """What was predicted, in words."""
    users: Ints | None = None
    """`[B]`: the user of each case; if unknown, every case counts as another user's."""

    def __len__(self) -> int:
        """Return the number of cases."""
        return len(self.confidence)

    def __getitem__(self, rows: slice | Ints | Bools) -> Predictions:
        """Return some of the cases."""
        return replace(
            self,
            confidence=self.confidence[rows],
            correct=self.correct[rows],
            true=self.true[rows],
            log_likelihood=self.log_likelihood[rows],
            squares=self.squares[rows],
            users=None if self.users is None else self.users[rows],
        )

    def with_users(self, users: Users) -> Predictions:
        """Return the cases with their users `[B]`; intervals are then over users."""
        found = _array(users)
        if found.shape != self.confidence.shape or (found.size and found.dtype.kind not in "iu"):
            raise InputError(
                f"Users must be {len(self):,} whole numbers, one per case, not {found.dtype} of "
                f"shape {list(found.shape)}."
            )
        return replace(self, users=found.astype(np.int64))

    @cached_property
    def user_of(self) -> Ints:
        """The user of each case `[B]`, numbered from 0."""
        if self.users is None:
            return np.arange(len(self))
        return np.unique(self.users, return_inverse=True)[1]

    @property
    def user_count(self) -> int:
        """The number of users."""
        return int(self.user_of.max(initial=-1)) + 1

    @property
    def dependent(self) -> bool:
        """Whether some users have several cases, which are then not independent.

        With a single user there is none to resample, and intervals are over its cases.
        """
        return 1 < self.user_count < len(self)

    @property
    def interval_over(self) -> str:
        """What intervals are over, for a protocol, unless it is the cases."""
        return f"; interval over {self.user_count:,} users" if self.dependent else ""

    def for_class(self, number: int) -> Predictions:
        """Return the cases of one true class, as Jain (2019) separates them."""
        if not 0 <= number < self.classes:
            raise InputError(f"Classes are numbered 0 to {self.classes - 1}; there is no {number}.")
        return replace(
            self[self.true == number], protocol=f"{self.protocol}; true class {number} alone"
        )


@torch.no_grad()
def predictions_of(probabilities: Numbers, true: Numbers) -> Predictions:
    """Return predictions from probabilities `[B, C]` and true classes `[B]`."""
    _check_shapes(probabilities, true)
    found = [_reduce_probabilities(*some) for some in _pieces(probabilities, true)]
    return _joined(found, probabilities.shape[1], "probabilities of the predicted class")


@torch.no_grad()
def predictions_from_logits(
    logits: Logits, temperature: float = 1.0, protocol: str = "softmax of the predicted class"
) -> Predictions:
    """Return predictions from logits z: the probabilities are softmax(z / T) at temperature T.

    The temperature never changes the predicted class; a higher one lowers the confidence.
    """
    if not 0 < temperature < np.inf:
        raise InputError(f"A temperature must be a finite number above 0, not {temperature}.")
    found, classes = [], 0
    for some, true in logits():
        found.append(_reduce_logits(some, true, temperature))
        classes = some.shape[1]
    said = protocol if temperature == 1 else f"{protocol}, temperature {temperature:.4g}"
    return _joined(found, classes, said)


def logits_of(logits: Numbers, true: Numbers) -> Logits:
    """Return logits `[B, C]` and true classes `[B]` in memory as `Logits`."""
    _check_shapes(logits, true)
    return lambda: _pieces(logits, true)


def check_some(cases: int) -> None:
    """Raise if there are no cases."""
    if not cases:
        raise InputError("Calibration needs at least one case; there are none.")


def check_logits(logits: Tensor, true: Tensor) -> None:
    """Raise if logits have no softmax, or if a true class does not exist."""
    if not bool(logits.amax(dim=1).isfinite().all()):  # NaN if any logit is NaN
        raise InputError(
            "Logits must be numbers, or −∞ for an impossible class, with at least one number per "
            "case; some of these are not."
        )
    check_classes(true, logits.shape[1])


def check_classes(true: Tensor, classes: int) -> None:
    """Raise if a true class does not exist."""
    if int(true.min()) < 0 or int(true.max()) >= classes:
        wrong = true[(true < 0) | (true >= classes)][0]
        raise InputError(f"Classes are numbered 0 to {classes - 1}; there is no {int(wrong)}.")


def _check_shapes(numbers: Numbers, true: Numbers) -> None:
    if numbers.ndim != 2 or not numbers.shape[1] or tuple(true.shape) != (len(numbers),):
        raise InputError(
            "Calibration needs numbers [cases, classes] and one true class per case, not shapes "
            f"{list(numbers.shape)} and {list(true.shape)}."
        )
    kind = np.asarray(true.cpu() if isinstance(true, Tensor) else true).dtype.kind
    if kind not in "iub":
        raise InputError("True classes must be whole numbers.")


def _pieces(numbers: Numbers, true: Numbers) -> Iterator[tuple[Tensor, Tensor]]:
    on_gpu = isinstance(numbers, Tensor) and numbers.is_cuda
    for rows in row_slices(len(numbers), cases_at_once(numbers.shape[1], on_gpu)):
        some = _tensor(numbers[rows])
        yield some, _tensor(true[rows]).to(some.device, torch.int64)


def _array(users: Users) -> npt.NDArray[Any]:
    try:
        return np.asarray(users.detach().cpu() if isinstance(users, Tensor) else users)
    except (TypeError, ValueError) as error:  # ragged rows, or a type that NumPy does not know
        raise InputError("Users must be whole numbers, one per case.") from error


def _tensor(numbers: Numbers) -> Tensor:
    # A copy, because PyTorch cannot wrap a read-only array.
    return numbers if isinstance(numbers, Tensor) else torch.from_numpy(np.array(numbers))


def _reduce_probabilities(p: Tensor, true: Tensor) -> Tensor:
    """Return the columns `[b, 5]` of `_reduced`."""
    p = p.double()
    sound = (p >= 0).all(dim=1) & ((p.sum(dim=1) - 1).abs() <= ROUNDING)
    if not bool(sound.all()):
        case = p[sound.int().argmin()]
        raise InputError(
            "The probabilities of each case must not be negative and must add up to 1; one case "
            f"has a minimum of {float(case.min()):.4g} and a sum of {float(case.sum()):.4g}."
        )
    check_classes(true, p.shape[1])
    return _reduced(p.clone(), p.argmax(dim=1), _own(p, true).log(), true)


def _reduce_logits(logits: Tensor, true: Tensor, temperature: float) -> Tensor:
    """Return the same columns; the prediction is the largest logit, whatever rounding does."""
    check_logits(logits, true)
    below = at_least_single(logits) - logits.amax(dim=1, keepdim=True)  # so that no T overflows
    log_p = below.div_(temperature).log_softmax(dim=1)
    own = _own(log_p, true)
    return _reduced(log_p.exp_(), logits.argmax(dim=1), own, true)


def at_least_single(numbers: Tensor) -> Tensor:
    """Return the numbers in a precision that is enough for sums over many classes."""
    return numbers.to(torch.promote_types(numbers.dtype, torch.float32))


def _reduced(p: Tensor, top: Tensor, log_likelihood: Tensor, true: Tensor) -> Tensor:
    """Return confidence, correct, true class, ln p and Σ (p − y)² `[b, 5]`. Overwrites `p`."""
    confidence = _own(p, top).clamp(max=1)
    p.scatter_add_(1, true[:, None], torch.full_like(p[:, :1], -1))
    columns = (confidence, top == true, true, log_likelihood, p.square_().sum(dim=1))
    return torch.stack([column.double() for column in columns], dim=1).cpu()


def _own(numbers: Tensor, classes: Tensor) -> Tensor:
    """Return one number of each row `[b]`."""
    return numbers.gather(1, classes[:, None])[:, 0]


def _joined(found: list[Tensor], classes: int, what: str) -> Predictions:
    check_some(sum(map(len, found)))
    confidence, correct, true, log_likelihood, squares = torch.cat(found).numpy().T.copy()
    return Predictions(
        confidence,
        correct.astype(np.bool_),
        true.astype(np.int64),
        log_likelihood,
        squares,
        classes,
        f"{what}, {len(confidence):,} cases of {classes:,} classes",
    )
