"""Tensors in safetensors files, which hold numbers and nothing that could be executed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor


def save_weights(
    path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
) -> None:
    """Write them; a full disk raises as it does for every other file."""
    apart = {name: value.detach().contiguous().clone() for name, value in tensors.items()}
    try:
        save_file(apart, path, metadata=dict(metadata or {}))
    except SafetensorError as problem:
        said = re.search(r"([^:]*) \(os error \d+\)", str(problem))
        raise OSError(said[1].strip() if said else str(problem)) from None
