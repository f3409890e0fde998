"""Recommended items with their reasons: the result of `whence.recommend`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from rich.console import Group
from rich.text import Text

from whence.reasons.reason import Reason
from whence.terminal import Result, captioned, plain_table

NEW_HISTORY = "this history"
"""The name of recommendations for a history that is not a known user's."""
SURE = (
    "sure: how probable it is that this reason is the right one, judged by worlds whose true "
    "reasons are known"
)
WITHOUT_IT = (
    "without it: the rank of the recommendation before → after what is named is really left out "
    "of the history, and the change of its probability"
)
OF_A_TASTE = "; of a taste, all items but the strongest are left out"


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
    reasons = [pick.reason for pick in picks.picks]
    columns = [("sure", [Text(one.sure) for one in reasons])]
    columns += [("without it", [Text("\n".join(one.without)) for one in reasons])]
    columns = [(name, cells) for name, cells in columns if any(cells)]
    headings = [name for name, _ in columns]
    table = plain_table(f"Recommended for {picks.name}", "", "title", "why", *headings)
    for column in table.columns[3:]:
        column.no_wrap = True  # a broken figure reads as another one
    for place, pick in enumerate(picks.picks):
        cells = [own[place] for _, own in columns]
        table.add_row(str(pick.rank), pick.title, pick.reason.sentence, *cells)
    if not picks.picks:
        table.add_row("", "nothing: every item is in the history already")
    return captioned(table, picks_caption(picks))


def picks_caption(picks: Recommendations) -> str:
    """Return what the columns of the figures say, if there are any."""
    reasons = [pick.reason for pick in picks.picks]
    tastes = any(one.kind == "taste" for one in reasons)
    lines = [SURE] if any(one.sure for one in reasons) else []
    if any(one.without for one in reasons):
        lines.append(WITHOUT_IT + (OF_A_TASTE if tastes else ""))
    return "\n".join(lines)
