"""The networks that are trained to predict skips, by table row, and their training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from whence.experts import diagram_of
from whence_studies.skips import EXPERTS, NetworkConfig, SkipConfig

ORDINARY, INTERPRETABLE = "ordinary Transformer", "interpretable Transformer"
ORDINARY_GRU, INTERPRETABLE_GRU = "ordinary GRU", "interpretable GRU"


@dataclass(frozen=True)
class TrainingPlan:
    """The networks to train, by row, and how."""

    networks: Mapping[str, NetworkConfig]
    training: SkipConfig
    seeds: int = 5
    compared: int = 1_000
    """Test sessions for comparing seeds, with one track each."""
    overrides: Mapping[str, SkipConfig] = field(default_factory=dict)
    """Rows that are trained with settings of their own."""

    def training_of(self, row: str) -> SkipConfig:
        """Return the training settings of a row."""
        return self.overrides.get(row, self.training)

    def protocol(self, row: str) -> str:
        """Describe the network and training of a row."""
        network, training = self.networks[row], self.training_of(row)
        width, heads = f"{network.dim} features", f"{network.n_heads} heads"
        all_together = f"{len(EXPERTS) * network.dim} features"
        built = f"{len(EXPERTS)} experts of {width}" if network.interpretable else all_together
        layers = "layer" if network.n_layers == 1 else "layers"
        depth = "" if network.recurrent else f" and {heads}, {network.n_layers} {layers} each way"
        links = "" if network.linked else ", not linked"
        in_turn = ", one level of experts after another, each with its own learning-rate schedule"
        turns = in_turn if training.levels_in_turn else ""
        learned = f"{training.steps:,} steps of {training.batch_size} sessions{turns}"
        rises = f" after {training.warmup:,} steps of warmup" if training.warmup else ""
        falls = f", times {training.lr_factor:g} on plateaus" if training.validate_every else ""
        return f"{built}{depth}{links}; {learned}, Adam {training.learning_rate:g}{rises}{falls}"


def all_kinds(network: NetworkConfig, ordinary_heads: int) -> dict[str, NetworkConfig]:
    """Return both architectures of that size, each with experts and without."""
    return {
        ORDINARY: replace(network, kind="ordinary transformer", n_heads=ordinary_heads),
        INTERPRETABLE: replace(network, kind="interpretable transformer"),
        ORDINARY_GRU: replace(network, kind="ordinary gru"),
        INTERPRETABLE_GRU: replace(network, kind="interpretable gru"),
    }


NOT_LINKED, IN_TURN = ", not linked", ", one level after another"
LONGER: Final = f"{IN_TURN}, each with all steps"
"""Suffixes of rows whose experts are built or trained differently."""
LEVELS: Final = len(diagram_of(EXPERTS).levels)


def ablations(plan: TrainingPlan) -> TrainingPlan:
    """Return the ablated rows of every network with experts.

    Levels that train in turn share the steps, the warmup and the validation interval. In one more
    row each level has all the steps. Only the GRU has that row, because it trains three times
    faster than the Transformer.
    """
    networks: dict[str, NetworkConfig] = {}
    overrides: dict[str, SkipConfig] = {}
    every = replace(plan.training, levels_in_turn=True)
    share = replace(
        every,
        warmup=every.warmup // LEVELS,
        validate_every=-(-every.validate_every // LEVELS),  # rounded up, because 0 means never
    )
    longer = replace(every, steps=LEVELS * every.steps)
    for row, network in plan.networks.items():
        if network.interpretable:
            networks[f"{row}{NOT_LINKED}"] = replace(network, linked=False)
            in_turn = {IN_TURN: share, LONGER: longer} if network.recurrent else {IN_TURN: share}
            for words, training in in_turn.items():
                networks[f"{row}{words}"] = network
                overrides[f"{row}{words}"] = training
    return replace(plan, networks=networks, overrides=overrides)


SMALL: Final = TrainingPlan(
    all_kinds(NetworkConfig(dim=16, n_heads=2, n_layers=2), ordinary_heads=8),
    SkipConfig(
        steps=6_000,
        batch_size=100,
        learning_rate=2e-3,
        warmup=600,
        validate_every=250,
        validation_sessions=2_000,
        lr_factor=0.5,
        patience=2,
        cooldown=0,
    ),
)
"""Small enough for a few minutes per seed on one CPU thread."""
PUBLISHED: Final = TrainingPlan(
    {
        "Transformer (128)": NetworkConfig("ordinary transformer", dim=128 // len(EXPERTS)),
        "Interpretable Transformer (128)": NetworkConfig("interpretable transformer", dim=128),
    },
    SkipConfig(),
)
"""The number in a row's name is the width of the one network, or of each expert.

It cannot be the total, because the ten experts of Table 3 could not share 128 features.
"""
