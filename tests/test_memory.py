from __future__ import annotations

from pathlib import Path

import pytest
import torch

from whence import memory
from whence.errors import InputError


def test_free_memory_is_what_the_machine_and_the_container_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = tmp_path / "meminfo"
    machine.write_text("MemTotal:  16000 kB\nMemFree: 100 kB\nMemAvailable:    9000 kB\n")
    monkeypatch.setattr(memory, "MACHINE", machine)
    monkeypatch.setattr(memory, "CONTAINER", tmp_path / "none")
    assert memory.free_memory() == 9000 * 1024
    monkeypatch.setattr(memory, "CONTAINER", tmp_path)
    (tmp_path / "memory.current").write_text("3000000\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.free_memory() == 9000 * 1024
    (tmp_path / "memory.max").write_text("5000000\n")
    (tmp_path / "memory.stat").write_text("anon 2500000\ninactive_file 500000\n")
    assert memory.free_memory() == 2_500_000


def test_where_nothing_tells_half_of_the_memory_is_taken_as_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "MACHINE", tmp_path / "none")
    monkeypatch.setattr(memory, "CONTAINER", tmp_path / "none")
    assert 10**8 < memory.free_memory() < 10**14


def test_being_out_of_memory_is_distinguished_from_other_errors() -> None:
    gpu = torch.OutOfMemoryError("CUDA out of memory.")
    with pytest.raises(RuntimeError) as processor:
        torch.empty(2**60)
    assert memory.is_out_of_memory(gpu)
    assert memory.is_out_of_memory(processor.value)
    assert not memory.is_out_of_memory(RuntimeError("shapes differ"))


def test_this_machine_has_memory() -> None:
    assert memory.free_memory() > 0


def test_freed_memory_can_be_kept_more_than_once() -> None:
    memory.reuse_freed_memory()
    memory.reuse_freed_memory()


@pytest.mark.parametrize(
    ("text", "size"),
    [("2GB", 2**31), ("512 MB", 2**29), ("1.5g", 3 * 2**29), ("4096", 4096), ("3 KiB", 3072)],
)
def test_sizes_as_people_write_them(text: str, size: int) -> None:
    assert memory.read_size(text) == size


@pytest.mark.parametrize("text", ["", "much", "-2GB", "0", "2 GBit", "0.1b"])
def test_an_invalid_size_gives_a_clear_error(text: str) -> None:
    with pytest.raises(InputError, match="is not a size of memory. Write it as 2GB"):
        memory.read_size(text)
