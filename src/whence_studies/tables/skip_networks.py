"""The networks that are trained to predict skips, row by row, and how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from whence.experts import diagram_of
from whence_studies.skips import EXPERTS, NetworkConfig, SkipConfig

ORDINARY, INTERPRETABLE = "ordinary Transformer", "interpretable Transformer"
ORDINARY_GRU, INTERPRETABLE_GRU = "ordinary GRU", "interpretable GRU"


@dataclass(frozen=True)
class Learning:
    """What is trained, by row, and how."""

    networks: Mapping[str, NetworkConfig]
    training: SkipConfig
    seeds: int = 5
    compared: int = 1_000
    """Test sessions of which a track each is asked about where seeds are compared."""
    otherwise: Mapping[str, SkipConfig] = field(default_factory=dict)
    """How rows are trained that are not trained like the others."""

    def training_of(self, row: str) -> SkipConfig:
        """Its own, or that of all."""
        return self.otherwise.get(row, self.training)

    def protocol(self, row: str) -> str:
        """How a row comes about."""
        network, training = self.networks[row], self.training_of(row)
        width, heads = f"{network.dim} features", f"{network.n_heads} heads"
        all_together = f"{len(EXPERTS) * network.dim} features"
        built = f"{len(EXPERTS)} experts of {width}" if network.interpretable else all_together
        layers = "layer" if network.n_layers == 1 else "layers"
        depth = "" if network.recurrent else f" and {heads}, {network.n_layers} {layers} each way"
        links = "" if network.linked else ", not linked"
        anew = ", one level of experts after another, each with a learning rate that begins anew"
        turns = anew if training.levels_in_turn else ""
        learned = f"{training.steps:,} steps of {training.batch_size} sessions{turns}"
        rises = f" after {training.warmup:,} steps of warmup" if training.warmup else ""
        falls = f", times {training.lr_factor:g} on plateaus" if training.validate_every else ""
        return f"{built}{depth}{links}; {learned}, Adam {training.learning_rate:g}{rises}{falls}"


def four_kinds(network: NetworkConfig, ordinary_heads: int) -> dict[str, NetworkConfig]:
    """Both architectures of that size, each with experts and without."""
    return {
        ORDINARY: replace(network, kind="ordinary transformer", n_heads=ordinary_heads),
        INTERPRETABLE: replace(network, kind="interpretable transformer"),
        ORDINARY_GRU: replace(network, kind="ordinary gru"),
        INTERPRETABLE_GRU: replace(network, kind="interpretable gru"),
    }


NOT_LINKED, IN_TURN = ", not linked", ", one level after another"
LONGER: Final = f"{IN_TURN}, each with all steps"
"""Behind the name of a row with experts, which are made or taught otherwise here."""
LEVELS: Final = len(diagram_of(EXPERTS).levels)


def ablations(learning: Learning) -> Learning:
    """More rows for every network that has experts.

    Of levels that learn in turn, each has its share of the steps, of the warmup, and of those
    between validations. Each has all the steps in another row, of the recurrent network alone,
    which takes a third of the time of the other.
    """
    networks: dict[str, NetworkConfig] = {}
    otherwise: dict[str, SkipConfig] = {}
    every = replace(learning.training, levels_in_turn=True)
    share = replace(
        every,
        warmup=every.warmup // LEVELS,
        validate_every=-(-every.validate_every // LEVELS),  # rounded up, for 0 is never
    )
    longer = replace(every, steps=LEVELS * every.steps)
    for row, network in learning.networks.items():
        if network.interpretable:
            networks[f"{row}{NOT_LINKED}"] = replace(network, linked=False)
            in_turn = {IN_TURN: share, LONGER: longer} if network.recurrent else {IN_TURN: share}
            for words, training in in_turn.items():
                networks[f"{row}{words}"] = network
                otherwise[f"{row}{words}"] = training
    return replace(learning, networks=networks, otherwise=otherwise)


SMALL: Final = Learning(
    four_kinds(NetworkConfig(dim=16, n_heads=2, n_layers=2), ordinary_heads=8),
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
"""Small enough for some minutes a seed on one thread of a CPU."""
PUBLISHED: Final = Learning(
    {
        "Transformer (128)": NetworkConfig("ordinary transformer", dim=128 // len(EXPERTS)),
        "Interpretable Transformer (128)": NetworkConfig("interpretable transformer", dim=128),
    },
    SkipConfig(),
)
"""The number in a row's name is the width of the one network, or of each expert: the ten experts of
Table 3 could not share 128 features."""
