"""A calibrator that always believes in one kind of reason, to test what is said then."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import pytest
import torch
from torch import Tensor, nn

from whence.reasons.calibrator import GENERAL, Beliefs, Calibrator
from whence.reasons.features import Features
from whence.reasons.of_run import default_calibrator


class AnyNames:
    """Equal to the names of whatever features there are."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


class Believing(nn.Module):
    """Gives the strongest candidate of a kind a probability; the rest is for no reason."""

    names = AnyNames()

    def __init__(self, kind: str, probability: float) -> None:
        super().__init__()
        self.kind, self.probability = kind, probability

    def believe(self, features: Features) -> Beliefs:
        """Return the same beliefs for all targets, but for the place of the strongest candidate."""
        items, sets = (
            torch.zeros(known.shape) for known in (features.known_items, features.known_sets)
        )
        general = torch.zeros(*features.general.shape[:2], len(GENERAL))
        if self.kind == "item":
            items = self._at_strongest(features.items, features.names.items, features.known_items)
        elif self.kind == "set":
            sets = self._at_strongest(features.sets, features.names.sets, features.known_sets)
        else:
            general[..., GENERAL.index(self.kind)] = self.probability
        general[..., 2] += 1 - items.sum(dim=2) - sets.sum(dim=2) - general.sum(dim=2)
        return Beliefs(items, sets, general)

    def _at_strongest(self, values: Tensor, names: tuple[str, ...], known: Tensor) -> Tensor:
        ranked = values[..., names.index("lost")].where(known, -torch.inf)
        strongest = torch.arange(known.shape[2]) == ranked.argmax(dim=2, keepdim=True)
        return self.probability * (strongest & known)


def believe(patch: pytest.MonkeyPatch, kind: str, probability: float = 0.95) -> None:
    """Let every run without a calibrator of its own believe in a kind of reason."""
    patch.setattr("whence.reasons.of_run._KEPT", WeakKeyDictionary())
    patch.setattr("whence.reasons.of_run.default_calibrator", lambda: Believing(kind, probability))


def calibrator_of(kind: str) -> Calibrator:
    """Return a real calibrator that is sure of the item that is lost most, or of a general kind."""
    names = default_calibrator().names
    found = Calibrator(names, torch.Generator())
    with torch.no_grad():
        for one in found.parameters():
            one.zero_()
        bias = {"items": -1.0, "sets": -1.0, "general": 0.0}
        for name, value in bias.items():
            found.get_parameter(f"{name}.4.bias").fill_(30 * value)
        if kind == "item":  # its score grows with the loss alone
            found.get_parameter("items.0.weight")[0, names.items.index("lost")] = 1_000.0
            found.get_parameter("items.2.weight")[0, 0] = 1.0
            found.get_parameter("items.4.weight")[0, 0] = 1.0
        else:
            found.get_parameter("general.4.bias")[GENERAL.index(kind)] = 30.0
    return found
