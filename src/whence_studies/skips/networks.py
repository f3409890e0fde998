"""The networks of Afchar & Hennequin (2020) for sessions: experts, construction and files."""

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

NetworkKind = Literal[
    "interpretable transformer", "ordinary transformer", "interpretable gru", "ordinary gru"
]
EXPERTS: Final = Family.of(
    {name: range(span.start, span.stop) for name, span in KNOWN_SPANS.items()}, SUBSETS
)
"""S1 to S8, over the features of the first half."""
UPCOMING: Final = {name: range(span.start, span.stop) for name, span in UPCOMING_SPANS.items()}
"""The columns of each group in the second half."""
EXPERT_OF: Final[Mapping[Cause, int]] = {
    cause: next(place for place, subset in enumerate(EXPERTS.subsets) if group in subset.groups)
    for cause, group in GROUP_OF.items()
}
"""The simplest expert that sees the group that reveals a cause."""
EVIDENCE: Final[Mapping[str, tuple[str, ...]]] = {
    "persistence": ("S2",),
    "context": ("S1",),
    "popularity": ("S3",),
    "music": ("S4", "S6"),
    "several": ("S5", "S7", "S8"),
}
"""Experts that charts show together, as in Figure 11; S6 sees only the track."""
PREFIX: Final = "model."
"""Prefix of every weight's name, so that a checkpoint can hold other tensors too."""


@dataclass(frozen=True)
class NetworkConfig:
    """The architecture; an ordinary network is as wide as all experts together."""

    kind: NetworkKind = "interpretable transformer"
    dim: int = 64
    """Features of each expert."""
    n_heads: int = 8
    """Heads of each expert, or of the ordinary network."""
    n_layers: int = 3
    """Layers of the encoder, and again of the decoder; a GRU has one each."""
    linked: bool = True
    """Whether experts read the features of experts they contain."""

    def __post_init__(self) -> None:
        require_choice("kind", self.kind, NetworkKind)
        if min(self.dim, self.n_heads, self.n_layers) < 1:
            raise InputError("Set dim, n_heads and n_layers to at least 1.")
        if not (self.linked or self.interpretable):
            raise InputError("An ordinary network has no experts to unlink. Remove linked=False.")

    @property
    def interpretable(self) -> bool:
        """Whether the network has experts."""
        return self.kind in ("interpretable transformer", "interpretable gru")

    @property
    def recurrent(self) -> bool:
        """Whether the network is a GRU, without heads and layers."""
        return self.kind in ("interpretable gru", "ordinary gru")


def make_network(config: NetworkConfig, seed: int) -> SequentialModel:
    """Build a new network, initialized from the seed."""
    experts = (EXPERTS, UPCOMING, config.dim, Randomness(seed).torch("init"))
    if config.kind == "interpretable gru":
        return InterpretableGRU(*experts, linked=config.linked)
    if config.kind == "ordinary gru":
        return OrdinaryGRU(*experts)
    layers, heads = config.n_layers, config.n_heads
    if config.kind == "ordinary transformer":
        return OrdinaryTransformer(*experts, n_layers=layers, n_heads=heads)
    return InterpretableTransformer(*experts, n_layers=layers, n_heads=heads, linked=config.linked)


def named_weights(model: SequentialModel) -> dict[str, Tensor]:
    """Return the weights by their names in a file."""
    return {f"{PREFIX}{name}": value for name, value in model.state_dict().items()}


def restore_weights(model: SequentialModel, tensors: Mapping[str, Tensor]) -> None:
    """Load the weights from all tensors of a file."""
    own = {name: one for name, one in tensors.items() if name.startswith(PREFIX)}
    model.load_state_dict({name.removeprefix(PREFIX): one for name, one in own.items()})


def save_network(model: SequentialModel, path: Path) -> None:
    """Write all weights atomically."""
    with new_file(path) as partial:
        save_weights(partial, named_weights(model))


def load_network(config: NetworkConfig, path: Path, device: str = "cpu") -> SequentialModel:
    """Load a network that `save_network` wrote, in evaluation mode."""
    model = make_network(config, seed=0).to(device)
    restore_from(path, device, lambda tensors: restore_weights(model, tensors))
    return model.eval()
