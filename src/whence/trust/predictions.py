"""Predictions: how sure was a model of what it predicted, and was it right?

Of `B` cases and `C` classes, or items, `[B, C]` probabilities or logits are reduced to a few
numbers a case, some cases at a time; that is all that calibration asks of them.
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
"""Whole numbers `[B]`, in whatever holds them."""
Logits = Callable[[], Iterable[tuple[Tensor, Tensor]]]
"""Begins anew whenever it is called: logits `[b, C]` of some cases, and their true classes `[b]`.

So a catalog of any size can be gone through, more than once, with little of it in memory.
"""

ROUNDING: Final = 1e-3
"""How far from 1 the sum of a case's probabilities may be, which half precision needs."""


@dataclass(frozen=True, eq=False)
class Predictions:
    """What is left of the probabilities of `B` cases."""

    confidence: Floats
    """`[B]`: the probability of the predicted class, the first of the most probable."""
    correct: Bools
    """`[B]`: whether that is the true class."""
    true: Ints
    """`[B]`: the true class."""
    log_likelihood: Floats
    """`[B]`: ln p of the true class; −∞ where it was held to be impossible."""
    squares: Floats
    """`[B]`: Σ (p − y)² over the classes, y being 1 for the true one and 0 for the others."""
    classes: int
    protocol: str
    """What was predicted, in words."""
    users: Ints | None = None
    """`[B]`: the number of the user whose case it is; where it is not known, all are of others."""

    def __len__(self) -> int:
        """How many cases."""
        return len(self.confidence)

    def __getitem__(self, rows: slice | Ints | Bools) -> Predictions:
        """Some of the cases."""
        return replace(
            self,
            confidence=self.confidence[rows],
            correct=self.correct[rows],
            true=self.true[rows],
            log_likelihood=self.log_likelihood[rows],
            squares=self.squares[rows],
            users=None if self.users is None else self.users[rows],
        )

    def of_users(self, users: Users) -> Predictions:
        """The same cases, known to be of these users `[B]`: intervals are then over users."""
        found = _array(users)
        if found.shape != self.confidence.shape or (found.size and found.dtype.kind not in "iu"):
            raise InputError(
                f"Each of {len(self):,} cases is of one user, a whole number, not {found.dtype} of "
                f"shape {list(found.shape)}."
            )
        return replace(self, users=found.astype(np.int64))

    @cached_property
    def user_of(self) -> Ints:
        """`[B]`: whose case it is, with the users numbered from 0 on."""
        if self.users is None:
            return np.arange(len(self))
        return np.unique(self.users, return_inverse=True)[1]

    @property
    def user_count(self) -> int:
        """How many users the cases are of."""
        return int(self.user_of.max(initial=-1)) + 1

    @property
    def dependent(self) -> bool:
        """Whether some users have several cases, which then depend on one another.

        Where all are of one user there is no other to draw, and intervals are over its cases.
        """
        return 1 < self.user_count < len(self)

    @property
    def interval_over(self) -> str:
        """For a protocol: what intervals are over, where it is not the cases."""
        return f"; interval over {self.user_count:,} users" if self.dependent else ""

    def of_class(self, number: int) -> Predictions:
        """The cases whose true class it is; Jain (2019) looks at positives and negatives apart."""
        if not 0 <= number < self.classes:
            raise InputError(f"Classes are numbered 0 to {self.classes - 1}, not {number}.")
        return replace(
            self[self.true == number], protocol=f"{self.protocol}; true class {number} alone"
        )


@torch.no_grad()
def predictions_of(probabilities: Numbers, true: Numbers) -> Predictions:
    """From the probabilities `[B, C]` of every class, and the true ones `[B]`."""
    _check_shapes(probabilities, true)
    found = [_of_probabilities(*some) for some in _pieces(probabilities, true)]
    return _joined(found, probabilities.shape[1], "probabilities of the predicted class")


@torch.no_grad()
def predictions_from_logits(
    logits: Logits, temperature: float = 1.0, protocol: str = "softmax of the predicted class"
) -> Predictions:
    """From logits `z`: the probabilities are softmax(z / T) with the temperature T.

    Whatever it is, the same class is predicted; the higher it is, the less sure.
    """
    if not 0 < temperature < np.inf:
        raise InputError(f"A temperature is a number above 0, not {temperature}.")
    found, classes = [], 0
    for some, true in logits():
        found.append(_of_logits(some, true, temperature))
        classes = some.shape[1]
    said = protocol if temperature == 1 else f"{protocol}, temperature {temperature:.4g}"
    return _joined(found, classes, said)


