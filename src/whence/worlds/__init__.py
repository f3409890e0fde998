"""Worlds: made-up interactions whose true reasons are known.

In a world of films a user watches

- a **sequel** because of one particular earlier film, the one it continues (*caused*);
- never a **remake** after its original: that one earlier film *prevents* it;
- films of genres the user likes (*taste*);
- films everybody watches (*popular*);
- now and then anything at all (*noise*).

For every event the world says which, and which earlier position caused it, or prevented the film
that would otherwise have come. Against that an explainer's answer is right or wrong, which no real
data can say.
"""

from whence.worlds.world import REASONS, Questions, World, make_world
from whence.worlds.world_config import NONE, Kind, WorldConfig
from whence.worlds.world_like import StatisticPair, compare_statistics, world_like

__all__ = [
    "NONE",
    "REASONS",
    "Kind",
    "Questions",
    "StatisticPair",
    "World",
    "WorldConfig",
    "compare_statistics",
    "make_world",
    "world_like",
]
