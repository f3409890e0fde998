"""The device to compute on, and deterministic computation there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

import torch

from whence.errors import InputError


def check_device(device: str) -> str:
    """Return the device, or raise if it is not here."""
    kind, _, number = device.partition(":")
    here = torch.cuda.device_count() if kind == "cuda" else 0
    if device != "cpu" and not (here and (not number or number in map(str, range(here)))):
        raise InputError(
            f"There is no device '{device}' here. Use cpu, or cuda on a machine with a GPU."
        )
    return device


def device_of(model: object) -> torch.device:
    """Return the device of the model's weights; the CPU if it has none."""
    if not isinstance(model, torch.nn.Module):
        return torch.device("cpu")
    weights = chain(model.parameters(), model.buffers())  # a simple model has buffers only
    return next((weight.device for weight in weights), torch.device("cpu"))


def machine(device: str) -> str:
    """Return the hardware in words: "2 CPU cores", "1 H200"."""
    if device == "cpu":
        return f"{os.cpu_count()} CPU cores"
    name = torch.cuda.get_device_name(device)
    return f"1 {name.removeprefix('NVIDIA ').partition('-')[0]}"


@contextmanager
def deterministic(device: str) -> Iterator[None]:
    """Use only deterministic algorithms on CUDA, and restore the settings of PyTorch after."""
    if device == "cpu":
        yield
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    before = torch.are_deterministic_algorithms_enabled()
    memory: Any = torch.utils.deterministic  # a module whose attributes are created at run time
    filled = memory.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    memory.fill_uninitialized_memory = False  # costs a kernel for every tensor
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
        memory.fill_uninitialized_memory = filled
