"""A claim of a paper, or one of ours, as a study file declares it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Expectation = Literal[
    "higher", "lower", "not higher", "not lower", "spread lower", "weak", "moderate", "strong"
]
Threshold = Literal["limit", "margin"]


@dataclass(frozen=True, kw_only=True)
class Requirement:
    """What a variant must measure so that claims can be judged on it; means over seeds decide."""

    column: str
    expect: Literal["not lower", "not higher"]
    margin: float = 0.0
    """How far beyond the published value it may be."""
    towards: str | None = None
    """A column; the margin is then a share of the way from the published value to it."""
    share: float = 0.0
    published_as: str | None = None
    """The published configuration it is compared with, if that is not the variant's own."""


@dataclass(frozen=True)
class ClaimSide:
    """One side of a claim; an open field takes the value of the cell that is judged."""

    variant: str | None = None
    """In a study of published tables, the row."""
    column: str | None = None
    model: str | None = None
    dataset: str | None = None
    times: float = 1.0
    """The factor of its values, so that a claim can compare with a part of a column."""

    def __str__(self) -> str:
        place = ", ".join(
            one for one in (self.dataset, self.model, self.variant, self.column) if one
        )
        return place if self.times == 1 else f"{self.times:g} × {place}"


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A statement of a paper as a comparison that can be judged on every dataset and model."""

    text: str
    source: str
    of: ClaimSide
    than: ClaimSide | None = None
    """Without it, the first side is compared with a limit or a band."""
    column: str | None = None
    """The column of both sides, unless a side names its own."""
    expect: Expectation
    limit: float = 0.0
    limit_from: float = 0.0
    """The value that the limit is a distance from, such as 1 for "almost perfect"."""
    margin: float = 0.0
    """A difference up to this size counts as none."""
    given: tuple[Threshold, ...] = ()
    """The thresholds that the source or a definition gives, such as 50 % for "most".

    The others are ours.
    """
    transferred_from: str | None = None
    """What the source makes the claim about, if that is not what it is judged on here."""
    readings_of: str | None = None
    """The published configuration it is about; it is judged on every variant that reads it."""
    datasets: tuple[str, ...] = ()
    """The datasets it is about; all by default."""
    models: tuple[str, ...] = ()

    @property
    def between_datasets(self) -> bool:
        """Whether its sides are on different datasets, so that seeds cannot be paired."""
        return self.than is not None and self.of.dataset != self.than.dataset

    @property
    def stem(self) -> str:
        """What it says of every reading: its text with the configuration, not the variant."""
        if self.readings_of is None:
            return self.text
        return f"{self.text.removesuffix(f', {self.of.variant}')}, {self.readings_of}"

    def read_as(self, variant: str) -> Claim:
        """Return the claim about one variant."""
        than = None if self.than is None else replace(self.than, variant=variant)
        of = replace(self.of, variant=variant)
        return replace(self, text=f"{self.text}, {variant}", of=of, than=than)

    @property
    def sides(self) -> tuple[ClaimSide, ...]:
        """The one side, or the two that are compared."""
        return (self.of,) if self.than is None else (self.of, self.than)

    @property
    def thresholds(self) -> dict[Threshold, float]:
        """The limit and the margin, as far as there are any, as distances from none."""
        sizes: dict[Threshold, float] = {
            "limit": self.limit - self.limit_from,
            "margin": self.margin,
        }
        return {name: size for name, size in sizes.items() if size}

    @property
    def own_thresholds(self) -> tuple[Threshold, ...]:
        """The thresholds that are ours."""
        return tuple(name for name in self.thresholds if name not in self.given)

    def with_own_thresholds(self, factor: float) -> Claim:
        """Return the claim with our thresholds multiplied by this factor."""
        own = {name: factor * self.thresholds[name] for name in self.own_thresholds}
        limit = self.limit_from + own["limit"] if "limit" in own else self.limit
        return replace(self, limit=limit, margin=own.get("margin", self.margin))
