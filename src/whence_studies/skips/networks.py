"""A trained network as a file of its weights, by their own names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from torch import Tensor

from whence.config import require_choice
from whence.engine.checkpoints import restore_from
from whence.errors import InputError
from whence.experts import (
    Family,
    InterpretableGRU,
    InterpretableTransformer,
    OrdinaryGRU,
    OrdinaryTransformer,
    SequentialModel,
)
from whence.files import new_file, save_weights
from whence.randomness import Randomness
from whence_studies.sessions.schema import GROUP_OF, KNOWN_SPANS, SUBSETS, UPCOMING_SPANS, Cause

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
    restore_from(path, device, lambda tensors: restore_weights(model, tensors))
    return model.eval()


# The networks of Afchar & Hennequin (2020) for sessions: their experts, and how they are made.


NetworkKind = Literal[
    "interpretable transformer", "ordinary transformer", "interpretable gru", "ordinary gru"
]
EXPERTS: Final = Family.of(
    {name: range(span.start, span.stop) for name, span in KNOWN_SPANS.items()}, SUBSETS
)
"""S1 to S8, over the features of the first half."""
UPCOMING: Final = {name: range(span.start, span.stop) for name, span in UPCOMING_SPANS.items()}
"""Where the groups lie in the features of the second."""
EXPERT_OF: Final[Mapping[Cause, int]] = {
    cause: next(place for place, subset in enumerate(EXPERTS.subsets) if group in subset.groups)
    for cause, group in GROUP_OF.items()
}
"""The simplest expert that sees what a cause can be read from: the first, as experts stand."""
EVIDENCE: Final[Mapping[str, tuple[str, ...]]] = {
    "persistence": ("S2",),
    "context": ("S1",),
    "popularity": ("S3",),
    "music": ("S4", "S6"),
    "several": ("S5", "S7", "S8"),
}
"""Families of experts that are shown together, as in Figure 11: S6 knows the track alone."""


@dataclass(frozen=True)
class NetworkConfig:
    """What is trained; an ordinary network is as wide as all experts together."""

    kind: NetworkKind = "interpretable transformer"
    dim: int = 64
    """Features of an expert."""
    n_heads: int = 8
    """Of an expert, or of the ordinary network."""
    n_layers: int = 3
    """Of the encoder, and as many of the decoder; a recurrent network has one."""
    linked: bool = True
    """Whether experts read those they contain."""

    def __post_init__(self) -> None:
        require_choice("kind", self.kind, NetworkKind)
        if min(self.dim, self.n_heads, self.n_layers) < 1:
            raise InputError("A network needs a feature, a head and a layer at least.")
        if not (self.linked or self.interpretable):
            raise InputError("An ordinary network has no experts, and so no links to leave out.")

    @property
    def interpretable(self) -> bool:
        """Whether it has experts."""
        return self.kind in ("interpretable transformer", "interpretable gru")

    @property
    def recurrent(self) -> bool:
        """Whether it has neither heads nor layers."""
        return self.kind in ("interpretable gru", "ordinary gru")


def make_network(config: NetworkConfig, seed: int) -> SequentialModel:
    """A new one, drawn by the seed."""
    experts = (EXPERTS, UPCOMING, config.dim, Randomness(seed).torch("init"))
    if config.kind == "interpretable gru":
        return InterpretableGRU(*experts, linked=config.linked)
    if config.kind == "ordinary gru":
        return OrdinaryGRU(*experts)
    layers, heads = config.n_layers, config.n_heads
    if config.kind == "ordinary transformer":
        return OrdinaryTransformer(*experts, n_layers=layers, n_heads=heads)
    return InterpretableTransformer(*experts, n_layers=layers, n_heads=heads, linked=config.linked)
