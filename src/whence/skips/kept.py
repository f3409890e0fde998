"""A trained network as a file of its weights, by their own names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from torch import Tensor

from whence.experts import SequentialModel
from whence.files import new_file
from whence.skips.networks import NetworkConfig, make_network
from whence.training.keeping import go_on
from whence.weights import save_weights

PREFIX: Final = "model."
"""Before the name of every weight, so that a checkpoint can hold others beside them."""


def named_weights(model: SequentialModel) -> dict[str, Tensor]:
    """Its state, by the names it has in a file."""
    return {f"{PREFIX}{name}": value for name, value in model.state_dict().items()}


def restore_weights(model: SequentialModel, tensors: Mapping[str, Tensor]) -> None:
    """From all that a file holds."""
    own = {name: one for name, one in tensors.items() if name.startswith(PREFIX)}
    model.load_state_dict({name.removeprefix(PREFIX): one for name, one in own.items()})


def save_network(model: SequentialModel, path: Path) -> None:
    """All its weights, whole or not at all."""
    with new_file(path) as partial:
        save_weights(partial, named_weights(model))


def load_network(config: NetworkConfig, path: Path, device: str = "cpu") -> SequentialModel:
    """The network whose weights `save_network` wrote, ready to be asked."""
    model = make_network(config, seed=0).to(device)
    go_on(path, device, lambda tensors: restore_weights(model, tensors))
    return model.eval()
