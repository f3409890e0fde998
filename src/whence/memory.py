"""Slices of large work, so that memory stays bounded whatever the size of the data."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from whence.contract import MEMORY as MEMORY
from whence.contract import inputs_at_once as inputs_at_once
from whence.errors import InputError

if TYPE_CHECKING:  # PyTorch takes seconds to import, and the command line parses sizes before
    import torch

Found = TypeVar("Found")
MEMORY_ON_GPU: Final = 2**33
"""`MEMORY` on a GPU, which is slow with small slices."""
GRADIENT_FACTOR: Final = 4
"""How many times more memory gradients need."""
SCORES_AT_ONCE: Final = 4_000_000
"""How many numbers are held at once, such as scores of all items.

Few enough to stay in the cache of the processor while they are ranked.
"""
SCORES_AT_ONCE_ON_GPU: Final = 256_000_000
"""The same on a GPU, which needs more to be busy."""
NUMBERS_PER_PAIR: Final = 16
"""Approximate numbers that a model holds for each pair of a slot and a target."""
MACHINE: Final = Path("/proc/meminfo")
CONTAINER: Final = Path("/sys/fs/cgroup")
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # as glibc numbers them
LARGEST_KEPT: Final = 2**30


def row_slices(rows: int, at_once: int) -> Iterator[slice]:
    """Return consecutive slices of at most `at_once` rows."""
    return (slice(start, start + at_once) for start in range(0, rows, at_once))


def find_in_slices(
    find: Callable[[slice], Found], slices: Iterable[slice], numbers_each: int, on_gpu: bool
) -> list[Found]:
    """Return what is found in each slice, without gradients.

    On a CPU, each core finds slices of its own. It never waits for another core in the middle of an
    operation, which takes long if other programs run, too. Only slices that hold more numbers than
    fit into the cache are shared by all cores.
    """
    import torch

    def found(some: slice) -> Found:
        with torch.no_grad():
            return find(some)

    threads = torch.get_num_threads()
    if on_gpu or threads == 1 or numbers_each > SCORES_AT_ONCE:
        return [found(some) for some in slices]
    pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
    try:
        return list(pool.map(found, slices))
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)  # which libraries share between threads


def memory_for(device: torch.device) -> int:
    """Return the bytes for altered inputs on this device."""
    return MEMORY_ON_GPU if device.type == "cuda" else MEMORY


def gradients_at_once(slots: int, memory: int = MEMORY) -> int:
    """Return the same for computing gradients."""
    return inputs_at_once(slots, memory // GRADIENT_FACTOR)


def cases_at_once(numbers_each: int, on_gpu: bool = False) -> int:
    """Return how many cases fit at once if each needs this many numbers."""
    return max(1, (SCORES_AT_ONCE_ON_GPU if on_gpu else SCORES_AT_ONCE) // numbers_each)


def questions_at_once(slots: int, targets: int, on_gpu: bool = False) -> int:
    """Return how many cases fit at once, for these numbers of slots and targets of a case."""
    return cases_at_once(NUMBERS_PER_PAIR * slots * targets, on_gpu)


def read_size(text: str) -> int:
    """Return the bytes of a size such as 2GB, 512 MB, 1.5 gb or 4096."""
    found = re.fullmatch(r"(\d{1,20}(?:\.\d{1,20})?)\s*([kmgt]?)i?b?", text.lower().strip())
    size = int(float(found[1]) * 1024 ** " kmgt".index(found[2] or " ")) if found else 0
    if size < 1:
        raise InputError(f"'{text}' is not a size of memory. Write it as 2GB or 512MB.")
    return size


def free_memory(device: str = "cpu") -> int:
    """Return the free bytes of memory on a device."""
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
    """Return the free memory of a container, if there is a limit."""
    try:
        limit, used = ((CONTAINER / name).read_text() for name in ("memory.max", "memory.current"))
        lines = (CONTAINER / "memory.stat").read_text().splitlines()
        # Cached files stay in memory only until it is needed.
        cached = dict(line.split() for line in lines)["inactive_file"]
        return [max(0, int(limit) - int(used) + int(cached))]
    except (OSError, ValueError, KeyError):  # no container, or no limit: "max"
        return []


def is_out_of_memory(problem: RuntimeError) -> bool:
    """Return whether memory ran out; only GPUs have an error class for it."""
    return type(problem).__name__ == "OutOfMemoryError" or "can't allocate memory" in str(problem)


def reuse_freed_memory() -> None:
    """Make the C library keep freed large blocks for the next allocation.

    By default it returns blocks above 32 MB, such as the gradient of a large table, to the system.
    Allocating them again at every step takes longer than computing them.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # another C library without this function
        return
    mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT)
    mallopt(M_TRIM_THRESHOLD, LARGEST_KEPT)
