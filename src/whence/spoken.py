"""What a reader calls that which a model's answers are made from."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

from whence.contract import offers


@dataclass(frozen=True)
class Spoken:
    """A part and the whole it is of, one and several."""

    part: str
    a_part: str
    parts: str
    whole: str
    wholes: str

    def say(self, words: str) -> str:
        """Fill in the places of words: `{part}` and the others by the names that they have here."""
        return words.format(**asdict(self))


OF_HISTORIES: Final = Spoken("item", "an item", "items", "history", "histories")
OF_GROUPS: Final = Spoken("part", "a part", "parts", "case", "cases")
"""Not "items", which are what is recommended."""


def spoken_of(model: object) -> Spoken:
    """By what its parts are."""
    return OF_GROUPS if offers(model, "part_names") else OF_HISTORIES
