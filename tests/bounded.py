"""Work that must not grow with the square of its input, whatever else the machine does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

MOST_SECONDS = 8.0
"""Linear work on the inputs of these tests takes a tenth of it, quadratic work minutes."""


@contextmanager
def bounded() -> Iterator[None]:
    """Fail if the block uses the processor for too long."""
    started = time.process_time()
    yield
    assert time.process_time() - started < MOST_SECONDS
