"""What queries on all databases share."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from whence.data.readers.dates import FirstValues
from whence.data.readers.sql_text import has_order_by
from whence.data.readers.tabular import Tabular
from whence.errors import InputError

SAMPLED_ROWS = 50


@dataclass(frozen=True)
class Query(Tabular):
    """The rows of one SELECT."""

    grammar: ClassVar[re.Pattern[str]]

    address: str
    """The URL of the database, without a password."""
    query: str

    @property
    def place(self) -> str:
        """The name of the source in messages."""
        return f"The query on {self.address}"

    @property
    def in_order(self) -> bool:
        """Whether the query has an ORDER BY; without one, rows may come in any order."""
        return has_order_by(self.query, self.grammar)

    @abstractmethod
    def first_rows(self, count: int) -> Sequence[Sequence[object]]:
        """Return the first rows of the result."""

    def first_values(self) -> FirstValues:
        """Return the first values of each column, as texts."""
        rows = self.first_rows(SAMPLED_ROWS)
        texts = [["" if value is None else str(value) for value in row] for row in rows]
        return dict(zip(self.names(), zip(*texts, strict=True), strict=False))

    def failed(self, message: str) -> InputError:
        """Return the first line of the database's message."""
        said = message.strip().split("\n")[0].rstrip(".")
        return InputError(f"{self.place} failed: {said}. Check the URL and the query.")
