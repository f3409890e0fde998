"""Declarations of the trust measures: each stands next to the function that it declares.

The documentation, the conformance test and plug-ins use the declarations. Another package adds a
measure through an entry point of the group `whence.measures` that names a `MeasureSpec`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from whence.errors import InputError
from whence.measure import Direction, Measure
from whence.registry import Registry

if TYPE_CHECKING:
    from whence.trust.small_case import SmallCase
    from whence.trust.stability.seed_pairs import SeedPairs

SCORES: Final = ("parts", "score")
ATTENTION: Final = (*SCORES, "attentions")


@dataclass(frozen=True)
class MeasureSpec:
    """A measure and what you need to know to read it."""

    compute: Callable[..., Measure]
    question: str
    direction: Direction
    range: tuple[float, float]
    example: Callable[[SmallCase], tuple[Any, ...]]
    """The arguments of `compute` for a small case, on which the conformance test computes it."""
    citation: str = ""
    symmetric: bool = False
    """Whether exchanging the two arguments changes nothing."""
    needs: tuple[str, ...] = ()
    """Capabilities of the model; such a measure takes the model and the batch first."""
    pairs: Callable[..., SeedPairs] | None = None
    """For a measure that compares seeds: what also gives an interval over seeds."""


def _accept(name: str, entry: object) -> MeasureSpec:
    if not isinstance(entry, MeasureSpec):
        raise InputError(f"'{name}' is a {type(entry).__name__}, not a MeasureSpec")
    return entry


MEASURES: Final[Registry[MeasureSpec]] = Registry(
    "measure", package="whence.trust", group="whence.measures", accept=_accept
)


def declare_seed_measure(
    name: str,
    compare: Callable[..., SeedPairs],
    question: str,
    direction: Direction,
    range: tuple[float, float],
    example: Callable[[SmallCase], tuple[Any, ...]],
    citation: str = "",
) -> None:
    """Declare a measure that compares every two seeds; its interval is over cases."""
    MEASURES.add(
        name,
        MeasureSpec(
            lambda *given: compare(*given).measure(),
            question,
            direction,
            range,
            example,
            citation,
            pairs=compare,
        ),
    )
