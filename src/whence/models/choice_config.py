"""The settings of every model that learns what comes of single items."""

from __future__ import annotations

from dataclasses import dataclass

from whence.errors import InputError


@dataclass(frozen=True)
class ChoiceConfig:
    """Sizes, with the defaults of He et al. (2017)."""

    max_len: int = 50
    """How many of a user's newest items are read, or at least shown beside a recommendation."""
    dim: int = 8
    """The size of what stands for an item or a user."""
    n_negatives: int = 4
    """Items that are not met, which it is asked about for every event."""
    init_std: float = 0.01
    """The standard deviation of new vectors."""

    def __post_init__(self) -> None:
        if min(self.max_len, self.dim) < 1:
            raise InputError("length and width are from 1 on.")
        fewest = self.fewest_negatives
        if self.n_negatives < fewest:
            raise InputError(f"negatives is at least {fewest}, not {self.n_negatives}.")
        if not self.init_std > 0:
            raise InputError(f"spread is a number above 0, not {self.init_std}.")

    @property
    def fewest_negatives(self) -> int:
        """Of events alone, it would learn that every item is one."""
        return 1

    @property
    def dropout(self) -> float:
        """None of them drops anything."""
        return 0.0
