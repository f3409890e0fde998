"""Networks trained on a world, for reasons whose truth is known.

They are those of the default recipe, trained quickly: what a calibrator learns is how a network's
behaviour shows its reasons, and a network that has learned most of a world shows them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

import whence
from whence.data.interactions import Counts
from whence.data.splits import Split, split_by
from whence.files import make_parent, save_weights
from whence.locks import lock
from whence.models import Recommender
from whence.models.weights import read_model
from whence.training.plans import Asked, Plan
from whence.training.seeds import fit_seeds
from whence.worlds.causal import CausalWorld

NETWORK = "sasrec"
SETTINGS = {"max_len": 40}
"""As many events as matter in any world."""
STEPS, BATCH_SIZE = 1_000, 64


@dataclass(frozen=True, eq=False)
class Pupils:
    """The networks of one world, one per seed."""

    world: CausalWorld
    seeds: int = 5
    device: str = "cpu"

    def key(self, seed: int) -> str:
        """Return a hash of everything that determines the weights of a seed."""
        plan = self.plan(self.split())
        made_from = {
            "world": asdict(self.world.config),
            "settings": plan.settings,
            "training": asdict(plan.training),
            "seed": seed,
            "device": self.device,
            "whence": whence.__version__,
            "torch": str(torch.__version__),
        }
        return hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:20]

    def split(self) -> Split:
        """Return the events to learn from: all but the last two of each user."""
        return split_by("last-two", self.world.interactions)

    def plan(self, split: Split) -> Plan:
        """Return the settings of the default recipe, but for the schedule."""
        training = {
            "steps": STEPS,
            "batch_size": BATCH_SIZE,
            "validate_every": 0,
            "patience": 0,
        }
        asked = Asked.of(NETWORK, "default", "quick", SETTINGS, training, self.seeds, self.device)
        return asked.plan(split)

    def models(
        self, cache: Path, *, until: float | None = None, show_progress: bool = True
    ) -> dict[int, Recommender]:
        """Return the networks; those that the folder does not hold are trained now."""
        return dict(self._each(cache, until, show_progress))

    def _each(
        self, cache: Path, until: float | None, show_progress: bool
    ) -> Iterator[tuple[int, Recommender]]:
        split = self.split()
        plan = self.plan(split)
        data = self.world.interactions
        for seed in range(self.seeds):
            weights = cache / f"{self.key(seed)}.safetensors"
            make_parent(weights)
            with lock(weights, wait=True, until=until):
                if not weights.exists():
                    (trained,) = fit_seeds(
                        split,
                        NETWORK,
                        plan.settings,
                        plan.training,
                        [seed],
                        self.device,
                        show_progress=show_progress,
                        until=until,
                    ).values()
                    save_weights(weights, trained.model.state_dict())
            counts = Counts(data.item_count, data.user_count)
            yield seed, read_model(weights, NETWORK, plan.settings, counts, self.device)
