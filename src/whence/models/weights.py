"""Weights from a file that anybody may have written, checked before anything is allocated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor

from whence.data.interactions import Counts
from whence.errors import InputError
from whence.models.base import Recommender
from whence.models.registry import build_model, model_with

REPEATED = ("n_blocks", "n_layers")
"""Settings that count layers, each of which has at least one tensor."""
LARGEST_SETTING = 1_000_000
"""For settings that no tensor shows, such as the longest history of a model without positions."""


def read_model(
    path: Path, name: str, settings: Mapping[str, Any], counts: Counts, device: str
) -> Recommender:
    """Return the model with the weights in a file; a file that does not fit raises `InputError`."""
    try:
        shapes = _shapes(path)
        _check_sizes(settings, shapes)
        _check_shapes(name, settings, counts, shapes)
        weights = load_file(path, device=device)
    except SafetensorError as problem:
        raise InputError(f"{path} does not hold weights ({problem})") from None
    _check_finite(path, weights)
    return model_with(weights, name, settings, counts, device)


def _shapes(path: Path) -> dict[str, tuple[int, ...]]:
    with safe_open(path, framework="pt") as file:
        return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118


def _check_sizes(settings: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise if a setting is larger than its weights can be: building the model would not end."""
    largest = max((size for shape in shapes.values() for size in shape), default=0)
    for name, value in settings.items():
        most = len(shapes) if name in REPEATED else max(largest, LARGEST_SETTING)
        if any(size > most for size in _integers(value)):
            raise InputError(f"the setting {name}={value} does not fit its weights")


def _integers(value: object) -> Iterable[int]:
    values = value if isinstance(value, list | tuple) else [value]
    return (one for one in values if isinstance(one, int))


def _check_shapes(
    name: str,
    settings: Mapping[str, Any],
    counts: Counts,
    shapes: Mapping[str, tuple[int, ...]],
) -> None:
    """Compare the weights with those of a model that takes no memory."""
    try:
        with torch.device("meta"):
            expected = build_model(name, settings, counts, torch.Generator()).state_dict()
    except RuntimeError:  # the model of a plug-in may need real tensors; loading compares them
        return
    for one in sorted(expected.keys() | shapes.keys()):
        wanted = tuple(expected[one].shape) if one in expected else "absent"
        found = shapes.get(one, "absent")
        if wanted != found:
            raise InputError(f"the weights '{one}' are {found}, and should be {wanted}")


def _check_finite(path: Path, weights: Mapping[str, Tensor]) -> None:
    for name, tensor in weights.items():
        if not bool(torch.isfinite(tensor).all()):
            raise InputError(f"the weights '{name}' in {path} hold NaN or infinite numbers")
