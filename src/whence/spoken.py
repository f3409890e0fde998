"""What reports call the parts of a model's input: items of a history, or parts of a case."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

from whence.contract import offers


@dataclass(frozen=True)
class Spoken:
    """The words for a part and for the whole, in the singular and the plural."""

    part: str
    a_part: str
    parts: str
    whole: str
    wholes: str

    def say(self, words: str) -> str:
        """Return the text with `{part}` and the other placeholders replaced."""
        return words.format(**asdict(self))


OF_HISTORIES: Final = Spoken("item", "an item", "items", "history", "histories")
OF_GROUPS: Final = Spoken("part", "a part", "parts", "case", "cases")
"""These avoid "items", which are what the model recommends."""


def spoken_of(model: object) -> Spoken:
    """Return the words for the parts of a model."""
    return OF_GROUPS if offers(model, "part_names") else OF_HISTORIES
