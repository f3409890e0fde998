"""Errors that say which capability a model lacks, who needs it, and what the model offers."""

from __future__ import annotations

from collections.abc import Iterable

from whence.contract import CAPABILITIES, offers
from whence.errors import CapabilityError


def kind_of(model: object) -> str:
    """Return what messages call the model."""
    kind: str = getattr(model, "kind", type(model).__name__)
    return kind


def require(model: object, capabilities: Iterable[str], who: str) -> None:
    """Raise `CapabilityError` unless the model offers all of these capabilities."""
    for capability in capabilities:
        if not offers(model, capability):
            raise missing(model, capability, who)


def missing(model: object, capability: str, who: str = "this") -> CapabilityError:
    """Return the error for a capability that the model does not offer."""
    offered = ", ".join(name for name in CAPABILITIES if offers(model, name)) or "nothing"
    return CapabilityError(
        f"{kind_of(model)} has no '{capability}', which {who} needs. It offers: {offered}."
    )
