"""Networks trained on a world, for reasons whose truth is known.

They are those of the default recipe with fewer steps: what a calibrator learns is how a network's
behaviour shows its reasons, and a network that has learned most of a world shows them.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from safetensors.torch import load_file

from whence.data.splits import Split, split_by
from whence.files import make_parent, new_file, save_weights
from whence.locks import lock
from whence.models import Recommender, model_with
from whence.training.plans import Asked, Plan
from whence.training.seeds import fit_seeds
from whence.worlds.causal import CausalWorld

NETWORK = "sasrec"
SETTINGS = {"max_len": 40, "loss": "softmax"}
"""As many events as matter in any world, and the same loss on every device."""
STEPS: Final = 2_500
BATCH_SIZE: Final = 256
VALIDATE_EVERY, PATIENCE = 125, 10


def recipe(batch_size: int) -> dict[str, dict[str, Any]]:
    """Return what differs from the default recipe."""
    training = {
        "steps": STEPS,
        "batch_size": batch_size,
        "validate_every": VALIDATE_EVERY,
        "patience": PATIENCE,
        "precision": "float32",
    }
    return {"settings": SETTINGS, "training": training}


@dataclass(frozen=True, eq=False)
class Pupils:
    """The networks of one world, one per seed."""

    world: CausalWorld
    seeds: int = 5
    device: str = "cpu"
    batch_size: int = BATCH_SIZE

    def key(self) -> str:
        """Return a hash of the world and of all settings.

        Networks from another device or version are as good, so a cache can be moved.
        """
        plan = self.plan(self.split())
        made_from = {
            "world": asdict(self.world.config),
            "settings": plan.settings,
            "training": asdict(plan.training),
            "seeds": self.seeds,
        }
        return hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:20]

    def split(self) -> Split:
        """Return the events to learn from: all but the last two of each user."""
        return split_by("last-two", self.world.interactions)

    def plan(self, split: Split) -> Plan:
        """Return the settings of the default recipe, but for the schedule."""
        chosen = recipe(self.batch_size)
        asked = Asked.of(
            NETWORK,
            "default",
            "quick",
            chosen["settings"],
            chosen["training"],
            self.seeds,
            self.device,
        )
        return asked.plan(split)

    def models(
        self, cache: Path, *, until: float | None = None, show_progress: bool = True
    ) -> dict[int, Recommender]:
        """Return the networks by seed; if the folder does not hold them, they are trained now.

        They are kept in half precision, and always used as they are kept.
        """
        weights = cache / f"{self.key()}.safetensors"
        split = self.split()
        plan = self.plan(split)
        make_parent(weights)
        with lock(weights, wait=True, until=until):
            if not weights.exists():
                trained = fit_seeds(
                    split,
                    NETWORK,
                    plan.settings,
                    plan.training,
                    range(self.seeds),
                    self.device,
                    show_progress=show_progress,
                    until=until,
                )
                together = {
                    f"{seed}.{name}": values.half()
                    for seed, one in trained.items()
                    for name, values in one.model.state_dict().items()
                }
                with new_file(weights) as partial:
                    save_weights(partial, together)
        return self._read(weights, plan)

    def _read(self, weights: Path, plan: Plan) -> dict[int, Recommender]:
        together = load_file(weights, device=self.device)
        counts = self.world.interactions.counts

        def of_seed(seed: int) -> Recommender:
            first = f"{seed}."
            own = {
                name.removeprefix(first): values.float()
                for name, values in together.items()
                if name.startswith(first)
            }
            return model_with(own, NETWORK, plan.settings, counts, self.device)

        return {seed: of_seed(seed) for seed in range(self.seeds)}
