"""Large work cut into slices, so that memory stays bounded whatever the size of the data."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from whence.contract import MEMORY as MEMORY
from whence.contract import inputs_at_once as inputs_at_once
from whence.errors import InputError

if TYPE_CHECKING:  # PyTorch takes seconds to load, and the command line needs sizes before
    import torch

MEMORY_ON_GPU: Final = 2**33
"""`MEMORY` on a GPU, which is slow with small slices."""
FOR_GRADIENTS: Final = 4
"""Times as much, where all that led to a score is held for its gradient."""
SCORES_AT_ONCE: Final = 4_000_000
"""How many numbers are held at a time where a case needs many, such as every item's score.

Few enough to stay near the processor while they are ranked.
"""
SCORES_AT_ONCE_ON_GPU: Final = 256_000_000
"""The same on a GPU, which has little to do with few of them."""
NUMBERS_OF_A_PAIR: Final = 16
"""About what a model holds for a slot and a target, where it looks at both at once."""
MACHINE: Final = Path("/proc/meminfo")
CONTAINER: Final = Path("/sys/fs/cgroup")
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # as glibc numbers them
LARGEST_KEPT: Final = 2**30


def row_slices(rows: int, at_once: int) -> Iterator[slice]:
    """Consecutive slices of at most `at_once` rows."""
    return (slice(start, start + at_once) for start in range(0, rows, at_once))


def memory_for(device: torch.device) -> int:
    """Bytes for altered inputs on that device."""
    return MEMORY_ON_GPU if device.type == "cuda" else MEMORY


def gradients_at_once(slots: int, memory: int = MEMORY) -> int:
    """The same where gradients are asked for."""
    return inputs_at_once(slots, memory // FOR_GRADIENTS)


def cases_at_once(numbers_each: int, on_gpu: bool = False) -> int:
    """How many cases fit at a time, if each needs so many numbers: a score for every item, say."""
    return max(1, (SCORES_AT_ONCE_ON_GPU if on_gpu else SCORES_AT_ONCE) // numbers_each)


def questions_at_once(slots: int, targets: int, on_gpu: bool = False) -> int:
    """How many cases of so many slots fit at a time, if each is asked about so many targets."""
    return cases_at_once(NUMBERS_OF_A_PAIR * slots * targets, on_gpu)


def read_size(text: str) -> int:
    """Bytes from what a person writes: 2GB, 512 MB, 1.5 gb, 4096."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?\s*", text.lower())
    size = int(float(found[1]) * 1024 ** " kmgt".index(found[2] or " ")) if found else 0
    if size < 1:
        raise InputError(f"'{text}' is no size of memory; write it as 2GB or 512MB.")
    return size


def free_memory(device: str = "cpu") -> int:
    """Bytes that can still be had on a device."""
    if device != "cpu":
        import torch

        return int(torch.cuda.mem_get_info(device)[0])
    found = [_free_in_machine(), *_free_in_container()]
    return min(found)


def _free_in_machine() -> int:
    try:
        lines = dict(line.split(":") for line in MACHINE.read_text().splitlines())
        return 1024 * int(lines["MemAvailable"].removesuffix("kB"))
    except (OSError, KeyError, ValueError):  # not Linux: half of all there is
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def _free_in_container() -> list[int]:
    """Where memory is limited further, as in a container."""
    try:
        limit, used = ((CONTAINER / name).read_text() for name in ("memory.max", "memory.current"))
        lines = (CONTAINER / "memory.stat").read_text().splitlines()
        # Files that were read stay in memory only until somebody needs it.
        cached = dict(line.split() for line in lines)["inactive_file"]
        return [max(0, int(limit) - int(used) + int(cached))]
    except (OSError, ValueError, KeyError):  # no container, or no limit: "max"
        return []


def is_out_of_memory(problem: RuntimeError) -> bool:
    """A GPU has an error of its own for it, a processor only words."""
    return type(problem).__name__ == "OutOfMemoryError" or "can't allocate memory" in str(problem)


def reuse_freed_memory() -> None:
    """Keep large blocks that are freed for the next that are needed.

    Blocks above 32 MB, such as the gradient of a large table, are otherwise given back to the
    system and taken anew at every step, page by page, which takes longer than to compute them.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # another C library, which has its own ways
        return
    mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT)
    mallopt(M_TRIM_THRESHOLD, LARGEST_KEPT)
