"""What a reader calls that which a model's answers are made from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from whence.contract import Explainable, answers_by_groups


@dataclass(frozen=True)
class Spoken:
    """A part and the whole it is of, one and several."""

    part: str
    parts: str
    whole: str
    wholes: str

    def reword(self, words: str) -> str:
        """A sentence that was written of the items of histories."""
        if self == OF_HISTORIES:
            return words
        pairs = (
            (f"an {OF_HISTORIES.part}", f"a {self.part}"),
            (OF_HISTORIES.part, self.part),
            (OF_HISTORIES.wholes, self.wholes),
            (OF_HISTORIES.whole, self.whole),
        )
        for old, new in pairs:
            words = words.replace(old, new)
        return words


OF_HISTORIES: Final = Spoken("item", "items", "history", "histories")
OF_GROUPS: Final = Spoken("part", "parts", "case", "cases")
"""Not "items", which are what is recommended."""


def spoken_of(model: Explainable) -> Spoken:
    """By what its parts are."""
    return OF_GROUPS if answers_by_groups(model) else OF_HISTORIES
