"""Recommended items with their reasons: the result of `whence.recommend`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from rich.console import Group

from whence.reasons.reason import Reason
from whence.terminal import Result, captioned, plain_table

NEW_HISTORY = "this history"
"""The name of recommendations for a history that is not a known user's."""
WITHOUT_IT = (
    "without it: the share of its probability that the recommendation would lose if the item were "
    "not in the history"
)


@dataclass(frozen=True)
class Pick:
    """One recommended item."""

    rank: int
    item: Any
    """The raw id."""
    title: str
    score: float
    reason: Reason


@dataclass(frozen=True, repr=False)
class Recommendations(Result):
    """The best items that the user has not seen, each with its reason."""

    name: str
    history: tuple[str, ...]
    """Titles, oldest first, as far back as the model reads."""
    history_ids: tuple[Any, ...]
    """The raw ids of the same items."""
    picks: tuple[Pick, ...]
    """Fewer than requested, or none, if the user has seen nearly everything."""
    verb: str = "chose"
    """What users do with items: watched, bought, …"""

    def as_dict(self) -> dict[str, Any]:
        """Return plain types only."""
        return {
            "for": self.name,
            "verb": self.verb,
            "history": [
                {"item": raw, "title": title}
                for raw, title in zip(self.history_ids, self.history, strict=True)
            ],
            "recommendations": [
                {
                    "rank": pick.rank,
                    "item": pick.item,
                    "title": pick.title,
                    "score": pick.score,
                    "reason": pick.reason.as_dict(),
                }
                for pick in self.picks
            ],
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Return the recommendations that `as_dict` described."""
        history = document["history"]
        return cls(
            name=document["for"],
            history=tuple(one["title"] for one in history),
            history_ids=tuple(one["item"] for one in history),
            picks=tuple(
                Pick(**{**one, "reason": Reason.from_dict(one["reason"])})
                for one in document["recommendations"]
            ),
            verb=document["verb"],
        )

    def __rich__(self) -> Group:
        return Group(history_table(self), picks_table(self))

    def __repr__(self) -> str:
        titles = ", ".join(repr(pick.title) for pick in self.picks[:3])
        more = ", …" if len(self.picks) > 3 else ""
        items = "1 item" if len(self.picks) == 1 else f"{len(self.picks)} items"
        return f"Recommendations({self.name!r}, {items}: {titles}{more})"


def history_table(picks: Recommendations, newest: int = 10) -> Group:
    """Return the newest items of the history as a table, newest first."""
    whose = picks.name.capitalize() + (f" {picks.verb}" if picks.name != NEW_HISTORY else "")
    heading = f"{whose}, newest first"
    table = plain_table(heading, "", "title")
    table.columns[1].min_width = len(heading) - 5  # so that short titles do not break the heading
    for back, title in enumerate(reversed(picks.history[-newest:]), start=1):
        table.add_row(str(back), title)
    earlier = len(picks.history) - newest
    return captioned(table, f"and {earlier} earlier ones" if earlier > 0 else "")


def picks_table(picks: Recommendations) -> Group:
    """Return the recommendations with their reasons and checks as a table."""
    named = any(pick.reason.supports for pick in picks.picks)
    checked = ("without it",) if named else ()
    table = plain_table(f"Recommended for {picks.name}", "", "title", "why", *checked)
    for pick in picks.picks:
        lost = ", ".join(
            f"−{100 * support.probability_lost:.0f} %" for support in pick.reason.supports
        )
        row = (str(pick.rank), pick.title, pick.reason.sentence, lost)
        table.add_row(*row[: len(table.columns)])
    if not picks.picks:
        table.add_row("", "nothing: every item is in the history already")
    return captioned(table, WITHOUT_IT if named else "")
