"""What one part of the fuzzing returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Report:
    """What one part of the fuzzing tried, and what went wrong."""

    name: str
    tried: int
    failures: tuple[str, ...]
    notes: Mapping[str, int] = field(default_factory=dict)
    """Counts worth reporting, by what they count."""