def logits_of(logits: Numbers, true: Numbers) -> Logits:
    """Logits `[B, C]` that are in memory, and true classes `[B]`, to be gone through."""
    _check_shapes(logits, true)
    return lambda: _pieces(logits, true)


def check_some(cases: int) -> None:
    """Refuse none."""
    if not cases:
        raise InputError("Calibration is measured on at least one case; there is none.")


def check_logits(logits: Tensor, true: Tensor) -> None:
    """Refuse what has no softmax, and true classes that are none of the classes."""
    if not bool(logits.amax(dim=1).isfinite().all()):  # which is NaN where any is
        raise InputError(
            "Logits are numbers, or −∞ for a class that cannot be, and a case has at least one; "
            "not all of these are."
        )
    check_classes(true, logits.shape[1])


def check_classes(true: Tensor, classes: int) -> None:
    """Refuse a true class that is none of them."""
    if int(true.min()) < 0 or int(true.max()) >= classes:
        wrong = true[(true < 0) | (true >= classes)][0]
        raise InputError(f"Classes are numbered 0 to {classes - 1}, not {int(wrong)}.")


def _check_shapes(numbers: Numbers, true: Numbers) -> None:
    if numbers.ndim != 2 or not numbers.shape[1] or tuple(true.shape) != (len(numbers),):
        raise InputError(
            "Calibration needs a number for every case and class and one true class a case, not "
            f"shapes {list(numbers.shape)} and {list(true.shape)}."
        )
    kind = np.asarray(true.cpu() if isinstance(true, Tensor) else true).dtype.kind
    if kind not in "iub":
        raise InputError("True classes are whole numbers, which these are not.")


def _pieces(numbers: Numbers, true: Numbers) -> Iterator[tuple[Tensor, Tensor]]:
    on_gpu = isinstance(numbers, Tensor) and numbers.is_cuda
    for rows in row_slices(len(numbers), cases_at_once(numbers.shape[1], on_gpu)):
        some = _tensor(numbers[rows])
        yield some, _tensor(true[rows]).to(some.device, torch.int64)


def _array(users: Users) -> npt.NDArray[Any]:
    try:
        return np.asarray(users.detach().cpu() if isinstance(users, Tensor) else users)
    except (TypeError, ValueError) as error:  # rows of unlike lengths, or numbers NumPy has not
        raise InputError(
            "Each case is of one user, a whole number, which these are not."
        ) from error


def _tensor(numbers: Numbers) -> Tensor:
    # A copy, as PyTorch cannot look at an array that must not be written to.
    return numbers if isinstance(numbers, Tensor) else torch.from_numpy(np.array(numbers))


def _of_probabilities(p: Tensor, true: Tensor) -> Tensor:
    """`[b, 5]`, as `_reduced` has them."""
    p = p.double()
    sound = (p >= 0).all(dim=1) & ((p.sum(dim=1) - 1).abs() <= ROUNDING)
    if not bool(sound.all()):
        case = p[sound.int().argmin()]
        raise InputError(
            "The probabilities of a case are numbers from 0 on of sum 1, which not all are: the "
            f"least of a case is {float(case.min()):.4g}, and their sum {float(case.sum()):.4g}."
        )
    check_classes(true, p.shape[1])
    return _reduced(p.clone(), p.argmax(dim=1), _own(p, true).log(), true)


def _of_logits(logits: Tensor, true: Tensor, temperature: float) -> Tensor:
    """The same; the predicted class is that of the largest logit, which no rounding can change."""
    check_logits(logits, true)
    below = at_least_single(logits) - logits.amax(dim=1, keepdim=True)  # no T makes it too large
    log_p = below.div_(temperature).log_softmax(dim=1)
    own = _own(log_p, true)
    return _reduced(log_p.exp_(), logits.argmax(dim=1), own, true)


def at_least_single(numbers: Tensor) -> Tensor:
    """In a precision that sums over many classes can be taken in."""
    return numbers.to(torch.promote_types(numbers.dtype, torch.float32))


def _reduced(p: Tensor, top: Tensor, log_likelihood: Tensor, true: Tensor) -> Tensor:
    """`[b, 5]`: confidence, whether correct, true class, ln p, Σ (p − y)². Writes into `p`."""
    confidence = _own(p, top).clamp(max=1)
    p.scatter_add_(1, true[:, None], torch.full_like(p[:, :1], -1))
    columns = (confidence, top == true, true, log_likelihood, p.square_().sum(dim=1))
    return torch.stack([column.double() for column in columns], dim=1).cpu()


def _own(numbers: Tensor, classes: Tensor) -> Tensor:
    """`[b]`: one of each row."""
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
